import { alreadyExists, conflict, invalid, StatusError } from "#status.ts";
import type { Entry } from "#storage/entry.ts";
import { storageKey } from "#storage/table.ts";
import type { Steps } from "@fairlead/base/turn.ts";
import { attributesOf } from "./admission.ts";
import { arranged, generateName, timestamp, validateGenerateName, validateMetadata } from "./metadata.ts";
import { applySchemaDefaults, trackChange, validateSchema } from "./shape.ts";
import { refuseOversized } from "./size.ts";
import type { ResourceDefinition } from "./types.ts";
import type { ApiObject } from "#values/object.ts";
import {
  apiVersionOf,
  checkBodyPlace,
  entryOf,
  leaveOwnersOnce,
  refuseInvalid,
  storedForm,
  tableOf,
  viewOf,
  type Write,
  type WriteEnvironment,
  type WriteRequest,
  type WriteResult,
  writeContext,
} from "./write.ts";

const MAX_NAME_TRIES = 8;

export interface CreateOptions {
  /** Server-side apply has worked out the field owners already. */
  readonly isApplied?: boolean;
}

/** Stores a new object. `input` is in the version of the request, and is the server's to change. */
export function createObject(write: Write, input: ApiObject, options: CreateOptions = {}): WriteResult {
  const { env, tx, request } = write;
  const { definition } = request;
  checkBodyPlace(request, input);
  const sent = arranged(input, definition.kind, apiVersionOf(definition));
  refuseForeignUid(request, sent);
  const { resourceVersion } = sent.metadata;
  const hasVersion = request.name === undefined && Number(resourceVersion ?? "") > 0;
  leaveOwnersOnce(request, sent);
  const object = admitNew(write, sent, options);
  nameObject(env, request, object);
  const { name } = object.metadata;
  setServerMetadata(write, object);
  prepare(write, object);
  env.admission.validate(attributesOf(write, { operation: "CREATE", object, old: undefined, name }));
  // Last, as in upstream: what is wrong with the object outweighs that its name is taken.
  if (hasVersion && !request.dryRun) throw resourceVersionSet();
  const holder = entryOf(env, request, name);
  if (holder !== undefined) throw collision(request, object, holder);
  // The store fills it in, in this place.
  Object.assign(object.metadata, { resourceVersion: undefined });
  const stored = storedForm(definition, object);
  if (request.dryRun) {
    // The client sent resourceVersion to compare the result with the stored object.
    if (hasVersion && resourceVersion !== undefined) stored.metadata.resourceVersion = resourceVersion;
    return { object: viewOf(definition, { object: stored }), entry: undefined, isCreated: true };
  }
  const entry = tx.put(tableOf(env, definition), storageKey(request.namespace, name), stored);
  refuseOversized(entry, undefined);
  return { object: viewOf(definition, entry), entry, isCreated: true };
}

/** The object with its defaults and owners, and what admission makes of it; it is ours to change. */
function admitNew(write: Write, sent: ApiObject, { isApplied = false }: CreateOptions): ApiObject {
  const { env, request, replay } = write;
  clearSystemMetadata(sent);
  const whole = replay.inSlices("defaults", undefined, () => defaulting(request.definition, sent));
  const object = isApplied ? whole : trackChange(write, whole);
  return env.admission.mutate(attributesOf(write, { operation: "CREATE", object, old: undefined })) ?? object;
}

function* defaulting(definition: ResourceDefinition, sent: ApiObject): Steps<ApiObject> {
  applySchemaDefaults(definition, sent);
  yield;
  definition.strategy.applyDefaults?.(sent);
  return sent;
}

/** Everything that the kind adds and checks. */
function prepare(write: Write, object: ApiObject): void {
  const { definition } = write.request;
  const { strategy } = definition;
  if (definition.hasStatus && strategy.keepsStatusOnCreate !== true) resetStatus(definition, object);
  const context = writeContext(write);
  strategy.prepareForCreate?.(object, context);
  refuseInvalid(definition, object.metadata.name, [
    ...validateGenerateName(object, definition),
    ...validateMetadata(object, definition),
    ...validateSchema(definition, object, { subresource: "" }),
    ...(strategy.validateCreate?.(object, context) ?? []),
  ]);
}

/** Built-in kinds write an empty status, custom ones none. */
function resetStatus({ isCustom }: ResourceDefinition, object: ApiObject): void {
  if (isCustom) delete object["status"];
  else object["status"] = {};
}

/** An update that creates has no revision to compare with, and a text that is not a revision is not read as one. */
function resourceVersionSet(): StatusError {
  return new StatusError({
    code: 500,
    message: "resourceVersion should not be set on objects to be created",
  });
}

function refuseForeignUid(request: WriteRequest, { metadata }: ApiObject): void {
  if ((metadata.uid ?? "") === "" || request.name === undefined) return;
  // An update or patch of a certain object, which is not there any more.
  const why = `Precondition failed: UID in precondition: ${metadata.uid}, UID in object meta: `;
  throw conflict(request.definition, metadata.name, why);
}

function nameObject(env: WriteEnvironment, request: WriteRequest, object: ApiObject): void {
  const { metadata } = object;
  if ((metadata.name ?? "") !== "") return;
  const prefix = metadata.generateName ?? "";
  if (prefix === "") {
    const { group, kind } = request.definition;
    const message = "Required value: name or generateName is required";
    throw invalid(group, kind, "", [{ type: "FieldValueRequired", field: "metadata.name", message }]);
  }
  for (let tries = 0; tries < MAX_NAME_TRIES; tries += 1) {
    metadata.name = generateName(prefix, env.random);
    if (entryOf(env, request, metadata.name) === undefined) return;
  }
}

function collision(request: WriteRequest, object: ApiObject, holder: Entry): StatusError {
  const { name, generateName: prefix } = object.metadata;
  const refusal = alreadyExists(request.definition, name);
  if (holder.object.metadata.deletionTimestamp !== undefined) {
    const message = `object is being deleted: ${refusal.message}`;
    return new StatusError({ ...refusal.status, code: refusal.code, message });
  }
  if ((prefix ?? "") === "" || !name.startsWith(prefix ?? "")) return refusal;
  const details = { ...refusal.status.details, retryAfterSeconds: 1 };
  return new StatusError({ ...refusal.status, code: refusal.code, details });
}

function clearSystemMetadata({ metadata }: ApiObject): void {
  delete (metadata as { selfLink?: string }).selfLink;
  delete metadata.uid;
  delete metadata.creationTimestamp;
  delete metadata.deletionTimestamp;
  delete metadata.deletionGracePeriodSeconds;
}

function setServerMetadata({ env, tx, request }: Write, { metadata }: ApiObject): void {
  const { definition } = request;
  delete metadata.resourceVersion;
  if (!definition.namespaced) delete metadata.namespace;
  if (definition.strategy.generation !== "none") metadata.generation = 1;
  metadata.uid = env.newUid();
  metadata.creationTimestamp = timestamp(tx.nowMs);
}
