import type { CustomResourceDefinition } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { describe, expect, it } from "vitest";
import { KindTable } from "./kinds.ts";
import { discoverKinds, withDefinitions } from "./discovery.ts";

const verbs = ["create", "delete", "get", "list", "patch", "update", "watch"];
const answers: Readonly<Record<string, unknown>> = {
  "/apis": {
    groups: [
      {
        name: "apps",
        preferredVersion: { version: "v1" },
        versions: [{ version: "v1beta1" }, { version: "v1" }],
      },
      { name: "example.com", preferredVersion: { version: "v1" }, versions: [{ version: "v1" }] },
    ],
  },
  "/api/v1": {
    resources: [
      { name: "namespaces", kind: "Namespace", namespaced: false, verbs },
      { name: "namespaces/status", kind: "Namespace", namespaced: false, verbs },
      { name: "bindings", kind: "Binding", namespaced: true, verbs: ["create"] },
      { name: "configmaps", kind: "ConfigMap", namespaced: true, verbs },
    ],
  },
  "/apis/apps/v1": { resources: [{ name: "deployments", kind: "Deployment", namespaced: true, verbs }] },
  "/apis/apps/v1beta1": {
    resources: [
      { name: "deployments", kind: "Deployment", namespaced: true, verbs },
      { name: "oldies", kind: "Oldie", namespaced: true, verbs },
    ],
  },
  "/apis/example.com/v1": { resources: [{ name: "widgets", kind: "Widget", namespaced: true, verbs }] },
};
const read =
  (broken: readonly string[] = []) =>
  (path: string): Promise<unknown> =>
    broken.includes(path) || answers[path] === undefined
      ? Promise.reject(new Error("service unavailable"))
      : Promise.resolve(answers[path]);
const namesOf = (table: KindTable): string[] =>
  table.namespaced().map((it) => `${it.group}/${it.version}/${it.kind}`);

function definition(group: string, kind: string, served = true, deleted = false): CustomResourceDefinition {
  return {
    metadata: { name: `x.${group}`, ...(deleted ? { deletionTimestamp: "t" } : {}) },
    spec: {
      group,
      scope: "Namespaced",
      names: { kind, listKind: `${kind}List`, plural: "x", singular: "x" },
      versions: [{ name: "v1", served, storage: true, schema: { openAPIV3Schema: {} } }],
    },
  };
}

describe("discovery", () => {
  it("finds what can be read and watched, each namespaced kind in the version that its group prefers", async () => {
    const table = await discoverKinds(read(), undefined);
    expect(namesOf(table)).toEqual([
      "/v1/ConfigMap",
      "apps/v1/Deployment",
      "apps/v1beta1/Oldie",
      "example.com/v1/Widget",
    ]);
    expect(table.find({ group: "", version: "v1", kind: "Namespace" })?.namespaced).toBe(false);
    expect(table.find({ group: "apps", version: "v1beta1", kind: "Deployment" })?.plural).toBe("deployments");
    expect(table.find({ group: "", version: "v1", kind: "Binding" })).toBeUndefined();
    expect(table.broken.size).toBe(0);
  });
  it("marks a group that is broken, and reads the others", async () => {
    const table = await discoverKinds(read(["/apis/example.com/v1"]), undefined);
    expect(namesOf(table)).toEqual(["/v1/ConfigMap", "apps/v1/Deployment", "apps/v1beta1/Oldie"]);
    expect([...table.broken]).toEqual(["example.com"]);
  });
  it("keeps what it knows of a group that breaks", async () => {
    const table = await discoverKinds(read(["/apis/example.com/v1"]), await discoverKinds(read(), undefined));
    expect(namesOf(table)).toContain("example.com/v1/Widget");
    expect(table.isBroken("example.com")).toBe(true);
  });
  it("fails where no group can be read at all", async () => {
    await expect(discoverKinds(read(["/apis"]), undefined)).rejects.toThrow("service unavailable");
  });
  it.each<[string, unknown]>([
    ["null", null],
    ["a text", "busy"],
    ["a list without groups", { groups: null }],
    ["malformed groups", { groups: [null, 1, {}, { name: "x", versions: [{}] }] }],
  ])("takes %s for no groups", async (_, groups) => {
    const table = await discoverKinds(
      (path) => (path === "/apis" ? Promise.resolve(groups) : read()(path)),
      undefined,
    );
    expect(namesOf(table)).toEqual(["/v1/ConfigMap"]);
  });
});

describe("a CustomResourceDefinition that is not served", () => {
  const table = new KindTable([]);
  it("marks its group, whose objects then are not gone", () => {
    expect([...withDefinitions(table, [definition("example.com", "Widget")]).broken]).toEqual([
      "example.com",
    ]);
  });
  it("marks a group that is served otherwise", async () => {
    const known = await discoverKinds(read(), undefined);
    const marked = withDefinitions(known, [definition("example.com", "Widget"), definition("apps", "Other")]);
    expect([...marked.broken]).toEqual(["apps"]);
    expect(namesOf(marked)).toEqual(namesOf(known));
  });
  it("marks nothing if it is being deleted, or is meant not to be served", () => {
    const definitions = [definition("a", "A", true, true), definition("b", "B", false)];
    expect(withDefinitions(table, definitions)).toBe(table);
  });
});
