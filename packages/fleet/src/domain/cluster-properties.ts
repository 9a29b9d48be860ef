import type { MemberClusterStatus } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";

/** What a member reports of itself, by name, for placements to select by. */

type Properties = NonNullable<MemberClusterStatus["properties"]>;

export const NODE_COUNT_PROPERTY = "kubernetes-fleet.io/node-count";
export const VERSION_PROPERTY = "k8s.io/k8s-version";
export const ENTRYPOINT_PROPERTY = "k8s.io/cluster-entrypoint";
export const AUTHORITY_PROPERTY = "k8s.io/cluster-certificate-authority-data";

/** Bounds of what the hub keeps of one member. Unit of the lengths: characters. */
const MAX_PROPERTIES = 500;
const MAX_NAME = 317;
const MAX_VALUE = 32_768;
const MAX_TOTAL = 131_072;

/** Of what a member reports, what the hub keeps: all of it, within bounds. */
export function boundedProperties(reported: Properties | undefined): Properties {
  let left = MAX_TOTAL;
  const kept: Properties = {};
  for (const [name, property] of Object.entries(reported ?? {}).slice(0, MAX_PROPERTIES)) {
    const size = name.length + property.value.length;
    if (name.length > MAX_NAME || property.value.length > MAX_VALUE || size > left) continue;
    left -= size;
    kept[name] = property;
  }
  return kept;
}

/** The change of the reported properties; null removes one of `own` that is no longer there. */
export function propertiesChange(
  wanted: ReadonlyMap<string, string>,
  before: Properties | undefined,
  at: { readonly now: string; readonly own: Iterable<string> },
): Record<string, Properties[string] | null> {
  const change: Record<string, Properties[string] | null> = {};
  for (const [name, value] of wanted) change[name] = { value, observationTime: at.now };
  for (const name of at.own) if (!wanted.has(name) && before?.[name] !== undefined) change[name] = null;
  return change;
}
