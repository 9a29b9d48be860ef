import { describe, expect, it } from "vitest";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import type {
  ClusterResourceOverrideSnapshot,
  OverrideRule,
  ResourceOverrideSnapshot,
} from "#api/placement.kubernetes-fleet.io/v1beta1/overrides.ts";
import { applyOverrides, selectingKeys } from "./apply.ts";
import { applicableOverrides, candidatesFor } from "./match.ts";
import { problemOfPatch } from "./paths.ts";
import { resolveOverrides } from "./resolve.ts";

const EAST = { name: "east", labels: { region: "eu", "topology.kubernetes.io/zone": "eu-1" } };
const ALL = { clusterSelectorTerms: [] };
const DEPLOYMENT = { group: "apps", version: "v1", kind: "Deployment" };
const web: KubeObject = {
  apiVersion: "apps/v1",
  kind: "Deployment",
  metadata: { namespace: "shop", name: "web", labels: { app: "web" } },
  spec: {
    replicas: 3,
    template: {
      spec: {
        containers: [
          { name: "one", image: "a:1" },
          { name: "two", image: "b:1" },
        ],
      },
    },
  },
} as KubeObject;
const role: KubeObject = {
  apiVersion: "rbac.authorization.k8s.io/v1",
  kind: "ClusterRole",
  metadata: { name: "reader" },
};
const shop: KubeObject = { apiVersion: "v1", kind: "Namespace", metadata: { name: "shop" } };

type Spec = ClusterResourceOverrideSnapshot["spec"]["overrideSpec"];

function snapshotLabels(parent: string, index: number, isLatest = true): Record<string, string> {
  return {
    "kubernetes-fleet.io/parent-resource-override": parent,
    "kubernetes-fleet.io/override-index": String(index),
    "kubernetes-fleet.io/is-latest-snapshot": String(isLatest),
  };
}
function cro(
  name: string,
  spec: Partial<Spec>,
  [index, isLatest]: [number, boolean] = [0, true],
): ClusterResourceOverrideSnapshot {
  const selected = [{ group: "", version: "v1", kind: "Namespace", name: "shop" }];
  const overrideSpec = { clusterResourceSelectors: selected, policy: { overrideRules: [] }, ...spec };
  return {
    metadata: { name: `${name}-${index}`, labels: snapshotLabels(name, index, isLatest) },
    spec: { overrideSpec, overrideHash: "" },
  };
}
function ro(
  name: string,
  rules: OverrideRule[],
  more: Partial<ResourceOverrideSnapshot["spec"]["overrideSpec"]> = {},
): ResourceOverrideSnapshot {
  const overrideSpec = {
    resourceSelectors: [{ ...DEPLOYMENT, name: "web" }],
    policy: { overrideRules: rules },
    ...more,
  };
  return {
    metadata: { namespace: "shop", name: `${name}-0`, labels: snapshotLabels(name, 0) },
    spec: { overrideSpec, overrideHash: "" },
  };
}
const patchRule = (
  path: string,
  value?: unknown,
  op: "add" | "remove" | "replace" = "replace",
): OverrideRule => ({
  clusterSelector: ALL,
  jsonPatchOverrides: [{ op, path, ...(value === undefined ? {} : { value }) }],
});

describe("the cluster selector of a rule", () => {
  const label = (region: string) => ({ labelSelector: { matchLabels: { region } } });
  it.each([
    ["an absent one selects no cluster", undefined, false],
    ["one without terms selects every cluster", { clusterSelectorTerms: [] }, true],
    ["an empty term selects every cluster", { clusterSelectorTerms: [{}] }, true],
    ["a term that matches", { clusterSelectorTerms: [label("us"), label("eu")] }, true],
    ["terms of which none matches", { clusterSelectorTerms: [label("us")] }, false],
  ])("%s", (_, clusterSelector, isSelected) => {
    const rule = {
      jsonPatchOverrides: [{ op: "replace" as const, path: "/spec/replicas", value: 1 }],
      ...(clusterSelector === undefined ? {} : { clusterSelector }),
    };
    const [resolved] = resolveOverrides([], [ro("small", [rule])], EAST);
    expect(resolved?.steps.length).toBe(isSelected ? 1 : 0);
  });
});

describe("a path", () => {
  it.each([
    ["/kind", /"kind" is fixed/],
    ["/apiVersion", /"apiVersion" is fixed/],
    ["/status", /"status" is fixed/],
    ["/status/phase", /"status" is fixed/],
    ["/metadata", /only "\/metadata\/annotations" and "\/metadata\/labels"/],
    ["/metadata/name", /only "\/metadata\/annotations"/],
    ["/metadata/finalizers", /only/],
    ["spec/replicas", /is not a JSON pointer/],
    ["/spec//replicas", /empty element/],
    ["", /is not a JSON pointer/],
  ])('"%s" is refused', (path, problem) => {
    expect(problemOfPatch({ op: "add", path, value: 1 })).toMatch(problem);
  });
  it.each([
    "/spec/replicas",
    "/metadata/labels/a",
    "/metadata/labels",
    "/metadata/annotations/a~1b",
    "/data/x",
  ])("%s is accepted", (path) => {
    expect(problemOfPatch({ op: "add", path, value: 1 })).toBeUndefined();
  });
  it("of remove takes no value, and those of others need one", () => {
    expect(problemOfPatch({ op: "remove", path: "/spec", value: 1 })).toMatch(/not allowed/);
    expect(problemOfPatch({ op: "replace", path: "/spec" })).toMatch(/required/);
  });
});

describe("variables", () => {
  const valueOf = (value: unknown): unknown => {
    const [resolved] = resolveOverrides([], [ro("v", [patchRule("/spec/x", value, "add")])], EAST);
    const [step] = resolved?.steps ?? [];
    return step === "delete" ? undefined : step?.[0]?.value;
  };
  it.each([
    ["${MEMBER-CLUSTER-NAME}", "east"],
    ["${MEMBER-CLUSTER-NAME}-${MEMBER-CLUSTER-NAME}", "east-east"],
    ["a.${MEMBER-CLUSTER-LABEL-KEY-region}.b", "a.eu.b"],
    ["${MEMBER-CLUSTER-LABEL-KEY-topology.kubernetes.io/zone}", "eu-1"],
    ["${OTHER}", "${OTHER}"],
    [
      { list: ["${MEMBER-CLUSTER-NAME}", 1], "${MEMBER-CLUSTER-NAME}": true },
      { list: ["east", 1], east: true },
    ],
    [3, 3],
  ])("%j becomes %j", (value, result) => {
    expect(valueOf(value)).toEqual(result);
  });
  it.each([
    ["${MEMBER-CLUSTER-LABEL-KEY-tier}", /"east" has no label "tier"/],
    ["${MEMBER-CLUSTER-LABEL-KEY-constructor}", /has no label "constructor"/],
    ["${MEMBER-CLUSTER-LABEL-KEY-region", /no closing brace/],
  ])("%s is an error", (value, problem) => {
    expect(() => valueOf(value)).toThrow(problem);
  });
  it("in a label of the cluster are not replaced again", () => {
    const cluster = { name: "x", labels: { a: "${MEMBER-CLUSTER-LABEL-KEY-b}", b: "no" } };
    const rules = [patchRule("/spec/x", "${MEMBER-CLUSTER-LABEL-KEY-a}", "add")];
    const [resolved] = resolveOverrides([], [ro("v", rules)], cluster);
    expect(resolved?.steps).toEqual([
      [{ op: "add", path: "/spec/x", value: "${MEMBER-CLUSTER-LABEL-KEY-b}" }],
    ]);
  });
});

describe("an override", () => {
  const apply = (
    objects: readonly KubeObject[],
    cluster: readonly ClusterResourceOverrideSnapshot[],
    namespaced: readonly ResourceOverrideSnapshot[],
  ) => applyOverrides(objects, resolveOverrides(cluster, namespaced, EAST));
  it("changes the objects that it selects, and leaves the others and its input as they are", () => {
    const before = structuredClone(web);
    const [changed, other] = apply([web, role], [], [ro("small", [patchRule("/spec/replicas", 1)])]);
    expect(changed).toMatchObject({ spec: { replicas: 1 } });
    expect(other).toBe(role);
    expect(web).toEqual(before);
  });
  it("applies its rules in order, and of them its patches", () => {
    const rules = [
      patchRule("/spec/template/spec/containers/0/image", "c:1"),
      patchRule("/spec/template/spec/containers/-", { name: "three" }, "add"),
      patchRule("/spec/template/spec/containers/1", undefined, "remove"),
    ];
    expect(apply([web], [], [ro("x", rules)])).toMatchObject([
      { spec: { template: { spec: { containers: [{ name: "one", image: "c:1" }, { name: "three" }] } } } },
    ]);
  });
  it("of type Delete leaves the object out", () => {
    expect(apply([web, role], [], [ro("x", [{ clusterSelector: ALL, overrideType: "Delete" }])])).toEqual([
      role,
    ]);
  });
  it("of type Delete needs no patch to fit", () => {
    const rules: OverrideRule[] = [
      patchRule("/spec/none", 1),
      { clusterSelector: ALL, overrideType: "Delete" },
    ];
    expect(apply([web], [], [ro("x", rules)])).toEqual([]);
  });
  it("that is cluster-scoped applies first: the ResourceOverride wins", () => {
    const red = cro("red", {
      policy: { overrideRules: [patchRule("/metadata/labels/color", "red", "add")] },
    });
    const blue = ro("blue", [patchRule("/metadata/labels/color", "blue", "add")]);
    expect(apply([web], [red], [blue])).toMatchObject([{ metadata: { labels: { color: "blue" } } }]);
  });
  it("that selects a Namespace applies to the Namespace and all objects in it", () => {
    const labels = cro("labels", {
      policy: { overrideRules: [patchRule("/metadata/labels", { color: "red" }, "add")] },
    });
    const changed = apply([shop, web, role], [labels], []);
    expect(changed.map((it) => it.metadata.labels?.["color"])).toEqual(["red", "red", undefined]);
  });
  it("that selects a cluster-scoped object by name applies to it", () => {
    const selected = [
      { group: "rbac.authorization.k8s.io", version: "v1", kind: "ClusterRole", name: "reader" },
    ];
    const rule = { policy: { overrideRules: [patchRule("/metadata/labels", { a: "b" }, "add")] } };
    expect(apply([role, web], [cro("x", { clusterResourceSelectors: selected, ...rule })], [])).toMatchObject(
      [{ metadata: { labels: { a: "b" } } }, web],
    );
  });
  it.each([
    ["removes what is not there", patchRule("/spec/paused", undefined, "remove")],
    ["replaces what is not there", patchRule("/spec/paused", true)],
    ["adds below what is not there", patchRule("/metadata/annotations/a", "b", "add")],
    ["names a fixed field", patchRule("/metadata/name", "other")],
    ["names a label that the cluster lacks", patchRule("/spec/x", "${MEMBER-CLUSTER-LABEL-KEY-tier}", "add")],
  ])("that %s is an error that names the snapshot", (_, rule) => {
    expect(() => apply([web], [], [ro("x", [rule])])).toThrow(/ResourceOverrideSnapshot "shop\/x-0"/);
  });
});

describe("overrides of a placement", () => {
  const rules = { policy: { overrideRules: [patchRule("/spec/replicas", 1)] } };
  const placed = new Set([web, shop].flatMap(selectingKeys));
  const app = { name: "app", namespace: undefined };
  it("are those that name it, or no placement", () => {
    const named = cro("named", { ...rules, placement: { name: "app" } });
    const other = cro("other", { ...rules, placement: { name: "another" } });
    const inTeam = ro("team", rules.policy.overrideRules, {
      placement: { name: "app", scope: "Namespaced" },
    });
    expect(candidatesFor(app, [named, other, cro("any", rules)], [inTeam])).toMatchObject({
      cluster: [{ metadata: { name: "any-0" } }, { metadata: { name: "named-0" } }],
      namespaced: [],
    });
  });
  it("of a ResourcePlacement are ResourceOverrides of its namespace", () => {
    const scope = { placement: { name: "app", scope: "Namespaced" as const } };
    const found = candidatesFor(
      { name: "app", namespace: "shop" },
      [cro("any", rules)],
      [ro("in", rules.policy.overrideRules, scope)],
    );
    expect(found).toMatchObject({ cluster: [], namespaced: [{ metadata: { name: "in-0" } }] });
    const elsewhere = candidatesFor(
      { name: "app", namespace: "team" },
      [],
      [ro("in", rules.policy.overrideRules)],
    );
    expect(elsewhere).toEqual({ cluster: [], namespaced: [] });
  });
  it("are the latest snapshots; of two with the label, the newer one", () => {
    const all = [
      cro("x", rules, [9, true]),
      cro("x", rules, [10, true]),
      cro("x", rules, [11, false]),
      cro("y", rules, [3, false]),
    ];
    expect(candidatesFor(app, all, []).cluster.map((it) => it.metadata.name)).toEqual(["x-10"]);
  });
  it("apply to a cluster if they select a placed object and have a rule for it", () => {
    const elsewhere = cro("elsewhere", {
      ...rules,
      clusterResourceSelectors: [{ group: "", version: "v1", kind: "Namespace", name: "other" }],
    });
    const forUs = cro("us", {
      policy: {
        overrideRules: [
          {
            clusterSelector: { clusterSelectorTerms: [{ labelSelector: { matchLabels: { region: "us" } } }] },
          },
        ],
      },
    });
    const candidates = candidatesFor(
      app,
      [elsewhere, forUs, cro("any", rules)],
      [ro("web", rules.policy.overrideRules)],
    );
    expect(applicableOverrides(candidates, placed, EAST)).toEqual({
      clusterResourceOverrideSnapshots: ["any-0"],
      resourceOverrideSnapshots: [{ name: "web-0", namespace: "shop" }],
    });
  });
});
