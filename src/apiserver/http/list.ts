import type { ListMeta } from "#api/meta/types.ts";
import { tableId } from "../registry/catalog.ts";
import { parseSelection, type Selection } from "../registry/selectors.ts";
import type { ResourceDefinition } from "../registry/types.ts";
import { badRequest, expired, invalid, StatusError } from "../status.ts";
import type { Entry } from "../storage/entry.ts";
import type { Store } from "../storage/store.ts";
import { storageKey, type Table } from "../storage/table.ts";
import { notSupported } from "./options.ts";

/** Listing: which state, which part of it. Source: KEP-2340, KEP-1904 and apiserver, pkg/storage/etcd3. */

export interface ListQuery {
  readonly definition: ResourceDefinition;
  readonly namespace: string | undefined;
  readonly labelSelector: string;
  readonly fieldSelector: string;
  readonly resourceVersion: string;
  readonly resourceVersionMatch: string;
  /** 0: everything. */
  readonly limit: number;
  readonly continueToken: string;
}

export interface ListPage {
  readonly entries: readonly Entry[];
  readonly metadata: ListMeta;
}

export function parseListQuery(
  definition: ResourceDefinition,
  namespace: string | undefined,
  query: URLSearchParams,
): ListQuery {
  return {
    definition,
    namespace,
    labelSelector: query.get("labelSelector") ?? "",
    fieldSelector: query.get("fieldSelector") ?? "",
    resourceVersion: query.get("resourceVersion") ?? "",
    resourceVersionMatch: query.get("resourceVersionMatch") ?? "",
    limit: parseCount(query.get("limit"), "limit"),
    continueToken: query.get("continue") ?? "",
  };
}

function parseCount(text: string | null, name: string): number {
  if (text === null || text === "") return 0;
  if (!/^[0-9]{1,15}$/.test(text)) throw badRequest(`invalid value for ${name}: ${JSON.stringify(text)}`);
  return Number(text);
}

export function parseRevision(text: string): number {
  if (text === "") return 0;
  if (!/^[0-9]{1,15}$/.test(text)) {
    throw badRequest(`Invalid value: ${JSON.stringify(text)}: invalid resource version`);
  }
  return Number(text);
}

/** Waits, not for long, until the store has reached `revision`. */
export type AwaitRevision = (revision: number) => Promise<void>;

export async function listPage(
  store: Store,
  query: ListQuery,
  awaitRevision: AwaitRevision,
): Promise<ListPage> {
  checkMatch(query);
  const table = store.table(tableId(query.definition));
  const selection = parseSelection(query.definition, query.labelSelector, query.fieldSelector);
  if (query.continueToken !== "") return continuePage(store, table, query, selection);
  const wanted = parseRevision(query.resourceVersion);
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

function checkMatch(query: ListQuery): void {
  const { resourceVersion, resourceVersionMatch: match, continueToken } = query;
  if (match === "") return;
  if (match !== "Exact" && match !== "NotOlderThan") {
    const supported = ["Exact", "NotOlderThan", ""];
    throw invalid("meta.k8s.io", "ListOptions", "", [notSupported("resourceVersionMatch", match, supported)]);
  }
  const wrong = [
    ...(resourceVersion === ""
      ? ["resourceVersionMatch is forbidden unless resourceVersion is provided"]
      : []),
    ...(continueToken === "" ? [] : ["resourceVersionMatch is forbidden when continue is provided"]),
    ...(match === "Exact" && resourceVersion === "0"
      ? ['resourceVersionMatch "exact" is forbidden for resourceVersion "0"']
      : []),
  ];
  if (wrong.length === 0) return;
  const errors = wrong.map((it) => ({
    type: "FieldValueForbidden" as const,
    field: "resourceVersionMatch",
    message: `Forbidden: ${it}`,
  }));
  throw invalid("meta.k8s.io", "ListOptions", "", errors);
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
  // -1: go on from the state of now, as an earlier refusal offered.
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
  const entries: Entry[] = [];
  let remaining = 0;
  for (const entry of candidates(table, query, selection, position)) {
    if (selection.matches !== undefined && !selection.matches(entry)) continue;
    if (limit > 0 && entries.length === limit) {
      remaining += 1;
      if (selection.matches !== undefined) break;
      continue;
    }
    entries.push(entry);
  }
  const metadata: ListMeta = { resourceVersion: String(revision) };
  if (remaining > 0) {
    metadata.continue = encodeContinue({ revision, after: entries.at(-1)?.key ?? after });
    if (selection.matches === undefined) metadata.remainingItemCount = remaining;
  }
  return { entries, metadata };
}

function* candidates(
  table: Table,
  { namespace: ofPath, definition }: ListQuery,
  selection: Selection,
  { revision, after }: Position,
): Iterable<Entry> {
  const namespace = definition.namespaced ? (ofPath ?? selection.namespace) : undefined;
  for (const entry of scope(table, revision, {
    namespace,
    name: selection.name,
    isNamespaced: definition.namespaced,
  })) {
    if (after !== "" && entry.key <= after) continue;
    yield entry;
  }
}

/** The state at `revision`, narrowed by what needs no look at the objects. */
function scope(
  table: Table,
  revision: number,
  {
    namespace,
    name,
    isNamespaced,
  }: { namespace: string | undefined; name: string | undefined; isNamespaced: boolean },
): Iterable<Entry> {
  if (name === undefined) return table.entriesAt(revision, namespace);
  if (namespace === undefined && isNamespaced) {
    return [...table.entriesAt(revision)].filter((it) => it.key.endsWith(`/${name}`));
  }
  const entry = table.entryAt(revision, storageKey(namespace, name));
  return entry === undefined ? [] : [entry];
}

/** The state that a watch begins with. */
export function stateOf(
  table: Table,
  query: ListQuery,
  selection: Selection,
  revision: number,
): readonly Entry[] {
  const found = [...candidates(table, query, selection, { revision, after: "" })];
  const { matches } = selection;
  return matches === undefined ? found : found.filter(matches);
}

function encodeContinue({ revision, after }: Position): string {
  return Buffer.from(JSON.stringify({ v: "meta.k8s.io/v1", rv: revision, start: after }), "utf8").toString(
    "base64url",
  );
}

/** @throws {StatusError} 400 for a token that this server did not make. */
function decodeContinue(token: string): Position {
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
  throw badRequest("continue key is not valid");
}
