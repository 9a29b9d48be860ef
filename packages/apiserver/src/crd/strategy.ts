import { ensureFields, type Fields, fieldsAt } from "@fairlead/base/fields.ts";
import type { Strategy, WriteContext } from "#registry/types.ts";
import type { ApiObject, ObjectReader } from "#values/object.ts";
import { isKnownFormat } from "#schema/formats.ts";
import type { Schema } from "#schema/types.ts";
import { planCrdStatus, storedVersionsOf, terminating } from "./status.ts";
import { CLEANUP_FINALIZER, type Crd, CRD_GROUP, CRD_PLURAL, type CrdNames } from "./types.ts";
import { validateCrd, validateCrdUpdate } from "./validate.ts";
import { isObject } from "@fairlead/base/json.ts";

/** The strategy of `customresourcedefinitions`. */
export const crdStrategy: Strategy = {
  generation: "spec",
  allowUnconditionalUpdate: false,
  allowCreateOnUpdate: false,
  applyDefaults,
  prepareForCreate(object, context) {
    delete object["status"];
    setStatus(object, context);
  },
  prepareForUpdate: (object, _old, context) => setStatus(object, context),
  validateCreate(object, { warn }) {
    for (const it of unrecognizedFormats(object as Crd)) warn(`unrecognized format ${JSON.stringify(it)}`);
    return validateCrd(object as Crd);
  },
  validateUpdate(object, old, { subresource, warn }) {
    if (subresource !== "") return [];
    const known = new Set(unrecognizedFormats(old as Crd));
    const added = unrecognizedFormats(object as Crd).filter((it) => !known.has(it));
    for (const it of added) warn(`unrecognized format ${JSON.stringify(it)}`);
    return validateCrdUpdate(object as Crd, old as Crd);
  },
  // Only what ends waits for its instances to go.
  beginDeletion(object, nowMs) {
    const { metadata } = object;
    metadata.finalizers = [...new Set([...(metadata.finalizers ?? []), CLEANUP_FINALIZER])];
    object["status"] = terminating(object as Crd, nowMs);
  },
};

/** Formats in the schemas that mean nothing, which is allowed. */
function unrecognizedFormats({ spec }: { readonly spec?: Partial<Crd["spec"]> }): readonly string[] {
  const found = new Set<string>();
  const visit = (schema: Schema | undefined): void => {
    if (schema === undefined) return;
    const { format = "", type, items, additionalProperties, properties = {} } = schema;
    if (format !== "" && !isKnownFormat(format, type)) found.add(format);
    for (const it of [items, ...Object.values(properties)]) visit(it);
    if (typeof additionalProperties === "object") visit(additionalProperties);
  };
  for (const { schema } of spec?.versions ?? []) visit(schema?.openAPIV3Schema);
  return [...found];
}

const HTTPS_PORT = 443;

function applyDefaults(object: ApiObject): void {
  const { spec } = object;
  if (!isObject(spec)) return;
  const { names } = spec;
  if (isObject(names) && typeof names["kind"] === "string") setNameDefaults(names, names["kind"]);
  setConversionDefaults(ensureFields(spec, "conversion"));
  if (spec["preserveUnknownFields"] === false) delete spec["preserveUnknownFields"];
  for (const version of Array.isArray(spec["versions"]) ? (spec["versions"] as unknown[]) : []) {
    if (!isObject(version)) continue;
    version["served"] ??= false;
    version["storage"] ??= false;
  }
}

function setConversionDefaults(conversion: Fields): void {
  conversion["strategy"] ??= "None";
  const service = fieldsAt(fieldsAt(fieldsAt(conversion, "webhook"), "clientConfig"), "service");
  if (service !== undefined) service["port"] ??= HTTPS_PORT;
}

function setNameDefaults(names: Record<string, unknown>, kind: string): void {
  if ((names["singular"] ?? "") === "") names["singular"] = kind.toLowerCase();
  if (kind !== "" && (names["listKind"] ?? "") === "") names["listKind"] = `${kind}List`;
}

function setStatus(object: ApiObject, context: WriteContext): void {
  // Versions are removed from storedVersions by an update of the status, after a migration of the stored objects.
  if (context.subresource === "")
    object["status"] = { ...(object as Crd).status, storedVersions: storedVersionsOf(object as Crd) };
  if (hasNames(object))
    object["status"] = planCrdStatus(object as Crd, otherCrds(context.reader), context.nowMs);
}

/** Whether a definition has the fields that its status is computed from; validation rejects it otherwise. */
function hasNames(object: ApiObject): boolean {
  const { spec } = object;
  if (!isObject(spec) || !Array.isArray(spec["versions"])) return false;
  const names = spec["names"] as Partial<CrdNames> | undefined;
  return typeof names?.plural === "string" && typeof names.kind === "string";
}

function otherCrds(reader: ObjectReader): readonly Crd[] {
  return [...reader.list(CRD_GROUP, CRD_PLURAL)] as Crd[];
}
