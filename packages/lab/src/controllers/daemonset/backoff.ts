import type { ObjectKey } from "@fairlead/kube/api/meta/key.ts";

const FIRST_MS = 1000;
const LONGEST_MS = 900_000;

interface Entry {
  readonly delayMs: number;
  readonly sinceMs: number;
}

/** How long a set waits before it removes the next failed pod of a node: 1 s, 2 s, 4 s and so on up to 15 minutes. */
export class FailureBackoff {
  readonly #entries = new Map<ObjectKey, Map<string, Entry>>();

  leftMs(set: ObjectKey, node: string, nowMs: number): number {
    const entry = this.#entries.get(set)?.get(node);
    return entry === undefined ? 0 : Math.max(0, entry.sinceMs + entry.delayMs - nowMs);
  }

  /** A pod failed and is replaced. After twice the longest delay without a failure the delay is reset. */
  note(set: ObjectKey, node: string, nowMs: number): void {
    const nodes = this.#entries.get(set) ?? new Map<string, Entry>();
    this.#entries.set(set, nodes);
    const before = nodes.get(node);
    const isFresh = before === undefined || nowMs - before.sinceMs > 2 * LONGEST_MS;
    nodes.set(node, {
      delayMs: isFresh ? FIRST_MS : Math.min(LONGEST_MS, before.delayMs * 2),
      sinceMs: nowMs,
    });
  }

  forget(set: ObjectKey): void {
    this.#entries.delete(set);
  }
}
