import { timestamp } from "@fairlead/kube/objects/conditions.ts";
import type {
  ClusterUpgradeStatus,
  FlowCheck,
  Gate,
  ReleaseCatalog,
  UpdateRun,
  UpdateRunStatus,
  UpdateState,
  UpdateStatus,
} from "#api/fairlead.dev/v1alpha1/updates.ts";
import type { HubSupport } from "#domain/kubernetes-support.ts";
import type { UpdateMember } from "./fleet.ts";
import type { Flows } from "./flows.ts";
import type { CompileRule } from "./judge.ts";

/** A cluster as its engine reports it. */
export interface ClusterState extends ClusterUpgradeStatus {
  /** The version that our programs in it are to have. */
  components?: string;
}

/** The same, or why that is not known. */
export type Observed = ClusterState | { readonly problem: string };

export interface Facts {
  readonly nowMs: number;
  /** How far the time of day was set since the last pass over the run. Default: 0. Unit: milliseconds. */
  readonly jumpMs?: number;
  readonly members: ReadonlyMap<string, UpdateMember>;
  /** Undefined: nothing is known yet. */
  readonly observe: (member: string) => Observed | undefined;
  readonly gateState: (id: string) => Gate["spec"]["state"] | undefined;
  readonly catalogs: readonly ReleaseCatalog[];
  /** The version of the hub, and what it supports. Undefined: it does not say, and is not asked. */
  readonly hub?: HubSupport | undefined;
  /** Whether the agent of a member does not answer. Default: no. */
  readonly isSilent?: (member: string) => boolean;
  /** What other members find of one. Absent: members are not asked. */
  readonly flows?: (member: string, check: FlowCheck | undefined) => Flows;
  /** For rules of health checks. */
  readonly compile?: CompileRule | undefined;
}

/** One pass over a run: its status is changed in place, in the order in which the run proceeds. */
export interface Walk {
  readonly run: UpdateRun;
  readonly status: UpdateRunStatus;
  readonly attempt: number;
  /** Whether `spec.state` asks to stop. */
  readonly isStopping: boolean;
  readonly facts: Facts;
  /** Makes a later pass due. */
  readonly again: (atMs: number) => void;
}

/** Sets a state with its times. */
export function setState(walk: Walk, status: UpdateStatus, state: UpdateState): void {
  const now = timestamp(walk.facts.nowMs);
  if (state !== "NotStarted" && state !== "Skipped" && status.startTime === undefined) status.startTime = now;
  const isOver = state === "Completed" || state === "Skipped" || state === "Failed";
  if (!isOver) delete status.completedTime;
  else if (status.state !== state) status.completedTime = now;
  if (state !== "Failed") delete status.error;
  status.state = state;
}

export function fail(walk: Walk, status: UpdateStatus, code: string, message: string): void {
  setState(walk, status, "Failed");
  status.error = { code, message: bounded(message) };
}

/** Unit: characters. All members of a run share the size of one object. */
const MAX_MESSAGE = 500;

/** Bounds a text that has parts of what a member reports. */
export function bounded(message: string): string {
  return message.length <= MAX_MESSAGE ? message : `${message.slice(0, MAX_MESSAGE)}…`;
}

export function isKnown(observed: Observed | undefined): observed is ClusterState {
  return observed !== undefined && !("problem" in observed);
}
