import { describe, expect, it } from "vitest";
import { builtinSchema } from "#schema/definitions.ts";
import type { Schema } from "#schema/types.ts";
import { openapiDocument, openapiHash, openapiIndex } from "./documents.ts";
import type { DocumentedResource } from "./types.ts";

const VERBS = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

const deployments: DocumentedResource = {
  group: "apps",
  version: "v1",
  plural: "deployments",
  kind: "Deployment",
  listKind: "DeploymentList",
  namespaced: true,
  verbs: VERBS,
  schema: builtinSchema("apps", "v1", "Deployment") as Schema,
  hasStatus: true,
  scale: {},
  isCustom: false,
};
const widgets: DocumentedResource = {
  group: "example.com",
  version: "v1",
  plural: "widgets",
  kind: "Widget",
  listKind: "WidgetList",
  namespaced: false,
  verbs: VERBS,
  schema: {
    type: "object",
    properties: { spec: { type: "object", properties: { size: { type: "integer" } } } },
  },
  hasStatus: false,
  isCustom: true,
};

interface Document {
  paths: Record<string, Record<string, { parameters: { name: string }[]; [key: string]: unknown }>>;
  components: { schemas: Record<string, Schema> };
}

const apps = openapiDocument({ group: "apps", version: "v1" }, [deployments, widgets]) as unknown as Document;
const example = openapiDocument({ group: "example.com", version: "v1" }, [
  deployments,
  widgets,
]) as unknown as Document;

describe("the document of a group version", () => {
  const patch = apps.paths["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]?.["patch"];

  it("lists the kind and the parameter fieldValidation of a patch", () => {
    expect(patch?.["x-kubernetes-group-version-kind"]).toEqual({
      group: "apps",
      version: "v1",
      kind: "Deployment",
    });
    expect(patch?.parameters.map((it) => it.name)).toContain("fieldValidation");
  });
  it("offers strategic merge patch for built-in kinds only", () => {
    const widget = example.paths["/apis/example.com/v1/widgets/{name}"]?.["patch"];
    expect(JSON.stringify(patch?.["requestBody"])).toContain("application/strategic-merge-patch+json");
    expect(JSON.stringify(widget?.["requestBody"])).not.toContain("strategic");
    expect(JSON.stringify(widget?.["requestBody"])).toContain("application/apply-patch+yaml");
  });
  it("contains every schema that it refers to", () => {
    for (const document of [apps, example]) {
      const refs = new Set(
        JSON.stringify(document)
          .matchAll(/"#\/components\/schemas\/([^"]+)"/g)
          .map((it) => it[1]),
      );
      expect([...refs].filter((it) => document.components.schemas[it ?? ""] === undefined)).toEqual([]);
    }
  });
  it("describes the scale subresource as kind Scale", () => {
    const scale = apps.paths["/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"]?.["patch"];
    expect(scale?.["x-kubernetes-group-version-kind"]).toEqual({
      group: "autoscaling",
      version: "v1",
      kind: "Scale",
    });
  });
  it("gives every operation a unique id", () => {
    const ids = [...JSON.stringify(apps).matchAll(/"operationId":"([^"]+)"/g)].map((it) => it[1]);
    expect(ids.length).toBeGreaterThan(10);
    expect(new Set(ids).size).toBe(ids.length);
  });
  it("adds apiVersion, kind and metadata to the schema of a custom resource", () => {
    expect(example.components.schemas["com.example.v1.Widget"]).toMatchObject({
      "x-kubernetes-group-version-kind": [{ group: "example.com", version: "v1", kind: "Widget" }],
      properties: {
        metadata: { allOf: [{ $ref: expect.stringContaining("ObjectMeta") as string }] },
        spec: { type: "object" },
      },
    });
    expect(example.components.schemas["com.example.v1.WidgetList"]).toBeDefined();
  });
});

describe("the index", () => {
  it("names each group version once, with the hash of its document", () => {
    const index = openapiIndex([deployments, widgets, deployments], (path) => openapiHash(path).slice(0, 4));
    expect(Object.keys(index.paths)).toEqual(["apis/apps/v1", "apis/example.com/v1"]);
    expect(index.paths["apis/apps/v1"]?.serverRelativeURL).toMatch(
      /^\/openapi\/v3\/apis\/apps\/v1\?hash=[0-9A-F]{4}$/,
    );
  });
});

const pods: DocumentedResource = {
  group: "",
  version: "v1",
  plural: "pods",
  kind: "Pod",
  listKind: "PodList",
  namespaced: true,
  verbs: VERBS,
  schema: builtinSchema("", "v1", "Pod") as Schema,
  hasStatus: true,
  isCustom: false,
};

describe("the document of the core group", () => {
  const tokens = {
    group: "",
    version: "v1",
    plural: "token",
    parent: "serviceaccounts",
    kind: "TokenRequest",
    kindApiVersion: "authentication.k8s.io/v1",
    namespaced: true,
    schema: builtinSchema("authentication.k8s.io", "v1", "TokenRequest") as Schema,
  };
  const core = openapiDocument({ group: "", version: "v1" }, [pods], [tokens]) as unknown as Document;
  const operation = (path: string, method: string): string | undefined =>
    core.paths[path]?.[method]?.["operationId"] as string | undefined;

  it.each([
    ["/api/v1/", "get", "getCoreV1APIResources"],
    ["/api/v1/pods", "get", "listCoreV1PodForAllNamespaces"],
    ["/api/v1/namespaces/{namespace}/pods", "delete", "deleteCoreV1CollectionNamespacedPod"],
    ["/api/v1/namespaces/{namespace}/pods/{name}/exec", "post", "connectCoreV1PostNamespacedPodExec"],
    ["/api/v1/namespaces/{namespace}/pods/{name}/log", "get", "readCoreV1NamespacedPodLog"],
    ["/api/v1/namespaces/{namespace}/pods/{name}/eviction", "post", "createCoreV1NamespacedPodEviction"],
    ["/api/v1/namespaces/{namespace}/pods/{name}/status", "put", "replaceCoreV1NamespacedPodStatus"],
    [
      "/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token",
      "post",
      "createCoreV1NamespacedServiceAccountToken",
    ],
    ["/api/v1/watch/namespaces/{namespace}/pods/{name}", "get", "watchCoreV1NamespacedPod"],
    ["/api/v1/watch/pods", "get", "watchCoreV1PodListForAllNamespaces"],
  ])("names %s %s %s as kube-apiserver does", (path, method, id) => {
    expect(operation(path, method)).toBe(id);
  });

  it("describes every kind and every field", () => {
    for (const [name, schema] of Object.entries(core.components.schemas)) {
      expect.soft(schema.description, name).toMatch(/^.+\.$/);
      for (const [field, property] of Object.entries(schema.properties ?? {})) {
        expect.soft(property.description, `${name}.${field}`).toMatch(/^[^\n]{3,120}\.$/);
      }
    }
  });

  it("contains all schemas that it refers to", () => {
    const refs = [...JSON.stringify(core).matchAll(/"#\/components\/schemas\/([^"]+)"/g)].map(
      (it) => it[1] ?? "",
    );
    for (const name of new Set(refs)) expect.soft(core.components.schemas, name).toHaveProperty([name]);
  });
});
