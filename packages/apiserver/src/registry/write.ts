import { cloneJson } from "@fairlead/base/json.ts";
import { badRequest, conflict, type FieldError, invalid, StatusError } from "#status.ts";
import { inKeyOrder } from "#schema/key-order.ts";
import type { Entry } from "#storage/entry.ts";
import type { Store, Transaction } from "#storage/store.ts";
import { storageKey, type Table } from "#storage/table.ts";
import { tableId } from "./catalog.ts";
import type { Admission } from "./admission.ts";
import { arranged, withoutRepeatedOwners } from "./metadata.ts";
import { isUint, notAUint } from "./numbers.ts";
import type { Replay } from "./replay.ts";
import type { ResourceDefinition, WriteContext } from "./types.ts";
import type { ApiObject, ObjectReader, UserInfo } from "#values/object.ts";

/** The properties of the request that every write has. */
export interface WriteRequest {
  readonly definition: ResourceDefinition;
  readonly namespace: string | undefined;
  /** Absent for create. */
  readonly name: string | undefined;
  /** Empty for the main resource. */
  readonly subresource: string;
  readonly user: UserInfo;
  readonly dryRun: boolean;
  /** The manager that owns the fields that change. */
  readonly fieldManager: string;
  readonly warn: (message: string) => void;
  /** The options of the request, as admission receives them. */
  readonly options?: () => Readonly<Record<string, unknown>>;
  /** Whether it is one of the deletions of a collection. */
  readonly isCollection?: boolean;
  /** Leaves a note in the audit log. */
  readonly annotate?: (key: string, value: string) => void;
  /** Whether the body is: then the write is worked out in slices. */
  readonly isLarge?: boolean;
  /** Aborts when the client has gone. */
  readonly signal?: () => AbortSignal;
}

export interface WriteResult {
  /** In the version of the request. */
  readonly object: ApiObject;
  /** The stored object; absent if nothing was stored. */
  readonly entry: Entry | undefined;
  readonly isCreated: boolean;
}

/** The parts of the server that writes use. */
export interface WriteEnvironment {
  readonly store: Store;
  readonly reader: ObjectReader;
  readonly random: () => number;
  readonly newUid: () => string;
  readonly admission: Admission;
}

/** One write, inside its transaction. */
export interface Write {
  readonly env: WriteEnvironment;
  readonly tx: Transaction;
  readonly request: WriteRequest;
  readonly replay: Replay;
}

export function apiVersionOf(definition: ResourceDefinition): string {
  return definition.group === "" ? definition.version : `${definition.group}/${definition.version}`;
}

export function tableOf(env: WriteEnvironment, definition: ResourceDefinition): Table {
  return env.store.table(tableId(definition));
}

export function entryOf(env: WriteEnvironment, request: WriteRequest, name: string): Entry | undefined {
  return tableOf(env, request.definition).get(storageKey(request.namespace, name));
}

/** A stored object in the version of the request, to be read only. */
export function viewOf(definition: ResourceDefinition, { object }: Pick<Entry, "object">): ApiObject {
  if (definition.fromStored !== undefined) return definition.fromStored(object);
  const apiVersion = apiVersionOf(definition);
  if (object.apiVersion === apiVersion && object.kind === definition.kind) return object;
  return arranged(object, definition.kind, apiVersion);
}

/** A copy of a stored object in the version of the request, free to be changed but for the sets of its managers. */
export function editableCopy(definition: ResourceDefinition, entry: Entry): ApiObject {
  return copyOf(viewOf(definition, entry));
}

/** The sets of fields, which are as large as the rest together, are never changed in place. */
export function copyOf(object: ApiObject): ApiObject {
  const { managedFields } = object.metadata;
  if (managedFields === undefined) return cloneJson(object);
  const copy: ApiObject = cloneJson({ ...object, metadata: { ...object.metadata, managedFields: [] } });
  copy.metadata.managedFields = managedFields.map((it) => ({ ...it }));
  return copy;
}

/** The form in which an object of the request's version is stored. */
export function storedForm(definition: ResourceDefinition, object: ApiObject): ApiObject {
  const own = arranged(object, definition.kind, apiVersionOf(definition));
  return definition.toStored === undefined ? own : definition.toStored(own);
}

/** An object of the request's version, or of the stored one, with its fields in the order in which its kind is returned. */
export function inOrder({ isCustom }: Pick<ResourceDefinition, "isCustom">, object: ApiObject): ApiObject {
  return isCustom ? inKeyOrder(object) : object;
}

export function writeContext({ env, tx, request }: Write): WriteContext {
  const { user, dryRun, subresource, warn } = request;
  return { user, dryRun, subresource, reader: env.reader, nowMs: tx.nowMs, warn };
}

/** Name and namespace of a body must be those of the path; the namespace may be absent, and says nothing of what has none. */
export function checkBodyPlace({ definition, namespace, name }: WriteRequest, { metadata }: ApiObject): void {
  if (!definition.namespaced || (metadata.namespace ?? "") === "") delete metadata.namespace;
  else refuseOtherNamespace(metadata.namespace, namespace);
  if (definition.namespaced && namespace !== undefined) metadata.namespace = namespace;
  if (name === undefined || metadata.name === name) return;
  if ((metadata.name ?? "") === "") {
    throw badRequest(
      `the name of the object (${name} based on URL) was undeterminable: name must be provided`,
    );
  }
  throw badRequest(`the name of the object (${metadata.name}) does not match the name on the URL (${name})`);
}

/** @throws {StatusError} 400 where the body names another namespace than the path. */
export function refuseOtherNamespace(given: unknown, namespace: string | undefined): void {
  if (given === undefined || given === "" || given === (namespace ?? "")) return;
  throw badRequest("the namespace of the provided object does not match the namespace sent on the request");
}

export function checkPreconditions(request: WriteRequest, object: ApiObject, old: ApiObject): void {
  const { definition } = request;
  const { uid, resourceVersion, name } = old.metadata;
  const wantedUid = object.metadata.uid ?? "";
  if (wantedUid !== "" && wantedUid !== uid) {
    const why = `Precondition failed: UID in precondition: ${wantedUid}, UID in object meta: ${uid ?? ""}`;
    throw conflict(definition, name, why);
  }
  const wantedVersion = object.metadata.resourceVersion ?? "";
  if (wantedVersion !== "" && wantedVersion !== "0" && wantedVersion !== resourceVersion) {
    if (!isUint(wantedVersion)) throw new StatusError({ code: 500, message: notAUint(wantedVersion) });
    throw conflict(definition, name);
  }
}

/** Removes duplicate owner references, and warns the client. */
export function leaveOwnersOnce({ warn }: WriteRequest, { metadata }: ApiObject): void {
  const warning = withoutRepeatedOwners(metadata);
  if (warning !== undefined) warn(warning);
}

/** Refuses what the rules of the kind refuse; by the group in which it is stored, whose rules they are. */
export function refuseInvalid(
  { group, kind, storedAs }: ResourceDefinition,
  name: string,
  errors: readonly FieldError[],
): void {
  if (errors.length > 0) throw invalid(storedAs?.group ?? group, kind, name, errors);
}
