import type { UpdateState } from "#api/fairlead.dev/v1alpha1/updates.ts";

/** The states of runs, stages, groups, members, gates and waits (Azure Kubernetes Fleet Manager, `UpdateState`). */

export const TRANSITIONS: Readonly<Record<UpdateState, readonly UpdateState[]>> = {
  NotStarted: ["Running", "Pending"],
  Running: ["Pending", "Stopping", "Stopped", "Failed", "Completed"],
  Pending: ["Running", "Stopped", "Failed"],
  Stopping: ["Stopped", "Failed"],
  Stopped: ["Running", "Pending", "Failed"],
  Failed: ["Running", "Pending", "Failed"],
  Skipped: [],
  Completed: [],
};

export type RunAction = "start" | "stop" | "skip";

export const ALLOWED_ACTIONS: Readonly<Record<UpdateState, readonly RunAction[]>> = {
  NotStarted: ["start"],
  Running: ["stop", "skip"],
  Pending: ["stop", "skip"],
  Stopping: [],
  Stopped: ["start"],
  Failed: ["start"],
  Skipped: [],
  Completed: [],
};

export function isFinal(state: UpdateState): boolean {
  return state === "Completed" || state === "Skipped";
}
