import { defined } from "@fairlead/base/defined.ts";
import { byText, withoutTrailing } from "@fairlead/base/text.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { POLICY_HASH_ANNOTATION } from "#api/fairlead.dev/names.ts";
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

/** The policy in force: its snapshot, and the hash of what it says. */
export interface PolicyVersion {
  readonly name: string;
  readonly hash: string;
}

/** A snapshot that was lost is made again under another name, and says the same. */
function isOf({ metadata, spec }: ResourceBinding, { name, hash }: PolicyVersion): boolean {
  if (spec.schedulingPolicySnapshotName === name) return true;
  return hash !== "" && metadata.annotations?.[POLICY_HASH_ANNOTATION] === hash;
}

/** The bindings of a placement as the scheduler sees them: at most one for each cluster in the first three. */
export interface ClassifiedBindings {
  /** Scheduled or Bound by the policy in force. */
  readonly current: ReadonlyMap<string, ResourceBinding>;
  /** Scheduled or Bound by an older policy. */
  readonly obsolete: ReadonlyMap<string, ResourceBinding>;
  /** To be removed; a cluster that is picked again gets its binding back. */
  readonly unscheduled: ReadonlyMap<string, ResourceBinding>;
  /** Their cluster has left the fleet or is leaving, or has another binding. */
  readonly dangling: readonly ResourceBinding[];
  /** Of an older policy, with a cluster that is lost: they stay as they are. */
  readonly lost: readonly ResourceBinding[];
  readonly deleting: readonly ResourceBinding[];
}

/** What of a task the class of a binding depends on. */
interface Classifying {
  readonly bindings: Iterable<ResourceBinding>;
  readonly snapshot: PolicyVersion;
  readonly clusters: ReadonlyMap<string, ClusterFacts>;
  readonly isLost?: (cluster: string) => boolean;
}

export function classifyBindings({
  bindings,
  snapshot,
  clusters,
  isLost = () => false,
}: Classifying): ClassifiedBindings {
  const current = new Map<string, ResourceBinding>();
  const obsolete = new Map<string, ResourceBinding>();
  const unscheduled = new Map<string, ResourceBinding>();
  const dangling: ResourceBinding[] = [];
  const lost: ResourceBinding[] = [];
  const deleting: ResourceBinding[] = [];
  for (const binding of [...bindings].toSorted(byPrecedence(snapshot))) {
    const { state, targetCluster } = binding.spec;
    const cluster = clusters.get(targetCluster);
    const isGone = cluster === undefined ? !isLost(targetCluster) : cluster.isLeaving;
    const isTaken = current.has(targetCluster) || obsolete.has(targetCluster);
    if (isDeleting(binding)) deleting.push(binding);
    else if (state === "Unscheduled") {
      if (!unscheduled.has(targetCluster)) unscheduled.set(targetCluster, binding);
    } else if (isGone || isTaken) dangling.push(binding);
    else if (isOf(binding, snapshot)) current.set(targetCluster, binding);
    else if (cluster === undefined) lost.push(binding);
    else obsolete.set(targetCluster, binding);
  }
  return { current, obsolete, unscheduled, dangling, lost, deleting };
}

/** Which of two bindings of one cluster stays: what is placed before what is to be, and then the older name. */
function byPrecedence(snapshot: PolicyVersion): (a: ResourceBinding, b: ResourceBinding) => number {
  const rank = (it: ResourceBinding): number =>
    (it.spec.state === "Bound" ? 0 : it.spec.state === "Scheduled" ? 2 : 4) + (isOf(it, snapshot) ? 0 : 1);
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
  snapshot: PolicyVersion,
  decision: ClusterDecision,
): ResourceBinding {
  const { namespace, name } = placement;
  return {
    metadata: {
      name: bindingName(name, decision.clusterName),
      ...defined({ namespace }),
      labels: { [PARENT_PLACEMENT_LABEL]: name },
      annotations: { [POLICY_HASH_ANNOTATION]: snapshot.hash },
      finalizers: [BINDING_FINALIZER],
    },
    spec: {
      state: "Scheduled",
      resourceSnapshotName: "",
      schedulingPolicySnapshotName: snapshot.name,
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
