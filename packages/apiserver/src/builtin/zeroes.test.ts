import { describe, expect, it } from "vitest";
import { schemaOf } from "./define.ts";
import { fillStored, fillZeroes } from "./zeroes.ts";

function filled(apiVersion: string, kind: string, object: Record<string, unknown>): Record<string, unknown> {
  fillZeroes(object, schemaOf(apiVersion, kind));
  return object;
}

describe("unset fields that Go writes", () => {
  it("include counts without omitempty", () => {
    expect(filled("apps/v1", "ReplicaSet", { status: {} })["status"]).toEqual({ replicas: 0 });
  });

  it("include structs by value, and their required fields", () => {
    const budget = filled("policy/v1", "PodDisruptionBudget", {});
    expect(budget["status"]).toEqual({
      currentHealthy: 0,
      desiredHealthy: 0,
      disruptionsAllowed: 0,
      expectedPods: 0,
    });
  });

  it("include nil times and nil slices as null", () => {
    const event = filled("v1", "Event", { involvedObject: {} });
    expect(event).toMatchObject({ eventTime: null, firstTimestamp: null, source: {} });
    expect(filled("rbac.authorization.k8s.io/v1", "ClusterRole", {})).toEqual({ metadata: {}, rules: null });
  });

  it("are written in the items of lists too", () => {
    const slice = filled("discovery.k8s.io/v1", "EndpointSlice", {
      endpoints: [{ addresses: ["10.0.0.1"] }],
    });
    expect(slice["endpoints"]).toEqual([{ addresses: ["10.0.0.1"], conditions: {} }]);
  });

  it("exclude fields that are set, and pointers", () => {
    const set = filled("apps/v1", "ReplicaSet", { spec: {}, status: { replicas: 3 } });
    expect(set["status"]).toEqual({ replicas: 3 });
    expect(set["spec"]).not.toHaveProperty("replicas");
  });
});

describe("empty lists and maps", () => {
  const stored = (apiVersion: string, kind: string, object: Record<string, unknown>): unknown => {
    fillStored(object, schemaOf(apiVersion, kind));
    return object;
  };

  it("are null once stored where their type always writes them, and left out elsewhere", () => {
    const slice = { addressType: "IPv4", endpoints: [], ports: [] };
    expect(stored("discovery.k8s.io/v1", "EndpointSlice", slice)).toEqual({
      metadata: {},
      addressType: "IPv4",
      endpoints: null,
      ports: null,
    });
    expect(stored("v1", "ConfigMap", { data: {}, binaryData: {} })).toEqual({ metadata: {} });
    expect(stored("rbac.authorization.k8s.io/v1", "RoleBinding", { subjects: [] })).not.toHaveProperty(
      "subjects",
    );
  });

  it("remain until stored if always written, so that their sender owns them", () => {
    expect(filled("rbac.authorization.k8s.io/v1", "ClusterRole", { rules: [] })).toMatchObject({ rules: [] });
  });

  it("do not include structs without fields, whose presence has a meaning", () => {
    const pod = { spec: { containers: [{ name: "a" }], volumes: [{ name: "v", emptyDir: {} }] } };
    expect(stored("v1", "Pod", pod)).toMatchObject({ spec: { volumes: [{ name: "v", emptyDir: {} }] } });
  });

  it("remain in CustomResourceDefinitions, which are stored as JSON", () => {
    const definition = { status: { storedVersions: [] } };
    expect(stored("apiextensions.k8s.io/v1", "CustomResourceDefinition", definition)).toMatchObject({
      status: { storedVersions: [] },
    });
  });
});
