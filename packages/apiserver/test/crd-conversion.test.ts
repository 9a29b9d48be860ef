import { request as httpsRequest } from "node:https";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { isObject } from "@fairlead/base/json.ts";
import { startTestServer, type TestServer } from "./support.ts";
import { type HookAnswer, type Review, startWebhookServer, type WebhookServer } from "./webhook-server.ts";

const CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const path = (version: string): string => `/apis/conv.example.com/${version}/namespaces/default/gadgets`;

let api: TestServer;
let hook: WebhookServer;
let answer: (review: Review) => HookAnswer;

type Converted = Record<string, unknown> & { metadata: Record<string, unknown> };

/** v1 calls `size` what v2 calls `length`. */
function convert(object: unknown, desired: string): Converted {
  const { spec, ...rest } = structuredClone(object) as Converted & { spec?: Record<string, unknown> };
  const { size, length = size } = spec ?? {};
  const isNew = desired.endsWith("/v2");
  return { ...rest, apiVersion: desired, spec: isNew ? { length } : { size: length } };
}

function answerWith(
  review: Review,
  change: (object: Converted) => unknown = (it) => it,
  result: object = { status: "Success" },
): HookAnswer {
  const { objects, desiredAPIVersion, uid } = review.request as unknown as {
    objects: unknown[];
    desiredAPIVersion: string;
    uid: string;
  };
  const convertedObjects = objects.map((it) => change(convert(it, desiredAPIVersion)));
  return {
    body: { apiVersion: review.apiVersion, kind: review.kind, response: { uid, result, convertedObjects } },
  };
}

function gadgets(storage: string): object {
  const version = (name: string, field: string): object => ({
    name,
    served: true,
    storage: name === storage,
    selectableFields: [{ jsonPath: `.spec.${field}` }],
    schema: {
      openAPIV3Schema: {
        type: "object",
        properties: { spec: { type: "object", properties: { [field]: { type: "string" } } } },
      },
    },
  });
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: "gadgets.conv.example.com" },
    spec: {
      group: "conv.example.com",
      scope: "Namespaced",
      names: { plural: "gadgets", singular: "gadget", kind: "Gadget", listKind: "GadgetList" },
      versions: [version("v1", "size"), version("v2", "length")],
      conversion: {
        strategy: "Webhook",
        webhook: {
          conversionReviewVersions: ["v1"],
          clientConfig: { url: hook.url("/convert"), caBundle: hook.caBundle },
        },
      },
    },
  };
}

const gadget = (version: string, name: string, spec: object): object => ({
  apiVersion: `conv.example.com/${version}`,
  kind: "Gadget",
  metadata: { name },
  spec,
});

beforeAll(async () => {
  hook = await startWebhookServer((_path, review) => answer(review));
  api = await startTestServer();
});

afterAll(async () => {
  await api[Symbol.asyncDispose]();
  await hook[Symbol.asyncDispose]();
});

beforeEach(async () => {
  answer = (review) => answerWith(review);
  await api.call("DELETE", `${CRDS}/gadgets.conv.example.com`);
  const made = await api.call("POST", CRDS, { body: gadgets("v1") });
  expect(made.code).toBe(201);
});

/** Objects of the last call. */
function lastObjects(): unknown {
  return hook.asked.at(-1)?.review.request["objects"];
}

describe("a custom resource with a conversion webhook", () => {
  it("can be written and read in any version, and is stored in one", async () => {
    const made = await api.call("POST", path("v2"), { body: gadget("v2", "a", { length: "3" }) });
    expect(made.code).toBe(201);
    expect(made.json).toMatchObject({ apiVersion: "conv.example.com/v2", spec: { length: "3" } });
    expect(lastObjects()).toMatchObject([{ apiVersion: "conv.example.com/v1", spec: { size: "3" } }]);
    const old = await api.call("GET", `${path("v1")}/a`);
    expect(old.json).toMatchObject({ apiVersion: "conv.example.com/v1", spec: { size: "3" } });
    const patched = await api.call("PATCH", `${path("v2")}/a`, {
      body: { spec: { length: "4" } },
      headers: { "Content-Type": "application/merge-patch+json" },
    });
    expect(patched.json.spec).toEqual({ length: "4" });
    expect((await api.call("GET", `${path("v1")}/a`)).json.spec).toEqual({ size: "4" });
  });

  it("is listed with one call for all objects, and read again without a call", async () => {
    for (const name of ["a", "b", "c"])
      await api.call("POST", path("v1"), { body: gadget("v1", name, { size: "1" }) });
    const before = hook.asked.length;
    const list = await api.call("GET", path("v2"));
    expect(list.json.items.map((it) => it.spec)).toEqual([{ length: "1" }, { length: "1" }, { length: "1" }]);
    expect(hook.asked.length).toBe(before + 1);
    await api.call("GET", path("v2"));
    await api.call("GET", `${path("v2")}/a`);
    expect(hook.asked.length).toBe(before + 1);
  });

  it("is selected by the fields of the requested version", async () => {
    for (const size of ["1", "2"])
      await api.call("POST", path("v1"), { body: gadget("v1", `s${size}`, { size }) });
    const found = await api.call("GET", `${path("v2")}?fieldSelector=spec.length%3D2`);
    expect(found.json.items.map((it) => it.metadata.name)).toEqual(["s2"]);
    expect((await api.call("GET", `${path("v2")}?fieldSelector=spec.size%3D2`)).code).toBe(400);
  });

  it("can be watched in any version, with one call per change for all watchers", async () => {
    await api.call("POST", path("v1"), { body: gadget("v1", "a", { size: "1" }) });
    const watches = [0, 1, 2].map(() => watch(path("v2"), 2));
    await Promise.all(watches.map((it) => it.opened));
    const before = hook.asked.length;
    await api.call("POST", path("v1"), { body: gadget("v1", "b", { size: "2" }) });
    const seen = await Promise.all(watches.map((it) => it.events));
    for (const events of seen) {
      expect(events).toMatchObject([
        { type: "ADDED", object: { apiVersion: "conv.example.com/v2", spec: { length: "1" } } },
        { type: "ADDED", object: { apiVersion: "conv.example.com/v2", spec: { length: "2" } } },
      ]);
    }
    expect(hook.asked.length).toBe(before + 1);
  });

  it.each<[string, (review: Review) => HookAnswer, string]>([
    [
      "fails",
      () => ({ code: 500, body: "boom" }),
      'failed: an error on the server ("boom") has prevented the request from succeeding',
    ],
    [
      "refuses",
      (review) => answerWith(review, undefined, { status: "Failure", message: "cannot" }),
      "failed: cannot",
    ],
    [
      "renames",
      (review) => answerWith(review, (it) => ({ ...it, metadata: { ...it.metadata, name: "b" } })),
      "returned invalid object: must have the same name: a != b",
    ],
    [
      "converts to something else",
      (review) => answerWith(review, (it) => ({ ...it, apiVersion: "x/v9" })),
      "returned invalid object at index 0: invalid groupVersion (expected conv.example.com/v2, received x/v9)",
    ],
  ])("cannot be read in another version while its webhook %s", async (_what, broken, words) => {
    await api.call("POST", path("v1"), { body: gadget("v1", "a", { size: "1" }) });
    answer = broken;
    const refused = await api.call("GET", `${path("v2")}/a`);
    expect(refused.code).toBe(500);
    expect(refused.json.message).toBe(`conversion webhook for conv.example.com/v1, Kind=Gadget ${words}`);
    expect((await api.call("GET", `${path("v1")}/a`)).code).toBe(200);
  });

  it("keeps its metadata except labels and annotations, whatever the webhook returns", async () => {
    await api.call("POST", path("v1"), { body: gadget("v1", "a", { size: "1" }) });
    answer = (review) =>
      answerWith(review, (it) => ({
        ...it,
        metadata: { ...it.metadata, labels: { made: "yes" }, finalizers: ["example.com/x"], generation: 9 },
      }));
    const { metadata } = (await api.call("GET", `${path("v2")}/a`)).json;
    expect(metadata.labels).toEqual({ made: "yes" });
    expect(metadata["finalizers"]).toBeUndefined();
    expect(metadata.generation).toBe(1);
  });

  it("is migrated to another storage version by a write without changes", async () => {
    await api.call("POST", path("v1"), { body: gadget("v1", "a", { size: "1" }) });
    const { json: crd } = await api.call("GET", `${CRDS}/gadgets.conv.example.com`);
    const { spec } = gadgets("v2") as { spec: object };
    const changed = await api.call("PUT", `${CRDS}/gadgets.conv.example.com`, { body: { ...crd, spec } });
    expect(changed.json.status["storedVersions"]).toEqual(["v1", "v2"]);
    const { json: before } = await api.call("GET", `${path("v1")}/a`);
    const { json: after } = await api.call("PUT", `${path("v1")}/a`, { body: before });
    expect(after.metadata.resourceVersion).not.toBe(before.metadata.resourceVersion);
    const { json: again } = await api.call("PUT", `${path("v1")}/a`, { body: after });
    expect(again.metadata.resourceVersion).toBe(after.metadata.resourceVersion);
  });
});

/** The first `count` events of a watch from the present state on. */
function watch(
  at: string,
  count: number,
): { readonly opened: Promise<void>; readonly events: Promise<unknown[]> } {
  const { port, ca, admin } = api.server;
  const opened = Promise.withResolvers<void>();
  const events = Promise.withResolvers<unknown[]>();
  const found: unknown[] = [];
  let text = "";
  const outgoing = httpsRequest(
    { host: "127.0.0.1", port, path: `${at}?watch=true`, ca, cert: admin.cert, key: admin.key },
    (response) => {
      response.on("data", (chunk: Buffer) => {
        text += chunk.toString("utf8");
        const lines = text.split("\n");
        text = lines.pop() ?? "";
        found.push(...lines.map((line) => JSON.parse(line) as unknown).filter(isObject));
        opened.resolve();
        if (found.length < count) return;
        events.resolve(found);
        outgoing.destroy();
      });
    },
  );
  outgoing.on("error", (error) => {
    opened.reject(error);
    events.reject(error);
  });
  outgoing.end();
  return { opened: opened.promise, events: events.promise };
}
