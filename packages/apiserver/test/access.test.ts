import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { issueAuthority, issueClientCertificate, issueServerCertificate } from "@fairlead/base/pki/issue.ts";
import type { CertificatePair } from "@fairlead/base/pki/keys.ts";
import { type Answer, startTestServer, TestClient, type TestServer } from "./support.ts";

/** Authentication and authorization over TLS, from the point of view of clients. */

const RBAC = "/apis/rbac.authorization.k8s.io/v1";
const WHOAMI = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

let test: TestServer;
let authority: CertificatePair;
const clients: TestClient[] = [];

beforeAll(async () => {
  test = await startTestServer();
  authority = {
    cert: await readFile(join(test.dir, "pki", "ca.crt"), "utf8"),
    key: await readFile(join(test.dir, "pki", "ca.key"), "utf8"),
  };
});
afterAll(async () => {
  for (const it of clients) it.close();
  await test[Symbol.asyncDispose]();
});

function clientWith(pair: CertificatePair): TestClient {
  const client = new TestClient({ port: test.server.port, ca: test.server.ca, admin: pair });
  clients.push(client);
  return client;
}
async function clientFor(commonName: string, ...organizations: string[]): Promise<TestClient> {
  return clientWith(await issueClientCertificate(authority, { commonName, organizations }));
}
function whoami(client: Pick<TestClient, "call">): Promise<Answer> {
  return client.call("POST", WHOAMI, {
    body: { apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview" },
  });
}
async function mayDo(subject: object, verb: string, what: string, namespace?: string): Promise<boolean> {
  const [full = "", name = ""] = what.split("#");
  const [path = "", group = ""] = full.split(".");
  const [resource = "", subresource = ""] = path.split("/");
  const groups = { leases: "coordination.k8s.io", endpointslices: "discovery.k8s.io", deployments: "apps" };
  const resourceAttributes = {
    verb,
    resource,
    subresource,
    group: group || (groups[resource as keyof typeof groups] ?? ""),
    name,
    ...(namespace === undefined ? {} : { namespace }),
  };
  const body = {
    apiVersion: "authorization.k8s.io/v1",
    kind: "SubjectAccessReview",
    spec: { ...subject, resourceAttributes },
  };
  const { json } = await test.call("POST", ACCESS, { body });
  return json.status["allowed"] === true;
}

describe("a client certificate", () => {
  it("authenticates its common name as the user and its organizations as the groups, on every request of the connection", async () => {
    const client = await clientFor("ada", "devs", "ops");
    for (let at = 0; at < 3; at++) {
      const { code, json } = await whoami(client);
      expect(code).toBe(201);
      expect(json.status["userInfo"]).toMatchObject({
        username: "ada",
        groups: ["devs", "ops", "system:authenticated"],
      });
    }
  });

  it("authenticates the same user on a resumed TLS session", async () => {
    const client = await clientFor("ada");
    // Agents resume their sessions: several connections at once force new ones.
    const answers = await Promise.all(Array.from({ length: 6 }, () => whoami(client)));
    for (const { json } of answers) expect(json.status["userInfo"]).toMatchObject({ username: "ada" });
  });

  it("is rejected once it has expired, even on an established connection", async () => {
    const days = 1;
    const ago = new FakeClock(Date.now() - days * 86_400_000 + 2000);
    const client = clientWith(
      await issueClientCertificate(authority, { commonName: "ada", days, clock: ago }),
    );
    expect((await whoami(client)).code).toBe(201);
    await expect.poll(async () => (await whoami(client)).code, { timeout: 10_000 }).toBe(401);
  });

  it("is rejected if it is of another authority, expired, or for servers", async () => {
    const stranger = await issueAuthority({ commonName: "kubernetes" });
    const past = new FakeClock(Date.UTC(2020, 0, 1));
    const bad = [
      await issueClientCertificate(stranger, { commonName: "ada", organizations: ["system:masters"] }),
      await issueClientCertificate(authority, { commonName: "ada", clock: past }),
      await issueServerCertificate(authority, { names: ["ada"], ips: [], organizations: ["system:masters"] }),
    ];
    for (const pair of bad) {
      const { code, json } = await whoami(clientWith(pair));
      expect([code, json.reason]).toEqual([401, "Unauthorized"]);
    }
  });

  it("without a name does not authenticate a user", async () => {
    const { code, json } = await whoami(await clientFor("", "system:masters"));
    expect(code).toBe(403);
    expect(json.message).toContain('User "system:anonymous" cannot create');
  });
});

describe("without credentials", () => {
  it.each([
    ["/healthz", 200],
    ["/version", 200],
    ["/api", 403],
    ["/api/v1/namespaces", 403],
    ["/metrics", 403],
  ])("%s answers %d", async (path, code) => {
    expect((await test.call("GET", path, { anonymous: true })).code).toBe(code);
  });
});

describe("a user without bindings", () => {
  it("may read discovery and their own identity, and other requests report the missing permission", async () => {
    const client = await clientFor("eve");
    for (const path of ["/api", "/apis", "/openapi/v3", "/version"]) {
      expect((await client.call("GET", path)).code).toBe(200);
    }
    const { code, json } = await client.call("GET", "/api/v1/namespaces/default/secrets/a");
    expect(code).toBe(403);
    expect(json.message).toBe(
      'secrets "a" is forbidden: User "eve" cannot get resource "secrets" in API group "" in the namespace "default"',
    );
    expect((await client.call("GET", "/metrics")).json.message).toBe(
      'forbidden: User "eve" cannot get path "/metrics"',
    );
  });
});

describe("a kubelet", () => {
  const kubelet = { user: "system:node:n1", groups: ["system:nodes", "system:authenticated"] };

  it.each([
    ["get", "pods", "work"],
    ["watch", "services", undefined],
    ["watch", "endpointslices", undefined],
    ["get", "secrets#a", "work"],
    ["get", "configmaps#a", "work"],
    ["create", "serviceaccounts/token#default", "work"],
    ["patch", "pods/status#p", "work"],
    ["delete", "pods#p", "work"],
    ["create", "nodes", undefined],
    ["update", "nodes/status#n1", undefined],
    ["update", "leases#n1", "kube-node-lease"],
    ["create", "events", "work"],
  ])("may %s %s in %s", async (verb, what, namespace) => {
    expect(await mayDo(kubelet, verb, what, namespace)).toBe(true);
  });

  it.each([
    ["update", "secrets#a", "work"],
    ["create", "services", "work"],
    ["create", "deployments", "work"],
    ["create", "clusterrolebindings.rbac", undefined],
    ["impersonate", "users#ada", undefined],
    ["delete", "namespaces#work", undefined],
  ])("may not %s %s in %s", async (verb, what, namespace) => {
    expect(await mayDo(kubelet, verb, what, namespace)).toBe(false);
  });
});

describe("a user who may read one Secret by its name", () => {
  const SECRETS = "/api/v1/namespaces/default/secrets";
  const TRICK = encodeURIComponent(String.raw`metadata.namespace!=x\,metadata.name=mine`);
  let reader: TestClient;

  beforeAll(async () => {
    reader = await clientFor("reader-of-mine");
    for (const name of ["mine", "admins"]) await test.call("POST", SECRETS, { body: { metadata: { name } } });
    const verbs = ["get", "list", "watch", "deletecollection"];
    const metadata = { name: "reader-of-mine" };
    const rules = [{ verbs, apiGroups: [""], resources: ["secrets"], resourceNames: ["mine"] }];
    const roles = `${RBAC}/namespaces/default`;
    await test.call("POST", `${roles}/roles`, { body: { metadata, rules } });
    const roleRef = { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: metadata.name };
    const subjects = [{ kind: "User", apiGroup: "rbac.authorization.k8s.io", name: metadata.name }];
    await test.call("POST", `${roles}/rolebindings`, { body: { metadata, roleRef, subjects } });
  });

  it("lists that one", async () => {
    const { code, json } = await reader.call("GET", `${SECRETS}?fieldSelector=metadata.name%3Dmine`);
    expect([code, json.items.map((it) => it.metadata.name)]).toEqual([200, ["mine"]]);
  });

  it.each([
    ["all of them", "GET", SECRETS],
    ["others by an escaped comma", "GET", `${SECRETS}?fieldSelector=${TRICK}`],
    ["others by an escaped comma in a watch", "GET", `${SECRETS}?watch=1&fieldSelector=${TRICK}`],
    ["others by an escaped comma", "DELETE", `${SECRETS}?dryRun=All&fieldSelector=${TRICK}`],
    ["even that one as a collection", "DELETE", `${SECRETS}?dryRun=All&fieldSelector=metadata.name%3Dmine`],
  ])("is denied %s: %s %s", async (_, method, path) => {
    expect((await reader.call(method, path)).code).toBe(403);
  });

  it.each(["metadata.namespace!=x\\", "metadata.name=admins", "metadata.namespace=default"])(
    "watches no other by the old path and the selector %s",
    async (fields) => {
      const path = "/api/v1/watch/namespaces/default/secrets/mine";
      const { code } = await reader.call("GET", `${path}?fieldSelector=${encodeURIComponent(fields)}`);
      expect(code).toBe(400);
    },
  );
});

describe("roles for people", () => {
  it("include each other, and aggregate labelled ClusterRoles", async () => {
    const subject = { user: "bob", groups: ["viewers"] };
    const binding = {
      apiVersion: "rbac.authorization.k8s.io/v1",
      kind: "ClusterRoleBinding",
      metadata: { name: "viewers" },
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "view" },
      subjects: [{ kind: "Group", apiGroup: "rbac.authorization.k8s.io", name: "viewers" }],
    };
    await test.call("POST", `${RBAC}/clusterrolebindings`, { body: binding });
    expect(await mayDo(subject, "list", "pods", "work")).toBe(true);
    expect(await mayDo(subject, "list", "secrets", "work")).toBe(false);
    expect(await mayDo(subject, "get", "widgets.example")).toBe(false);
    const role = {
      apiVersion: "rbac.authorization.k8s.io/v1",
      kind: "ClusterRole",
      metadata: { name: "widgets", labels: { "rbac.authorization.k8s.io/aggregate-to-view": "true" } },
      rules: [{ verbs: ["get"], apiGroups: ["example"], resources: ["widgets"] }],
    };
    await test.call("POST", `${RBAC}/clusterroles`, { body: role });
    expect(await mayDo(subject, "get", "widgets.example")).toBe(true);
    // The rules are visible too, up to the role that contains the roles that contain it.
    for (const name of ["view", "edit", "admin"]) {
      const { json } = await test.call("GET", `${RBAC}/clusterroles/${name}`);
      expect(JSON.stringify(json["rules"])).toContain('"widgets"');
    }
    await test.call("DELETE", `${RBAC}/clusterroles/widgets`);
    expect(await mayDo(subject, "get", "widgets.example")).toBe(false);
    const { json } = await test.call("GET", `${RBAC}/clusterroles/admin`);
    expect(JSON.stringify(json["rules"])).not.toContain('"widgets"');
  });
});

describe("a Secret for the token of a ServiceAccount", () => {
  const SECRETS = "/api/v1/namespaces/default/secrets";
  const ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts";
  const secret = {
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name: "robot-token", annotations: { "kubernetes.io/service-account.name": "robot" } },
    type: "kubernetes.io/service-account-token",
  };
  const account = { apiVersion: "v1", kind: "ServiceAccount", metadata: { name: "robot" } };
  const use = async (token: string): Promise<Answer> =>
    test.call("POST", WHOAMI, {
      anonymous: true,
      headers: { Authorization: `Bearer ${token}` },
      body: { apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview" },
    });

  it("contains a token at once, which is valid while the Secret exists", async () => {
    await test.call("POST", ACCOUNTS, { body: account });
    const { json } = await test.call("POST", SECRETS, { body: secret });
    const data = json["data"] as Record<string, string>;
    const [token = "", ca, namespace] = ["token", "ca.crt", "namespace"].map((it) =>
      Buffer.from(data[it] ?? "", "base64").toString(),
    );
    expect([ca, namespace]).toEqual([test.server.ca, "default"]);
    const answer = await use(token);
    expect(answer.code).toBe(201);
    expect(answer.json.status["userInfo"]).toMatchObject({ username: "system:serviceaccount:default:robot" });
    const [head = "", body = ""] = token.split(".");
    const claims = JSON.parse(Buffer.from(body, "base64url").toString()) as object;
    expect(claims).toMatchObject({
      iss: "kubernetes/serviceaccount",
      sub: "system:serviceaccount:default:robot",
    });
    expect((await use(`${head}.${body}.AAAA`)).code).toBe(401);
    await test.call("DELETE", `${SECRETS}/robot-token`);
    expect((await use(token)).code).toBe(401);
    // Another Secret of the name holds another token.
    await test.call("POST", SECRETS, { body: secret });
    const again = (await test.call("GET", `${SECRETS}/robot-token`)).json["data"] as Record<string, string>;
    expect((await use(Buffer.from(again["token"] ?? "", "base64").toString())).code).toBe(201);
    await test.call("DELETE", `${ACCOUNTS}/robot`);
    expect((await use(Buffer.from(again["token"] ?? "", "base64").toString())).code).toBe(401);
  });

  it("stays empty without the ServiceAccount, and is filled at the next write once that exists", async () => {
    const { json } = await test.call("POST", SECRETS, {
      body: { ...secret, metadata: { ...secret.metadata, name: "late-token" } },
    });
    expect(json["data"]).toBeUndefined();
    await test.call("POST", ACCOUNTS, { body: account });
    const labels = { metadata: { labels: { a: "b" } } };
    const headers = { "Content-Type": "application/merge-patch+json" };
    const patched = await test.call("PATCH", `${SECRETS}/late-token`, { body: labels, headers });
    expect(Object.keys(patched.json["data"] as object).toSorted()).toEqual(["ca.crt", "namespace", "token"]);
  });
});

describe("the addresses of Services", () => {
  const service = (name: string, spec: object = {}): object => ({
    apiVersion: "v1",
    kind: "Service",
    metadata: { name },
    spec: { type: "NodePort", ipFamilyPolicy: "RequireDualStack", ports: [{ port: 80 }], ...spec },
  });
  const PATH = "/api/v1/namespaces/default/services";

  it("differ for Services created at the same time, and stay allocated after a restart", async () => {
    const dir = await mkdtemp(join(tmpdir(), "apiserver-"));
    try {
      const held: string[] = [];
      {
        await using first = await startTestServer({ dataDir: dir, journal: "sqlite" });
        const answers = await Promise.all(
          Array.from({ length: 40 }, (_, at) => first.call("POST", PATH, { body: service(`s${at}`) })),
        );
        for (const { code, json } of answers) {
          expect(code).toBe(201);
          const { clusterIPs, ports } = json.spec as { clusterIPs: string[]; ports: { nodePort: number }[] };
          held.push(...clusterIPs, ...ports.map((it) => `${it.nodePort}`));
        }
      }
      expect(new Set(held).size).toBe(120);
      await using second = await startTestServer({ dataDir: dir, journal: "sqlite" });
      const again = service("late", { clusterIP: held[0], ipFamilyPolicy: "SingleStack" });
      const { code, json } = await second.call("POST", PATH, { body: again });
      expect(code).toBe(422);
      expect(json.message).toContain("provided IP is already allocated");
      await second.call("DELETE", `${PATH}/s0`);
      expect((await second.call("POST", PATH, { body: again })).code).toBe(201);
    } finally {
      await rm(dir, { recursive: true });
    }
  });

  it("are not allocated in a dry run", async () => {
    const { json } = await test.call("POST", `${PATH}?dryRun=All`, { body: service("dry") });
    const { clusterIP } = json.spec as { clusterIP: string };
    const taken = service("wet", { clusterIP, ipFamilyPolicy: "SingleStack" });
    expect((await test.call("POST", PATH, { body: taken })).code).toBe(201);
  });
});
