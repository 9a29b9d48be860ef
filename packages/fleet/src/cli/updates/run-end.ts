import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { waitFor } from "@fairlead/kube/informer/wait.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { UPDATE_RUNS, type UpdateRun, type UpdateState } from "#api/fairlead.dev/v1alpha1/updates.ts";
import { hasEnded } from "#updates/clusters/needs.ts";

/** The end of update runs: waited for, and deleted. */

const stateOf = (run: UpdateRun): UpdateState => run.status?.status.state ?? "NotStarted";

const IN_PROGRESS: ReadonlySet<UpdateState> = new Set(["Running", "Pending", "Stopping"]);

/**
 * Deletes a run.
 *
 * @throws {FleetError} `PRECONDITION_FAILED` where it is in progress: members would be left in the middle of an upgrade without a judgement of it.
 */
export async function deleteRun(hub: KubeClient, run: UpdateRun, signal: AbortSignal): Promise<void> {
  const { name } = run.metadata;
  const state = stateOf(run);
  if (IN_PROGRESS.has(state)) {
    const next =
      state === "Stopping"
        ? `wait until it is Stopped, with "fairlead updaterun wait ${name} --for Stopped"`
        : `stop it first, with "fairlead updaterun stop ${name}"`;
    throw new FleetError("PRECONDITION_FAILED", `cannot delete run ${name}: it is ${state}; ${next}`);
  }
  await hub.delete(UPDATE_RUNS, objectKey(undefined, name), { signal });
}

interface Wait {
  readonly name: string;
  /** Undefined: any in which it has ended. */
  readonly state: UpdateState | undefined;
  /** Unit: milliseconds. */
  readonly timeoutMs: number;
}

/**
 * Waits until a run has a state.
 *
 * @throws {FleetError} `PRECONDITION_FAILED` if it ends in another one, `API_NOT_FOUND` if it is deleted, `TIMED_OUT` with its state.
 */
export async function untilState(
  hub: KubeClient,
  { name, state, timeoutMs }: Wait,
  deps: RuntimeDeps,
  signal: AbortSignal,
): Promise<UpdateRun> {
  const run = await waitFor(
    hub,
    {
      of: UPDATE_RUNS,
      key: objectKey(undefined, name),
      timeoutMs,
      until: (it) => it === undefined || stateOf(it) === state || hasEnded(it),
      message: (it) =>
        `run ${name} is ${it === undefined ? "not known" : stateOf(it)} after ${timeoutMs / 1000} s; see "fairlead updaterun status ${name}"`,
    },
    deps,
    signal,
  );
  if (run === undefined) throw new FleetError("API_NOT_FOUND", `run ${name} was deleted`);
  const ended = stateOf(run);
  if (state !== undefined && ended !== state)
    throw new FleetError(
      "PRECONDITION_FAILED",
      `run ${name} has ended as ${ended}, and cannot become ${state}`,
    );
  return run;
}
