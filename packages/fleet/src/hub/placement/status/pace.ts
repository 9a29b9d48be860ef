import type { Clock } from "@fairlead/base/clock.ts";
import type { ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import type { ResourceBinding } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { AVAILABLE, currentCondition, DIFF_REPORTED } from "#placement/conditions.ts";
import { hasFailed } from "#placement/rollout/readiness.ts";
import { OwnPace, PaceUnderWay } from "../pace.ts";

/** Of all writes, by clusters: a status is as large as they are many. */
const LEAST = { perItemMs: 1, few: 20, maxMs: 1000 };
/**
 * The pace of writes while a rollout is under way, by its clusters: each of them changes the status several times. On few clusters it is mostly
 * over before a person has looked, and then the status is written once.
 */
const UNDER_WAY = { perItemMs: 5, few: 40, leastMs: 200, maxMs: 2000 };
/** And by the clusters of all rollouts that are: together they take a small share of what the API server can do. */
const ALL_UNDER_WAY = { perItemMs: 1, few: 1000, maxMs: 10_000 };

/**
 * When the status of a placement is written: seldom while its clusters change, the first time as well, and at once when the last of
 * them has answered.
 */
export class StatusPace {
  readonly #least: OwnPace;
  readonly #underWay: PaceUnderWay;
  /** A binding of each placement that had not answered when it was asked last: as long as it has not, no other is looked at. */
  readonly #open = new Map<ObjectKey, string>();

  constructor(clock: Clock) {
    this.#least = new OwnPace(clock, LEAST);
    this.#underWay = new PaceUnderWay(clock, UNDER_WAY, ALL_UNDER_WAY);
  }

  /**
   * How much longer to wait before the next write. Unit: milliseconds.
   *
   * @param isDecided - Whether the bindings are those of the clusters that are picked for the placement as it is now.
   */
  waitMs(key: ObjectKey, bindings: readonly ResourceBinding[], isDecided: boolean): number {
    const leastMs = this.#least.waitMs(key);
    if (!isDecided || this.#isUnderWay(key, bindings))
      return Math.max(leastMs, this.#underWay.waitMs(key, bindings.length));
    this.#underWay.close(key);
    return leastMs;
  }

  /** Until every cluster has answered, and all have the same resources. */
  #isUnderWay(key: ObjectKey, bindings: readonly ResourceBinding[]): boolean {
    const name = this.#open.get(key);
    const known = name === undefined ? undefined : bindings.find((it) => it.metadata.name === name);
    if (known !== undefined && isOpen(known)) return true;
    const open = bindings.find(isOpen);
    if (open === undefined) this.#open.delete(key);
    else this.#open.set(key, open.metadata.name);
    return open !== undefined || !areAlike(bindings);
  }

  /** A status was written, of so many clusters. */
  note(key: ObjectKey, clusters: number): void {
    this.#least.note(key, clusters);
    this.#underWay.note(key, clusters);
  }

  forget(key: ObjectKey): void {
    this.#least.forget(key);
    this.#underWay.forget(key);
    this.#open.delete(key);
  }
}

function isOpen(binding: ResourceBinding): boolean {
  return binding.spec.state !== "Unscheduled" && !hasAnswered(binding);
}

/** Whether those that stay have the same resources. */
function areAlike(bindings: readonly ResourceBinding[]): boolean {
  const [first, ...others] = bindings.filter((it) => it.spec.state !== "Unscheduled");
  return others.every((it) => it.spec.resourceSnapshotName === first?.spec.resourceSnapshotName);
}

function hasAnswered(binding: ResourceBinding): boolean {
  const states = [AVAILABLE, DIFF_REPORTED].map((it) => currentCondition(binding, it)?.status);
  return states.some((it) => it === "True" || it === "False") || hasFailed(binding);
}
