import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Answer, startTestServer, type TestServer } from "./support.ts";

let test: TestServer;

beforeAll(async () => {
  test = await startTestServer();
});
afterAll(() => test[Symbol.asyncDispose]());

function maps(rest = ""): string {
  return `/api/v1/namespaces/default/configmaps${rest}`;
}
function configMap(name: string, more: object = {}): Record<string, unknown> {
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { name }, ...more };
}
function post(path: string, body: unknown): Promise<Answer> {
  return test.call("POST", path, { body });
}
function get(path: string): Promise<Answer> {
  return test.call("GET", path);
}

describe("invalid input is rejected with a Status, and nothing is stored", () => {
  const cases: readonly [string, () => Promise<Answer>, object][] = [
    ["malformed JSON", () => post(maps(), "{"), { code: 400, reason: "BadRequest" }],
    ["an array", () => post(maps(), []), { code: 400, reason: "BadRequest" }],
    ["another kind", () => post(maps(), { ...configMap("a"), kind: "Secret" }), { code: 400 }],
    ["another version", () => post(maps(), { ...configMap("a"), apiVersion: "v2" }), { code: 400 }],
    [
      "another namespace",
      () => post(maps(), { ...configMap("a"), metadata: { name: "a", namespace: "x" } }),
      { code: 400 },
    ],
    ["no name", () => post(maps(), configMap("")), { code: 422, reason: "Invalid" }],
    [
      "an impossible name",
      () => post(maps(), configMap("A_b")),
      { code: 422, details: { causes: [{ field: "metadata.name" }] } },
    ],
    [
      "impossible labels",
      () => post(maps(), { ...configMap("a"), metadata: { name: "a", labels: { "-": "x" } } }),
      { code: 422 },
    ],
    [
      "a field of another type",
      () => post(maps(), configMap("a", { data: { x: 1 } })),
      { code: 400, reason: "BadRequest" },
    ],
    [
      "an unknown field under Strict",
      () => post(maps("?fieldValidation=Strict"), configMap("a", { dat: {} })),
      { code: 400 },
    ],
    [
      "a duplicate key under Strict",
      () =>
        post(
          maps("?fieldValidation=Strict"),
          '{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","name":"b"}}',
        ),
      { code: 400 },
    ],
    [
      "an absent namespace",
      () => post("/api/v1/namespaces/absent/configmaps", configMap("a")),
      { code: 404, reason: "NotFound" },
    ],
    [
      "too large a body",
      () => post(maps(), configMap("a", { data: { x: "x".repeat(3 * 1024 * 1024) } })),
      { code: 413, reason: "RequestEntityTooLarge" },
    ],
    [
      "an unknown media type",
      () => test.call("POST", maps(), { body: "x", headers: { "Content-Type": "text/plain" } }),
      { code: 415 },
    ],
    [
      "malformed protobuf",
      () =>
        test.call("POST", maps(), {
          body: Buffer.from("k8s\0\xff\xff"),
          headers: { "Content-Type": "application/vnd.kubernetes.protobuf" },
        }),
      { code: 400 },
    ],
    [
      "malformed YAML",
      () => test.call("POST", maps(), { body: "a: [", headers: { "Content-Type": "application/yaml" } }),
      { code: 400 },
    ],
    [
      "an unknown verb on a resource",
      () => test.call("PUT", maps()),
      { code: 405, reason: "MethodNotAllowed" },
    ],
    [
      "a wrong token",
      () => test.call("GET", maps(), { anonymous: true, headers: { Authorization: "Bearer nonsense" } }),
      { code: 401, reason: "Unauthorized" },
    ],
    [
      "an unknown dry run",
      () => post(maps("?dryRun=Some"), configMap("a")),
      { code: 422, reason: "Invalid" },
    ],
    ["a broken continue token", () => get(maps("?limit=1&continue=nonsense")), { code: 400 }],
  ];

  it.each(cases)("%s", async (_what, call, expected) => {
    const before = test.server.registry.store.table("configmaps").size;
    const answer = await call();
    expect(answer.json).toMatchObject({ kind: "Status", status: "Failure", ...expected });
    expect(answer.code).toBe(answer.json.code);
    expect(test.server.registry.store.table("configmaps").size).toBe(before);
  });

  it("CustomResourceDefinitions that cannot be served", async () => {
    const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    const schema = {
      openAPIV3Schema: { type: "object", properties: { spec: { type: "object", properties: { x: {} } } } },
    };
    const crd = (spec: object, name = "widgets.example.io"): object => ({
      apiVersion: "apiextensions.k8s.io/v1",
      kind: "CustomResourceDefinition",
      metadata: { name },
      spec: {
        group: "example.io",
        scope: "Namespaced",
        names: { plural: "widgets", kind: "Widget" },
        versions: [
          { name: "v1", served: true, storage: true, schema: { openAPIV3Schema: { type: "object" } } },
        ],
        ...spec,
      },
    });
    const field = async (body: object): Promise<string> => {
      const { json } = await post(path, body);
      expect(json).toMatchObject({ code: 422, reason: "Invalid" });
      return (json["details"] as { causes: { field: string }[] }).causes.map((it) => it.field).join(" ");
    };
    expect(await field(crd({}, "other.example.io"))).toBe("metadata.name");
    expect(await field(crd({ versions: [] }))).toBe("spec.versions status.storedVersions");
    expect(
      await field(
        crd({
          versions: [
            { name: "v1", served: true, storage: false, schema: { openAPIV3Schema: { type: "object" } } },
          ],
        }),
      ),
    ).toBe("spec.versions status.storedVersions");
    expect(await field(crd({ versions: [{ name: "v1", served: true, storage: true, schema }] }))).toContain(
      "properties[spec].properties[x].type",
    );
    expect(await field(crd({ scope: "Galaxy" }))).toBe("spec.scope");
    expect((await get(path)).json.items).toEqual([]);
  });
});
