import { sameJson } from "@fairlead/base/json.ts";
import { finish, type Steps } from "@fairlead/base/turn.ts";
import type { ApiObject } from "#values/object.ts";
import { objectSchema } from "#schema/definitions.ts";
import { badRequest, StatusError } from "#status.ts";
import { conflictsAllowedByLastApplied, syncLastApplied } from "./apply-kubectl.ts";
import { conflictError, type FieldConflict } from "./conflicts.ts";
import { difference, intersection, isEmpty, leaves, union, type FieldSet } from "./field-set.ts";
import {
  dropEmpty,
  identityOf,
  readManagers,
  sameManagers,
  writeManagers,
  type Manager,
} from "./managers.ts";
import { ownable, Typed, withoutManagers, type WriteOrigin } from "./ownership.ts";
import { giveTo } from "./track-update.ts";
import { checkTyped } from "./typed-check.ts";
import { mergeTyped } from "./typed-merge.ts";

export interface ApplyRequest extends WriteOrigin {
  /** Undefined: the object is created. Not changed. */
  readonly live: ApiObject | undefined;
  /** The configuration: what the manager wants to own, and nothing else. Not changed. */
  readonly applied: ApiObject;
  /** Take fields that others own. */
  readonly force: boolean;
  /** The version that conflicts name, where the object is applied through a part of another kind. */
  readonly partVersion?: string | undefined;
}

/**
 * Server-side apply: the live object with the configuration laid over it, what the manager no longer applies removed
 * unless someone else owns it, and `metadata.managedFields` up to date. Where nothing changes, `live` itself.
 * Source: structured-merge-diff, merge/update.go; apimachinery, util/managedfields; KEP-555.
 *
 * @throws {StatusError} 409 Conflict, with one cause per field, where others own fields that would change; 400 for a
 * configuration of another version, or with managedFields of its own; 500 for one that does not fit the schema.
 */
export function apply(request: ApplyRequest): ApiObject {
  return finish(applying(request));
}

export function* applying(request: ApplyRequest): Steps<ApiObject> {
  const { live, applied } = request;
  refuseUnfit(request);
  yield;
  const typed = new Typed(request);
  const managers = readManagers(live?.metadata.managedFields) ?? new Map<string, Manager>();
  yield;
  const current = live === undefined ? emptyOf(applied) : withoutManagers(live);
  if (managers.size === 0 && live !== undefined) yield* adoptUntracked(request, typed, managers);
  typed.reconcile(managers);
  yield;
  const outcome = yield* new Application(request, typed, { current, managers }).run();
  yield;
  const object = syncLastApplied(outcome.object, request.manager, applied);
  if (live !== undefined && object === current && isTrackedAs(live, outcome.managers)) return live;
  const managedFields = writeManagers(outcome.managers);
  if (managedFields.length === 0) return object;
  return { ...object, metadata: { ...object.metadata, managedFields } };
}

function isTrackedAs(live: ApiObject, managers: ReadonlyMap<string, Manager>): boolean {
  return sameManagers(readManagers(live.metadata.managedFields) ?? new Map<string, Manager>(), managers);
}

function emptyOf(object: ApiObject): ApiObject {
  return { apiVersion: object.apiVersion, kind: object.kind, metadata: { name: object.metadata.name } };
}

type Unfit = Pick<ApplyRequest, "applied" | "apiVersion" | "schema" | "resolve">;

/** @throws {StatusError} 400 or 500 for a configuration that is not one of its kind, see `apply`. */
export function refuseUnfit({ applied, apiVersion, schema, resolve }: Unfit): void {
  if (applied.metadata.managedFields !== undefined) throw badRequest("metadata.managedFields must be nil");
  if (applied.apiVersion !== apiVersion) {
    throw badRequest(
      `Incorrect version specified in apply patch. Specified patch version: ${applied.apiVersion}, expected: ${apiVersion}`,
    );
  }
  const problems = checkTyped(applied, objectSchema(schema), resolve);
  if (problems.length === 0) return;
  const { namespace, name } = applied.metadata;
  const key = namespace === undefined ? `/${name}` : `${namespace}/${name}`;
  const list = problems.length === 1 ? problems[0] : `errors:\n  ${problems.join("\n  ")}`;
  const message = `failed to create typed patch object (${key}; ${kindText(applied.apiVersion, applied.kind)}): ${list}`;
  // No client's error by its code: kube-apiserver passes on what it takes for its own.
  throw new StatusError({ code: 500, message });
}

/** A kind as Go prints it: "apps/v1, Kind=Deployment", "/v1, Kind=Service". */
export function kindText(apiVersion: string, kind: string): string {
  return `${apiVersion.includes("/") ? "" : "/"}${apiVersion}, Kind=${kind}`;
}

/** Assigns the content of an untracked object to a manager of its own, so that the first apply can conflict. */
function* adoptUntracked(request: ApplyRequest, typed: Typed, managers: Map<string, Manager>): Steps<void> {
  if (request.live === undefined) return;
  const live = withoutManagers(request.live);
  const changes = typed.compare(emptyOf(live), live);
  yield;
  yield* giveTo(managers, { ...request, manager: "before-first-apply" }, changes);
}

interface Start {
  readonly current: ApiObject;
  readonly managers: Map<string, Manager>;
}

interface Outcome {
  /** `current` itself where nothing changed. */
  readonly object: ApiObject;
  readonly managers: Map<string, Manager>;
}

class Application {
  readonly #request: ApplyRequest;
  readonly #typed: Typed;
  readonly #start: Start;

  constructor(request: ApplyRequest, typed: Typed, start: Start) {
    this.#request = request;
    this.#typed = typed;
    this.#start = start;
  }

  *run(): Steps<Outcome> {
    const { applied, manager: name, apiVersion, subresource, now } = this.#request;
    const { current } = this.#start;
    const managers = new Map(this.#start.managers);
    const self = { name, operation: "Apply", apiVersion, subresource } as const;
    const identity = identityOf(self);
    const before = managers.get(identity);
    const set = this.#typed.effective(this.#typed.sets.fieldSet(applied, this.#typed.schema));
    yield;
    managers.set(identity, { ...self, time: now, set });
    const merged = mergeTyped(current, applied, this.#typed.schema, this.#typed.resolve);
    yield;
    const object = yield* this.#prune(merged, managers, { last: before?.set, set });
    const changes = this.#typed.compare(current, object);
    yield;
    const gained = union(changes.added, changes.modified);
    yield;
    if (!this.#request.force) this.#refuse(yield* this.#conflicts(managers, identity, gained));
    const lost = union(gained, changes.removed);
    yield;
    for (const [other, it] of managers) {
      if (other !== identity) managers.set(other, { ...it, set: difference(it.set, lost) });
    }
    yield;
    const isSame = sameJson(current, object);
    yield;
    // When only owners change, upstream leaves the time out.
    const time = isSame ? undefined : now;
    managers.set(identity, { ...self, time, set: ownable(set) });
    dropEmpty(managers);
    return { object: isSame ? current : (object as ApiObject), managers };
  }

  /** Removes what the manager applied last time, does not apply now, and no other manager owns. */
  *#prune(
    merged: unknown,
    managers: ReadonlyMap<string, Manager>,
    own: { last: FieldSet | undefined; set: FieldSet },
  ): Steps<unknown> {
    if (own.last === undefined) return merged;
    const isSmaller = !isEmpty(difference(own.last, own.set));
    yield;
    if (!isSmaller) return merged;
    const { sets, schema } = this.#typed;
    const named = (set: FieldSet): FieldSet => sets.withNamedFields(set, schema);
    const last = named(own.last);
    yield;
    let owned: FieldSet = {};
    for (const it of managers.values()) owned = union(owned, it.set);
    yield;
    const all = yield* this.#namedFieldsOf(merged);
    const pruned = sets.remove(merged, last, schema);
    yield;
    const left = yield* this.#namedFieldsOf(pruned);
    const namedOwned = named(owned);
    yield;
    const kept = union(left, namedOwned);
    yield;
    const unowned = difference(all, kept);
    yield;
    const withOwned = sets.remove(merged, unowned, schema);
    yield;
    const leftOwned = yield* this.#namedFieldsOf(withOwned);
    const gone = intersection(difference(all, leftOwned), last);
    yield;
    const rest = sets.remove(merged, gone, schema);
    yield;
    return rest;
  }

  *#namedFieldsOf(value: unknown): Steps<FieldSet> {
    const { sets, schema } = this.#typed;
    const set = sets.fieldSet(value, schema);
    yield;
    const named = sets.withNamedFields(set, schema);
    yield;
    return named;
  }

  *#conflicts(
    managers: ReadonlyMap<string, Manager>,
    self: string,
    gained: FieldSet,
  ): Steps<FieldConflict[]> {
    const conflicts: FieldConflict[] = [];
    for (const [identity, manager] of managers) {
      if (identity === self) continue;
      const shared = intersection(manager.set, gained);
      yield;
      for (const path of leaves(shared)) conflicts.push({ manager, path });
      yield;
    }
    return conflicts;
  }

  #refuse(conflicts: readonly FieldConflict[]): void {
    if (conflicts.length === 0) return;
    const { live, manager, partVersion } = this.#request;
    // On the move from client-side to server-side apply, fields that kubectl itself applied before do not conflict.
    const allowed =
      manager === "kubectl" && live !== undefined
        ? conflictsAllowedByLastApplied(live, this.#typed)
        : undefined;
    const left = allowed === undefined ? conflicts : conflicts.filter((it) => !allowed(it.path));
    if (left.length > 0)
      throw conflictError(partVersion === undefined ? left : left.map(inVersion(partVersion)));
  }
}

function inVersion(apiVersion: string): (conflict: FieldConflict) => FieldConflict {
  return ({ manager, path }) => ({ manager: { ...manager, apiVersion }, path });
}
