import type { EventText } from "#placement/status/events.ts";
import type { StagedUpdateRun } from "#api/placement.kubernetes-fleet.io/v1beta1/staged.ts";

/** Reasons of a run that become Events: not each step. */
const EVENTS: Readonly<Record<string, "Normal" | "Warning">> = {
  UpdateRunInitializedFailed: "Warning",
  UpdateRunWaiting: "Normal",
  UpdateRunStuck: "Warning",
  UpdateRunStopped: "Normal",
  UpdateRunFailed: "Warning",
  UpdateRunSucceeded: "Normal",
};

/** The Event of a change of a run; undefined if it is not reported. */
export function eventOfRun(before: StagedUpdateRun, after: StagedUpdateRun): EventText | undefined {
  const [was, is] = [before, after].map((it) => it.status?.conditions?.at(-1));
  const type = EVENTS[is?.reason ?? ""];
  if (is === undefined || type === undefined) return undefined;
  if (was?.reason === is.reason && was.message === is.message) return undefined;
  return { type, reason: is.reason, message: is.message };
}
