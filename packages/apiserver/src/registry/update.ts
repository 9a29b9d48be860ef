import { cloneJson } from "@fairlead/base/json.ts";
import type { Steps } from "@fairlead/base/turn.ts";
import { invalid, notFound } from "#status.ts";
import type { Entry } from "#storage/entry.ts";
import { attributesOf, type GroupVersionKind, type Subject } from "./admission.ts";
import { createObject } from "./create.ts";
import {
  arranged,
  changesGeneration,
  isSameState,
  keepServerMetadata,
  validateMetadata,
  validateMetadataUpdate,
} from "./metadata.ts";
import { isReadyToGo } from "./removal.ts";
import { applySchemaDefaults, trackChange, validateSchema } from "./shape.ts";
import { refuseOversized } from "./size.ts";
import type { ResourceDefinition } from "./types.ts";
import type { ApiObject } from "#values/object.ts";
import {
  apiVersionOf,
  checkBodyPlace,
  checkPreconditions,
  editableCopy,
  entryOf,
  inOrder,
  leaveOwnersOnce,
  refuseInvalid,
  storedForm,
  tableOf,
  viewOf,
  type Write,
  type WriteRequest,
  type WriteResult,
  writeContext,
} from "./write.ts";

/** PUT: the whole object, or the part that a subresource has. */
export function putObject(write: Write, input: ApiObject): WriteResult {
  const { env, request } = write;
  const { definition } = request;
  checkBodyPlace(request, input);
  const name = request.name ?? "";
  const entry = entryOf(env, request, name);
  if (entry === undefined) {
    if (!definition.strategy.allowCreateOnUpdate || request.subresource !== "")
      throw notFound(definition, name);
    return createObject(write, input);
  }
  const version = input.metadata.resourceVersion ?? "";
  if ((version === "" || version === "0") && !definition.strategy.allowUnconditionalUpdate) {
    const message = "Invalid value: 0: must be specified for an update";
    // By its resource: the check is older than the kind is known.
    throw invalid(definition.group, definition.plural, name, [
      { type: "FieldValueInvalid", field: "metadata.resourceVersion", message },
    ]);
  }
  return replaceObject(write, { entry, input });
}

export interface Replacement {
  readonly entry: Entry;
  /** The object as it is to be, in the version of the request; the server's to change. */
  readonly input: ApiObject;
  /** Server-side apply has worked out the field owners already. */
  readonly isApplied?: boolean;
  /** For subresources with an object of their own, such as Scale: what admission is shown instead, and how what it makes of it counts. */
  readonly part?: ObjectPart;
}

export interface ObjectPart {
  readonly kind: GroupVersionKind;
  readonly of: (object: ApiObject) => ApiObject;
  /** Sets the part of `object`, in place. */
  readonly set: (object: ApiObject, part: ApiObject) => void;
}

/** Makes `input` the new state of a stored object, with everything that only the server decides. */
export function replaceObject(write: Write, replacement: Replacement): WriteResult {
  const { request, replay } = write;
  const { entry, input, isApplied, part } = replacement;
  const { definition } = request;
  const { strategy } = definition;
  const { old, merged } = replay.inSlices("merged", entry, () => merging(request, input, entry));
  const tracked =
    isApplied === true ? merged : trackChange(write, merged, { old, entry, sentStatus: input["status"] });
  const object = admitUpdate(write, replacement, { tracked, old });
  const context = writeContext(write);
  strategy.prepareForUpdate?.(object, old, context);
  object.metadata.resourceVersion = old.metadata.resourceVersion ?? "";
  if (isNewGeneration(request, object, old)) {
    object.metadata.generation = (old.metadata.generation ?? 0) + 1;
  }
  refuseInvalid(definition, old.metadata.name, [
    ...validateMetadata(object, definition),
    ...validateMetadataUpdate(object, old),
    ...validateSchema(definition, object, { old, subresource: request.subresource }),
    ...(strategy.validateUpdate?.(object, old, context) ?? []),
  ]);
  const shown = { object: part?.of(object) ?? object, old: part?.of(old) ?? old, ...kindOf(part) };
  write.env.admission.validate(attributesOf(write, { operation: "UPDATE", ...shown }));
  return commitReplacement(write, { entry, object, old });
}

interface Merged {
  readonly old: ApiObject;
  readonly merged: ApiObject;
}

function* merging(request: WriteRequest, input: ApiObject, entry: Entry): Steps<Merged> {
  const old = editableCopy(request.definition, entry);
  yield;
  checkPreconditions(request, input, old);
  leaveOwnersOnce(request, input);
  return { old, merged: merge(request, input, old) };
}

function kindOf(part: ObjectPart | undefined): Pick<Subject, "kind"> {
  return part === undefined ? {} : { kind: part.kind };
}

/** The part of `input` that counts, in an object that is complete otherwise. */
function merge(request: WriteRequest, input: ApiObject, old: ApiObject): ApiObject {
  const { definition } = request;
  const merged = mergeSubresource(definition, request.subresource, input, old);
  keepServerMetadata(merged, old);
  applySchemaDefaults(definition, merged);
  definition.strategy.applyDefaults?.(merged);
  return merged;
}

/** Runs admission on the object that the client sent; changes by admission count as sent. */
function admitUpdate(
  write: Write,
  { input, part }: Replacement,
  { tracked, old }: { readonly tracked: ApiObject; readonly old: ApiObject },
): ApiObject {
  const { env, request } = write;
  const { definition } = request;
  if (!env.admission.isActive(definition)) return tracked;
  const { managedFields } = tracked.metadata;
  if (part !== undefined) {
    const shown = part.of(tracked);
    const subject: Subject = { operation: "UPDATE", object: shown, old: part.of(old), kind: part.kind };
    const admitted = env.admission.mutate(attributesOf(write, subject)) ?? shown;
    if (admitted !== shown) part.set(tracked, admitted);
    return tracked;
  }
  const sent = arranged(cloneJson(input), definition.kind, apiVersionOf(definition));
  applySchemaDefaults(definition, sent);
  definition.strategy.applyDefaults?.(sent);
  if (managedFields !== undefined) sent.metadata.managedFields = managedFields;
  const admitted =
    env.admission.mutate(attributesOf(write, { operation: "UPDATE", object: sent, old })) ?? sent;
  if (admitted === sent) return tracked;
  return merge(request, cloneJson(admitted), old);
}

function commitReplacement(
  { env, tx, request }: Write,
  { entry, object, old }: { entry: Entry; object: ApiObject; old: ApiObject },
): WriteResult {
  const { definition, dryRun } = request;
  const isGone = isReadyToGo(object);
  if (!isGone && isStoredAsNow(definition, entry) && isSameState(object, old))
    return { object: old, entry, isCreated: false };
  const form = storedForm(definition, object);
  if (dryRun) return { object: viewOf(definition, { object: form }), entry: undefined, isCreated: false };
  const table = tableOf(env, definition);
  if (isGone) {
    tx.remove(table, entry.key);
    return { object: inOrder(definition, object), entry: undefined, isCreated: false };
  }
  const stored = tx.put(table, entry.key, form);
  refuseOversized(stored, entry);
  return { object: viewOf(definition, stored), entry: stored, isCreated: false };
}

/** An update that changes nothing rewrites what is stored in a version that is the stored one no more, or without defaults. */
function isStoredAsNow({ storedVersion, isWhole }: ResourceDefinition, { object }: Entry): boolean {
  return (storedVersion === undefined || object.apiVersion === storedVersion) && isWhole?.(object) !== false;
}

/** The part of `input` that the subresource may change. */
function mergeSubresource(
  definition: ResourceDefinition,
  subresource: string,
  input: ApiObject,
  old: ApiObject,
): ApiObject {
  const object = arranged(input, definition.kind, apiVersionOf(definition));
  switch (subresource) {
    case "":
    case "scale":
      return definition.hasStatus ? withField(object, "status", old["status"]) : object;
    case "status":
      return withStatus(definition, object, old);
    case "finalize": {
      const copy = cloneJson(old);
      const { finalizers: _replaced, ...spec } = (copy["spec"] ?? {}) as { finalizers?: unknown };
      copy["spec"] = { ...spec, ...finalizersOf(object) };
      return copy;
    }
    default:
      return object;
  }
}

function finalizersOf(object: ApiObject): object {
  const { finalizers = [] } = (object["spec"] ?? {}) as { finalizers?: readonly string[] };
  return finalizers.length === 0 ? {} : { finalizers };
}

/** A status update is not a new generation, even if it changes metadata. */
function isNewGeneration(
  { definition, subresource }: WriteRequest,
  object: ApiObject,
  old: ApiObject,
): boolean {
  return subresource !== "status" && changesGeneration(definition, object, old);
}

/** Built-in kinds take most metadata through /status too; custom ones only the status. */
function withStatus(definition: ResourceDefinition, object: ApiObject, old: ApiObject): ApiObject {
  const { managedFields } = object.metadata;
  const copy = cloneJson(old);
  const metadata = definition.isCustom ? copy.metadata : object.metadata;
  if (managedFields !== undefined) metadata.managedFields = managedFields;
  for (const key of definition.strategy.keptByStatus ?? []) {
    delete metadata[key];
    if (old.metadata[key] !== undefined) Object.assign(metadata, { [key]: copy.metadata[key] });
  }
  return withField({ ...copy, metadata }, "status", object["status"]);
}

function withField(object: ApiObject, field: string, value: unknown): ApiObject {
  if (value !== undefined) return { ...object, [field]: value };
  const { [field]: _dropped, ...rest } = object;
  return rest as ApiObject;
}
