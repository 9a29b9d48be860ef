import { jsonKey } from "@fairlead/base/json.ts";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type Answer, type Json, startTestServer, type TestServer } from "./support.ts";

/** Custom resources: from the creation of the definition to its deletion. */

const CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const MERGE = "application/merge-patch+json";

let test: TestServer;
let count = 0;
/** A group for each test, so that none sees another's definitions. */
let group = "";

beforeAll(async () => {
  test = await startTestServer();
});
afterAll(() => test[Symbol.asyncDispose]());
beforeEach(() => {
  count += 1;
  group = `g${count}.example.io`;
});

function post(path: string, body: unknown): Promise<Answer> {
  return test.call("POST", path, { body });
}
function get(path: string): Promise<Answer> {
  return test.call("GET", path);
}
function patch(path: string, body: unknown): Promise<Answer> {
  return test.call("PATCH", path, { body, headers: { "Content-Type": MERGE } });
}

interface Version {
  readonly name: string;
  readonly served?: boolean;
  readonly storage?: boolean;
  readonly properties?: object;
  readonly more?: object;
}

function version({ name, served = true, storage = true, properties = {}, more = {} }: Version): object {
  const schema = {
    openAPIV3Schema: { type: "object", properties: { spec: { type: "object", properties } } },
  };
  return { name, served, storage, schema, ...more };
}

const OPEN = { type: "object", "x-kubernetes-preserve-unknown-fields": true };

function crd(versions: readonly object[], names: object = {}): object {
  const all = { plural: "widgets", kind: "Widget", ...names };
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${all.plural}.${group}` },
    spec: { group, scope: "Namespaced", names: all, versions },
  };
}

function widget(name: string, spec: object, of = "v1", more: object = {}): object {
  return { apiVersion: `${group}/${of}`, kind: "Widget", metadata: { name, ...more }, spec };
}
function widgets(of = "v1", rest = ""): string {
  return `/apis/${group}/${of}/namespaces/default/widgets${rest}`;
}
function conditions({ status }: Json): string[] {
  const all = status["conditions"] as { type: string; status: string; reason: string }[];
  return all.map((it) => `${it.type}=${it.status} ${it.reason}`);
}

describe("a CustomResourceDefinition", () => {
  it("is established in the response to its creation, with default names", async () => {
    const { code, json } = await post(CRDS, crd([version({ name: "v1" })]));
    expect(code).toBe(201);
    expect(conditions(json)).toEqual([
      "NamesAccepted=True NoConflicts",
      "Established=True InitialNamesAccepted",
    ]);
    expect(json.status).toMatchObject({
      acceptedNames: { plural: "widgets", singular: "widget", kind: "Widget", listKind: "WidgetList" },
      storedVersions: ["v1"],
    });
    expect((await get(widgets())).json).toMatchObject({ kind: "WidgetList", items: [] });
    const groups = (await get("/apis")).json["groups"] as { name: string }[];
    expect(groups.some((it) => it.name === group)).toBe(true);
    const index = (await get("/openapi/v3")).json["paths"] as Record<string, unknown>;
    expect(index).toHaveProperty(`apis/${group}/v1`);
  });

  it("with a null field is rejected without an internal error", async () => {
    const whole = crd([version({ name: "v1" })]) as Record<"spec", object>;
    for (const part of [
      { metadata: null },
      { spec: null },
      { spec: { ...whole.spec, names: null } },
      { spec: { ...whole.spec, names: { plural: "widgets", kind: "Widget", shortNames: [null] } } },
      { spec: { ...whole.spec, versions: null } },
      { spec: { ...whole.spec, versions: [null] } },
    ]) {
      expect((await post(CRDS, { ...whole, ...part })).code).toBe(422);
    }
  });

  it("is not established while another one holds its names, and is once that is deleted", async () => {
    await post(CRDS, crd([version({ name: "v1" })]));
    const second = await post(
      CRDS,
      crd([version({ name: "v1" })], { plural: "gadgets", singular: "gadget" }),
    );
    expect(conditions(second.json)).toEqual([
      "NamesAccepted=False ListKindConflict",
      "Established=False NotAccepted",
    ]);
    expect((await get(`/apis/${group}/v1/namespaces/default/gadgets`)).code).toBe(404);
    await test.call("DELETE", `${CRDS}/widgets.${group}`);
    expect(conditions((await get(`${CRDS}/gadgets.${group}`)).json)[1]).toContain("Established=True");
    expect((await get(`/apis/${group}/v1/namespaces/default/gadgets`)).code).toBe(200);
  });

  it("returns custom resources with their fields sorted, as Kubernetes does", async () => {
    const properties = { size: { type: "integer", default: 3 }, any: OPEN };
    const of = { type: "object", properties: { spec: { type: "object", properties }, status: OPEN } };
    const more = { subresources: { status: {} }, schema: { openAPIV3Schema: of } };
    await post(CRDS, crd([version({ name: "v1", more })]));
    const path = widgets("v1", "/a");
    const isSorted = ({ text }: Answer): void => expect(text.trim()).toBe(jsonKey(JSON.parse(text)));
    const spec = { any: { z: 1, b: [{ y: 1, x: 2 }], a: {} } };
    const meta = {
      labels: { z: "1", a: "2" },
      finalizers: ["example.io/hold"],
      annotations: { b: "1", a: "2" },
    };
    isSorted(await test.call("POST", `${widgets()}?dryRun=All`, { body: widget("a", spec, "v1", meta) }));
    const created = await post(widgets(), widget("a", spec, "v1", meta));
    isSorted(created);
    isSorted(await patch(path, { spec: { any: { c: 1, aa: { d: 1, c: 1 } } } }));
    isSorted(
      await test.call("PATCH", `${path}/status`, {
        body: { status: { phase: "Ready", conditions: [{ type: "Ready", status: "True" }] } },
        headers: { "Content-Type": MERGE },
      }),
    );
    const applied = { body: widget("a", { any: { q: 1, f: { n: 1, m: 1 } } }) };
    isSorted(
      await test.call("PATCH", `${path}?fieldManager=other`, {
        ...applied,
        headers: { "Content-Type": "application/apply-patch+yaml" },
      }),
    );
    // One that changes nothing, and what deletion adds.
    isSorted(await patch(path, {}));
    isSorted(await test.call("DELETE", path));
    isSorted(await get(path));
    isSorted(await get(widgets()));
    const watched = await get(
      `${widgets()}?watch=1&timeoutSeconds=1&resourceVersion=${created.json.metadata.resourceVersion}`,
    );
    const events = watched.text.trim().split("\n");
    expect(events).toHaveLength(4);
    for (const it of events)
      isSorted({ ...watched, text: JSON.stringify((JSON.parse(it) as { object: object }).object) });
    isSorted(await patch(path, { metadata: { finalizers: null } }));
  });

  it("prunes, defaults and validates custom resources", async () => {
    const properties = {
      size: { type: "integer", default: 3, maximum: 9 },
      name: { type: "string" },
      any: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
    };
    await post(CRDS, crd([version({ name: "v1", properties })]));
    const { json } = await post(widgets(), widget("a", { junk: 1, any: { kept: true } }));
    expect(json.spec).toEqual({ size: 3, any: { kept: true } });
    const refused = await post(widgets(), widget("b", { size: 10 }));
    expect(refused.json).toMatchObject({
      code: 422,
      details: { kind: "Widget", causes: [{ field: "spec.size" }] },
    });
    const wrong = await post(widgets(), widget("b", { size: "x" }));
    expect(wrong.json).toMatchObject({ code: 422, details: { causes: [{ field: "spec.size" }] } });
    const strategic = await test.call("PATCH", widgets("v1", "/a"), {
      body: {},
      headers: { "Content-Type": "application/strategic-merge-patch+json" },
    });
    expect(strategic.json).toMatchObject({ code: 415, reason: "UnsupportedMediaType" });
  });

  it("validates objects with the rules of its schema, and rejects rules that do not compile", async () => {
    const rule = (text: string): object => ({
      ...crd([]),
      spec: {
        group,
        scope: "Namespaced",
        names: { plural: "widgets", kind: "Widget" },
        versions: [
          {
            name: "v1",
            served: true,
            storage: true,
            schema: {
              openAPIV3Schema: {
                type: "object",
                properties: {
                  spec: {
                    type: "object",
                    properties: { low: { type: "integer" }, high: { type: "integer" } },
                    "x-kubernetes-validations": [{ rule: text, message: "low must be below high" }],
                  },
                },
              },
            },
          },
        ],
      },
    });
    const broken = await post(CRDS, rule("self.low <"));
    expect(broken.json).toMatchObject({ code: 422, reason: "Invalid" });
    expect((await post(CRDS, rule("self.low < self.high"))).code).toBe(201);
    expect((await post(widgets(), widget("a", { low: 1, high: 2 }))).code).toBe(201);
    const refused = await post(widgets(), widget("b", { low: 3, high: 2 }));
    expect(refused.json).toMatchObject({ code: 422, details: { causes: [{ field: "spec" }] } });
    expect(refused.json.message).toContain("low must be below high");
  });

  it("applies its present schema to stored objects", async () => {
    const before = (await post(CRDS, crd([version({ name: "v1", properties: { old: { type: "string" } } })])))
      .json;
    await post(widgets(), widget("a", { old: "x" }));
    const properties = { fresh: { type: "string", default: "y" } };
    const spec = { ...before.spec, versions: [version({ name: "v1", properties })] };
    expect((await test.call("PUT", `${CRDS}/widgets.${group}`, { body: { ...before, spec } })).code).toBe(
      200,
    );
    expect((await get(widgets("v1", "/a"))).json.spec).toEqual({ fresh: "y" });
    expect((await get(widgets())).json.items[0]?.spec).toEqual({ fresh: "y" });
  });

  it("serves every version of an object, and records storedVersions", async () => {
    const first = (
      await post(CRDS, crd([version({ name: "v1alpha1" }), version({ name: "v1", storage: false })]))
    ).json;
    await post(widgets("v1"), widget("a", {}));
    expect((await get(widgets("v1alpha1", "/a"))).json.apiVersion).toBe(`${group}/v1alpha1`);
    expect((await get(widgets("v1", "/a"))).json.apiVersion).toBe(`${group}/v1`);
    const versions = [version({ name: "v1alpha1", storage: false }), version({ name: "v1" })];
    const path = `${CRDS}/widgets.${group}`;
    const moved = await test.call("PUT", path, { body: { ...first, spec: { ...first.spec, versions } } });
    expect(moved.json.status["storedVersions"]).toEqual(["v1alpha1", "v1"]);
    const dropped = { ...moved.json, spec: { ...moved.json.spec, versions: [version({ name: "v1" })] } };
    expect((await test.call("PUT", path, { body: dropped })).json).toMatchObject({
      code: 422,
      details: { causes: [{ field: "status.storedVersions[0]" }] },
    });
    const groups = (await get(`/apis/${group}`)).json["preferredVersion"];
    expect(groups).toEqual({ groupVersion: `${group}/v1`, version: "v1" });
  });

  it("separates status and spec with the status subresource", async () => {
    const status = { type: "object", "x-kubernetes-preserve-unknown-fields": true };
    const properties = { size: { type: "integer" } };
    const schema = {
      openAPIV3Schema: { type: "object", properties: { spec: { type: "object", properties }, status } },
    };
    await post(
      CRDS,
      crd([{ name: "v1", served: true, storage: true, schema, subresources: { status: {} } }]),
    );
    const made = await post(widgets(), { ...widget("a", { size: 1 }), status: { phase: "Early" } });
    expect(made.json).not.toHaveProperty("status");
    const reported = await patch(widgets("v1", "/a/status"), {
      spec: { size: 2 },
      status: { phase: "Ready" },
      metadata: { labels: { a: "b" } },
    });
    expect(reported.json).toMatchObject({
      spec: { size: 1 },
      status: { phase: "Ready" },
      metadata: { generation: 1 },
    });
    expect(reported.json.metadata).not.toHaveProperty("labels");
    const changed = await patch(widgets("v1", "/a"), { spec: { size: 3 }, status: null });
    expect(changed.json).toMatchObject({
      spec: { size: 3 },
      status: { phase: "Ready" },
      metadata: { generation: 2 },
    });
  });

  it("supports its selectableFields", async () => {
    const more = { selectableFields: [{ jsonPath: ".spec.colour" }] };
    await post(CRDS, crd([version({ name: "v1", properties: { colour: { type: "string" } }, more })]));
    await post(widgets(), widget("a", { colour: "red" }));
    await post(widgets(), widget("b", { colour: "blue" }));
    const { json } = await get(widgets("v1", "?fieldSelector=spec.colour%3Dred"));
    expect(json.items.map((it) => it.metadata.name)).toEqual(["a"]);
    expect((await get(widgets("v1", "?fieldSelector=spec.size%3D1"))).code).toBe(400);
  });

  it("ends existing watches when it changes, so that later events match the new schema", async () => {
    const name = `${CRDS}/widgets.${group}`;
    await post(CRDS, crd([version({ name: "v1", properties: { size: { type: "integer" } } })]));
    const { metadata } = (await post(widgets(), widget("a", { size: 1 }))).json;
    const from = (revision: unknown, more = ""): string =>
      `${widgets()}?watch=1&resourceVersion=${String(revision)}${more}`;
    const watching = get(from(metadata.resourceVersion));
    await patch(name, { metadata: { labels: { a: "b" } } });
    await patch(widgets("v1", "/a"), { spec: { size: 2 } });
    const properties = { size: { type: "integer" }, colour: { type: "string" } };
    await patch(name, { spec: { versions: [version({ name: "v1", properties })] } });
    const seen = JSON.parse((await watching).text) as { object: Json };
    expect(seen.object.spec).toEqual({ size: 2 });
    await patch(widgets("v1", "/a"), { spec: { colour: "red" } });
    const next = JSON.parse(
      (await get(from(seen.object.metadata.resourceVersion, "&timeoutSeconds=1"))).text,
    ) as {
      object: Json;
    };
    expect(next.object.spec).toEqual({ size: 2, colour: "red" });
  });

  it("is deleted after its instances and their finalizers, and ends their watches", async () => {
    await post(CRDS, crd([version({ name: "v1" })]));
    await post(widgets(), widget("free", {}));
    const held = (await post(widgets(), widget("held", {}, "v1", { finalizers: ["example.io/hold"] }))).json;
    const watching = get(`${widgets()}?watch=1&resourceVersion=${held.metadata.resourceVersion}`);
    const { json } = await test.call("DELETE", `${CRDS}/widgets.${group}`);
    expect(json.metadata["deletionTimestamp"]).toBeDefined();
    expect(conditions((await get(`${CRDS}/widgets.${group}`)).json)[2]).toContain("Terminating=True");
    expect((await get(widgets())).json.items.map((it) => it.metadata.name)).toEqual(["held"]);
    expect((await post(widgets(), widget("late", {}))).code).toBe(403);
    await patch(widgets("v1", "/held"), { metadata: { finalizers: null } });
    expect((await get(`${CRDS}/widgets.${group}`)).code).toBe(404);
    expect((await get(widgets())).code).toBe(404);
    const events = (await watching).text
      .trim()
      .split("\n")
      .map((it) => JSON.parse(it) as { type: string; object: Json });
    expect(events.map((it) => `${it.type} ${it.object.metadata.name}`)).toEqual([
      "DELETED free",
      "MODIFIED held",
      "DELETED held",
    ]);
  });
});
