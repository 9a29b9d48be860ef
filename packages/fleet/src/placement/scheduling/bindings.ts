import { defined } from "@fairlead/base/defined.ts";
import { byText, withoutTrailing } from "@fairlead/base/text.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { shortHash } from "#api/fairlead.dev/cluster-names.ts";
import {
  BINDING_FINALIZER,
  PARENT_PLACEMENT_LABEL,
  PREVIOUS_BINDING_STATE_ANNOTATION,
} from "#api/placement.kubernetes-fleet.io/names.ts";
import type {
  ClusterDecision,
  ResourceBinding,
  ResourceBindingSpec,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import type { ClusterFacts } from "./cluster.ts";

type State = ResourceBindingSpec["state"];

/** The bindings of a placement as the scheduler sees them: at most one for each cluster in the first three. */
export interface ClassifiedBindings {
  /** Scheduled or Bound by the policy snapshot in force. */
  readonly current: ReadonlyMap<string, ResourceBinding>;
  /** Scheduled or Bound by an older policy. */
  readonly obsolete: ReadonlyMap<string, ResourceBinding>;
  /** To be removed; a cluster that is picked again gets its binding back. */
  readonly unscheduled: ReadonlyMap<string, ResourceBinding>;
  /** Their cluster has left the fleet or is leaving, or has another binding. */
  readonly dangling: readonly ResourceBinding[];
  readonly deleting: readonly ResourceBinding[];
}

export function classifyBindings(
  bindings: Iterable<ResourceBinding>,
  snapshot: string,
  clusters: ReadonlyMap<string, ClusterFacts>,
): ClassifiedBindings {
  const current = new Map<string, ResourceBinding>();
  const obsolete = new Map<string, ResourceBinding>();
  const unscheduled = new Map<string, ResourceBinding>();
  const dangling: ResourceBinding[] = [];
  const deleting: ResourceBinding[] = [];
  for (const binding of [...bindings].toSorted(byPrecedence(snapshot))) {
    const { state, targetCluster, schedulingPolicySnapshotName } = binding.spec;
    const cluster = clusters.get(targetCluster);
    const isGone = cluster === undefined || cluster.isLeaving;
    const isTaken = current.has(targetCluster) || obsolete.has(targetCluster);
    if (isDeleting(binding)) deleting.push(binding);
    else if (state === "Unscheduled") {
      if (!isTaken && !unscheduled.has(targetCluster)) unscheduled.set(targetCluster, binding);
    } else if (isGone || isTaken) dangling.push(binding);
    else if (schedulingPolicySnapshotName === snapshot) current.set(targetCluster, binding);
    else obsolete.set(targetCluster, binding);
  }
  return { current, obsolete, unscheduled, dangling, deleting };
}

/** Which of two bindings of one cluster stays: what is placed before what is to be, and then the older name. */
function byPrecedence(snapshot: string): (a: ResourceBinding, b: ResourceBinding) => number {
  const rank = ({ spec }: ResourceBinding): number =>
    (spec.state === "Bound" ? 0 : spec.state === "Scheduled" ? 2 : 4) +
    (spec.schedulingPolicySnapshotName === snapshot ? 0 : 1);
  return (a, b) => rank(a) - rank(b) || byText(a.metadata.name, b.metadata.name);
}

/** What an Unscheduled binding was before. */
export function previousState({ metadata, spec }: ResourceBinding): State {
  const previous = metadata.annotations?.[PREVIOUS_BINDING_STATE_ANNOTATION];
  if (previous === "Scheduled" || previous === "Bound") return previous;
  return spec.resourceSnapshotName === "" ? "Scheduled" : "Bound";
}

export function hasSchedulerFinalizer({ metadata }: ResourceBinding): boolean {
  return metadata.finalizers?.includes(BINDING_FINALIZER) === true;
}

/** The binding of a cluster that is picked. What of the resources it gets is the rollout's to say. */
export function newBinding(
  placement: { readonly namespace: string | undefined; readonly name: string },
  snapshot: string,
  decision: ClusterDecision,
): ResourceBinding {
  const { namespace, name } = placement;
  return {
    metadata: {
      name: bindingName(name, decision.clusterName),
      ...defined({ namespace }),
      labels: { [PARENT_PLACEMENT_LABEL]: name },
      finalizers: [BINDING_FINALIZER],
    },
    spec: {
      state: "Scheduled",
      resourceSnapshotName: "",
      schedulingPolicySnapshotName: snapshot,
      targetCluster: decision.clusterName,
      clusterDecision: decision,
    },
  };
}

/** Longest name of an object that other objects carry as a label. Unit: characters. */
const NAME_LIMIT = 63;
const HASH_LENGTH = 8;

/** `<placement>-<cluster>-<8 characters>`, the same each time: a pass that runs twice creates one binding. */
export function bindingName(placement: string, cluster: string): string {
  const room = NAME_LIMIT - HASH_LENGTH - 2;
  const half = Math.floor(room / 2);
  const clusterPart = cluster.slice(0, Math.max(half, room - placement.length));
  const placementPart = withoutTrailing(placement.slice(0, room - clusterPart.length), "-.");
  return `${placementPart}-${withoutTrailing(clusterPart, "-.")}-${shortHash(`${placement}/${cluster}`, HASH_LENGTH)}`;
}
