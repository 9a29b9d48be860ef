import { type CoreEvent, EVENTS, type ObjectReference } from "#api/core/v1/types.ts";
import { objectKey } from "#api/meta/key.ts";
import { apiVersionOf, type Resource } from "#api/meta/resource.ts";
import type { KubeObject } from "#api/meta/types.ts";
import { hasCode, messageOf } from "#base/errors.ts";
import { timestamp } from "./conditions.ts";
import type { RuntimeDeps } from "./deps.ts";
import type { KubeClient } from "./types.ts";

/** Tells people, through `kubectl describe`, what was decided about an object. */
export interface EventRecorder {
  /**
   * Returns at once; a failure to write is logged, not thrown. The same event again raises the count of the first.
   *
   * @param reason - UpperCamelCase, for machines. `message` is for people.
   */
  record<T extends KubeObject>(
    of: Resource<T>,
    object: T,
    event: { readonly type: "Normal" | "Warning"; readonly reason: string; readonly message: string },
  ): void;
  /** Resolves once all that was recorded so far is written or given up. */
  flushed(): Promise<void>;
}

/** client-go's: how many different events are remembered, and how many a source may write about one object. */
const MAX_REMEMBERED = 4096;
const BURST_PER_OBJECT = 25;
const REFILL_MS = 300_000;

interface Remembered {
  event: CoreEvent;
}

interface Budget {
  tokens: number;
  atMs: number;
}

/** @param component - Who speaks: the controller's name. */
export function createEventRecorder(client: KubeClient, component: string, deps: RuntimeDeps): EventRecorder {
  const remembered = new Map<string, Remembered>();
  const budgets = new Map<string, Budget>();
  // One after another: a count is raised on what the write before it left.
  let last: Promise<void> = Promise.resolve();

  function mayWrite(about: string): boolean {
    const nowMs = deps.clock.monotonic();
    const budget = budgets.get(about) ?? { tokens: BURST_PER_OBJECT, atMs: nowMs };
    const tokens = Math.min(BURST_PER_OBJECT, budget.tokens + (nowMs - budget.atMs) / REFILL_MS);
    remember(budgets, about, { tokens: tokens < 1 ? tokens : tokens - 1, atMs: nowMs });
    return tokens >= 1;
  }

  async function write(key: string, event: CoreEvent): Promise<void> {
    const before = remembered.get(key)?.event;
    const count = (before?.count ?? 0) + 1;
    const namespace = event.metadata.namespace;
    try {
      const stored =
        (before === undefined
          ? undefined
          : await raise(client, before, { count, at: event.lastTimestamp ?? null })) ??
        (await client.create(EVENTS, event));
      remember(remembered, key, { event: stored });
    } catch (error) {
      // The namespace is going away: nobody will read it.
      if (hasCode(error, "API_NOT_FOUND", "API_FORBIDDEN")) return;
      deps.log.warn("an event could not be written", {
        namespace,
        reason: event.reason,
        error: messageOf(error),
      });
    }
  }

  return {
    record(of, object, { type, reason, message }) {
      const involvedObject = referenceTo(of, object);
      const about = [object.metadata.uid, of.kind, object.metadata.namespace, object.metadata.name].join("/");
      if (!mayWrite(about)) return;
      const now = timestamp(deps.clock.now());
      const event: CoreEvent = {
        metadata: { namespace: object.metadata.namespace ?? "default", name: eventName(object, deps) },
        involvedObject,
        type,
        reason,
        message: message.slice(0, 1024),
        count: 1,
        firstTimestamp: now,
        lastTimestamp: now,
        source: { component },
        reportingComponent: component,
        reportingInstance: "",
      };
      last = last.then(() => write([about, type, reason, message].join("\n"), event));
    },
    flushed: () => last,
  };
}

/** Undefined when the first event is gone: events live an hour. */
async function raise(
  client: KubeClient,
  before: CoreEvent,
  next: { readonly count: number; readonly at: string | null },
): Promise<CoreEvent | undefined> {
  const key = objectKey(before.metadata.namespace, before.metadata.name);
  try {
    return await client.mergePatch(EVENTS, key, { count: next.count, lastTimestamp: next.at });
  } catch (error) {
    if (hasCode(error, "API_NOT_FOUND")) return undefined;
    throw error;
  }
}

function referenceTo(of: Resource, object: KubeObject): ObjectReference {
  const { namespace, name, uid, resourceVersion } = object.metadata;
  return {
    apiVersion: apiVersionOf(of),
    kind: of.kind,
    name,
    ...(namespace === undefined ? {} : { namespace }),
    ...(uid === undefined ? {} : { uid }),
    ...(resourceVersion === undefined ? {} : { resourceVersion }),
  };
}

/** "name.hex", as client-go names them; the hex part is the time, made unique by chance. */
function eventName(object: KubeObject, deps: RuntimeDeps): string {
  const time = Math.floor(deps.clock.now()).toString(16);
  const chance = Math.floor(deps.rng.random() * 0x1_0000_0000)
    .toString(16)
    .padStart(8, "0");
  return `${object.metadata.name.slice(0, 230)}.${time}${chance}`;
}

/** Newest last; the oldest goes when there are too many. */
function remember<V>(map: Map<string, V>, key: string, value: V): void {
  map.delete(key);
  map.set(key, value);
  if (map.size <= MAX_REMEMBERED) return;
  const [oldest] = map.keys();
  if (oldest !== undefined) map.delete(oldest);
}
