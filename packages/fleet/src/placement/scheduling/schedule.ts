import { byText } from "@fairlead/base/text.ts";
import type {
  ClusterDecision,
  ResourceBinding,
  ResourceBindingSpec,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import {
  type ClassifiedBindings,
  classifyBindings,
  hasSchedulerFinalizer,
  newBinding,
  type PolicyVersion,
  previousState,
} from "./bindings.ts";
import type { ClusterFacts } from "./cluster.ts";
import type { ExecutionPlan } from "./execution.ts";
import type { CompiledPolicy } from "./policy.ts";
import { type Choice, chooseAll, chooseBest, chooseNamed } from "./choose.ts";
import { decisionOf, type Outcome, outcomeOf } from "./outcome.ts";

/** One placement and all that its scheduling depends on. */
export interface Task {
  readonly placement: { readonly namespace: string | undefined; readonly name: string };
  readonly policy: CompiledPolicy;
  readonly snapshot: PolicyVersion;
  /** Of PickN: how many clusters. */
  readonly count: number;
  /** All member clusters. */
  readonly clusters: ReadonlyMap<string, ClusterFacts>;
  readonly bindings: Iterable<ResourceBinding>;
  /**
   * Whether a cluster that the fleet does not have was lost rather than removed, as from a hub that was restored: what is placed there
   * stays. Default: none.
   */
  readonly isLost?: (cluster: string) => boolean;
  /** Of clusters that meet the policy no longer. Default: they stay. */
  readonly execution?: Pick<ExecutionPlan, "drop" | "hold">;
}

export interface PatchedBinding {
  readonly binding: ResourceBinding;
  readonly state: ResourceBindingSpec["state"];
  readonly decision: ClusterDecision;
}

/** What is to be written, and the status to report. Applied once, the next schedule changes nothing. */
export interface Schedule {
  readonly create: readonly ResourceBinding[];
  /** Bindings of an older policy, and Unscheduled ones, whose clusters are picked. */
  readonly patch: readonly PatchedBinding[];
  readonly unschedule: readonly ResourceBinding[];
  /** Bindings that are being deleted and wait for the scheduler. */
  readonly release: readonly ResourceBinding[];
  readonly outcome: Outcome;
}

/** Decides about one placement. Pure; the same input gives the same schedule. */
export function schedule(task: Task): Schedule {
  const { policy } = task;
  const bindings = classifyBindings(task);
  const release = bindings.deleting.filter(hasSchedulerFinalizer);
  if (policy.problems.length > 0) return untouched(task, bindings, release);
  const choice = choose(task, bindings);
  const changes = changesOf(task, bindings, choice);
  const kept = [...bindings.current.values(), ...bindings.lost].filter((it) => !choice.dropped.includes(it));
  return { ...changes, release, outcome: outcomeOf(task, kept, choice) };
}

export function choose(task: Task, bindings: ClassifiedBindings): Choice {
  switch (task.policy.type) {
    case "PickAll":
      return chooseAll(task, bindings);
    case "PickFixed":
      return chooseNamed(task, bindings);
    case "PickN":
      return chooseBest(task, bindings);
    default:
      return task.policy.type satisfies never;
  }
}

function changesOf(
  { placement, snapshot }: Task,
  { current, obsolete, unscheduled, dangling, deleting }: ClassifiedBindings,
  { picked, dropped }: Choice,
): Omit<Schedule, "release" | "outcome"> {
  const names = new Set(picked.map((it) => it.cluster.name));
  // A name is free again when the binding that is being deleted is gone.
  const taken = new Set(deleting.map((it) => it.metadata.name));
  const create: ResourceBinding[] = [];
  // The policy says the same under the name of another snapshot.
  const patch = [...current.values()]
    .filter((it) => it.spec.schedulingPolicySnapshotName !== snapshot.name && !dropped.includes(it))
    .map((it): PatchedBinding => ({ binding: it, state: it.spec.state, decision: it.spec.clusterDecision }));
  for (const candidate of picked) {
    const cluster = candidate.cluster.name;
    const decision = decisionOf(candidate);
    const [old, removed] = [obsolete.get(cluster), unscheduled.get(cluster)];
    if (old !== undefined) patch.push({ binding: old, state: old.spec.state, decision });
    else if (removed !== undefined) patch.push({ binding: removed, state: previousState(removed), decision });
    else {
      const binding = newBinding(placement, snapshot, decision);
      if (!taken.has(binding.metadata.name)) create.push(binding);
    }
  }
  const unpicked = [...obsolete.values()].filter((it) => !names.has(it.spec.targetCluster));
  return { create, patch, unschedule: [...dangling, ...unpicked, ...dropped] };
}

/** A policy that cannot be read changes nothing. */
function untouched(task: Task, bindings: ClassifiedBindings, release: readonly ResourceBinding[]): Schedule {
  const kept = [...bindings.current.values(), ...bindings.obsolete.values(), ...bindings.lost].toSorted(
    (a, b) => byText(a.spec.targetCluster, b.spec.targetCluster),
  );
  const choice: Choice = { picked: [], dropped: [], unselected: [], isFulfilled: false };
  return {
    create: [],
    patch: [],
    unschedule: bindings.dangling,
    release,
    outcome: outcomeOf(task, kept, choice),
  };
}
