import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { describe, expect, it } from "vitest";
import type {
  PlacementSpec,
  ResourceSelector,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { checkSelectors, problemText, type SelectionInput } from "./check.ts";
import { contentOf } from "./content.ts";
import { kindKey } from "./kinds.ts";
import { KINDS, object, tableOf, viewOf } from "./objects.fake.ts";
import { placementRules } from "./rules.ts";
import { isIncomplete, neededKinds, select, type SelectedObject, withPlacedBefore } from "./select.ts";

function selector(
  { group, version, kind }: Resource,
  rest: Partial<ResourceSelector> = {},
): ResourceSelector {
  return { group, version, kind, ...rest };
}
function input(
  selectors: readonly ResourceSelector[],
  rest: Partial<SelectionInput> & { reporting?: PlacementSpec["statusReportingScope"] } = {},
): SelectionInput {
  const { reporting, ...others } = rest;
  const spec = {
    resourceSelectors: [...selectors],
    ...(reporting === undefined ? {} : { statusReportingScope: reporting }),
  };
  return { namespace: undefined, spec, kinds: tableOf(), rules: placementRules(), ...others };
}
const ofNamespace = (name: string, rest: Partial<ResourceSelector> = {}): ResourceSelector =>
  selector(KINDS.namespace, { name, ...rest });
const within = ofNamespace("shop", { selectionScope: "NamespaceWithResourceSelectors" });
const labels = (app: string): { metadata: object } => ({ metadata: { labels: { app } } });

const hub: readonly KubeObject[] = [
  object(KINDS.namespace, "shop", labels("shop")),
  object(KINDS.namespace, "other", labels("other")),
  object(KINDS.namespace, "kube-system", labels("shop")),
  object(KINDS.configMap, "a", labels("a")),
  object(KINDS.configMap, "b", labels("b")),
  object(KINDS.configMap, "kube-root-ca.crt"),
  object(KINDS.configMap, "a", { metadata: { namespace: "other" } }),
  object(KINDS.configMap, "system", { metadata: { namespace: "kube-system" } }),
  object(KINDS.secret, "s"),
  object(KINDS.service, "web"),
  object(KINDS.endpoints, "web"),
  object(KINDS.endpoints, "legacy"),
  object(KINDS.clusterRole, "reader", labels("a")),
  object(KINDS.clusterRole, "writer"),
];

function selected(of: SelectionInput, objects = hub): string[] {
  const { objects: found, problems } = select(of, viewOf(objects));
  expect(problems).toEqual([]);
  return found.map(
    ({ id }) => `${id.kind} ${id.namespace === undefined ? "" : `${id.namespace}/`}${id.name}`,
  );
}
const SHOP = [
  "ConfigMap shop/a",
  "ConfigMap shop/b",
  "Endpoints shop/legacy",
  "Secret shop/s",
  "Service shop/web",
];

describe("a ClusterResourcePlacement selects", () => {
  it.each<[string, ResourceSelector[], string[]]>([
    ["a namespace by name with its content", [ofNamespace("shop")], ["Namespace shop", ...SHOP]],
    ["a namespace alone", [ofNamespace("shop", { selectionScope: "NamespaceOnly" })], ["Namespace shop"]],
    [
      "namespaces by label, but none that is reserved",
      [selector(KINDS.namespace, { labelSelector: { matchLabels: { app: "shop" } } })],
      ["Namespace shop", ...SHOP],
    ],
    [
      "all namespaces, but none that is reserved",
      [selector(KINDS.namespace)],
      ["Namespace other", "Namespace shop", "ConfigMap other/a", ...SHOP],
    ],
    [
      "a cluster-scoped object by name",
      [selector(KINDS.clusterRole, { name: "writer" })],
      ["ClusterRole writer"],
    ],
    [
      "cluster-scoped objects by label",
      [selector(KINDS.clusterRole, { labelSelector: { matchLabels: { app: "a" } } })],
      ["ClusterRole reader"],
    ],
    ["all objects of a kind", [selector(KINDS.clusterRole)], ["ClusterRole reader", "ClusterRole writer"]],
    ["nothing for a name that does not exist yet", [ofNamespace("later")], []],
    [
      "some objects of one namespace, and cluster-scoped ones",
      [
        within,
        selector(KINDS.configMap, { name: "b" }),
        selector(KINDS.secret),
        selector(KINDS.clusterRole, { name: "reader" }),
      ],
      ["Namespace shop", "ConfigMap shop/b", "Secret shop/s", "ClusterRole reader"],
    ],
  ])("%s", (_, selectors, expected) => {
    const of = input(selectors);
    expect(checkSelectors(of)).toEqual([]);
    expect(selected(of)).toEqual(expected);
  });

  it("definitions before their objects, and namespaces before all", () => {
    const crd = object(KINDS.crd, "widgets.example.com");
    const objects = [object(KINDS.widget, "w"), crd, ...hub];
    expect(selected(input([selector(KINDS.crd), ofNamespace("shop")]), objects)).toEqual([
      "Namespace shop",
      "CustomResourceDefinition widgets.example.com",
      ...SHOP,
      "Widget shop/w",
    ]);
  });

  it("nothing of a kind that is never placed", () => {
    const kinds = tableOf([{ ...KINDS.clusterRole, group: "cluster.kubernetes-fleet.io" }]);
    const of = input([{ group: "cluster.kubernetes-fleet.io", version: "v1", kind: "ClusterRole" }], {
      kinds,
    });
    expect(checkSelectors(of)).toEqual([]);
    expect(selected(of)).toEqual([]);
    expect(neededKinds(of).kinds).toEqual([]);
  });
});

describe("a ResourcePlacement selects", () => {
  it("objects of its own namespace only", () => {
    const of = input([selector(KINDS.configMap), selector(KINDS.endpoints)], { namespace: "shop" });
    expect(checkSelectors(of)).toEqual([]);
    expect(selected(of)).toEqual(["ConfigMap shop/a", "ConfigMap shop/b", "Endpoints shop/legacy"]);
    expect(neededKinds(of).kinds.map((it) => it.kind)).toEqual(["ConfigMap", "Endpoints", "Service"]);
  });
  it("one object by name, and others by label", () => {
    const of = input(
      [
        selector(KINDS.configMap, { labelSelector: { matchLabels: { app: "b" } } }),
        selector(KINDS.secret, { name: "s" }),
      ],
      { namespace: "shop" },
    );
    expect(selected(of)).toEqual(["ConfigMap shop/b", "Secret shop/s"]);
  });
});

describe("selectors are refused", () => {
  it.each<[string, SelectionInput, string, string]>([
    [
      "with an unknown kind",
      input([{ group: "example.com", version: "v2", kind: "Widget" }]),
      "spec.resourceSelectors[0].kind",
      "does not serve kind Widget of example.com/v2",
    ],
    [
      "with a namespaced kind",
      input([selector(KINDS.configMap)]),
      "spec.resourceSelectors[0].kind",
      "ConfigMap is namespaced",
    ],
    [
      "with a cluster-scoped kind in a ResourcePlacement",
      input([selector(KINDS.clusterRole)], { namespace: "shop" }),
      "spec.resourceSelectors[0].kind",
      "ClusterRole is cluster-scoped",
    ],
    [
      "with a reserved namespace",
      input([ofNamespace("shop"), ofNamespace("kube-system")]),
      "spec.resourceSelectors[1].name",
      "namespace kube-system is reserved",
    ],
    [
      "of a ResourcePlacement in a reserved namespace",
      input([selector(KINDS.configMap)], { namespace: "fleet-system" }),
      "metadata.namespace",
      "fleet-system is reserved",
    ],
    [
      "with name and labels",
      input([ofNamespace("shop", { labelSelector: {} })]),
      "spec.resourceSelectors[0].labelSelector",
      "cannot be set together with name",
    ],
    [
      "with labels that cannot be read",
      input([
        selector(KINDS.clusterRole, { labelSelector: { matchExpressions: [{ key: "a", operator: "In" }] } }),
      ]),
      "spec.resourceSelectors[0].labelSelector",
      "In on a needs values",
    ],
    [
      "with NamespaceWithResourceSelectors and no name",
      input([selector(KINDS.namespace, { selectionScope: "NamespaceWithResourceSelectors" })]),
      "spec.resourceSelectors[0].name",
      "by name",
    ],
    [
      "with NamespaceWithResourceSelectors and another namespace",
      input([ofNamespace("other"), within]),
      "spec.resourceSelectors[0]",
      "excludes other Namespace selectors",
    ],
    [
      "with NamespaceWithResourceSelectors twice",
      input([within, ofNamespace("other", { selectionScope: "NamespaceWithResourceSelectors" })]),
      "spec.resourceSelectors[1]",
      "excludes other Namespace selectors",
    ],
    [
      "with NamespaceAccessible and two namespaces",
      input([ofNamespace("a"), ofNamespace("b")], { reporting: "NamespaceAccessible" }),
      "spec.statusReportingScope",
      "found 2 Namespace selectors",
    ],
  ])("%s", (_, of, field, message) => {
    const problems = checkSelectors(of);
    expect(problems).toHaveLength(1);
    expect(problems[0]?.field).toBe(field);
    expect(problems[0]?.message).toContain(message);
    expect(problemText(problems)).toMatch(/^The resource selectors are invalid: /);
  });

  it.each<[string, ResourceSelector[], string]>([
    [
      "by two selectors of one kind",
      [selector(KINDS.clusterRole), selector(KINDS.clusterRole, { name: "reader" })],
      "ClusterRole reader",
    ],
    [
      "by a namespace that is selected twice",
      [ofNamespace("shop", { selectionScope: "NamespaceOnly" }), ofNamespace("shop")],
      "Namespace shop",
    ],
    [
      "by two selectors within a namespace",
      [within, selector(KINDS.configMap, { name: "a" }), selector(KINDS.configMap, { name: "a" })],
      "ConfigMap shop/a",
    ],
  ])("if an object is selected twice: %s", (_, selectors, what) => {
    const { problems } = select(input(selectors), viewOf(hub));
    expect(problems).toHaveLength(1);
    const last = selectors.length - 1;
    expect(problems[0]?.field).toBe(`spec.resourceSelectors[${last}]`);
    expect(problems[0]?.message).toBe(
      `selects ${what}, which spec.resourceSelectors[${last - 1}] selects as well`,
    );
  });

  it("for an object of 1.5 MB, which fits into no Work", () => {
    const large = object(KINDS.configMap, "large", { data: { a: "x".repeat(1_500_000) } });
    const { problems } = select(input([ofNamespace("shop")]), viewOf([...hub, large]));
    expect(problemText(problems)).toMatch(
      /spec\.resourceSelectors\[0\]: ConfigMap shop\/large has 15\d{5} bytes; an object that is placed has at most 1415578$/,
    );
  });

  it("with a text of bounded length, however much is wrong", () => {
    const roles = Array.from({ length: 100 }, (_, at) => object(KINDS.clusterRole, `r${at}`));
    const { problems } = select(
      input([selector(KINDS.clusterRole), selector(KINDS.clusterRole)]),
      viewOf(roles),
    );
    expect(problems).toHaveLength(100);
    expect(problemText(problems)).toMatch(/; and 90 more$/);
  });
});

describe("what cannot be read", () => {
  const before = (of: Resource, name: string): SelectedObject => {
    const it = object(of, name);
    const { namespace } = it.metadata;
    const { group, version, kind } = of;
    return {
      id: { group, version, kind, name, ...(namespace === undefined ? {} : { namespace }) },
      content: contentOf(it),
    };
  };
  const names = (objects: readonly SelectedObject[]): string[] => objects.map((it) => it.id.name);

  it("is kept of the snapshot before: kinds that are not listed yet, and groups that are away", () => {
    const of = input([ofNamespace("shop")], {
      kinds: tableOf([KINDS.namespace, KINDS.configMap, KINDS.secret], ["example.com"]),
    });
    const selection = select(of, viewOf(hub, [KINDS.secret]));
    expect(selection.unread.map(kindKey)).toEqual(["v1/Secret"]);
    expect(isIncomplete(of, selection)).toBe(true);
    const kept = withPlacedBefore(of, selection, [
      before(KINDS.secret, "s"),
      before(KINDS.widget, "w"),
      // Of kinds that were read: gone.
      before(KINDS.configMap, "gone"),
      before(KINDS.deployment, "gone"),
    ]);
    expect(names(kept.objects)).toEqual(["shop", "a", "b", "s", "w"]);
  });

  it("is not kept if the selectors do not select it any more", () => {
    const kinds = tableOf([KINDS.namespace], ["example.com", "rbac.authorization.k8s.io"]);
    const earlier = [
      before(KINDS.widget, "w"),
      before(KINDS.clusterRole, "reader"),
      before(KINDS.clusterRole, "old"),
    ];
    const of = input([ofNamespace("other"), selector(KINDS.clusterRole, { name: "reader" })], { kinds });
    expect(checkSelectors(of)).toEqual([]);
    const selection = select(of, viewOf(hub));
    expect(names(withPlacedBefore(of, selection, earlier).objects)).toEqual(["other", "reader"]);
  });

  it("is nothing while every group is there", () => {
    const of = input([ofNamespace("shop")]);
    expect(isIncomplete(of, select(of, viewOf(hub)))).toBe(false);
    const roles = input([selector(KINDS.clusterRole)], {
      kinds: tableOf([KINDS.clusterRole], ["example.com"]),
    });
    expect(isIncomplete(roles, select(roles, viewOf(hub)))).toBe(false);
  });
});
