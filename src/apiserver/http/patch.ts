import { applyJsonPatch } from "../patch/json-patch.ts";
import { applyMergePatch } from "../patch/merge-patch.ts";
import { applyStrategicMergePatch } from "../patch/strategic-merge.ts";
import type { Registry } from "../registry/registry.ts";
import { applyConfiguration, checkFields, reportFields } from "../registry/shape.ts";
import type { ApiObject } from "../registry/types.ts";
import { apiVersionOf, editableCopy, type WriteRequest, type WriteResult } from "../registry/write.ts";
import { resolveDefinition } from "../schema/definitions.ts";
import { parseJson } from "../schema/json.ts";
import { parseYaml } from "../schema/yaml.ts";
import { StatusError, unsupportedMediaType } from "../status.ts";
import { mediaType, readBody, utf8 } from "./body.ts";
import type { Exchange } from "./exchange.ts";
import { asObject } from "./objects.ts";
import { parseFieldValidation, refuseOptions } from "./options.ts";
import { isTrue } from "./path.ts";

const JSON_PATCH = "application/json-patch+json";
const MERGE_PATCH = "application/merge-patch+json";
const STRATEGIC_PATCH = "application/strategic-merge-patch+json";
const APPLY_PATCH = "application/apply-patch+yaml";

const TYPES = new Set([JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH]);

/** What makes the new state out of the present one. */
type Transform = (object: ApiObject) => unknown;

export async function patchObject(
  registry: Registry,
  exchange: Exchange,
  request: WriteRequest,
): Promise<WriteResult> {
  const type = mediaType(exchange.request.headers["content-type"]);
  const { isCustom } = request.definition;
  const taken = [JSON_PATCH, MERGE_PATCH, ...(isCustom ? [] : [STRATEGIC_PATCH]), APPLY_PATCH];
  if (!TYPES.has(type)) throw unroutedMediaType();
  if (!taken.includes(type)) {
    throw unsupportedMediaType(
      `the body of the request was in an unknown format - accepted media types include: ${taken.join(", ")}`,
    );
  }
  checkForce(type, exchange.query);
  const text = utf8(await readBody(exchange.request));
  if (type === APPLY_PATCH) return applyPatch(registry, exchange, request, text);
  return registry.change(request, (entry) => {
    if (entry === undefined) return undefined;
    const transform = parseTransform(type, text, request);
    const current = editableCopy(request.definition, entry);
    return { input: patched(exchange, request, transform(current)) };
  });
}

function parseTransform(type: string, text: string, { definition }: WriteRequest): Transform {
  const { value: patch } = parseJson(text);
  switch (type) {
    case JSON_PATCH:
      return (object) => applyJsonPatch(object, patch);
    case MERGE_PATCH:
      return (object) => applyMergePatch(object, patch);
    default:
      return (object) => applyStrategicMergePatch(object, patch, definition.schema, resolveDefinition);
  }
}

/** The result of a patch is decoded as the body of an update would be. */
function patched(exchange: Exchange, { definition }: WriteRequest, value: unknown): ApiObject {
  const object = asObject(value, definition.kind, apiVersionOf(definition));
  const validation = parseFieldValidation(exchange);
  const warn = (message: string): void => exchange.warn(message);
  return checkFields({ definition, object, duplicates: [], validation, warn });
}

/** Server-side apply: creates what is absent (KEP-555). */
async function applyPatch(
  registry: Registry,
  exchange: Exchange,
  request: WriteRequest,
  text: string,
): Promise<WriteResult> {
  const { definition, subresource } = request;
  const manager = exchange.query.get("fieldManager") ?? "";
  if (manager === "")
    throw refuseOptions("PATCH", {
      type: "FieldValueRequired",
      field: "fieldManager",
      message: "Required value: is required for apply patch",
    });
  const { value, duplicates } = parseYaml(text);
  const config = asObject(value, definition.kind, apiVersionOf(definition));
  const check = {
    definition,
    object: config,
    duplicates,
    validation: parseFieldValidation(exchange),
    warn: (message: string): void => exchange.warn(message),
  };
  reportFields(check, []);
  const force = isTrue(exchange.query.get("force"));
  if (!registry.has(request)) await registry.awaitPrerequisites(request, config);
  return registry.change(request, (entry, tx) => {
    if (entry === undefined && subresource !== "") return undefined;
    const live = entry === undefined ? undefined : editableCopy(definition, entry);
    const { nowMs } = tx;
    const object = applyConfiguration({ definition, live, config, manager, force, subresource, nowMs });
    // The configuration is taken as it was written; what is stored is what the kind's types make of it.
    return { input: checkFields({ ...check, object, validation: "Ignore" }), isApplied: true };
  });
}

/** A type that no PATCH takes: a real server's router says so, before anyone looks at the resource. */
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
