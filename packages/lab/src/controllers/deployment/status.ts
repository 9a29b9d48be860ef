import { defined } from "@fairlead/base/defined.ts";
import type { Deployment, ReplicaSet, WorkloadCondition } from "@fairlead/kube/api/apps/v1/types.ts";
import type { Clock } from "@fairlead/base/clock.ts";
import {
  findCondition,
  removeCondition,
  setCondition,
  timestamp,
} from "@fairlead/kube/objects/conditions.ts";
import { boundsOf, replicasOf, sumOf } from "./rollout.ts";

/** What a Deployment reports. Source: pkg/controller/deployment/{sync,progress}.go. */

type DeploymentStatus = NonNullable<Deployment["status"]>;
type NextCondition = Omit<WorkloadCondition, "lastTransitionTime" | "lastUpdateTime">;

export interface StatusView {
  readonly deployment: Deployment;
  readonly newSet: ReplicaSet | undefined;
  readonly oldSets: readonly ReplicaSet[];
  /** Whether `newSet` was made in this very pass: a rollout begins. */
  readonly isNew: boolean;
  readonly clock: Clock;
}

export interface StatusPlan {
  readonly status: DeploymentStatus;
  /** When the rollout will have taken too long. Unit: milliseconds from now. */
  readonly deadlineInMs: number | undefined;
}

export function planStatus(view: StatusView): StatusPlan {
  const counts = countsOf(view);
  const { generation } = view.deployment.metadata;
  let conditions = availability(view, counts);
  const { condition, deadlineInMs } = progress(view, counts);
  if (condition !== undefined) conditions = withCondition(conditions, condition, view.clock);
  const failure = view.newSet?.status?.conditions?.find((it) => it.type === "ReplicaFailure");
  conditions =
    failure === undefined
      ? removeCondition(conditions, "ReplicaFailure")
      : withCondition(conditions, bare(failure), view.clock);
  const status = {
    ...counts,
    ...defined({ observedGeneration: generation }),
    conditions,
  };
  return { status, deadlineInMs };
}

type Counts = Required<
  Pick<
    DeploymentStatus,
    | "replicas"
    | "updatedReplicas"
    | "readyReplicas"
    | "availableReplicas"
    | "unavailableReplicas"
    | "terminatingReplicas"
  >
>;

function countsOf({ newSet, oldSets }: StatusView): Counts {
  const sets = [...(newSet === undefined ? [] : [newSet]), ...oldSets];
  const availableReplicas = sumOf(sets, (set) => set.status?.availableReplicas ?? 0);
  return {
    replicas: sumOf(sets, (set) => set.status?.replicas ?? 0),
    updatedReplicas: newSet?.status?.replicas ?? 0,
    readyReplicas: sumOf(sets, (set) => set.status?.readyReplicas ?? 0),
    availableReplicas,
    terminatingReplicas: sumOf(sets, (set) => set.status?.terminatingReplicas ?? 0),
    unavailableReplicas: Math.max(0, sumOf(sets, replicasOf) - availableReplicas),
  };
}

function availability({ deployment, clock }: StatusView, counts: Counts): WorkloadCondition[] {
  const { replicas, maxUnavailable } = boundsOf(deployment);
  const isAvailable = counts.availableReplicas >= replicas - maxUnavailable;
  return withCondition(
    deployment.status?.conditions,
    isAvailable
      ? {
          type: "Available",
          status: "True",
          reason: "MinimumReplicasAvailable",
          message: "Deployment has minimum availability.",
        }
      : {
          type: "Available",
          status: "False",
          reason: "MinimumReplicasUnavailable",
          message: "Deployment does not have minimum availability.",
        },
    clock,
  );
}

interface Progress {
  /** Undefined: as it was. */
  readonly condition?: NextCondition;
  readonly deadlineInMs: number | undefined;
}

function progress(view: StatusView, counts: Counts): Progress {
  const { deployment, newSet, oldSets, isNew } = view;
  const present = findCondition(deployment.status?.conditions, "Progressing");
  const name =
    newSet === undefined
      ? `Deployment "${deployment.metadata.name}"`
      : `ReplicaSet "${newSet.metadata.name}"`;
  if (isNew)
    return moving(deployment, "NewReplicaSetCreated", `Created new replica set "${newSet?.metadata.name}"`);
  // After the rollout is complete, a failing pod does not start a new one.
  const isSettled =
    present?.reason === "NewReplicaSetAvailable" && counts.replicas === counts.updatedReplicas;
  if (isSettled) return { deadlineInMs: undefined };
  if (isRolledOut(deployment, counts) && sumOf(oldSets, replicasOf) === 0) {
    const message = `${name} has successfully progressed.`;
    return { condition: progressing("True", "NewReplicaSetAvailable", message), deadlineInMs: undefined };
  }
  if (hasProgressed(deployment, counts) || present === undefined)
    return moving(deployment, "ReplicaSetUpdated", `${name} is progressing.`);
  return stalled(view, present, name);
}

function moving(deployment: Deployment, reason: string, message: string): Progress {
  return { condition: progressing("True", reason, message), deadlineInMs: deadlineMs(deployment) };
}

/** Nothing moved since the last look: in time, or for too long. */
function stalled({ deployment, clock }: StatusView, present: WorkloadCondition, name: string): Progress {
  const isOver = deployment.spec?.paused === true || present.reason === "ProgressDeadlineExceeded";
  if (isOver) return { deadlineInMs: undefined };
  const sinceMs = Date.parse(present.lastUpdateTime ?? present.lastTransitionTime ?? "");
  const leftMs = sinceMs + deadlineMs(deployment) - clock.now();
  if (leftMs > 0) return { deadlineInMs: leftMs };
  const message = `${name} has timed out progressing.`;
  return { condition: progressing("False", "ProgressDeadlineExceeded", message), deadlineInMs: undefined };
}

function deadlineMs(deployment: Deployment): number {
  return (deployment.spec?.progressDeadlineSeconds ?? 600) * 1000;
}

function progressing(status: "True" | "False", reason: string, message: string): NextCondition {
  return { type: "Progressing", status, reason, message };
}

function isRolledOut(deployment: Deployment, counts: Counts): boolean {
  const { replicas } = boundsOf(deployment);
  return (
    counts.updatedReplicas === replicas &&
    counts.replicas === replicas &&
    counts.availableReplicas === replicas
  );
}

/** More new pods, fewer old ones, or more that are ready or available than at the last look. */
function hasProgressed(deployment: Deployment, counts: Counts): boolean {
  const before = deployment.status ?? {};
  const { updatedReplicas = 0, replicas = 0, readyReplicas = 0, availableReplicas = 0 } = before;
  return (
    counts.updatedReplicas > updatedReplicas ||
    counts.replicas - counts.updatedReplicas < replicas - updatedReplicas ||
    counts.readyReplicas > readyReplicas ||
    counts.availableReplicas > availableReplicas
  );
}

/** `lastUpdateTime` says when the rollout last moved: it counts against the deadline. */
function withCondition(
  conditions: WorkloadCondition[] | undefined,
  next: NextCondition,
  clock: Clock,
): WorkloadCondition[] {
  const present = findCondition(conditions, next.type);
  const isSame =
    present?.status === next.status && present.reason === next.reason && present.message === next.message;
  if (isSame && next.reason !== "ReplicaSetUpdated" && conditions !== undefined) return conditions;
  return setCondition<WorkloadCondition>(
    conditions,
    { ...next, lastUpdateTime: timestamp(clock.now()) },
    clock,
  );
}

function bare({ type, status, reason, message }: WorkloadCondition): NextCondition {
  return {
    type,
    status,
    ...defined({ reason, message }),
  };
}
