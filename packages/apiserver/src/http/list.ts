import type { ListMeta } from "@fairlead/kube/api/meta/types.ts";
import { tableId } from "#registry/catalog.ts";
import type { FieldSelector } from "#registry/field-selector.ts";
import { invalidValue } from "#registry/metadata.ts";
import { isInt, isUint, notAnInt, notAUint } from "#registry/numbers.ts";
import { parseSelection, type Selection } from "#registry/selectors.ts";
import type { ResourceDefinition } from "#registry/types.ts";
import { badRequest, expired, StatusError } from "#status.ts";
import type { Entry } from "#storage/entry.ts";
import type { Store } from "#storage/store.ts";
import { storageKey, type Table, type TableState } from "#storage/table.ts";
import { checkListOptions } from "./list-options.ts";
import { isTrue } from "./path.ts";

/** Listing: which state, which part of it. Source: KEP-2340, KEP-1904 and apiserver, pkg/storage/etcd3. */

export interface ListQuery {
  readonly definition: ResourceDefinition;
  readonly namespace: string | undefined;
  readonly labelSelector: string;
  readonly fields: FieldSelector;
  readonly resourceVersion: string;
  readonly resourceVersionMatch: string;
  /** 0: everything. */
  readonly limit: number;
  readonly continueToken: string;
  readonly sendInitialEvents: boolean | undefined;
  /** How long a watch lasts. */
  readonly timeoutSeconds: number | undefined;
}

export interface ListPage {
  readonly entries: readonly Entry[];
  readonly metadata: ListMeta;
}

export function parseListQuery(
  definition: ResourceDefinition,
  namespace: string | undefined,
  query: URLSearchParams,
  fields: FieldSelector,
): ListQuery {
  return {
    definition,
    namespace,
    labelSelector: query.get("labelSelector") ?? "",
    fields,
    resourceVersion: query.get("resourceVersion") ?? "",
    resourceVersionMatch: query.get("resourceVersionMatch") ?? "",
    // "0": whatever state is there, and all of it.
    limit: query.get("resourceVersion") === "0" ? 0 : parseLimit(query.get("limit") ?? ""),
    continueToken: query.get("continue") ?? "",
    sendInitialEvents: query.has("sendInitialEvents") ? isTrue(query.get("sendInitialEvents")) : undefined,
    timeoutSeconds: parseInteger(query.get("timeoutSeconds") ?? ""),
  };
}

/** A negative limit means no limit. */
function parseLimit(text: string): number {
  return Math.max(0, parseInteger(text) ?? 0);
}

/** @throws {StatusError} 400 if the text is not a number. */
function parseInteger(text: string): number | undefined {
  if (text === "") return undefined;
  if (!isInt(text)) throw badRequest(notAnInt(text));
  return Number(text);
}

/** "resourceVersion: Invalid value: ...", or nothing. */
function whyNoRevision(text: string): string | undefined {
  if (text === "" || isUint(text)) return undefined;
  return `resourceVersion: ${invalidValue("", text, notAUint(text)).message}`;
}

/**
 * Revision that a watch or the read of one object asks for; 0: none.
 *
 * @throws {StatusError} 500 for an invalid revision: kube-apiserver does not treat it as an error of the client.
 */
export function parseRevision(text: string): number {
  const why = whyNoRevision(text);
  if (why !== undefined) throw new StatusError({ code: 500, message: why });
  return Number(text);
}

function parseListRevision(text: string): number {
  const why = whyNoRevision(text);
  if (why !== undefined) throw badRequest(`invalid resource version: ${why}`);
  return Number(text);
}

/** Waits, not for long, until the store has reached `revision`. */
export type AwaitRevision = (revision: number) => Promise<void>;

export async function listPage(
  store: Store,
  query: ListQuery,
  awaitRevision: AwaitRevision,
): Promise<ListPage> {
  checkListOptions(query);
  const table = store.table(tableId(query.definition));
  const selection = parseSelection(query.definition, query.labelSelector, query.fields);
  if (query.continueToken !== "") return continuePage(store, table, query, selection);
  const wanted = parseListRevision(query.resourceVersion);
  if (wanted > store.revision) await awaitRevision(wanted);
  const isExact =
    query.resourceVersionMatch === "Exact" || (query.resourceVersionMatch === "" && query.limit > 0);
  const revision = isExact && wanted > 0 ? wanted : store.revision;
  if (revision < table.log.completeFrom) throw tooOld(revision, table.log.completeFrom);
  return cutPage(table, query, selection, { revision, after: "" });
}

export function tooOld(revision: number, oldest: number): StatusError {
  return expired(`too old resource version: ${revision} (${oldest})`);
}

interface Position {
  readonly revision: number;
  /** Key of the last object that was sent. */
  readonly after: string;
}

function continuePage(store: Store, table: Table, query: ListQuery, selection: Selection): ListPage {
  if (query.resourceVersion !== "" && query.resourceVersion !== "0") {
    throw badRequest("specifying resource version is not allowed when using continue");
  }
  const position = decodeContinue(query.continueToken);
  // -1: continue at the current revision, as the 410 response of an expired token offers.
  if (position.revision === -1)
    return cutPage(table, query, selection, { ...position, revision: store.revision });
  if (position.revision > store.revision)
    throw badRequest("continue key is not valid: it is of another server");
  if (position.revision >= table.log.completeFrom) return cutPage(table, query, selection, position);
  throw continueExpired(position);
}

function continueExpired(position: Position): StatusError {
  const { status } = expired(
    "The provided continue parameter is too old to display a consistent list result. You can start a new list " +
      "without the continue parameter, or use the continue token in this response to retrieve the remainder of the results.",
  );
  const error = new StatusError({ ...status, code: 410 });
  error.status.metadata.continue = encodeContinue({ ...position, revision: -1 });
  return error;
}

function cutPage(table: Table, query: ListQuery, selection: Selection, position: Position): ListPage {
  const { limit } = query;
  const { revision, after } = position;
  const state = scope(table, query, selection, revision);
  const metadata: ListMeta = { resourceVersion: String(revision) };
  const entries: Entry[] = [];
  for (const entry of state.entries(after)) {
    if (limit > 0 && entries.length === limit) {
      const last = entries.at(-1)?.key ?? after;
      metadata.continue = encodeContinue({ revision, after: last });
      // Whether what is left is selected shows when it is asked for.
      if (selection.matches === undefined) metadata.remainingItemCount = state.count(last);
      break;
    }
    if (selection.matches === undefined || selection.matches(entry)) entries.push(entry);
  }
  return { entries, metadata };
}

/** The state at `revision`, narrowed by what needs no look at the objects. */
function scope(
  table: Table,
  { namespace: ofPath, definition }: ListQuery,
  selection: Selection,
  revision: number,
): TableState {
  const { name } = selection;
  const namespace = definition.namespaced ? (ofPath ?? selection.namespace) : undefined;
  if (name === undefined) return table.stateAt(revision, namespace);
  if (namespace === undefined && definition.namespaced) {
    const all = table.stateAt(revision);
    return listed([...all.entries()].filter((it) => it.key.endsWith(`/${name}`)));
  }
  const entry = table.entryAt(revision, storageKey(namespace, name));
  return listed(entry === undefined ? [] : [entry]);
}

function listed(all: readonly Entry[]): TableState {
  const entries = (after = ""): readonly Entry[] => all.filter((it) => it.key > after);
  return { entries, count: (after) => entries(after).length };
}

/** The state that a watch begins with. */
export function stateOf(
  table: Table,
  query: ListQuery,
  selection: Selection,
  revision: number,
): readonly Entry[] {
  const found = [...scope(table, query, selection, revision).entries()];
  const { matches } = selection;
  return matches === undefined ? found : found.filter(matches);
}

function encodeContinue({ revision, after }: Position): string {
  return Buffer.from(JSON.stringify({ v: "meta.k8s.io/v1", rv: revision, start: after }), "utf8").toString(
    "base64url",
  );
}

/** @throws {StatusError} 400 for a token that this server did not make. */
export function decodeContinue(token: string): Position {
  try {
    const { v, rv, start } = JSON.parse(Buffer.from(token, "base64url").toString("utf8")) as Record<
      string,
      unknown
    >;
    if (v === "meta.k8s.io/v1" && Number.isInteger(rv) && typeof start === "string") {
      return { revision: rv as number, after: start };
    }
  } catch {
    // Falls through to the one refusal.
  }
  throw badRequest("invalid continue token: continue key is not valid");
}
