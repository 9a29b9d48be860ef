import { request as httpsRequest } from "node:https";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Answer, startTestServer, type TestServer } from "./support.ts";
import {
  admissionAnswer,
  type HookAnswer,
  patchOf,
  type Review,
  startWebhookServer,
  type WebhookServer,
} from "./webhook-server.ts";

const CONFIG = "/apis/admissionregistration.k8s.io/v1";
const MAPS = "/api/v1/namespaces/default/configmaps";
const RULE = { operations: ["*"], apiGroups: [""], apiVersions: ["v1"], resources: ["configmaps"] };

let api: TestServer;
let hook: WebhookServer;
/** What the webhook says, by path. */
const says = new Map<string, (review: Review) => HookAnswer | Promise<HookAnswer>>();

beforeAll(async () => {
  hook = await startWebhookServer(
    (path, review) => says.get(path)?.(review) ?? admissionAnswer(review, { allowed: true }),
    ["hook.default.svc"],
  );
  api = await startTestServer({ resolveService: () => ({ host: "127.0.0.1", port: hook.port }) });
});

afterAll(async () => {
  await api[Symbol.asyncDispose]();
  await hook[Symbol.asyncDispose]();
});

interface Configured extends AsyncDisposable {
  asked(): readonly Review[];
}

let count = 0;

/** A configuration with one webhook; it goes with the test that asked for it. */
async function configure(
  kind: "Mutating" | "Validating",
  more: Readonly<Record<string, unknown>> = {},
  answer?: (review: Review) => HookAnswer | Promise<HookAnswer>,
): Promise<Configured> {
  count += 1;
  const path = `/hook-${count}`;
  const name = `hook-${String(count).padStart(3, "0")}`;
  if (answer !== undefined) says.set(path, answer);
  const plural = `${kind.toLowerCase()}webhookconfigurations`;
  const webhook = {
    name: "hook.example.com",
    admissionReviewVersions: ["v1"],
    sideEffects: "None",
    clientConfig: { url: hook.url(path), caBundle: hook.caBundle },
    rules: [RULE],
    ...more,
  };
  const body = { metadata: { name }, webhooks: [webhook] };
  const made = await api.call("POST", `${CONFIG}/${plural}`, { body });
  expect(made.code).toBe(201);
  return {
    asked: () => hook.asked.filter((it) => it.path === path).map((it) => it.review),
    async [Symbol.asyncDispose]() {
      await api.call("DELETE", `${CONFIG}/${plural}/${name}`);
    },
  };
}

function createMap(name: string, query = "", more: Readonly<Record<string, unknown>> = {}): Promise<Answer> {
  return api.call("POST", `${MAPS}${query}`, { body: { metadata: { name }, data: { a: "1" }, ...more } });
}

describe("a validating webhook", () => {
  it("receives the request as kube-apiserver sends it", async () => {
    await using configured = await configure("Validating");
    await createMap("shown", "?fieldManager=me&dryRun=All");
    const [review] = configured.asked();
    const gvk = { group: "", version: "v1", kind: "ConfigMap" };
    const gvr = { group: "", version: "v1", resource: "configmaps" };
    expect(review).toMatchObject({ apiVersion: "admission.k8s.io/v1", kind: "AdmissionReview" });
    expect(Object.keys(review?.request ?? {})).toEqual([
      "uid",
      "kind",
      "resource",
      "requestKind",
      "requestResource",
      "name",
      "namespace",
      "operation",
      "userInfo",
      "object",
      "oldObject",
      "dryRun",
      "options",
    ]);
    expect(review?.request).toMatchObject({
      kind: gvk,
      resource: gvr,
      requestKind: gvk,
      requestResource: gvr,
      name: "shown",
      namespace: "default",
      operation: "CREATE",
      userInfo: {
        username: "kubernetes-admin",
        groups: expect.arrayContaining(["system:masters"]) as unknown,
      },
      object: { kind: "ConfigMap", apiVersion: "v1", data: { a: "1" }, metadata: { name: "shown" } },
      oldObject: null,
      dryRun: true,
      options: { kind: "CreateOptions", apiVersion: "meta.k8s.io/v1", dryRun: ["All"], fieldManager: "me" },
    });
  });

  it.each([
    [{ allowed: false, status: { message: "no", code: 403, reason: "Forbidden" } }, 403, ": no", "Forbidden"],
    [{ allowed: false }, 400, " without explanation", undefined],
    [{ allowed: false, status: { reason: "Mine" } }, 400, ": Mine", "Mine"],
    [{ allowed: false, status: { message: "late", code: 200 } }, 400, ": late", undefined],
  ])("rejects with %j", async (response, code, words, reason) => {
    await using _ = await configure("Validating", {}, (review) => admissionAnswer(review, response));
    const answer = await createMap("refused");
    expect(answer.code).toBe(code);
    expect(answer.json.message).toBe(`admission webhook "hook.example.com" denied the request${words}`);
    expect(answer.json.reason).toBe(reason);
    expect((await api.call("GET", `${MAPS}/refused`)).code).toBe(404);
  });

  it("warns the client", async () => {
    await using _ = await configure("Validating", {}, (review) =>
      admissionAnswer(review, { allowed: true, warnings: ["careful"] }),
    );
    const answer = await createMap("warned");
    expect(answer.code).toBe(201);
    expect(answer.headers["warning"]).toBe('299 - "careful"');
  });

  it.each<[string, (review: Review) => HookAnswer, string]>([
    [
      "an error",
      () => ({ code: 500, body: "boom" }),
      'failed to call webhook: an error on the server ("boom") has prevented the request from succeeding',
    ],
    [
      "404",
      () => ({ code: 404 }),
      "failed to call webhook: the server could not find the requested resource",
    ],
    ["nothing", () => ({ body: {} }), "received invalid webhook response: webhook response was absent"],
    [
      "a patch",
      (review) => admissionAnswer(review, patchOf([])),
      "received invalid webhook response: validating webhook may not return response.patch",
    ],
  ])("that returns %s fails the request", async (_name, answer, words) => {
    await using _ = await configure("Validating", {}, answer);
    const refused = await createMap("failed");
    expect(refused.code).toBe(500);
    expect(refused.json.message).toBe(
      `Internal error occurred: failed calling webhook "hook.example.com": ${words}`,
    );
  });

  it("does not block the request if failurePolicy is Ignore", async () => {
    await using _ = await configure("Validating", { failurePolicy: "Ignore" }, () => ({ code: 500 }));
    expect((await createMap("ignored")).code).toBe(201);
  });

  it("has the time of timeoutSeconds", async () => {
    await using configured = await configure("Validating", { timeoutSeconds: 1 }, () => ({ hangs: true }));
    const answer = await createMap("slow");
    expect(configured.asked()).toHaveLength(1);
    expect(answer.code).toBe(500);
    expect(answer.json.message).toMatch(
      /failed to call webhook: Post "https:\/\/.*\?timeout=1s": context deadline exceeded$/,
    );
  });

  it("is not trusted without a caBundle for its certificate", async () => {
    const clientConfig = { url: hook.url("/untrusted") };
    await using _ = await configure("Validating", { clientConfig });
    const answer = await createMap("untrusted");
    expect(answer.code).toBe(500);
    expect(answer.json.message).toMatch(
      /tls: failed to verify certificate: x509: certificate signed by unknown authority$/,
    );
  });

  it("is called through a Service, with the Service's name in its certificate", async () => {
    const service = { namespace: "default", name: "hook", path: "/by-service" };
    await using _ = await configure("Validating", { clientConfig: { service, caBundle: hook.caBundle } });
    expect((await createMap("by-service")).code).toBe(201);
    expect(hook.asked.filter((it) => it.path === "/by-service")).toHaveLength(1);
    const other = { clientConfig: { service: { ...service, name: "other" }, caBundle: hook.caBundle } };
    await using _other = await configure("Validating", other);
    const answer = await createMap("by-other");
    expect(answer.json.message).toContain(
      'Post "https://other.default.svc:443/by-service?timeout=10s": tls: failed',
    );
  });

  it("is called only for requests that match its rules, selectors and conditions", async () => {
    const more = {
      rules: [{ ...RULE, operations: ["UPDATE", "DELETE"] }],
      objectSelector: { matchLabels: { watched: "yes" } },
      matchConditions: [{ name: "not-b", expression: "oldObject.metadata.name != 'sel-b'" }],
    };
    await using configured = await configure("Validating", more);
    await createMap("sel-a", "", { metadata: { name: "sel-a", labels: { watched: "yes" } } });
    await createMap("sel-b", "", { metadata: { name: "sel-b", labels: { watched: "yes" } } });
    await createMap("sel-c");
    for (const name of ["sel-a", "sel-b", "sel-c"]) await api.call("DELETE", `${MAPS}/${name}`);
    expect(configured.asked().map((it) => it.request)).toMatchObject([
      { operation: "DELETE", name: "sel-a", object: null, oldObject: { metadata: { name: "sel-a" } } },
    ]);
  });

  it("decides on the state that is written: after a concurrent change it is called again", async () => {
    await createMap("raced");
    let isFirst = true;
    await using configured = await configure("Validating", {}, async (review) => {
      if (isFirst) {
        isFirst = false;
        // Passes by the webhook itself: the second review is its own.
        await api.call("PATCH", `${MAPS}/raced`, {
          body: { data: { other: "2" } },
          headers: { "Content-Type": "application/merge-patch+json" },
        });
      }
      return admissionAnswer(review, { allowed: true });
    });
    const answer = await api.call("PATCH", `${MAPS}/raced`, {
      body: { data: { mine: "3" } },
      headers: { "Content-Type": "application/merge-patch+json" },
    });
    expect(answer.json["data"]).toEqual({ a: "1", other: "2", mine: "3" });
    const shown = configured.asked().map((it) => (it.request["object"] as { data: object }).data);
    expect(shown).toEqual([
      { a: "1", mine: "3" },
      { a: "1", other: "2" },
      { a: "1", other: "2", mine: "3" },
    ]);
  });

  it("without side effects on dry runs is called for dry runs", async () => {
    // v1 does not allow webhooks with side effects; only the value NoneOnDryRun says how a dry run is handled.
    await using configured = await configure("Validating", { sideEffects: "NoneOnDryRun" });
    expect((await createMap("dry", "?dryRun=All")).code).toBe(201);
    expect(configured.asked()[0]?.request["dryRun"]).toBe(true);
  });

  it("receives deletions of collections without a name, scales as Scale, and connections", async () => {
    const rules = [
      {
        operations: ["*"],
        apiGroups: ["*"],
        apiVersions: ["*"],
        resources: ["configmaps", "deployments/scale", "pods/*"],
      },
    ];
    await createMap("of-collection", "", { metadata: { name: "of-collection", labels: { c: "1" } } });
    const container = { name: "c", image: "i" };
    const template = { metadata: { labels: { a: "b" } }, spec: { containers: [container] } };
    const deployments = "/apis/apps/v1/namespaces/default/deployments";
    const spec = { selector: { matchLabels: { a: "b" } }, template };
    await api.call("POST", deployments, { body: { metadata: { name: "d" }, spec } });
    await using configured = await configure("Validating", { rules });
    await api.call("DELETE", `${MAPS}?labelSelector=c%3D1`);
    await api.call("PATCH", `${deployments}/d/scale`, {
      body: { spec: { replicas: 2 } },
      headers: { "Content-Type": "application/merge-patch+json" },
    });
    const requests = configured.asked().map((it) => it.request);
    expect(requests.map((it) => [it["operation"], it["name"], it["subResource"]])).toEqual([
      ["DELETE", undefined, undefined],
      ["UPDATE", "d", "scale"],
    ]);
    expect(requests[1]).toMatchObject({
      kind: { group: "autoscaling", version: "v1", kind: "Scale" },
      resource: { group: "apps", version: "v1", resource: "deployments" },
      object: { kind: "Scale", spec: { replicas: 2 } },
      oldObject: { kind: "Scale", spec: { replicas: 1 } },
    });
  });

  it("can reject connections to pods", async () => {
    const rules = [
      { operations: ["CONNECT"], apiGroups: [""], apiVersions: ["v1"], resources: ["pods/exec"] },
    ];
    await using configured = await configure("Validating", { rules }, (review) =>
      admissionAnswer(review, { allowed: false, status: { code: 403, message: "no shell" } }),
    );
    const answer = await upgrade("/api/v1/namespaces/default/pods/p/exec?command=sh&command=-c&stdin=true");
    expect(answer).toBe(403);
    expect(configured.asked()[0]?.request).toMatchObject({
      kind: { group: "", version: "v1", kind: "PodExecOptions" },
      resource: { group: "", version: "v1", resource: "pods" },
      subResource: "exec",
      name: "p",
      namespace: "default",
      operation: "CONNECT",
      object: { kind: "PodExecOptions", apiVersion: "v1", stdin: true, command: ["sh", "-c"] },
      oldObject: null,
      options: null,
    });
  });

  it("is never called for admission configuration", async () => {
    const everything = { operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*/*"] };
    await using configured = await configure("Validating", { rules: [everything] }, () => ({ code: 500 }));
    await using _other = await configure("Mutating");
    expect(configured.asked()).toEqual([]);
  });
});

describe("a mutating webhook", () => {
  const label = (key: string) => [{ op: "add", path: "/metadata/labels", value: { [key]: "yes" } }];

  it("changes the object, which is then validated and stored", async () => {
    await using _ = await configure("Mutating", {}, (review) =>
      admissionAnswer(review, patchOf(label("made"))),
    );
    const answer = await createMap("mutated");
    expect(answer.code).toBe(201);
    expect(answer.json.metadata.labels).toEqual({ made: "yes" });
    expect((await api.call("GET", `${MAPS}/mutated`)).json.metadata.labels).toEqual({ made: "yes" });
  });

  it("is called before the server sets the uid, and before validation", async () => {
    await using configured = await configure("Mutating", {}, (review) =>
      admissionAnswer(
        review,
        patchOf([{ op: "add", path: "/metadata/labels", value: { "not a key": "x" } }]),
      ),
    );
    const answer = await createMap("unchecked");
    expect(answer.code).toBe(422);
    const [review] = configured.asked();
    const { metadata } = (review?.request["object"] ?? {}) as { metadata?: object };
    expect(Object.keys(metadata ?? {})).toEqual(["name", "namespace", "managedFields"]);
  });

  it("with a patch that cannot be applied fails the request", async () => {
    await using _ = await configure("Mutating", {}, (review) =>
      admissionAnswer(review, patchOf([{ op: "remove", path: "/spec/none" }])),
    );
    expect((await createMap("unpatchable")).code).toBe(500);
  });

  it("with reinvocationPolicy IfNeeded is called again if a later webhook changed the object", async () => {
    await using first = await configure("Mutating", { reinvocationPolicy: "IfNeeded" });
    await using second = await configure("Mutating", {}, (review) =>
      admissionAnswer(review, patchOf(label("second"))),
    );
    expect((await createMap("again")).json.metadata.labels).toEqual({ second: "yes" });
    const labels = first
      .asked()
      .map((it) => (it.request["object"] as { metadata: { labels?: object } }).metadata.labels);
    expect(labels).toEqual([undefined, { second: "yes" }]);
    expect(second.asked()).toHaveLength(1);
  });

  it("changes updates too, but not immutable fields", async () => {
    await createMap("updated");
    await using _ = await configure("Mutating", {}, (review) =>
      admissionAnswer(
        review,
        patchOf([
          { op: "add", path: "/data/hook", value: "1" },
          { op: "replace", path: "/metadata/uid", value: "other" },
        ]),
      ),
    );
    const before = await api.call("GET", `${MAPS}/updated`);
    const answer = await api.call("PUT", `${MAPS}/updated`, { body: { ...before.json, data: { a: "2" } } });
    expect(answer.json["data"]).toEqual({ a: "2", hook: "1" });
    expect(answer.json.metadata.uid).toBe(before.json.metadata.uid);
  });
});

/** The code with which a request for a stream is refused. */
function upgrade(path: string): Promise<number | undefined> {
  const { port, ca, admin } = api.server;
  const headers = { Connection: "Upgrade", Upgrade: "SPDY/3.1" };
  return new Promise((resolve, reject) => {
    const options = {
      host: "127.0.0.1",
      port,
      path,
      method: "POST",
      headers,
      ca,
      cert: admin.cert,
      key: admin.key,
    };
    const outgoing = httpsRequest(options, (answer) => {
      answer.resume();
      resolve(answer.statusCode);
    });
    outgoing.once("error", reject);
    outgoing.end();
  });
}
