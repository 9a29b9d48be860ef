import { UPDATE_RUN_MANAGER } from "#api/placement.kubernetes-fleet.io/names.ts";
import type {
  StagedUpdateRun,
  StagedUpdateRunStatus,
} from "#api/placement.kubernetes-fleet.io/v1beta1/staged.ts";
import type { Clock } from "@fairlead/base/clock.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { keyOf, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import { OwnWrites } from "@fairlead/kube/informer/own-writes.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { clustersOf, isProgressOnly } from "#updates/staged/progress.ts";
import { OF_PLACEMENT, placementOfRun, type ScopeInformers } from "../informers.ts";
import { PaceUnderWay } from "../pace.ts";

/** Of writes that only say how far the clusters of a run are, by its clusters: a status is as large as they are many. */
const UNDER_WAY = { perItemMs: 10, few: 20, maxMs: 2000 };
/** And by the clusters of all runs that are under way. */
const ALL_UNDER_WAY = { perItemMs: 1, few: 1000, maxMs: 10_000 };

/** A status that is not written yet. */
interface Ahead {
  readonly uid: string | undefined;
  /** What the API server has. */
  readonly written: StagedUpdateRunStatus | undefined;
  readonly status: StagedUpdateRunStatus;
}

/**
 * The statuses of staged update runs: how far the clusters are is written in steps, everything else at once. What is not written yet is
 * kept, and is lost with the program: the next one finds from the bindings how far they are.
 */
export class RunStatuses {
  readonly #client: KubeClient;
  readonly #of: ScopeInformers;
  readonly #runs: OwnWrites<StagedUpdateRun>;
  readonly #ahead = new Map<ObjectKey, Ahead>();
  readonly #pace: PaceUnderWay;

  constructor(client: KubeClient, of: ScopeInformers, clock: Clock) {
    this.#client = client;
    this.#of = of;
    this.#runs = new OwnWrites({ informer: of.runs, index: OF_PLACEMENT, valueOf: placementOfRun, clock });
    this.#pace = new PaceUnderWay(clock, UNDER_WAY, ALL_UNDER_WAY);
  }

  /** A run with its newest status, written or not. */
  get(key: ObjectKey): StagedUpdateRun | undefined {
    const run = this.#runs.get(key);
    const ahead = this.#ahead.get(key);
    if (run === undefined || ahead === undefined) return run;
    if (run.metadata.uid === ahead.uid && sameJson(run.status, ahead.written))
      return { ...run, status: ahead.status };
    this.#ahead.delete(key);
    return run;
  }

  forget(key: ObjectKey): void {
    this.#ahead.delete(key);
    this.#pace.forget(key);
  }

  /**
   * Writes only the fields that change, and only onto the version that was read: an older status must not undo a newer one.
   *
   * @param run - As `get` returned it, or a newer version of it.
   * @returns How much longer the status waits to be written; 0 if nothing is left to write. Unit: milliseconds.
   */
  async write(run: StagedUpdateRun, status: StagedUpdateRunStatus, signal: AbortSignal): Promise<number> {
    const key = keyOf(run);
    const ahead = this.#ahead.get(key);
    const written = ahead === undefined ? run.status : ahead.written;
    const before: Readonly<Record<string, unknown>> = { ...written };
    const changed = Object.entries(status).filter(([field, value]) => !sameJson(before[field], value));
    if (changed.length === 0) return 0;
    if (written !== undefined && isProgressOnly(written, status)) {
      const waitMs = this.#pace.waitMs(key, clustersOf(status));
      if (waitMs > 0) {
        this.#ahead.set(key, { uid: run.metadata.uid, written, status });
        return waitMs;
      }
    }
    // If it fails, the next pass begins with what the API server has.
    this.#ahead.delete(key);
    this.#pace.note(key, clustersOf(status));
    const { resourceVersion } = run.metadata;
    const patch = { metadata: { resourceVersion }, status: Object.fromEntries(changed) };
    const options = { fieldManager: UPDATE_RUN_MANAGER, returns: "metadata", signal } as const;
    try {
      const { metadata } = await this.#client.mergePatch(this.#of.scope.runs, key, patch, {
        ...options,
        subresource: "status",
      });
      this.#runs.note({ ...run, metadata, status: { ...written, ...status } });
    } catch (error) {
      if (!hasCode(error, "API_NOT_FOUND")) throw error;
    }
    return 0;
  }
}
