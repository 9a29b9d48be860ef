import type { Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Clock } from "@fairlead/base/clock.ts";
import type { Informer } from "@fairlead/kube/types.ts";

/** The longest wait for a pod that was created and deleted between two watches. */
const FORGET_AFTER_MS = 30_000;

interface Pending {
  readonly sinceMs: number;
  readonly created: Set<ObjectKey>;
  readonly deleted: Map<ObjectKey, string>;
}

/**
 * What was done and has not come back through the watch yet. Until it has, the cache counts too few or too many pods,
 * and a pass that believed it would make a pod too many. Source: client-go's "expectations" in controller_utils.go.
 */
export class Expectations implements Disposable {
  readonly #pods: Informer<Pod>;
  readonly #clock: Clock;
  readonly #pending = new Map<string, Pending>();
  readonly #ownerOf = new Map<ObjectKey, string>();
  readonly #subscription: Disposable;

  constructor(pods: Informer<Pod>, clock: Clock) {
    this.#pods = pods;
    this.#clock = clock;
    this.#subscription = pods.subscribe(({ key }) => this.forgetCreated(key));
  }

  /** Called before the request: the watch may be quicker than the answer. */
  expectCreated(owner: string, pod: ObjectKey): void {
    this.#of(owner).created.add(pod);
    this.#ownerOf.set(pod, owner);
  }

  expectDeleted(owner: string, pod: Pod): void {
    this.#of(owner).deleted.set(keyOf(pod), pod.metadata.uid ?? "");
  }

  /** The pod was seen, or the request failed. */
  forgetCreated(pod: ObjectKey): void {
    const owner = this.#ownerOf.get(pod);
    if (owner === undefined) return;
    this.#ownerOf.delete(pod);
    this.#pending.get(owner)?.created.delete(pod);
  }

  forgetDeleted(owner: string, pod: Pod): void {
    this.#pending.get(owner)?.deleted.delete(keyOf(pod));
  }

  /** Whether the cache has caught up with the writes for `owner`. */
  isMet(owner: string): boolean {
    const pending = this.#pending.get(owner);
    if (pending === undefined) return true;
    for (const [key, uid] of pending.deleted) {
      const pod = this.#pods.store.get(key);
      const isGone = pod?.metadata.uid !== uid || pod.metadata.deletionTimestamp !== undefined;
      if (isGone) pending.deleted.delete(key);
    }
    const isOld = this.#clock.monotonic() - pending.sinceMs > FORGET_AFTER_MS;
    if (pending.created.size + pending.deleted.size > 0 && !isOld) return false;
    for (const key of pending.created) this.#ownerOf.delete(key);
    this.#pending.delete(owner);
    return true;
  }

  [Symbol.dispose](): void {
    this.#subscription[Symbol.dispose]();
  }

  #of(owner: string): Pending {
    let pending = this.#pending.get(owner);
    if (pending === undefined) {
      pending = { sinceMs: this.#clock.monotonic(), created: new Set(), deleted: new Map() };
      this.#pending.set(owner, pending);
    }
    return pending;
  }
}
