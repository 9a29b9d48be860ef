import { apiVersionOf, type Resource } from "#api/meta/resource.ts";
import type { KubeObject } from "#api/meta/types.ts";
import { abortError } from "@fairlead/base/clock.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { cloneJson } from "@fairlead/base/json.ts";
import { type FakeApiState, type HistoryEntry, storeName } from "./server.fake.ts";
import type { WatchEvent } from "#types.ts";

export const INITIAL_EVENTS_END = "k8s.io/initial-events-end";

/** The changes of one kind from now on, buffered until they are read. */
export class WatchStream implements Disposable {
  readonly #of: Resource;
  readonly #matches: (object: KubeObject) => boolean;
  readonly #subscription: Disposable;
  #buffer: WatchEvent<KubeObject>[] = [];
  #isBroken = false;
  #wake: () => void = () => {};

  constructor(state: FakeApiState, of: Resource, matches: (object: KubeObject) => boolean) {
    this.#of = of;
    this.#matches = matches;
    this.#subscription = state.onChange((entry) => {
      if (entry === undefined) this.#isBroken = true;
      else this.replay([entry]);
      this.#wake();
    });
  }

  replay(entries: readonly HistoryEntry[]): void {
    for (const entry of entries) {
      const type = entry.of === storeName(this.#of) ? typeFor(entry, this.#matches) : undefined;
      if (type !== undefined) this.#buffer.push(event(type, entry.object));
    }
  }

  async *events(signal: AbortSignal): AsyncGenerator<WatchEvent<KubeObject>> {
    const onAbort = (): void => this.#wake();
    signal.addEventListener("abort", onAbort);
    try {
      for (;;) {
        if (signal.aborted) throw abortError(signal);
        if (this.#isBroken) throw unreachable();
        const next = this.#buffer.shift();
        if (next === undefined) await this.#woken();
        else yield next;
      }
    } finally {
      signal.removeEventListener("abort", onAbort);
    }
  }

  [Symbol.dispose](): void {
    this.#subscription[Symbol.dispose]();
  }

  #woken(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }
}

/** The change that a watch with a selector sees: an object that begins to match is added, one that ceases to is deleted. */
function typeFor(
  entry: HistoryEntry,
  matches: (object: KubeObject) => boolean,
): "ADDED" | "MODIFIED" | "DELETED" | undefined {
  const wasThere = entry.before !== undefined && matches(entry.before);
  const isThere = entry.type !== "DELETED" && matches(entry.object);
  if (wasThere) return isThere ? "MODIFIED" : "DELETED";
  return isThere ? "ADDED" : undefined;
}

export function event(type: "ADDED" | "MODIFIED" | "DELETED", object: KubeObject): WatchEvent<never> {
  return { type, object: cloneJson(object) as never };
}

export function bookmark(
  of: Resource,
  version: number,
  annotations: Record<string, string>,
): WatchEvent<never> {
  const metadata = { resourceVersion: String(version), annotations };
  return { type: "BOOKMARK", object: { apiVersion: apiVersionOf(of), kind: of.kind, metadata } as never };
}

export function goneEvent(version: number): WatchEvent<never> {
  const message = `too old resource version: ${version}`;
  const failed = { kind: "Status", apiVersion: "v1", metadata: {}, status: "Failure" } as const;
  return { type: "ERROR", object: { ...failed, code: 410, reason: "Expired", message } };
}

export function unreachable(): FleetError {
  return new FleetError("API_UNAVAILABLE", "the fake API server does not answer", { retriable: true });
}
