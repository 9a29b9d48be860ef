import type { ObjectMeta } from "@fairlead/kube/api/meta/types.ts";
import { cloneJson, isObject, sameJson } from "@fairlead/base/json.ts";
import { byText } from "@fairlead/base/text.ts";
import type { Steps } from "@fairlead/base/turn.ts";
import { applying, refuseUnfit } from "#patch/apply.ts";
import { tracking, type trackUpdate, withManagers } from "#patch/track-update.ts";
import type { Entry } from "#storage/entry.ts";
import { hasRules, validateRules } from "#cel/rules/validate.ts";
import { invalid } from "#values/field-errors.ts";
import { decodeBuiltin } from "#schema/builtin-decode.ts";
import { applyDefaults, dropNulls } from "#schema/defaults.ts";
import { REF_PREFIX, resolveDefinition } from "#schema/definitions.ts";
import { fieldProblems, pruneObject } from "#schema/prune.ts";
import { validateListTypes } from "#schema/list-types.ts";
import { validateValue } from "#schema/validate.ts";
import { inKeyOrder } from "#schema/key-order.ts";
import type { AbsentFields } from "#schema/releases.ts";
import type { Schema } from "#schema/types.ts";
import { type FieldError, type FieldErrorType, UndecodableError } from "#status.ts";
import { validateScale } from "./scale-fields.ts";
import type { ResourceDefinition } from "./types.ts";
import type { ApiObject } from "#values/object.ts";
import { timestamp } from "./metadata.ts";
import { apiVersionOf, type Write } from "./write.ts";

/** Processing of an object by schemas and field managers. */

export type FieldValidation = "Strict" | "Warn" | "Ignore";

export interface FieldCheck {
  readonly definition: {
    readonly schema: Schema;
    readonly kind: string;
    readonly isCustom?: boolean;
    readonly absent?: AbsentFields | undefined;
  };
  readonly object: ApiObject;
  readonly duplicates: readonly string[];
  /** The origin of the duplicates, if it is not the object. */
  readonly duplicatesIn?: "json patch ";
  readonly validation: FieldValidation;
  /** Whether unknown fields are reported in the order of their names: of what was written as a map before it is decoded. */
  readonly isMap?: boolean;
  /** Whether nulls that may not be stay to be refused, as in what server-side apply makes. */
  readonly keepsNulls?: boolean;
  /** See `BuiltinKind`. */
  readonly isConverted?: boolean;
  readonly warn: (message: string) => void;
}

/**
 * The object as its kind's types write it: without what the kind does not know, which is refused or reported as the
 * request asks (`fieldValidation`).
 *
 * @throws {StatusError} 400 if a value has another type or, under Strict, for unknown or duplicate fields.
 */
export function checkFields(check: FieldCheck): ApiObject {
  const { schema, kind, isCustom } = check.definition;
  const { object } = check;
  const shaped = isCustom === true ? pruneCustom(kind, schema, object) : decodeBuiltinKind(check);
  const isSorted = check.isMap === true && isCustom !== true;
  reportFields(check, isSorted ? shaped.unknown.toSorted(byText) : shaped.unknown);
  if (isCustom === true && check.keepsNulls !== true) dropNulls(shaped.object, schema);
  return shaped.object;
}

/** Refuses or reports what is wrong with the fields of a body. */
export function reportFields(check: FieldCheck, unknown: readonly string[]): void {
  const { object, duplicates, duplicatesIn, validation, warn } = check;
  const { kind } = check.definition;
  const problems = validation === "Ignore" ? [] : fieldProblems(unknown, duplicates, duplicatesIn);
  if (problems.length === 0) return;
  if (validation === "Strict") {
    throw new UndecodableError(kind, versionOf(object), `strict decoding error: ${problems.join(", ")}`);
  }
  for (const it of problems) warn(it);
}

function versionOf({ apiVersion }: ApiObject): string {
  return apiVersion.slice(apiVersion.indexOf("/") + 1);
}

interface Shaped {
  readonly object: ApiObject;
  readonly unknown: readonly string[];
}

function decodeBuiltinKind({ definition, object, isConverted = false }: FieldCheck): Shaped {
  const { kind, schema, absent } = definition;
  const decoded = decodeBuiltin(object, { kind, version: versionOf(object), schema, absent, isConverted });
  const { apiVersion, metadata } = object;
  return {
    object: { ...decoded.object, kind, apiVersion, metadata: metadataOf(decoded.object, metadata) },
    unknown: decoded.unknown,
  };
}

/** An empty metadata goes the way of every zero value; the server needs it to be there. */
function metadataOf({ metadata }: Readonly<Record<string, unknown>>, sent: ObjectMeta): ObjectMeta {
  return isObject(metadata)
    ? withReset(metadata as unknown as ObjectMeta, sent)
    : withReset({ name: sent.name }, sent);
}

/** An empty list of managers resets them, as one empty manager does; other empty lists are as good as none, and go. */
function withReset(metadata: ObjectMeta, { managedFields }: ObjectMeta): ObjectMeta {
  const isReset = Array.isArray(managedFields) && managedFields.length === 0;
  return isReset ? { ...metadata, managedFields: [{}] } : metadata;
}

/** The metadata of custom objects is of the same Go type as that of all others. */
const METADATA: Schema = { $ref: `${REF_PREFIX}io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta` };

function pruneCustom(kind: string, schema: Schema, object: ApiObject): Shaped {
  const of = { kind, version: versionOf(object), schema: METADATA };
  const decoded = decodeBuiltin(object.metadata, of).object as unknown as ObjectMeta;
  const metadata = withReset(decoded, object.metadata);
  const { value, unknown } = pruneObject(object, schema, resolveDefinition);
  return { object: { ...value, metadata }, unknown };
}

/** Fills in what the schema of a custom kind defaults; built-in kinds do it by their strategies. */
export function applySchemaDefaults({ isCustom, schema }: ResourceDefinition, object: ApiObject): void {
  if (isCustom) applyDefaults(object, schema);
}

interface SchemaCheck {
  readonly old?: ApiObject;
  readonly subresource: string;
}

/** The schema errors of a custom resource; unchanged parts are not validated by newer rules. */
export function validateSchema(
  { isCustom, schema, scale }: ResourceDefinition,
  object: ApiObject,
  check: SchemaCheck,
): readonly FieldError[] {
  if (!isCustom) return [];
  const { old, subresource } = check;
  const before = old === undefined ? {} : { old };
  const errors = [
    ...validateFields(schema, object, check),
    ...(scale === undefined ? [] : validateScale(object, scale, subresource)),
    ...validateLists(schema, object, old),
  ];
  if (!hasRules(schema)) return errors;
  if (errors.some((it) => BLOCKING.has(it.type))) return [...errors, RULES_SKIPPED];
  return [...errors, ...validateRules({ value: object, schema, path: "", ...before })];
}

/** Checks the fields of an object; an update of the status is checked in the status alone. */
function validateFields(
  schema: Schema,
  object: ApiObject,
  { old, subresource }: SchemaCheck,
): readonly FieldError[] {
  const resolve = resolveDefinition;
  if (subresource !== "status") return validateValue({ value: object, schema, path: "", resolve, old });
  const part = "status";
  const status = schema.properties?.[part];
  if (status === undefined) return [];
  return validateValue({ value: object[part], schema: status, path: part, resolve, part, old: old?.[part] });
}

/** Checks lists. An object whose lists were wrong before can still be updated. */
function validateLists(schema: Schema, object: ApiObject, old: ApiObject | undefined): readonly FieldError[] {
  const errors = validateListTypes(object, schema);
  const wasWrong = errors.length > 0 && old !== undefined && validateListTypes(old, schema).length > 0;
  return wasWrong ? [] : errors;
}

/**
 * With one of these errors, rules are not evaluated: rules may rely on values of the right type within their limits.
 * Source: apiextensions-apiserver, pkg/registry/customresource, `hasBlockingErr`.
 */
const BLOCKING: ReadonlySet<FieldErrorType> = new Set([
  "FieldValueNotSupported",
  "FieldValueRequired",
  "FieldValueTooLong",
  "FieldValueTooMany",
  "FieldValueTypeInvalid",
]);
const RULES_SKIPPED = invalid(
  "<nil>",
  null,
  "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
);

export interface Before {
  readonly old: ApiObject;
  readonly entry: Entry;
  /** The status of the body, which a write of the object itself drops. */
  readonly sentStatus: unknown;
}

/** The object with what it changes given to the one who changes it. */
export function trackChange({ request, replay, tx }: Write, after: ApiObject, before?: Before): ApiObject {
  const { definition, fieldManager, subresource } = request;
  const origin = originOf({ definition, manager: fieldManager, subresource, nowMs: tx.nowMs });
  const { empty = {} } = definition.strategy;
  const managedFields = replay.inSlices("owners", before?.entry, () =>
    tracking({ ...origin, before: before?.old, after: asSent(request, after, before), empty }),
  );
  return withManagers(after, managedFields);
}

/** Owners of a custom object are worked out before the status is reset. */
function asSent(
  { definition, subresource }: Write["request"],
  after: ApiObject,
  before: Before | undefined,
): ApiObject {
  const { isCustom, hasStatus, schema } = definition;
  if (!isCustom || !hasStatus || subresource !== "" || before === undefined) return after;
  const { sentStatus } = before;
  if (sameJson(sentStatus, after["status"])) return after;
  const part: Record<string, unknown> = sentStatus === undefined ? {} : { status: cloneJson(sentStatus) };
  const status = schema.properties?.["status"];
  if (status !== undefined) applyDefaults(part, { properties: { status } });
  const { status: _, ...rest } = after;
  return { ...rest, ...part };
}

export interface Application {
  readonly definition: ResourceDefinition;
  readonly live: ApiObject | undefined;
  readonly config: ApiObject;
  readonly manager: string;
  readonly force: boolean;
  readonly subresource: string;
  readonly nowMs: number;
  /** See `ApplyRequest`. */
  readonly partVersion?: string | undefined;
}

/** @throws {StatusError} 400 or 500 for a configuration that does not fit the kind. */
export function checkApplied(definition: ResourceDefinition, config: ApiObject): void {
  const apiVersion = apiVersionOf(definition);
  refuseUnfit({ applied: config, apiVersion, schema: definition.schema, resolve: resolveDefinition });
}

/** Server-side apply: the live object with `config` merged into it. */
export function applyConfiguration({
  live,
  config,
  force,
  partVersion,
  ...of
}: Application): Steps<ApiObject> {
  return applying({ ...originOf(of), live, applied: config, force, partVersion });
}

function originOf({
  definition,
  manager,
  subresource,
  nowMs,
}: Pick<Application, "definition" | "manager" | "subresource" | "nowMs">): Omit<
  Parameters<typeof trackUpdate>[0],
  "before" | "after"
> {
  const { schema, schemaOf, hasStatus, isCustom } = definition;
  const apiVersion = apiVersionOf(definition);
  return {
    manager,
    apiVersion,
    subresource,
    hasStatus,
    isCustom,
    now: timestamp(nowMs),
    schema,
    schemaOf,
    resolve: resolveDefinition,
  };
}

/** A custom object without what its stored version does not know. */
export function pruneToSchema(schema: Schema, object: ApiObject): ApiObject {
  return pruneObject(object, schema, resolveDefinition).value;
}

/** A custom object as it reads under `schema`; the object itself where that changes nothing. */
export function shapeCustom(schema: Schema, object: ApiObject): ApiObject {
  const copy = cloneJson(pruneObject(object, schema, resolveDefinition).value);
  applyDefaults(copy, schema);
  dropNulls(copy, schema);
  return sameJson(copy, object) ? object : inKeyOrder(copy);
}
