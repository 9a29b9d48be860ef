import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type Answer, type Json, startTestServer, type TestServer } from "./support.ts";

/** The wire protocol, request by request. */

let test: TestServer;
let namespace = "";
let count = 0;

beforeAll(async () => {
  test = await startTestServer();
});
afterAll(() => test[Symbol.asyncDispose]());
beforeEach(async () => {
  count += 1;
  namespace = `n${count}`;
  await post("/api/v1/namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } });
});

function maps(rest = ""): string {
  return `/api/v1/namespaces/${namespace}/configmaps${rest}`;
}
function configMap(name: string, more: object = {}): Record<string, unknown> {
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { name }, ...more };
}
function post(path: string, body: unknown): Promise<Answer> {
  return test.call("POST", path, { body });
}
function get(path: string, headers: Record<string, string> = {}): Promise<Answer> {
  return test.call("GET", path, { headers });
}
function patch(path: string, type: string, body: unknown): Promise<Answer> {
  return test.call("PATCH", path, { body, headers: { "Content-Type": type } });
}
/** A watch that ends by itself: all its events. */
async function watch(path: string, query: string, headers: Record<string, string> = {}): Promise<Event[]> {
  const { text } = await get(`${path}?watch=true&timeoutSeconds=1&${query}`, headers);
  const lines = text.split("\n").filter((it) => it !== "");
  return lines.map((it) => JSON.parse(it) as Event);
}
interface Event {
  readonly type: string;
  readonly object: Json;
}
function shown(events: readonly Event[]): string[] {
  return events.map(({ type, object }) => `${type} ${object.metadata.name ?? object.reason ?? ""}`.trim());
}
const MERGE = "application/merge-patch+json";

describe("lists", () => {
  it("are paged consistently during concurrent writes", async () => {
    for (const name of ["a", "b", "c", "d", "e"]) await post(maps(), configMap(name));
    const first = await get(maps("?limit=2"));
    expect(first.json.items.map((it) => it.metadata.name)).toEqual(["a", "b"]);
    expect(first.json.metadata["remainingItemCount"]).toBe(3);
    await test.call("DELETE", maps("/c"));
    await post(maps(), configMap("bb"));
    const second = await get(maps(`?limit=2&continue=${first.json.metadata.continue}`));
    expect(second.json.items.map((it) => it.metadata.name)).toEqual(["c", "d"]);
    expect(second.json.metadata.resourceVersion).toBe(first.json.metadata.resourceVersion);
    const third = await get(maps(`?limit=2&continue=${second.json.metadata.continue}`));
    expect(third.json.items.map((it) => it.metadata.name)).toEqual(["e"]);
    expect(third.json.metadata.continue).toBeUndefined();
    expect((await get(maps())).json.items.map((it) => it.metadata.name)).toEqual(["a", "b", "bb", "d", "e"]);
  });

  it("are empty lists, never null, and have a revision to watch from", async () => {
    const { json } = await get(maps());
    expect(json).toMatchObject({ kind: "ConfigMapList", apiVersion: "v1", items: [] });
    expect(Number(json.metadata.resourceVersion)).toBeGreaterThan(0);
  });

  it("are null if they are empty and the client prefers protobuf", async () => {
    const headers = { Accept: "application/vnd.kubernetes.protobuf,application/json" };
    const path = "/api/v1/namespaces/default/replicationcontrollers";
    const preferring = await test.call("GET", path, { headers });
    // A real server answers in protobuf, which is not JSON.
    if (String(preferring.headers["content-type"]).includes("json"))
      expect(preferring.json).toMatchObject({ items: null });
    expect((await test.call("GET", path)).json).toMatchObject({ items: [] });
  });

  it("omit kind and apiVersion of items in typed lists", async () => {
    await post(maps(), configMap("a"));
    const [item] = (await get(maps())).json.items;
    expect(item).not.toHaveProperty("kind");
    expect(item).not.toHaveProperty("apiVersion");
    expect(Object.keys(item ?? {})[0]).toBe("metadata");
  });

  it("support label and field selectors", async () => {
    const labelled = (name: string, labels: object): object => ({
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name, labels },
    });
    await post(maps(), labelled("a", { tier: "front", n: "5" }));
    await post(maps(), labelled("b", { tier: "back" }));
    await post(maps(), labelled("c", {}));
    const names = async (selector: string): Promise<string> =>
      (await get(maps(`?labelSelector=${encodeURIComponent(selector)}`))).json.items
        .map((it) => it.metadata.name)
        .join("");
    expect(await names("tier=front")).toBe("a");
    expect(await names("tier==front")).toBe("a");
    expect(await names("tier!=front")).toBe("bc");
    expect(await names("tier in (front, back)")).toBe("ab");
    expect(await names("tier notin (front)")).toBe("bc");
    expect(await names("tier")).toBe("ab");
    expect(await names("!tier")).toBe("c");
    expect(await names("tier,n>4")).toBe("a");
    expect((await get(maps("?fieldSelector=metadata.name%3Db"))).json.items).toHaveLength(1);
    expect((await get(maps("?fieldSelector=metadata.name!%3Db"))).json.items).toHaveLength(2);
    expect((await get(maps("?labelSelector=a%3D%3D%3Db"))).json).toMatchObject({
      code: 400,
      reason: "BadRequest",
    });
    const unsupported = await get(maps("?fieldSelector=data.x%3Db"));
    expect(unsupported.json).toMatchObject({
      code: 400,
      message: '"data.x" is not a known field selector: only "metadata.name", "metadata.namespace"',
    });
  });

  it("validate resourceVersion and resourceVersionMatch", async () => {
    const current = Number((await get(maps())).json.metadata.resourceVersion);
    expect((await get(maps("?resourceVersion=0"))).code).toBe(200);
    expect((await get(maps(`?resourceVersion=${current}&resourceVersionMatch=Exact`))).code).toBe(200);
    expect((await get(maps("?resourceVersion=0&resourceVersionMatch=Exact"))).code).toBe(422);
    expect((await get(maps("?resourceVersionMatch=Exact"))).code).toBe(422);
    expect((await get(maps("?resourceVersion=x"))).code).toBe(400);
    const future = await get(maps(`?resourceVersion=${current + 1000}`));
    expect(future.json).toMatchObject({ code: 504, reason: "Timeout" });
    expect(future.json).toMatchObject({ details: { causes: [{ reason: "ResourceVersionTooLarge" }] } });
  });

  it("are available as Tables and as PartialObjectMetadataList", async () => {
    await post(maps(), configMap("a", { data: { x: "1", y: "2" } }));
    const table = await get(maps(), {
      Accept: "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    });
    expect(table.json).toMatchObject({
      kind: "Table",
      apiVersion: "meta.k8s.io/v1",
      rows: [
        {
          cells: ["a", 2, expect.any(String)],
          object: { kind: "PartialObjectMetadata", metadata: { name: "a" } },
        },
      ],
    });
    const partial = await get(maps(), {
      Accept: "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    });
    expect(partial.json.kind).toBe("PartialObjectMetadataList");
    expect(partial.json.items[0]).not.toHaveProperty("data");
    expect((await get(maps("/a"), { Accept: "application/yaml" })).text).toContain("kind: ConfigMap\n");
    expect((await get(maps(), { Accept: "text/html" })).json).toMatchObject({
      code: 406,
      reason: "NotAcceptable",
    });
    // A client that prefers protobuf gets JSON, and reads so in the header.
    const typed = await get(maps("/a"), { Accept: "application/vnd.kubernetes.protobuf,application/json" });
    expect(typed.headers["content-type"]).toBe("application/json");
  });
});

describe("watches", () => {
  it("send every change after the revision, and deletions with their own revision", async () => {
    const from = (await get(maps())).json.metadata.resourceVersion;
    const made = await post(maps(), configMap("a"));
    await patch(maps("/a"), MERGE, { data: { x: "1" } });
    await test.call("DELETE", maps("/a"));
    const events = await watch(maps(), `resourceVersion=${from}`);
    expect(shown(events)).toEqual(["ADDED a", "MODIFIED a", "DELETED a"]);
    const revisions = events.map((it) => Number(it.object.metadata.resourceVersion));
    expect(revisions).toEqual(revisions.toSorted((a, b) => a - b));
    expect(revisions[0]).toBe(Number(made.json.metadata.resourceVersion));
    expect(revisions[2]).toBeGreaterThan(revisions[1] ?? 0);
    for (const { object } of events) expect(object).toMatchObject({ kind: "ConfigMap", apiVersion: "v1" });
  });

  it("begin with the present state if no revision is given", async () => {
    await post(maps(), configMap("a"));
    expect(shown(await watch(maps(), ""))).toEqual(["ADDED a"]);
    expect(shown(await watch(maps(), "resourceVersion=0"))).toEqual(["ADDED a"]);
  });

  it("end the initial state by a bookmark when the client streams its list", async () => {
    await post(maps(), configMap("a"));
    const query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    const events = await watch(maps(), query);
    expect(shown(events).slice(0, 2)).toEqual(["ADDED a", "BOOKMARK"]);
    expect(events[1]?.object).toMatchObject({
      kind: "ConfigMap",
      apiVersion: "v1",
      metadata: { annotations: { "k8s.io/initial-events-end": "true" } },
    });
    expect((await get(maps("?watch=1&sendInitialEvents=true"))).code).toBe(422);
    expect((await get(maps("?watch=1&resourceVersionMatch=NotOlderThan"))).code).toBe(422);
  });

  it("with a selector turn changes into additions and deletions", async () => {
    const from = (await get(maps())).json.metadata.resourceVersion;
    await post(maps(), configMap("a"));
    await patch(maps("/a"), MERGE, { metadata: { labels: { on: "yes" } } });
    await patch(maps("/a"), MERGE, { data: { x: "1" } });
    await patch(maps("/a"), MERGE, { metadata: { labels: { on: null } } });
    const events = await watch(maps(), `resourceVersion=${from}&labelSelector=on%3Dyes`);
    expect(shown(events)).toEqual(["ADDED a", "MODIFIED a", "DELETED a"]);
  });

  it("answer 200 and one ERROR of code 410 if the revision has expired", async () => {
    const from = Number((await get(maps())).json.metadata.resourceVersion);
    await post(maps(), configMap("a"));
    test.server.registry.store.table("configmaps").log.compact(test.server.registry.store.revision);
    const events = await watch(maps(), `resourceVersion=${from}`);
    expect(events).toHaveLength(1);
    expect(events[0]).toMatchObject({
      type: "ERROR",
      object: { kind: "Status", code: 410, reason: "Expired" },
    });
  });

  it("are available as Tables of one row, with columns in the first", async () => {
    const accept = { Accept: "application/json;as=Table;v=v1;g=meta.k8s.io" };
    await post(maps(), configMap("a"));
    await post(maps(), configMap("b"));
    const events = await watch(maps(), "", accept);
    expect(events.map((it) => (it.object["columnDefinitions"] as unknown[] | null)?.length)).toEqual([
      3,
      undefined,
    ]);
    expect(events[1]?.object).toMatchObject({
      kind: "Table",
      rows: [{ object: { metadata: { name: "b" } } }],
    });
  });
});

describe("writes", () => {
  it("set the server's fields, and complete generateName", async () => {
    const asked = { name: "a", uid: "mine", creationTimestamp: "2000-01-01T00:00:00Z", generation: 7 };
    const { code, json } = await post(maps(), { ...configMap("a"), metadata: asked });
    expect(code).toBe(201);
    expect(json.metadata.uid).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4/);
    expect(json.metadata["creationTimestamp"]).not.toBe(asked.creationTimestamp);
    // A kind that counts none leaves what it is given.
    expect(json.metadata.generation).toBe(7);
    const generated = await post(maps(), { ...configMap(""), metadata: { generateName: "x-" } });
    expect(generated.json.metadata.name).toMatch(/^x-[bcdfghjklmnpqrstvwxz2456789]{5}$/);
    expect((await post(maps(), configMap("a"))).json).toMatchObject({ code: 409, reason: "AlreadyExists" });
  });

  it("reject an outdated resourceVersion, and write nothing if nothing changes", async () => {
    const { json } = await post(maps(), configMap("a", { data: { x: "1" } }));
    const same = await test.call("PUT", maps("/a"), { body: json });
    expect(same.json.metadata.resourceVersion).toBe(json.metadata.resourceVersion);
    const changed = await test.call("PUT", maps("/a"), { body: { ...json, data: { x: "2" } } });
    expect(Number(changed.json.metadata.resourceVersion)).toBeGreaterThan(
      Number(json.metadata.resourceVersion),
    );
    const stale = await test.call("PUT", maps("/a"), { body: { ...json, data: { x: "3" } } });
    expect(stale.json).toMatchObject({
      code: 409,
      reason: "Conflict",
      details: { kind: "configmaps", name: "a" },
    });
    expect(stale.json.message).toContain("the object has been modified");
    const { resourceVersion: _any, ...metadata } = json.metadata;
    const unconditional = await test.call("PUT", maps("/a"), {
      body: { ...json, metadata, data: { x: "4" } },
    });
    expect(unconditional.code).toBe(200);
    const stalePatch = { metadata: { resourceVersion: json.metadata.resourceVersion }, data: { x: "5" } };
    expect((await patch(maps("/a"), MERGE, stalePatch)).code).toBe(409);
  });

  it("require a resourceVersion for kinds without unconditional updates", async () => {
    const leases = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`;
    const lease = {
      apiVersion: "coordination.k8s.io/v1",
      kind: "Lease",
      metadata: { name: "l" },
      spec: { holderIdentity: "me" },
    };
    const created = await test.call("PUT", `${leases}/l`, { body: lease });
    expect(created.code).toBe(201);
    const refused = await test.call("PUT", `${leases}/l`, {
      body: { ...lease, spec: { holderIdentity: "you" } },
    });
    expect(refused.json).toMatchObject({
      code: 422,
      details: { causes: [{ field: "metadata.resourceVersion" }] },
    });
  });

  it("do everything except storing in a dry run", async () => {
    const before = test.server.registry.store.revision;
    const { code, json } = await post(maps("?dryRun=All"), configMap("a"));
    expect(code).toBe(201);
    expect(json.metadata.uid).toBeDefined();
    expect(json.metadata).not.toHaveProperty("resourceVersion");
    expect((await get(maps("/a"))).code).toBe(404);
    expect(test.server.registry.store.revision).toBe(before);
  });

  it("increment the generation only for the spec, and change the status only through /status", async () => {
    const path = `/apis/apps/v1/namespaces/${namespace}/deployments`;
    const template = { metadata: { labels: { a: "b" } }, spec: { containers: [{ name: "c", image: "i" }] } };
    const spec = { selector: { matchLabels: { a: "b" } }, template };
    const created = await post(path, {
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata: { name: "d" },
      spec,
      status: { replicas: 9 },
    });
    expect(created.json.metadata.generation).toBe(1);
    expect(created.json.status).toEqual({});
    const scaled = await patch(`${path}/d`, MERGE, { spec: { replicas: 3 }, status: { replicas: 3 } });
    expect(scaled.json).toMatchObject({ metadata: { generation: 2 }, status: {} });
    const reported = await patch(`${path}/d/status`, MERGE, {
      spec: { replicas: 7 },
      status: { replicas: 3 },
    });
    expect(reported.json).toMatchObject({
      metadata: { generation: 2 },
      spec: { replicas: 3 },
      status: { replicas: 3 },
    });
    const scale = await get(`${path}/d/scale`);
    expect(scale.json).toMatchObject({
      kind: "Scale",
      apiVersion: "autoscaling/v1",
      spec: { replicas: 3 },
      status: { replicas: 3, selector: "a=b" },
    });
    const rescaled = await test.call("PUT", `${path}/d/scale`, {
      body: { ...scale.json, spec: { replicas: 5 } },
    });
    expect(rescaled.json).toMatchObject({ kind: "Scale", spec: { replicas: 5 } });
  });

  it("support all four patch types", async () => {
    await post(maps(), configMap("a", { data: { x: "1" } }));
    const json = await patch(maps("/a"), "application/json-patch+json", [
      { op: "add", path: "/data/y", value: "2" },
    ]);
    expect(json.json["data"]).toEqual({ x: "1", y: "2" });
    expect((await patch(maps("/a"), MERGE, { data: { x: null } })).json["data"]).toEqual({ y: "2" });
    const strategic = await patch(maps("/a"), "application/strategic-merge-patch+json", { data: { z: "3" } });
    expect(strategic.json["data"]).toEqual({ y: "2", z: "3" });
    const apply = "application/apply-patch+yaml";
    const applied = await patch(maps("/a?fieldManager=m"), apply, configMap("a", { data: { w: "4" } }));
    expect(applied.json["data"]).toEqual({ y: "2", z: "3", w: "4" });
    expect((await patch(maps("/new?fieldManager=m"), apply, configMap("new"))).code).toBe(201);
    expect((await patch(maps("/a"), apply, configMap("a"))).code).toBe(422);
    const inapplicable = await patch(maps("/a"), "application/json-patch+json", [
      { op: "remove", path: "/nope/x" },
    ]);
    expect(inapplicable.code).toBe(422);
    expect((await patch(maps("/a"), "text/plain", {})).code).toBe(415);
    expect((await patch(maps("/absent"), MERGE, {})).code).toBe(404);
  });
});

describe("deletions", () => {
  it("return the deleted object, and check preconditions", async () => {
    const { json } = await post(maps(), configMap("a"));
    const wrong = await test.call("DELETE", maps("/a"), { body: { preconditions: { uid: "other" } } });
    expect(wrong.json).toMatchObject({ code: 409, reason: "Conflict" });
    const deleted = await test.call("DELETE", maps("/a"), {
      body: { preconditions: { uid: json.metadata.uid } },
    });
    expect(deleted.json).toMatchObject({
      kind: "Status",
      status: "Success",
      details: { name: "a", kind: "configmaps", uid: json.metadata.uid },
    });
    expect((await test.call("DELETE", maps("/a"))).json).toMatchObject({ code: 404, reason: "NotFound" });
  });

  it("wait for finalizers, and end with the last of them", async () => {
    await post(maps(), { ...configMap("a"), metadata: { name: "a", finalizers: ["example.io/hold"] } });
    const { json } = await test.call("DELETE", maps("/a"));
    expect(json.metadata["deletionTimestamp"]).toBeDefined();
    expect(json.metadata["deletionGracePeriodSeconds"]).toBe(0);
    const more = await patch(maps("/a"), MERGE, {
      metadata: { finalizers: ["example.io/hold", "example.io/more"] },
    });
    const wrong = { field: "metadata.finalizers" };
    expect(more.json).toMatchObject({ code: 422, details: { causes: [wrong, wrong] } });
    expect((await patch(maps("/a"), MERGE, { metadata: { finalizers: null } })).code).toBe(200);
    expect((await get(maps("/a"))).code).toBe(404);
  });

  it("delete dependents in the background, before the owner, or not at all", async () => {
    const owned = (name: string, uid: string, owner: string): object => ({
      ...configMap(name),
      metadata: {
        name,
        ownerReferences: [
          { apiVersion: "v1", kind: "ConfigMap", name: owner, uid, blockOwnerDeletion: true },
        ],
      },
    });
    for (const [policy, survives] of [
      ["Background", false],
      ["Foreground", false],
      ["Orphan", true],
    ] as const) {
      const owner = `owner-${policy.toLowerCase()}`;
      const { uid } = (await post(maps(), configMap(owner))).json.metadata;
      const child = (await post(maps(), owned(`${owner}-child`, uid, owner))).json;
      await post(maps(), owned(`${owner}-grandchild`, child.metadata.uid, child.metadata.name));
      await test.call("DELETE", maps(`/${owner}`), { body: { propagationPolicy: policy } });
      expect((await get(maps(`/${owner}`))).code).toBe(404);
      expect((await get(maps(`/${owner}-child`))).code).toBe(survives ? 200 : 404);
      expect((await get(maps(`/${owner}-grandchild`))).code).toBe(survives ? 200 : 404);
      if (survives)
        expect((await get(maps(`/${owner}-child`))).json.metadata).not.toHaveProperty("ownerReferences");
    }
  });

  it("keep an owner with foreground propagation until its dependents are deleted", async () => {
    const { uid } = (await post(maps(), configMap("owner"))).json.metadata;
    const reference = { apiVersion: "v1", kind: "ConfigMap", name: "owner", uid, blockOwnerDeletion: true };
    const held = { name: "held", ownerReferences: [reference], finalizers: ["example.io/hold"] };
    await post(maps(), { ...configMap("held"), metadata: held });
    await test.call("DELETE", maps("/owner"), { body: { propagationPolicy: "Foreground" } });
    expect((await get(maps("/owner"))).json.metadata["finalizers"]).toEqual(["foregroundDeletion"]);
    expect((await get(maps("/held"))).json.metadata["deletionTimestamp"]).toBeDefined();
    await patch(maps("/held"), MERGE, { metadata: { finalizers: null } });
    expect((await get(maps("/owner"))).code).toBe(404);
  });

  it("keep an owner with foreground propagation only until its dependents drop their references", async () => {
    const { uid } = (await post(maps(), configMap("former"))).json.metadata;
    const reference = { apiVersion: "v1", kind: "ConfigMap", name: "former", uid, blockOwnerDeletion: true };
    for (const name of ["drops", "unblocks"]) {
      const held = { name, ownerReferences: [reference], finalizers: ["example.io/hold"] };
      await post(maps(), { ...configMap(name), metadata: held });
    }
    await test.call("DELETE", maps("/former"), { body: { propagationPolicy: "Foreground" } });
    await patch(maps("/drops"), MERGE, { metadata: { ownerReferences: null } });
    expect((await get(maps("/former"))).code).toBe(200);
    const unblocked = [{ ...reference, blockOwnerDeletion: false }];
    await patch(maps("/unblocks"), MERGE, { metadata: { ownerReferences: unblocked } });
    expect((await get(maps("/former"))).code).toBe(404);
  });

  it("garbage-collect dependents of an absent owner", async () => {
    const reference = { apiVersion: "v1", kind: "ConfigMap", name: "never", uid: "none" };
    await post(maps(), { ...configMap("lost"), metadata: { name: "lost", ownerReferences: [reference] } });
    expect((await get(maps("/lost"))).code).toBe(404);
    const unknown = { apiVersion: "example.io/v1", kind: "Unknown", name: "never", uid: "none" };
    await post(maps(), { ...configMap("kept"), metadata: { name: "kept", ownerReferences: [unknown] } });
    expect((await get(maps("/kept"))).code).toBe(200);
  });

  it("empty collections by selector", async () => {
    await post(maps(), { ...configMap("a"), metadata: { name: "a", labels: { x: "y" } } });
    await post(maps(), configMap("b"));
    const { json } = await test.call("DELETE", maps("?labelSelector=x%3Dy"));
    expect(json.items.map((it) => it.metadata.name)).toEqual(["a"]);
    expect((await get(maps())).json.items.map((it) => it.metadata.name)).toEqual(["b"]);
  });

  it("of a namespace wait for finalizers of its content, and report them in conditions", async () => {
    await post(maps(), { ...configMap("held"), metadata: { name: "held", finalizers: ["example.io/hold"] } });
    await post(maps(), configMap("free"));
    const { json } = await test.call("DELETE", `/api/v1/namespaces/${namespace}`);
    expect(json.status["phase"]).toBe("Terminating");
    const refused = await post(maps(), configMap("late"));
    expect(refused.json).toMatchObject({
      code: 403,
      details: { causes: [{ reason: "NamespaceTerminating" }] },
    });
    expect((await get(maps())).json.items.map((it) => it.metadata.name)).toEqual(["held"]);
    const waiting = (await get(`/api/v1/namespaces/${namespace}`)).json.status["conditions"] as {
      type: string;
      status: string;
    }[];
    const alarms = waiting.filter((it) => it.status === "True").map((it) => it.type);
    expect(alarms).toEqual(["NamespaceContentRemaining", "NamespaceFinalizersRemaining"]);
    await patch(maps("/held"), MERGE, { metadata: { finalizers: null } });
    expect((await get(`/api/v1/namespaces/${namespace}`)).code).toBe(404);
  });
});

describe("the rest of the surface", () => {
  it("serves both forms of discovery, and answers 304 if nothing changed", async () => {
    const accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    const aggregated = await get("/apis", { Accept: accept });
    expect(aggregated.headers["content-type"]).toBe(
      "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    );
    expect(aggregated.json.kind).toBe("APIGroupDiscoveryList");
    const etag = String(aggregated.headers["etag"]);
    expect((await get("/apis", { Accept: accept, "If-None-Match": etag })).code).toBe(304);
    expect((await get("/api")).json).toMatchObject({ kind: "APIVersions", versions: ["v1"] });
    expect((await get("/apis")).json.kind).toBe("APIGroupList");
    expect((await get("/apis/apps")).json).toMatchObject({
      kind: "APIGroup",
      preferredVersion: { version: "v1" },
    });
    const resources = (await get("/api/v1")).json["resources"] as { name: string; verbs: string[] }[];
    expect(resources.find((it) => it.name === "pods/exec")?.verbs).toEqual(["create", "get"]);
  });

  it("serves OpenAPI under a hash of the content", async () => {
    const index = (await get("/openapi/v3")).json["paths"] as Record<string, { serverRelativeURL: string }>;
    const url = index["apis/apps/v1"]?.serverRelativeURL ?? "";
    const document = await get(url);
    expect(document.headers["cache-control"]).toBe("public, immutable");
    expect(document.json["openapi"]).toMatch(/^3\.0/);
    const moved = await get("/openapi/v3/apis/apps/v1?hash=OLD");
    expect(moved.code).toBe(301);
    expect(moved.headers["location"]).toBe(url);
    expect((await get("/openapi/v2")).json).toMatchObject({ swagger: "2.0", definitions: {} });
  });

  it("reports its health to every client, and nothing else to unauthenticated ones", async () => {
    const stranger = (path: string): Promise<Answer> => test.call("GET", path, { anonymous: true });
    for (const path of ["/healthz", "/livez", "/readyz"]) expect((await stranger(path)).text).toBe("ok");
    expect((await stranger("/readyz?verbose")).text).toContain("[+]ping ok");
    expect((await stranger("/version")).json["gitVersion"]).toBe("v1.36.0+fairlead");
    expect((await stranger("/api/v1/namespaces")).json).toMatchObject({
      kind: "Status",
      code: 403,
      reason: "Forbidden",
    });
  });

  it.skipIf(process.env["TEST_API_SERVER"] === "real")(
    "is not ready while the journal fails, and alive and read from all the same",
    async () => {
      const { store } = test.server.registry;
      const holds = store.journalHolds.bind(store);
      store.journalHolds = () => false;
      const codes = ["/readyz", "/readyz/journal", "/livez", `/api/v1/namespaces/${namespace}`].map(
        async (it) => (await get(it)).code,
      );
      expect(await Promise.all(codes)).toEqual([500, 500, 200, 200]);
      store.journalHolds = holds;
      expect((await get("/readyz")).code).toBe(200);
    },
  );

  it("distinguishes subresources of a namespace from resources in it", async () => {
    expect((await get(`/api/v1/namespaces/${namespace}/status`)).json.kind).toBe("Namespace");
    expect((await get("/api/v1/namespaces/absent/configmaps")).json.items).toEqual([]);
    expect((await get("/api/v1/nonsense")).json).toMatchObject({
      code: 404,
      message: "the server could not find the requested resource",
    });
  });

  it("sends warnings in headers", async () => {
    const { headers, json } = await post(maps(), { ...configMap("a"), nonsense: 1 });
    expect(headers["warning"]).toContain('unknown field \\"nonsense\\"');
    expect(json).not.toHaveProperty("nonsense");
    expect(headers["audit-id"]).toBeDefined();
    expect(headers["cache-control"]).toBe("no-cache, private");
  });
});
