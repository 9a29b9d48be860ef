import type { Clock } from "@fairlead/base/clock.ts";
import type { Rng } from "@fairlead/base/rng.ts";
import { tableId } from "#registry/catalog.ts";
import type { FieldSelector } from "#registry/field-selector.ts";
import type { Registry } from "#registry/registry.ts";
import { parseSelection, type Selection } from "#registry/selectors.ts";
import type { ResourceDefinition } from "#registry/types.ts";
import { StatusError } from "#status.ts";
import type { Store } from "#storage/store.ts";
import type { WatchHub } from "#watch/hub.ts";
import type { WatchSpec, Watcher } from "#watch/watcher.ts";
import type { Exchange } from "./exchange.ts";
import type { Form } from "./forms.ts";
import {
  type AwaitRevision,
  type ListQuery,
  parseListQuery,
  parseRevision,
  stateOf,
  tooOld,
} from "./list.ts";
import { checkWatchOptions } from "./list-options.ts";
import { isTrue } from "./path.ts";
import { type ChunkFrames, sinkOf } from "./watch-sink.ts";

/** Unit: milliseconds. */
const BOOKMARK_EVERY_MS = 60_000;
const BOOKMARK_BEFORE_END_MS = 2000;
/** A watch without `timeoutSeconds` lasts between this and twice this, so that clients do not come back together. */
const MIN_TIMEOUT_MS = 30 * 60_000;
/** The longest that a timer waits; one that is set to more fires at once. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

export interface WatchServices {
  readonly registry: Registry;
  readonly store: Store;
  readonly hub: WatchHub;
  readonly frames: ChunkFrames;
  readonly clock: Clock;
  readonly rng: Rng;
  readonly awaitRevision: AwaitRevision;
}

interface WatchQuery extends ListQuery {
  readonly allowBookmarks: boolean;
}

function parseWatchQuery({ definition, namespace, fields }: Watched, query: URLSearchParams): WatchQuery {
  const parsed = {
    ...parseListQuery(definition, namespace, query, fields),
    allowBookmarks: isTrue(query.get("allowWatchBookmarks")),
  };
  checkWatchOptions(parsed);
  return parsed;
}

interface Watched {
  readonly definition: ResourceDefinition;
  readonly namespace: string | undefined;
  readonly fields: FieldSelector;
  readonly form: Form;
}

/** Answers a watch: headers at once, then events until a timeout, the client or the server ends it. */
export async function serveWatch(services: WatchServices, exchange: Exchange, of: Watched): Promise<void> {
  const query = parseWatchQuery(of, exchange.query);
  const selection = parseSelection(of.definition, query.labelSelector, query.fields);
  const asked = parseRevision(query.resourceVersion);
  const { response } = exchange;
  exchange.startStream("application/json");
  try {
    // The state has to be as new as was asked for; changes of the future come when they come.
    const waits = query.sendInitialEvents === true && asked > services.store.revision;
    if (waits) await services.awaitRevision(asked);
    const plan = (): WatchSpec => planWatch(services.store, query, selection, of.form);
    const isConverted = of.definition.isConverted === true;
    const spec = isConverted ? await prepared(services, exchange, { ...of, plan }) : plan();
    run(services, exchange, spec, query);
  } catch (error) {
    if (!(error instanceof StatusError)) throw error;
    response.end(of.form.events.error(error));
  }
}

/** As `plan` says, with the initial state converted at once, and not object by object. */
function prepared(
  { registry }: WatchServices,
  exchange: Exchange,
  { definition, plan }: { readonly definition: ResourceDefinition; readonly plan: () => WatchSpec },
): Promise<WatchSpec> {
  const read = (): WatchSpec => {
    const spec = plan();
    definition.prepareStored?.((spec.initial ?? []).map((it) => it.object));
    return spec;
  };
  return registry.read(read, () => exchange.signal);
}

/** Where the watch starts, and with what. Throws 410 where that is no longer known. */
function planWatch(store: Store, query: WatchQuery, selection: Selection, form: Form): WatchSpec {
  const { definition } = query;
  const table = store.table(tableId(definition));
  const asked = parseRevision(query.resourceVersion);
  // The state as of now includes revision 0 ("any") and is not older than any revision that was asked for.
  const wantsState = query.sendInitialEvents ?? asked === 0;
  const revision = wantsState || asked === 0 ? store.revision : asked;
  const oldest = selection.matches === undefined ? table.log.floor : table.log.completeFrom;
  if (revision < oldest) throw tooOld(asked, oldest);
  return {
    table,
    namespace: definition.namespaced ? (query.namespace ?? selection.namespace) : undefined,
    name: selection.name,
    matches: selection.matches,
    encoder: form.events,
    revision,
    initial: wantsState ? stateOf(table, query, selection, revision) : undefined,
    marksInitialEnd: query.sendInitialEvents === true && query.allowBookmarks,
  };
}

function run(services: WatchServices, exchange: Exchange, spec: WatchSpec, query: WatchQuery): void {
  const { response, outlet } = exchange;
  if (response.destroyed || response.closed) return;
  const watcher = services.hub.open(spec, sinkOf(response, outlet, services.frames));
  const timers = scheduleWatch(services, watcher, query);
  response.once("close", () => {
    timers[Symbol.dispose]();
    watcher.end();
  });
}

/** Bookmarks now and then, one shortly before the end, and the end. */
function scheduleWatch(
  { clock, rng, hub }: WatchServices,
  watcher: Watcher,
  { timeoutSeconds = 0, allowBookmarks }: WatchQuery,
): Disposable {
  const lastsMs =
    timeoutSeconds > 0
      ? Math.min(timeoutSeconds * 1000, MAX_TIMEOUT_MS)
      : MIN_TIMEOUT_MS * (1 + rng.random());
  const timers = new Set<Disposable>();
  const after = (delayMs: number, callback: () => void): void => {
    const timer = clock.after(delayMs, () => {
      timers.delete(timer);
      callback();
    });
    timers.add(timer);
  };
  const bookmarkRegularly = (): void => {
    after(BOOKMARK_EVERY_MS * (0.9 + 0.2 * rng.random()), () => {
      hub.bookmark(watcher);
      bookmarkRegularly();
    });
  };
  after(lastsMs, () => watcher.end());
  if (allowBookmarks) {
    bookmarkRegularly();
    if (lastsMs > BOOKMARK_BEFORE_END_MS)
      after(lastsMs - BOOKMARK_BEFORE_END_MS, () => hub.bookmark(watcher));
  }
  return {
    [Symbol.dispose]() {
      for (const timer of timers) timer[Symbol.dispose]();
      timers.clear();
    },
  };
}
