import { keyOf, type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import type { Labels } from "@fairlead/kube/objects/selector.ts";
import { describe, expect, it } from "vitest";
import type { ResourceSelector } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { KINDS, object, tableOf } from "#placement/selection/objects.fake.ts";
import { placementRules } from "#placement/selection/rules.ts";
import { Interests } from "./interests.ts";

const kinds = tableOf();
const rules = placementRules();
const of = ({ group, version, kind }: Resource, rest: Partial<ResourceSelector> = {}): ResourceSelector => ({
  group,
  version,
  kind,
  ...rest,
});
const labelled = (app: string) => ({ labelSelector: { matchLabels: { app } } });

function interests(
  placements: Readonly<Record<string, { namespace?: string; selectors: ResourceSelector[] }>>,
): Interests {
  const result = new Interests();
  for (const [key, { namespace, selectors }] of Object.entries(placements))
    result.set(key as ObjectKey, { namespace, spec: { resourceSelectors: selectors }, kinds, rules });
  return result;
}
/** @param rest - The object before, and the labels of the namespace "shop". */
function affected(
  at: Interests,
  kind: Resource,
  after: KubeObject,
  rest: { readonly before?: KubeObject; readonly labels?: Labels } = {},
): string[] {
  const change = { key: keyOf(after), before: rest.before, after };
  return [...at.affected(kind, change, () => rest.labels)].toSorted();
}
const labels = (app: string) => ({ metadata: { labels: { app } } });

const some = interests({
  named: { selectors: [of(KINDS.namespace, { name: "shop" })] },
  other: { selectors: [of(KINDS.namespace, { name: "other" })] },
  matching: { selectors: [of(KINDS.namespace, labelled("a"))] },
  roles: { selectors: [of(KINDS.clusterRole, labelled("a"))] },
  "shop/own": { namespace: "shop", selectors: [of(KINDS.configMap, { name: "x" })] },
  "shop/endpoints": { namespace: "shop", selectors: [of(KINDS.endpoints)] },
  within: {
    selectors: [
      of(KINDS.namespace, { name: "shop", selectionScope: "NamespaceWithResourceSelectors" }),
      of(KINDS.configMap, labelled("a")),
    ],
  },
  only: { selectors: [of(KINDS.namespace, { name: "shop", selectionScope: "NamespaceOnly" })] },
});

describe("a change concerns", () => {
  it.each<[string, string[], string[]]>([
    ["of an object in a namespace", affected(some, KINDS.secret, object(KINDS.secret, "x")), ["named"]],
    [
      "of an object in a namespace whose labels match",
      affected(some, KINDS.secret, object(KINDS.secret, "x"), { labels: { app: "a" } }),
      ["matching", "named"],
    ],
    [
      "of an object that is selected by name",
      affected(some, KINDS.configMap, object(KINDS.configMap, "x")),
      ["named", "shop/own"],
    ],
    [
      "of an object whose labels match within a namespace",
      affected(some, KINDS.configMap, object(KINDS.configMap, "y", labels("a"))),
      ["named", "within"],
    ],
    [
      "of a namespace",
      affected(some, KINDS.namespace, object(KINDS.namespace, "shop")),
      ["named", "only", "within"],
    ],
    [
      "of a namespace that matches no more",
      affected(some, KINDS.namespace, object(KINDS.namespace, "new"), {
        before: object(KINDS.namespace, "new", labels("a")),
      }),
      ["matching"],
    ],
    [
      "of a cluster-scoped object that matches",
      affected(some, KINDS.clusterRole, object(KINDS.clusterRole, "r", labels("a"))),
      ["roles"],
    ],
    [
      "of a cluster-scoped object that does not",
      affected(some, KINDS.clusterRole, object(KINDS.clusterRole, "r")),
      [],
    ],
    [
      "of a Service those that select Endpoints, too",
      affected(some, KINDS.service, object(KINDS.service, "web")),
      ["named", "shop/endpoints"],
    ],
  ])("%s", (_, found, expected) => {
    expect(found).toEqual(expected);
  });

  it("what a placement selects now, and nothing once it is gone", () => {
    const changing = interests({
      p: { selectors: [of(KINDS.namespace, { name: "shop" }), of(KINDS.clusterRole)] },
    });
    const key = objectKey(undefined, "p");
    changing.set(key, {
      namespace: undefined,
      spec: { resourceSelectors: [of(KINDS.namespace, { name: "other" })] },
      kinds,
      rules,
    });
    expect(affected(changing, KINDS.secret, object(KINDS.secret, "x"))).toEqual([]);
    expect(affected(changing, KINDS.clusterRole, object(KINDS.clusterRole, "r"))).toEqual([]);
    expect(affected(changing, KINDS.namespace, object(KINDS.namespace, "other"))).toEqual(["p"]);
    changing.delete(key);
    expect(affected(changing, KINDS.namespace, object(KINDS.namespace, "other"))).toEqual([]);
  });
});
