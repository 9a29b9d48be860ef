import { keyOf } from "@fairlead/kube/api/meta/key.ts";
import { apiVersionOf, type Resource, resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { contentOf, type Selectable } from "./content.ts";
import { kindKey, KindTable, type ServedGroup } from "./kinds.ts";
import { type PlacementRules, placementRules } from "./rules.ts";
import type { ObjectsView } from "./select.ts";

/** Kinds and objects of a hub, for tests. */

export const KINDS = {
  namespace: resource("v1", "Namespace", "namespaces", "Cluster"),
  configMap: resource("v1", "ConfigMap", "configmaps"),
  secret: resource("v1", "Secret", "secrets"),
  service: resource("v1", "Service", "services"),
  endpoints: resource("v1", "Endpoints", "endpoints"),
  deployment: resource("apps/v1", "Deployment", "deployments"),
  clusterRole: resource("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", "Cluster"),
  crd: resource(
    "apiextensions.k8s.io/v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    "Cluster",
  ),
  widget: resource("example.com/v1", "Widget", "widgets"),
} as const satisfies Record<string, Resource>;

/** Of one version in each group. */
export function tableOf(
  kinds: readonly Resource[] = Object.values(KINDS),
  broken: readonly string[] = [],
): KindTable {
  const groups = [...Map.groupBy(kinds, (it) => it.group)].map(([group, of]): ServedGroup => ({
    group,
    versions: [{ version: of[0]?.version ?? "", kinds: of }],
  }));
  const away = broken.map((group): ServedGroup => ({ group, versions: [], problem: "away" }));
  return new KindTable([...groups, ...away]);
}

/** An object of a kind; of a namespaced one in the namespace "shop" unless `rest` says otherwise. */
export function object(
  of: Resource,
  name: string,
  { metadata, ...rest }: { readonly metadata?: object; readonly [field: string]: unknown } = {},
): KubeObject {
  const namespace = of.namespaced ? { namespace: "shop" } : {};
  return {
    apiVersion: apiVersionOf(of),
    kind: of.kind,
    metadata: { name, ...namespace, ...metadata },
    ...rest,
  };
}

/** All kinds are read but those of `unread`. */
export function viewOf(
  objects: readonly KubeObject[],
  unread: readonly Resource[] = [],
  rules: PlacementRules = placementRules(),
): ObjectsView {
  return (of) => {
    if (unread.some((it) => kindKey(it) === kindKey(of))) return undefined;
    const found = objects
      .filter((it) => it.apiVersion === apiVersionOf(of) && it.kind === of.kind)
      .map((it): Selectable => (rules.isObjectPlaced(it) ? { ...it, content: contentOf(it) } : it));
    return {
      get: (key) => found.find((it) => keyOf(it) === key),
      list: () => found,
      in: (namespace) => found.filter((it) => it.metadata.namespace === namespace),
    };
  };
}
