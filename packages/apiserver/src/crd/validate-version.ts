import { duplicate, invalid, required, tooMany } from "#values/field-errors.ts";
import type { Schema } from "#schema/types.ts";
import type { FieldError } from "#status.ts";
import type { CrdVersion, PrinterColumn } from "./types.ts";

/** Validation of one version of a definition, except its schema. Source: apiextensions-apiserver, pkg/apis/apiextensions/validation. */

const COLUMN_TYPES = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
const MAX_SELECTABLE_FIELDS = 8;
const MAX_WARNING_LENGTH = 256;

export function validateColumns(columns: readonly Partial<PrinterColumn>[], field: string): FieldError[] {
  return columns.flatMap(({ name = "", type = "", format = "", jsonPath = "" }, at) => {
    const place = `${field}[${at}]`;
    const types = `must be one of ${COLUMN_TYPES.join(",")}`;
    const formats = `must be one of ${COLUMN_FORMATS.join(",")}`;
    return [
      ...(name === "" ? [required(`${place}.name`)] : []),
      ...(type === "" ? [required(`${place}.type`, types)] : []),
      ...(type === "" || COLUMN_TYPES.includes(type) ? [] : [invalid(`${place}.type`, type, types)]),
      ...(format === "" || COLUMN_FORMATS.includes(format)
        ? []
        : [invalid(`${place}.format`, format, formats)]),
      ...unlessPath(`${place}.JSONPath`, jsonPath),
    ];
  });
}

/** Paths are held to no more than this when they are defined. */
function unlessPath(field: string, path: string): FieldError[] {
  if (path === "") return [required(field)];
  return path.startsWith(".") ? [] : [invalid(field, path, "must be a simple json path starting with .")];
}

type Scale = NonNullable<NonNullable<CrdVersion["subresources"]>["scale"]>;

export function validateScale(scale: Partial<Scale> | undefined, field: string): FieldError[] {
  if (scale === undefined) return [];
  const { specReplicasPath = "", statusReplicasPath = "", labelSelectorPath = "" } = scale;
  return [
    ...unlessUnder(`${field}.scale.specReplicasPath`, specReplicasPath, [".spec"]),
    ...unlessUnder(`${field}.scale.statusReplicasPath`, statusReplicasPath, [".status"]),
    ...(labelSelectorPath === ""
      ? []
      : unlessUnder(`${field}.scale.labelSelectorPath`, labelSelectorPath, [".spec", ".status"])),
  ];
}

function unlessUnder(field: string, path: string, roots: readonly string[]): FieldError[] {
  const errors = unlessPath(field, path);
  if (errors.length > 0 || roots.some((it) => path.startsWith(`${it}.`))) return errors;
  const where = roots.length === 1 ? roots.join("") : `either ${roots.join(" or ")}`;
  return [invalid(field, path, `should be a json path under ${where}`)];
}

const NOT_SELECTABLE =
  "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";

export function validateSelectable(
  { selectableFields = [], schema }: CrdVersion,
  field: string,
): FieldError[] {
  const seen = new Set<string>();
  const errors: FieldError[] = [];
  for (const [at, { jsonPath }] of selectableFields.entries()) {
    const place = `${field}[${at}].jsonPath`;
    const found = fieldAt(jsonPath, schema?.openAPIV3Schema);
    if (jsonPath === "") errors.push(required(place));
    else if (found === undefined)
      errors.push(invalid(place, jsonPath, "is an invalid path: does not refer to a valid field"));
    else {
      errors.push(...unselectable(jsonPath, found).map((why) => invalid(place, jsonPath, why)));
      if (seen.has(jsonPath)) errors.push(duplicate(place, jsonPath));
      seen.add(jsonPath);
    }
  }
  if (seen.size > MAX_SELECTABLE_FIELDS) errors.push(tooMany(field, seen.size, MAX_SELECTABLE_FIELDS));
  return errors;
}

function unselectable(path: string, { type }: Schema): string[] {
  const problems = /^\.metadata\b/.test(path) ? ["must not point to fields in metadata"] : [];
  return type === "string" || type === "boolean" || type === "integer"
    ? problems
    : [...problems, NOT_SELECTABLE];
}

/** The schema of the field that a path of plain names leads to. */
function fieldAt(path: string, root: Schema | undefined): Schema | undefined {
  if (!/^(\.[A-Za-z_][\w-]*)+$/.test(path)) return undefined;
  return path
    .slice(1)
    .split(".")
    .reduce<Schema | undefined>((schema, name) => {
      const { properties = {}, additionalProperties: additional } = schema ?? {};
      if (Object.hasOwn(properties, name)) return properties[name];
      return typeof additional === "object" ? additional : undefined;
    }, root);
}

export function validateDeprecation(
  { deprecated = false, deprecationWarning }: CrdVersion,
  field: string,
): FieldError[] {
  if (deprecationWarning === undefined) return [];
  const wrong = (why: string): FieldError => invalid(field, deprecationWarning, why);
  if (!deprecated) return [wrong("can only be set for deprecated versions")];
  const errors: FieldError[] = [];
  const bytes = Buffer.byteLength(deprecationWarning);
  if (bytes > MAX_WARNING_LENGTH) errors.push(wrong(`must be <= ${MAX_WARNING_LENGTH} characters long`));
  if (bytes === 0) errors.push(wrong("must not be an empty string"));
  const unprintable = /[\p{C}\p{Zl}\p{Zp}]/u.exec(deprecationWarning);
  if (unprintable !== null) {
    const at = Buffer.byteLength(deprecationWarning.slice(0, unprintable.index));
    const why = `must only contain printable UTF-8 characters; non-printable character found at index ${at}`;
    errors.push(wrong(why));
  }
  return errors;
}
