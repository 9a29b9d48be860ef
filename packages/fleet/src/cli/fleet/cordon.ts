import { hasCode } from "@fairlead/base/errors.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { MEMBER_CLUSTERS, type MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { findMember } from "./clusters.ts";

/** Keeps placements from picking a member. What is placed there stays. */

/** As KubeFleet's kubectl plugin writes it, so that either program undoes what the other did. */
const CORDON = { key: "cordon-key", value: "cordon-value", effect: "NoSchedule" } as const;
/** Other writers that may come in between, one for each attempt. */
const MOST_ATTEMPTS = 5;

type Taint = NonNullable<MemberCluster["spec"]["taints"]>[number];

export interface CordonResult {
  readonly cluster: string;
  readonly cordoned: boolean;
  /** False: it was so before. */
  readonly changed: boolean;
}

/** @throws {FleetError} `OPTION_INVALID` if there is no such member. */
export async function cordonCluster(
  hub: KubeClient,
  { name, cordoned }: { readonly name: string; readonly cordoned: boolean },
  signal: AbortSignal,
): Promise<CordonResult> {
  for (let attempt = 1; ; attempt++) {
    const { metadata, spec } = await findMember(hub, name, signal);
    const { taints: before = [] } = spec;
    if (before.some(isCordon) === cordoned) return { cluster: name, cordoned, changed: false };
    const others = before.filter((it) => !isCordon(it));
    const taints = cordoned ? [...others, CORDON] : others.length === 0 ? null : others;
    // The list is replaced as a whole: it has to be the one that was read.
    const patch = { metadata: { resourceVersion: metadata.resourceVersion }, spec: { taints } };
    try {
      await hub.mergePatch(MEMBER_CLUSTERS, objectKey(undefined, name), patch, { signal });
      return { cluster: name, cordoned, changed: true };
    } catch (error) {
      if (!hasCode(error, "API_CONFLICT") || attempt === MOST_ATTEMPTS) throw error;
    }
  }
}

function isCordon({ key, value, effect }: Taint): boolean {
  return key === CORDON.key && value === CORDON.value && effect === CORDON.effect;
}

export function describeCordon({ cluster, cordoned, changed }: CordonResult): string {
  if (cordoned)
    return `${cluster} is ${changed ? "" : "already "}cordoned: placements do not pick it; what is placed there stays`;
  return changed ? `${cluster} is uncordoned: placements may pick it` : `${cluster} is not cordoned`;
}
