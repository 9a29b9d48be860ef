import { defined } from "@fairlead/base/defined.ts";
import { type CoreEvent, EVENTS, type ObjectReference } from "#api/core/v1/types.ts";
import { objectKey } from "#api/meta/key.ts";
import { apiVersionOf, type Resource } from "#api/meta/resource.ts";
import type { KubeObject } from "#api/meta/types.ts";
import { hasCode, messageOf } from "@fairlead/base/errors.ts";
import { timestamp } from "#objects/conditions.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { KubeClient } from "#types.ts";

/** Reports, through `kubectl describe`, what was decided about an object. */
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

/** client-go's: how many different events are remembered. */
const MAX_REMEMBERED = 4096;

/** How many events a source may write about one object. */
export interface EventLimits {
  readonly burst: number;
  /** Time for one more. Unit: milliseconds. */
  readonly refillMs: number;
  /** That many messages of one reason in ten minutes are separate events; further ones share an event. */
  readonly similar: number;
}

const CLIENT_GO: EventLimits = { burst: 25, refillMs: 300_000, similar: 10 };
const SIMILAR_MS = 600_000;
const COMBINED = "(combined from similar events): ";

interface Remembered {
  event: CoreEvent;
}

/** Waits to be written, and counts repeats until then. */
interface Pending {
  event: CoreEvent;
  times: number;
}

interface Similar {
  readonly messages: Set<string>;
  sinceMs: number;
}

interface Budget {
  tokens: number;
  atMs: number;
}

/**
 * @param component - Who speaks: the controller's name.
 * @param limits - Default: those of client-go.
 */
export function createEventRecorder(
  client: KubeClient,
  component: string,
  deps: RuntimeDeps,
  { burst, refillMs, similar: maxSimilar }: EventLimits = CLIENT_GO,
): EventRecorder {
  const remembered = new Map<string, Remembered>();
  const budgets = new Map<string, Budget>();
  const similar = new Map<string, Similar>();
  const pending = new Map<string, Pending>();
  // One after another: a count is raised on what the write before it left.
  let last: Promise<void> = Promise.resolve();

  function mayWrite(about: string): boolean {
    const nowMs = deps.clock.monotonic();
    const budget = budgets.get(about) ?? { tokens: burst, atMs: nowMs };
    const tokens = Math.min(burst, budget.tokens + (nowMs - budget.atMs) / refillMs);
    remember(budgets, about, { tokens: tokens < 1 ? tokens : tokens - 1, atMs: nowMs });
    return tokens >= 1;
  }

  /** Whether a message is one too many of its kind. */
  function isCombined(kind: string, message: string): boolean {
    const nowMs = deps.clock.monotonic();
    const known = similar.get(kind);
    const isOld = known === undefined || nowMs - known.sinceMs > SIMILAR_MS;
    const group = isOld ? { messages: new Set<string>(), sinceMs: nowMs } : known;
    remember(similar, kind, group);
    if (group.messages.has(message)) return false;
    if (group.messages.size >= maxSimilar) return true;
    group.messages.add(message);
    return false;
  }

  async function write(key: string): Promise<void> {
    const { event, times } = pending.get(key) ?? {};
    pending.delete(key);
    if (event === undefined || times === undefined) return;
    const before = remembered.get(key)?.event;
    const count = (before?.count ?? 0) + times;
    const namespace = event.metadata.namespace;
    try {
      const stored =
        (before === undefined ? undefined : await raise(client, before, { ...event, count })) ??
        (await client.create(EVENTS, { ...event, count }));
      remember(remembered, key, { event: stored });
    } catch (error) {
      // The namespace is terminating, so the event would not be read.
      if (hasCode(error, "API_NOT_FOUND", "API_FORBIDDEN")) return;
      deps.log.warn("cannot write an event", {
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
      const kind = [about, type, reason].join("\n");
      const hasTooMany = isCombined(kind, message);
      const key = hasTooMany ? kind : `${kind}\n${message}`;
      const waiting = pending.get(key);
      const event: CoreEvent = {
        metadata: { namespace: object.metadata.namespace ?? "default", name: eventName(object, deps) },
        involvedObject,
        type,
        reason,
        message: `${hasTooMany ? COMBINED : ""}${message}`.slice(0, 1024),
        count: 1,
        firstTimestamp: waiting?.event.firstTimestamp ?? now,
        lastTimestamp: now,
        source: { component },
        reportingComponent: component,
        reportingInstance: "",
      };
      pending.set(key, { event, times: (waiting?.times ?? 0) + 1 });
      if (waiting === undefined) last = last.then(() => write(key));
    },
    flushed: () => last,
  };
}

/** Undefined when the first event is gone: events live an hour. */
async function raise(
  client: KubeClient,
  before: CoreEvent,
  { count, lastTimestamp = null, message }: CoreEvent,
): Promise<CoreEvent | undefined> {
  const key = objectKey(before.metadata.namespace, before.metadata.name);
  try {
    return await client.mergePatch(EVENTS, key, { count, lastTimestamp, message });
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
    ...defined({ namespace, uid, resourceVersion }),
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
