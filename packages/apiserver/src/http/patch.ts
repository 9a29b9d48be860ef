import { defined } from "@fairlead/base/defined.ts";
import type { ObjectMeta } from "@fairlead/kube/api/meta/types.ts";
import { cloneJson, isObject } from "@fairlead/base/json.ts";
import type { Steps } from "@fairlead/base/turn.ts";
import { kindText } from "#patch/apply.ts";
import { goText, goTypeName } from "#patch/go-text.ts";
import { applyJsonPatch } from "#patch/json-patch.ts";
import { applyMergePatch } from "#patch/merge-patch.ts";
import { mergeStrategically } from "#patch/strategic-merge.ts";
import { invalidValue } from "#registry/metadata.ts";
import type { Registry } from "#registry/registry.ts";
import {
  applyConfiguration,
  checkApplied,
  checkFields,
  type FieldValidation,
  reportFields,
} from "#registry/shape.ts";
import type { ResourceDefinition } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import type { ObjectPart } from "#registry/update.ts";
import {
  apiVersionOf,
  editableCopy,
  refuseOtherNamespace,
  type WriteRequest,
  type WriteResult,
} from "#registry/write.ts";
import { resolveDefinition } from "#schema/definitions.ts";
import { inKeyOrder } from "#schema/key-order.ts";
import { parseJsonSteps } from "#schema/json.ts";
import { parseYamlSteps } from "#schema/yaml.ts";
import type { Entry } from "#storage/entry.ts";
import {
  badRequest,
  type FieldError,
  invalid,
  StatusError,
  UndecodableError,
  unsupportedMediaType,
} from "#status.ts";
import { mediaType, refuseUnstorable, utf8 } from "./body.ts";
import type { Exchange } from "./exchange.ts";
import { ofKind, withoutNulls } from "./objects.ts";
import { parseFieldValidation, refuseOptions } from "./options.ts";
import { isTrue } from "./path.ts";

const JSON_PATCH = "application/json-patch+json";
const MERGE_PATCH = "application/merge-patch+json";
const STRATEGIC_PATCH = "application/strategic-merge-patch+json";
const APPLY_PATCH = "application/apply-patch+yaml";

const TYPES = new Set([JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH]);

/** Computes the new state from the present one. */
interface Transform {
  /** The object is a copy, which may be changed. */
  readonly apply: (object: ApiObject) => Steps<unknown>;
  readonly duplicates: readonly string[];
  readonly duplicatesIn?: "json patch ";
  /** Whether the result does not go through JSON. */
  readonly isConverted?: boolean;
  /** The object that an error about the result shows. Default: the result. */
  readonly shown?: () => string;
}

/** An object of another kind that a subresource shows in place of the whole: what is patched, and what becomes of it. */
export interface PatchedPart extends ObjectPart {
  readonly definition: ResourceDefinition;
  /** Refuses what the part must not say. */
  readonly check: (part: ApiObject) => void;
  /** A configuration of the part as one of the whole. */
  readonly configurationOf: (config: ApiObject) => ApiObject;
}

export async function patchObject(
  registry: Registry,
  exchange: Exchange,
  request: WriteRequest,
  part?: PatchedPart,
): Promise<WriteResult> {
  const type = mediaType(exchange.request.headers["content-type"]);
  const { isCustom } = request.definition;
  const taken = [JSON_PATCH, MERGE_PATCH, ...(isCustom ? [] : [STRATEGIC_PATCH]), APPLY_PATCH];
  if (!TYPES.has(type) && !isCustom) throw unroutedMediaType();
  if (!taken.includes(type)) {
    throw unsupportedMediaType(
      `the body of the request was in an unknown format - accepted media types include: ${taken.join(", ")}`,
    );
  }
  checkForce(type, exchange.query);
  const validation = parseFieldValidation(exchange);
  const text = utf8(exchange.body);
  if (type === APPLY_PATCH) return applyPatch(registry, exchange, { request, text, part, validation });
  if (type !== JSON_PATCH) refuseUnstorable(exchange.body);
  const shown = shownAs(request, part);
  // Each attempt changes what it parsed.
  let parsed = registry.has(request) ? await exchange.finish(transformOf(type, text, shown)) : undefined;
  function* changed(entry: Entry): Steps<ApiObject> {
    const transform = parsed ?? (yield* transformOf(type, text, shown));
    parsed = undefined;
    const whole = editableCopy(request.definition, entry);
    yield;
    const current = part?.of(whole) ?? whole;
    const { uid } = current.metadata;
    const value = yield* transform.apply(current);
    yield;
    const object = patched(exchange, shown, { value, transform, validation });
    refuseOtherUid(shown.definition, object, uid);
    if (part === undefined) return object;
    part.set(whole, object);
    return whole;
  }
  return registry.change(request, (entry, { replay }) => {
    if (entry === undefined) return undefined;
    const input = replay.inSlices("patch", entry, () => changed(entry));
    return { input, ...defined({ part }) };
  });
}

/** The request as if it were for an object of the part's kind. */
function shownAs(request: WriteRequest, part: PatchedPart | undefined): WriteRequest {
  return part === undefined ? request : { ...request, definition: part.definition };
}

function* transformOf(type: string, text: string, { definition }: WriteRequest): Steps<Transform> {
  const { value: patch, duplicates } = yield* parseJsonSteps(text);
  switch (type) {
    case JSON_PATCH:
      return {
        apply: (object) => atOnce(() => applyJsonPatch(object, patch)),
        duplicates,
        duplicatesIn: "json patch ",
      };
    case MERGE_PATCH:
      if (!isObject(patch)) throw notAMergePatch(patch);
      return {
        apply: (object) => atOnce(() => applyMergePatch(object, patch)),
        duplicates,
      };
    default:
      return {
        *apply(object) {
          // The kind in the patch is ignored.
          const { kind, apiVersion } = object;
          const changes = cloneJson(patch);
          yield;
          const merged = mergeStrategically(object, changes, definition.schema, resolveDefinition);
          return { ...merged, kind, apiVersion };
        },
        duplicates,
        isConverted: true,
        shown: () => goText(patch),
      };
  }
}

function* atOnce<T>(work: () => T): Steps<T> {
  yield;
  return work();
}

/** The result of a patch is decoded as the body of an update would be. */
function patched(
  exchange: Exchange,
  request: WriteRequest,
  {
    value,
    transform,
    validation,
  }: { readonly value: unknown; readonly transform: Transform; readonly validation: FieldValidation },
): ApiObject {
  const { definition } = request;
  const { duplicates, duplicatesIn } = transform;
  const warn = (message: string): void => exchange.warn(message);
  // Before decoding makes it what its kind is.
  const sent: unknown = isObject(value) ? { ...value } : value;
  try {
    const object = patchedKind(value, definition);
    const twice = duplicatesIn === undefined ? { duplicates } : { duplicates, duplicatesIn };
    const { isConverted = false } = transform;
    const checked = checkFields({
      definition,
      object,
      ...twice,
      validation,
      warn,
      isConverted,
      isMap: true,
    });
    refuseOtherPlace({ ...checked.metadata }, request);
    return checked;
  } catch (error) {
    if (!(error instanceof UndecodableError)) throw error;
    const { why } = transform.isConverted === true ? error : firstByName(error, sent, definition);
    throw invalid("", "", "", [invalidValue("patch", transform.shown?.() ?? JSON.stringify(sent), why)]);
  }
}

/** Of several values of other types, the one that Go reports: it has written the patched object as a map, whose fields have an order. */
function firstByName(
  error: UndecodableError,
  sent: unknown,
  definition: ResourceDefinition,
): UndecodableError {
  if (!isObject(sent)) return error;
  try {
    const object = patchedKind({ ...inKeyOrder(sent) }, definition);
    checkFields({ definition, object, duplicates: [], validation: "Ignore", warn: () => undefined });
  } catch (other) {
    if (other instanceof UndecodableError) return other;
  }
  return error;
}

/** A patch may not make another kind of an object. */
function patchedKind(value: unknown, definition: ResourceDefinition): ApiObject {
  const { group, kind, isCustom } = definition;
  const apiVersion = apiVersionOf(definition);
  if (!isObject(value)) throw new UndecodableError(kind, apiVersion, "not a JSON object");
  const said = { kind: value["kind"] ?? "", apiVersion: value["apiVersion"] ?? "" };
  for (const field of ["kind", "apiVersion"] as const) {
    const wanted = field === "kind" ? kind : apiVersion;
    if (said[field] === "" || said[field] === wanted) continue;
    if (!isCustom) {
      const why = `no kind ${JSON.stringify(said.kind)} of version ${JSON.stringify(said.apiVersion)} is served here`;
      throw new UndecodableError(kind, apiVersion, why);
    }
    const { name } = value["metadata"] as ObjectMeta;
    const wrong = invalidValue(field, said[field], `must be ${wanted}`);
    throw invalid(group, goText(said.kind), name, [wrong]);
  }
  return ofKind(value, { kind, apiVersion });
}

interface Applied {
  readonly request: WriteRequest;
  readonly text: string;
  readonly part: PatchedPart | undefined;
  readonly validation: FieldValidation;
}

/** Server-side apply: creates what is absent (KEP-555). */
async function applyPatch(
  registry: Registry,
  exchange: Exchange,
  { request, text, part, validation }: Applied,
): Promise<WriteResult> {
  const { definition, subresource } = request;
  const shown = shownAs(request, part);
  const manager = exchange.query.get("fieldManager") ?? "";
  if (manager === "")
    throw refuseOptions("PATCH", {
      type: "FieldValueRequired",
      field: "fieldManager",
      message: "Required value: is required for apply patch",
    });
  refuseUnstorable(exchange.body);
  const { value, duplicates } = await exchange.finish(parseYamlSteps(text));
  const sent = asConfiguration(value, shown);
  if (part !== undefined) checkApplied(part.definition, sent);
  const config = part?.configurationOf(sent) ?? sent;
  const check = {
    definition: shown.definition,
    object: sent,
    duplicates,
    validation,
    warn: (message: string): void => exchange.warn(message),
  };
  reportFields(check, []);
  const force = isTrue(exchange.query.get("force"));
  if (!registry.has(request)) await registry.awaitPrerequisites(request, config);
  function* applied(entry: Entry | undefined, nowMs: number): Steps<ApiObject> {
    const live = entry === undefined ? undefined : editableCopy(definition, entry);
    yield;
    // What is there is known by the path; what is new says its name.
    if (live === undefined) refuseOtherPlace({ ...config.metadata }, request);
    const object = yield* applyConfiguration({
      definition,
      live,
      config,
      manager,
      force,
      subresource,
      nowMs,
      partVersion: part === undefined ? undefined : apiVersionOf(part.definition),
    });
    refuseOtherUid(definition, object, live?.metadata.uid);
    part?.check(part.of(object));
    yield;
    // The configuration is taken as it was written; what is stored is what the kind's types make of it.
    try {
      return checkFields({
        ...check,
        definition,
        object,
        validation: "Ignore",
        keepsNulls: true,
        isConverted: true,
      });
    } catch (error) {
      throw error instanceof UndecodableError ? inconvertible(config, error) : error;
    }
  }
  return registry.change(request, (entry, { replay, tx }) => {
    if (entry === undefined && subresource !== "") return undefined;
    const input = replay.inSlices("apply", entry, () => applied(entry, tx.nowMs));
    return { input, isApplied: true, ...defined({ part }) };
  });
}

/** No client's error by its code, as for a configuration of other types: kube-apiserver passes on what it takes for its own. */
function inconvertible({ apiVersion, kind, metadata }: ApiObject, { why }: UndecodableError): StatusError {
  const { namespace = "", name } = metadata;
  const of = kindText(apiVersion, kind);
  const message = `failed to convert new object (${namespace}/${name}; ${of}) to proper version: unable to convert unstructured object to ${of}: ${why}`;
  return new StatusError({ code: 500, message });
}

function notAMergePatch(patch: unknown): StatusError {
  if (patch === null) return badRequest("Invalid JSON Patch");
  const type = goTypeName(patch);
  return badRequest(
    `error decoding patch: json: cannot unmarshal ${type} into Go value of type map[string]interface {}`,
  );
}

/** A configuration says itself what it is of, as no other body must. */
function asConfiguration(value: unknown, { definition, namespace, name }: WriteRequest): ApiObject {
  if (value !== null && value !== undefined && !isObject(value)) throw notAnObject(value);
  const config = isObject(value) ? value : {};
  const { kind = "", apiVersion = "", metadata = {} } = config;
  if (kind !== definition.kind || apiVersion !== apiVersionOf(definition))
    throw badRequest(`invalid object type: ${kindText(String(apiVersion), String(kind))}`);
  const given = isObject(metadata) ? metadata : {};
  refuseOtherPlace({ ...given, name: given["name"] ?? name }, { namespace, name });
  config["metadata"] = withoutNulls(metadata);
  return config as ApiObject;
}

function refuseOtherPlace(
  metadata: Readonly<Record<string, unknown>>,
  { namespace, name }: Pick<WriteRequest, "namespace" | "name">,
): void {
  const given = { name: metadata["name"] ?? "", namespace: metadata["namespace"] ?? "" };
  if (given.name === "") {
    throw badRequest(
      `the name of the object (${name} based on URL) was undeterminable: name must be provided`,
    );
  }
  if (given.name !== name) {
    throw badRequest(
      `the name of the object (${goText(given.name)}) does not match the name on the URL (${name})`,
    );
  }
  refuseOtherNamespace(given.namespace, namespace);
}

function notAnObject(value: unknown): StatusError {
  return badRequest(
    `error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal ${goTypeName(value)} into Go value of type map[string]interface {}`,
  );
}

/** A PUT names the uid that it expects; a patch that changes it changes what cannot be changed. */
function refuseOtherUid(
  { group, kind }: ResourceDefinition,
  { metadata }: ApiObject,
  current: string | undefined,
): void {
  const uid = metadata.uid ?? "";
  if (current === undefined || uid === "" || uid === current) return;
  const message = `Invalid value: ${JSON.stringify(uid)}: field is immutable`;
  const wrong: FieldError = { type: "FieldValueInvalid", field: "metadata.uid", message };
  // Upstream finds it twice: by the rules of metadata, and by those of the kind.
  throw invalid(group, kind, metadata.name, [wrong, wrong]);
}

/** A type that no PATCH takes: a real server's router, which has the built-in kinds alone, says so before anyone looks at the resource. */
function unroutedMediaType(): StatusError {
  const message = "415: Unsupported Media Type";
  return new StatusError({ code: 415, reason: "UnsupportedMediaType", message, details: {} });
}

/** `force` belongs to apply alone. */
function checkForce(type: string, query: URLSearchParams): void {
  if (type === APPLY_PATCH || query.get("force") === null) return;
  throw refuseOptions("PATCH", {
    type: "FieldValueForbidden",
    field: "force",
    message: "Forbidden: may not be specified for non-apply patch",
  });
}
