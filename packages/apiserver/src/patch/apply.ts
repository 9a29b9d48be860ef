import { sameJson } from "@fairlead/base/json.ts";
import { finish, type Steps } from "@fairlead/base/turn.ts";
import type { ApiObject } from "#values/object.ts";
import { objectSchema } from "#schema/definitions.ts";
import { badRequest, StatusError } from "#status.ts";
import { conflictsAllowedByLastApplied, syncLastApplied } from "./apply-kubectl.ts";
import { conflictError, type FieldConflict } from "./conflicts.ts";
import { difference, intersection, leaves } from "./field-set.ts";
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
import { checkTyped, problemText } from "./typed-check.ts";
import { mergeTyped } from "./typed-merge.ts";
import { Pruning } from "./pruning.ts";
import { Changes, requireOwnFit, requireStoredFit, UnfitForVersion } from "./versions.ts";

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
 * configuration of another version, or with managedFields of its own; 500 for one that does not fit the schema, and
 * for an object that does not fit the version of another manager.
 */
export function apply(request: ApplyRequest): ApiObject {
  return finish(applying(request));
}

export function* applying(request: ApplyRequest): Steps<ApiObject> {
  try {
    return yield* application(request);
  } catch (error) {
    if (!(error instanceof UnfitForVersion)) throw error;
    throw new StatusError({ code: 500, message: error.message });
  }
}

function* application(request: ApplyRequest): Steps<ApiObject> {
  const { live, applied } = request;
  refuseUnfit(request);
  yield;
  const typed = new Typed(request);
  const managers = readManagers(live?.metadata.managedFields) ?? new Map<string, Manager>();
  yield;
  const current = live === undefined ? emptyOf(applied) : withoutManagers(live);
  if (live !== undefined && request.schemaOf !== undefined)
    requireOwnFit(typed, current, unfitText(current, managers.size > 0));
  if (managers.size === 0 && live !== undefined) yield* adoptUntracked(request, typed, managers);
  requireStoredFit(typed, current, managers);
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
  const message = `failed to create typed patch object (${nameText(applied)}): ${problemText(problems)}`;
  // No client's error by its code: kube-apiserver passes on what it takes for its own.
  throw new StatusError({ code: 500, message });
}

function unfitText(live: ApiObject, isTracked: boolean): string {
  return isTracked
    ? `failed to create typed live object (${nameText(live)}): `
    : `failed to create manager for existing fields: failed to convert new object (${nameText(live)}) to smd typed: `;
}

function nameText({ apiVersion, kind, metadata: { namespace = "", name } }: ApiObject): string {
  return `${namespace}/${name}; ${kindText(apiVersion, kind)}`;
}

/** A kind as Go prints it: "apps/v1, Kind=Deployment", "/v1, Kind=Service". */
export function kindText(apiVersion: string, kind: string): string {
  return `${apiVersion.includes("/") ? "" : "/"}${apiVersion}, Kind=${kind}`;
}

/** Assigns the content of an untracked object to a manager of its own, so that the first apply can conflict. */
function* adoptUntracked(request: ApplyRequest, typed: Typed, managers: Map<string, Manager>): Steps<void> {
  if (request.live === undefined) return;
  const live = withoutManagers(request.live);
  const changes = new Changes(typed, emptyOf(live), live);
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
    const object = yield* new Pruning(this.#typed, managers, before).of(merged, set);
    const changes = new Changes(this.#typed, current, object);
    yield;
    const others = [...managers].filter(([other]) => other !== identity);
    if (!this.#request.force) this.#refuse(yield* this.#conflicts(others, changes));
    for (const [other, it] of others) {
      managers.set(other, { ...it, set: difference(it.set, changes.in(it.apiVersion).lost) });
      yield;
    }
    const isSame = sameJson(current, object);
    yield;
    // When only owners change, upstream leaves the time as it was, or out.
    const time = isSame ? before?.time : now;
    managers.set(identity, { ...self, time, set: ownable(set) });
    dropEmpty(managers);
    return { object: isSame ? current : (object as ApiObject), managers };
  }

  /** @throws {UnfitForVersion} */
  *#conflicts(
    others: readonly (readonly [identity: string, manager: Manager])[],
    changes: Changes,
  ): Steps<FieldConflict[]> {
    const conflicts: FieldConflict[] = [];
    for (const [, manager] of others) {
      const { gained } = changes.in(manager.apiVersion);
      yield;
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
