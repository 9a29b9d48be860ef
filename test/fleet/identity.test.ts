import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { DEPLOYMENTS } from "@fairlead/kube/api/apps/v1/types.ts";
import {
  CERTIFICATE_SIGNING_REQUESTS,
  type CertificateSigningRequest,
  CLIENT_SIGNER,
} from "@fairlead/kube/api/certificates/v1/types.ts";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { NAMESPACES, SECRETS, SERVICE_ACCOUNTS, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { CERTIFICATE_SECONDS, MEMBERS_GROUP } from "@fairlead/fleet/api/fairlead.dev/identity.ts";
import { HUB_ACCESS } from "@fairlead/fleet/authz/programs.ts";
import { HUB_SECRET } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import { INTERNAL_SERVICE_EXPORTS } from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS } from "@fairlead/kube/api/rbac/v1/types.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import type { Logger } from "@fairlead/base/log.ts";
import { joinCluster, planJoin } from "@fairlead/fleet/cli/fleet/join.ts";
import type { JoinDeps, JoinOptions } from "@fairlead/fleet/cli/fleet/join-options.ts";
import { leaveFleet } from "@fairlead/fleet/cli/fleet/leave.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { fixedCredentials } from "@fairlead/kube/config/config.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { generatePrivateKey } from "@fairlead/base/pki/keys.ts";
import { issueAuthority } from "@fairlead/base/pki/issue.ts";
import { createCertificateRequest } from "@fairlead/base/pki/request.ts";
import { PATIENCE_MS, startFleet, testDeps, type TestFleet } from "../support/fleet.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";
import { grant } from "../support/access.ts";
import { rolledOut, sayOfWorkloads } from "../support/workloads.ts";

let fleet: TestFleet;
beforeAll(async () => {
  fleet = await startFleet({ members: ["a", "b"], join: ["a"] });
});
afterAll(() => fleet[Symbol.asyncDispose]());

const secretKey = objectKey("fleet-system", HUB_SECRET);
const install = { image: "fairlead", imagePullPolicy: "Never", replicas: 1, dns: true } as const;

function optionsFor(name: string, more: Partial<JoinOptions> = {}): JoinOptions {
  const member = fleet.members.get(name)?.config ?? fleet.hub.config;
  return { name, hub: fleet.hub.config, member, heartbeatSeconds: 1, timeoutMs: PATIENCE_MS, ...more };
}

function join(
  options: JoinOptions,
  deps: JoinDeps = testDeps("join"),
  signal = AbortSignal.timeout(PATIENCE_MS),
) {
  return joinCluster(options, deps, signal);
}

async function secretField(cluster: string, field: string): Promise<string> {
  const secret = await fleet.client(cluster).get(SECRETS, secretKey);
  return Buffer.from(secret.data?.[field] ?? "", "base64").toString("utf8");
}

async function leave(name: string): Promise<void> {
  const { hub, member } = optionsFor(name);
  await leaveFleet(
    { name, hub, member, timeoutMs: PATIENCE_MS },
    testDeps("leave"),
    AbortSignal.timeout(PATIENCE_MS),
  );
}

/** Asks the hub for a certificate, and waits for its answer. */
async function ask(by: KubeClient, name: string, commonName: string): Promise<CertificateSigningRequest> {
  const pem = createCertificateRequest(generatePrivateKey(), { commonName, organizations: [MEMBERS_GROUP] });
  await by.create(CERTIFICATE_SIGNING_REQUESTS, {
    metadata: { name },
    spec: {
      request: Buffer.from(pem).toString("base64"),
      signerName: CLIENT_SIGNER,
      usages: ["client auth"],
      expirationSeconds: CERTIFICATE_SECONDS,
    },
  });
  return eventuallyOne(fleet.client("hub"), CERTIFICATE_SIGNING_REQUESTS, objectKey(undefined, name), (it) =>
    (it.status?.conditions ?? []).some((condition) => condition.status === "True"),
  );
}

const reasonOf = (request: CertificateSigningRequest): string | undefined =>
  request.status?.conditions?.find((it) => it.type === "Denied")?.reason;

describe("a member's identity", () => {
  it("is a certificate that its agent requested, and the join token is deleted everywhere", async () => {
    expect(await secretField("a", "tls.crt")).toContain("BEGIN CERTIFICATE");
    expect(await secretField("a", "bootstrap-token")).toBe("");
    expect(await secretField("a", "next.key")).toBe("");
    const accounts = await fleet.client("hub").list(SERVICE_ACCOUNTS, { namespace: "fleet-system" });
    expect(accounts.items.filter((it) => it.metadata.name.startsWith("join-"))).toEqual([]);
  });

  it("is given only to the member itself", async () => {
    const admin = fleet.client("hub");
    expect(reasonOf(await ask(admin, "stolen", "fleet:member:a"))).toBe("RequesterNotAllowed");
    const pair = { certificate: await secretField("a", "tls.crt"), key: await secretField("a", "tls.key") };
    await using asA = connect({ ...fleet.hub.config, credentials: fixedCredentials(pair) });
    expect(reasonOf(await ask(asA, "reaching-out", "fleet:member:b"))).toBe("MemberUnknown");
    expect(reasonOf(await ask(asA, "renewal", "fleet:member:a"))).toBeUndefined();
  });

  it("is issued once for a join token: a second request is denied", async () => {
    const agent = fleet.agents.get("b")!;
    await agent.stop();
    await join(optionsFor("b", { waitForAgents: false }));
    const token = await secretField("b", "bootstrap-token");
    await using asJoiner = connect({ ...fleet.hub.config, credentials: fixedCredentials({ token }) });
    expect(reasonOf(await ask(asJoiner, "first", "fleet:member:b"))).toBeUndefined();
    expect(reasonOf(await ask(asJoiner, "second", "fleet:member:b"))).toBe("TokenUsed");
    // The rightful agent is out, and hears of it; another join helps.
    await join(optionsFor("b", { waitForAgents: false }));
    agent.start();
    await eventually(fleet.client("b"), SECRETS, (all) =>
      all.some((it) => it.data?.["tls.crt"] !== undefined),
    );
    await leave("b");
  });

  it("results from one request, although the agent is killed while it waits for it", async () => {
    const agent = fleet.agents.get("b")!;
    const hub = fleet.client("hub");
    const own = (all: readonly CertificateSigningRequest[]) =>
      all.filter((it) => it.metadata.name.startsWith("fleet-member-b-"));
    const before = new Set(
      own((await hub.list(CERTIFICATE_SIGNING_REQUESTS)).items).map((it) => it.metadata.uid),
    );
    await agent.stop();
    await join(optionsFor("b", { waitForAgents: false }));
    await fleet.hubProgram.stop();
    agent.start();
    const fresh = (all: readonly CertificateSigningRequest[]) =>
      own(all).filter((it) => !before.has(it.metadata.uid));
    await eventually(hub, CERTIFICATE_SIGNING_REQUESTS, (all) => fresh(all).length === 1);
    await agent.stop();
    fleet.hubProgram.start();
    await eventually(hub, CERTIFICATE_SIGNING_REQUESTS, (all) =>
      fresh(all).some((it) => it.status?.certificate !== undefined),
    );
    agent.start();
    await eventuallyOne(hub, MEMBER_CLUSTERS, objectKey(undefined, "b"), (it) =>
      (it.status?.conditions ?? []).some(
        (condition) => condition.type === "Joined" && condition.status === "True",
      ),
    );
    expect(fresh((await hub.list(CERTIFICATE_SIGNING_REQUESTS)).items)).toHaveLength(1);
    await leave("b");
  });

  it("is revoked by a new one: the previous certificate cannot read anything any more", async () => {
    const pair = { certificate: await secretField("a", "tls.crt"), key: await secretField("a", "tls.key") };
    await using asBefore = connect({ ...fleet.hub.config, credentials: fixedCredentials(pair) });
    await join(optionsFor("a", { rotate: true }));
    const member = await fleet.client("hub").get(MEMBER_CLUSTERS, objectKey(undefined, "a"));
    expect(member.spec.identity.name).toBe("fleet:member:a:2");
    expect(await secretField("a", "tls.crt")).not.toBe(pair.certificate);
    await eventually(fleet.client("hub"), ROLE_BINDINGS, (all) =>
      all
        .filter((it) => it.metadata.namespace === "fleet-member-a")
        .every((it) => it.subjects?.[0]?.name === "fleet:member:a:2"),
    );
    const read = asBefore.list(INTERNAL_SERVICE_EXPORTS, { namespace: "fleet-member-a" });
    await expect(read).rejects.toSatisfy((error) => hasCode(error, "API_FORBIDDEN"));
    expect(reasonOf(await ask(asBefore, "once-more", "fleet:member:a"))).toBe("IdentityRevoked");
  });

  it("does not occur in any log", async () => {
    const lines: string[] = [];
    const write = (message: string, fields: object = {}): void => {
      lines.push(`${message} ${JSON.stringify(fields)}`);
    };
    const log: Logger = { debug: write, info: write, warn: write, error: write, child: () => log };
    const deps = { ...systemDeps(log), progress: (it: object) => write("progress", it) };
    await join(optionsFor("a", { rotate: true }), deps);
    const plan = await planJoin(optionsFor("a", { rotate: true }), deps, AbortSignal.timeout(PATIENCE_MS));
    const said = [...lines, JSON.stringify(plan)].join("\n");
    for (const field of ["tls.key", "tls.crt"]) {
      const text = await secretField("a", field);
      expect(said).not.toContain(text.trim());
      expect(said).not.toContain(Buffer.from(text).toString("base64"));
    }
    expect(said).not.toMatch(/PRIVATE KEY|eyJ[A-Za-z0-9_-]{10,}\./);
  });
});

/** Everything that a join may leave behind; kinds and policies stay on purpose. */
async function leftovers(cluster: string): Promise<readonly string[]> {
  const client = fleet.client(cluster);
  const kinds: readonly Resource[] = [
    NAMESPACES,
    SERVICE_ACCOUNTS,
    SECRETS,
    SERVICES,
    DEPLOYMENTS,
    CLUSTER_ROLES,
    CLUSTER_ROLE_BINDINGS,
    ...(cluster === "hub" ? [MEMBER_CLUSTERS] : []),
  ];
  const lists = await Promise.all(kinds.map((of) => client.list(of)));
  return lists.flatMap(({ items }, at) =>
    items.map((it) => `${kinds[at]?.kind} ${it.metadata.namespace ?? ""}/${it.metadata.name}`),
  );
}

async function untilAsBefore(cluster: string, before: readonly string[]): Promise<void> {
  // The mailbox is deleted asynchronously, and the member after it.
  if (cluster === "hub")
    await eventually(fleet.client("hub"), MEMBER_CLUSTERS, (all) =>
      all.every((it) => before.includes(`MemberCluster /${it.metadata.name}`)),
    );
  await eventually(fleet.client(cluster), NAMESPACES, (all) =>
    all.every((it) => before.includes(`Namespace /${it.metadata.name}`)),
  );
  expect(await leftovers(cluster)).toEqual(before);
}

describe("a join that fails", () => {
  it("at any of its steps leaves both clusters as they were", async () => {
    await fleet.agents.get("b")!.stop();
    await using _workloads = await sayOfWorkloads(fleet.client("b"), { deployment: rolledOut });
    const before = { hub: await leftovers("hub"), b: await leftovers("b") };
    const options = optionsFor("b", { install, skipChecks: new Set(["reachability"]), timeoutMs: 300 });
    const titles = (await planJoin(options, testDeps("join"), AbortSignal.timeout(PATIENCE_MS))).steps.length;
    for (let failing = 1; failing < titles; failing++) {
      const stop = new AbortController();
      let done = 0;
      const progress = ({ status }: { readonly status: string }): void => {
        if (status === "done" && ++done === failing) stop.abort(new Error("interrupted"));
      };
      await expect(
        join({ ...options, timeoutMs: PATIENCE_MS }, { ...testDeps("join"), progress }, stop.signal),
      ).rejects.toMatchObject({ code: "ABORTED" });
      expect(done).toBe(failing);
      await untilAsBefore("hub", before.hub);
      await untilAsBefore("b", before.b);
    }
    // And the last: no member joins.
    await expect(join(options)).rejects.toMatchObject({ code: "TIMED_OUT" });
    await untilAsBefore("hub", before.hub);
    await untilAsBefore("b", before.b);
  }, 120_000);

  it("because the member does not trust the hub's certificate reports what it waited for", async () => {
    const { cert } = await issueAuthority({ commonName: "another authority" });
    fleet.agents.get("b")!.start();
    const before = await leftovers("hub");
    await expect(join(optionsFor("b", { hubCa: cert, timeoutMs: 1500 }))).rejects.toMatchObject({
      code: "TIMED_OUT",
      message: expect.stringContaining("b did not get a certificate within 1.5 s") as string,
    });
    await untilAsBefore("hub", before);
  });

  it("because the hub lacks the permission to approve quotes the API server's error", async () => {
    const hub = fleet.client("hub");
    const before = await leftovers("hub");
    await hub.delete(CLUSTER_ROLE_BINDINGS, objectKey(undefined, "fairlead-hub-certifies"));
    await expect(join(optionsFor("b", { timeoutMs: 3000 }))).rejects.toMatchObject({
      code: "TIMED_OUT",
      message: expect.stringMatching(
        /b did not get a certificate within 3 s\. Its last certificate request, .* is neither approved nor denied by the hub: the API server refuses .*fleet:member:b.* may impersonate/,
      ) as string,
    });
    await grant(hub, [HUB_ACCESS]);
    fleet.hub.asked.forgetRefused("certificatesigningrequests/approval");
    await untilAsBefore("hub", before);
  });
});

describe("a plan of a join", () => {
  it("lists the changes in each cluster, and writes nothing", async () => {
    // No other client may write during this.
    await fleet.hubProgram.stop();
    for (const agent of fleet.agents.values()) await agent.stop();
    const versions = async (): Promise<unknown[]> =>
      Promise.all(
        ["hub", "b"].map(async (it) => (await fleet.client(it).list(NAMESPACES)).metadata?.resourceVersion),
      );
    const before = await versions();
    const { steps } = await planJoin(
      optionsFor("b", { install }),
      testDeps("join"),
      AbortSignal.timeout(PATIENCE_MS),
    );
    expect(await versions()).toEqual(before);
    const changes = steps
      .flatMap((it) => it.changes)
      .map((it) => `${it.verb} ${it.kind} ${it.name} ${it.cluster}`);
    for (const expected of [
      "create MemberCluster b the hub",
      "create ServiceAccount fleet-system/join-b the hub",
      "create Secret fleet-system/fairlead-hub cluster b",
      "create Pod fleet-system/fairlead-reach-* cluster b",
      "create Deployment fleet-system/fairlead-member cluster b",
      "create Service fleet-system/fairlead-member-dns cluster b",
      "none CustomResourceDefinition memberclusters.cluster.kubernetes-fleet.io the hub",
    ])
      expect(changes).toContain(expected);
  });
});
