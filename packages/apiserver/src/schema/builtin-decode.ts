import { isStringMap } from "@fairlead/base/fields.ts";
import { isObject } from "@fairlead/base/json.ts";
import { UndecodableError } from "#status.ts";
import { SpecialMismatch } from "./builtin-specials.ts";
import { converterText, decoderText, type GoKind } from "./decode-mismatch.ts";
import { REF_PREFIX } from "./definitions.ts";
import { fieldPath, FoundPaths } from "@fairlead/base/found-paths.ts";
import { GO_TYPES, omitsZero, type GoType } from "./go-types.ts";
import type { AbsentFields } from "./releases.ts";
import type { Schema } from "./types.ts";

export interface DecodedBuiltin {
  /** The object as its Go type would write it back. */
  readonly object: Record<string, unknown>;
  /** Paths of fields that the type does not have. */
  readonly unknown: readonly string[];
}

export interface BuiltinKind {
  readonly version: string;
  readonly kind: string;
  /** A reference to a generated definition. */
  readonly schema: Schema;
  /** Fields of definitions that the served release does not have. Default: it has all. */
  readonly absent?: AbsentFields | undefined;
  /** Whether upstream converts the value from maps, as strategic patches and applies, and not from JSON. */
  readonly isConverted?: boolean;
}

/**
 * Takes the JSON of a built-in kind as kube-apiserver's decoder does: what it reads into Go types and writes out again.
 * Unknown fields and nulls go; so do zero values where Go leaves them out (`hostNetwork: false`, `labels: {}`), while
 * pointers' zeros stay (`replicas: 0`). Quantities and times come out in their one canonical form.
 *
 * @throws {StatusError} 400 where a value is of another type, worded as Go's decoder does.
 */
export function decodeBuiltin(value: unknown, of: BuiltinKind): DecodedBuiltin {
  const decoder = new BuiltinDecoder(of);
  return { object: decoder.root(value), unknown: decoder.unknown.all };
}

const APIEXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1";
const JSON_SCHEMA: Schema = { $ref: `${REF_PREFIX}${APIEXTENSIONS}.JSONSchemaProps` };
const ANY_JSON = `${REF_PREFIX}${APIEXTENSIONS}.JSON`;
/** The place of a value; rendered only if there is an error to report. */
interface Place {
  readonly above: Place | undefined;
  /** The name of a field or key, or the index of an item. */
  readonly step: string | number;
  /** The Go type around a field; undefined for items of lists and maps. */
  readonly type: GoType | undefined;
}

/** With indices, as unknown fields are reported: "spec.ports[0].name". */
function pathOf(place: Place | undefined): string {
  if (place === undefined) return "";
  const above = pathOf(place.above);
  if (typeof place.step === "number") return `${above}[${place.step}]`;
  return fieldPath(above, place.step);
}

/** Without indices and keys, and with the names of embedded types, as Go tells mismatches: ".spec.ports.name". */
function goPathOf(place: Place | undefined): string {
  if (place === undefined) return "";
  const { above, step, type } = place;
  return goPathOf(above) + (type === undefined ? "" : `.${type.embedded.get(String(step)) ?? ""}${step}`);
}

/** The innermost Go type that a field is named in. */
function structOf(place: Place): string {
  if (place.type !== undefined || place.above === undefined) return place.type?.struct ?? "";
  return structOf(place.above);
}

/** The name of the Go type that is declared for a place; undefined where it is the one of its kind, such as `string`. */
function declaredType(place: Place | undefined): string | undefined {
  if (place === undefined) return undefined;
  if (place.type !== undefined) return place.type.names[place.step];
  const around = declaredType(place.above);
  return around?.startsWith("[]") === true || around?.startsWith("map[") === true
    ? around.slice(around.indexOf("]") + 1)
    : undefined;
}

class BuiltinDecoder {
  readonly unknown = new FoundPaths();
  readonly #of: BuiltinKind;

  constructor(of: BuiltinKind) {
    this.#of = of;
  }

  root(value: unknown): Record<string, unknown> {
    const decoded = this.#value(value, this.#of.schema, undefined);
    if (!isObject(decoded)) throw this.#refusal(value, "object", "struct", undefined);
    return decoded;
  }

  #value(value: unknown, schema: Schema, at: Place | undefined): unknown {
    if (schema.$ref === undefined) return this.#plain(value, schema, at);
    const type = GO_TYPES.get(schema.$ref);
    if (type === undefined) return value;
    if (type.special !== undefined) return this.#special(value, type.special, at);
    if (type.isSchemaOr) return this.#schemaOr(value, at);
    if (type.schema.properties === undefined) return this.#plain(value, type.schema, at);
    if (!isObject(value)) throw this.#refusal(value, goName(type.name), "struct", at);
    return this.#struct(value, type, at);
  }

  /** A schema, or a boolean, a list of schemas or a list of texts in its place. */
  #schemaOr(value: unknown, at: Place | undefined): unknown {
    if (Array.isArray(value)) return value.map((item: unknown) => this.#schemaOr(item, at));
    return isObject(value) ? this.#value(value, JSON_SCHEMA, at) : value;
  }

  #special(value: unknown, decode: (value: unknown) => unknown, at: Place | undefined): unknown {
    try {
      return decode(value);
    } catch (error) {
      if (error instanceof SpecialMismatch && error.goType !== undefined) {
        throw this.#error(
          decoderText(value, error.goType, this.#of.isConverted === true ? "Go value" : whereOf(at)),
        );
      }
      throw this.#error((error as Error).message);
    }
  }

  #struct(value: Record<string, unknown>, type: GoType, above: Place | undefined): Record<string, unknown> {
    const known = this.#fieldsOf(type);
    const decoded: Record<string, unknown> = {};
    for (const name of Object.keys(value)) {
      const item = value[name];
      const schema = known(name);
      const place = { above, step: name, type };
      if (schema === undefined) this.unknown.add(() => pathOf(place));
      else if (item !== null && item !== undefined) {
        const field = this.#value(item, schema, place);
        const isKept = field !== undefined && !(omitsZero(type, name) && isLeftOut(field, schema));
        if (isKept) decoded[name] = field;
      }
    }
    return decoded;
  }

  /** The schemas of the fields that the served release has. */
  #fieldsOf({ name, schema: { properties = {} } }: GoType): (field: string) => Schema | undefined {
    const absent = this.#of.absent?.get(name);
    return (field) =>
      Object.hasOwn(properties, field) && absent?.has(field) !== true ? properties[field] : undefined;
  }

  #plain(value: unknown, schema: Schema, at: Place | undefined): unknown {
    if (schema.type === "array") return this.#list(value, schema, at);
    if (schema.type === "object") return this.#dictionary(value, schema, at);
    return this.#scalar(value, schema, at);
  }

  #scalar(value: unknown, { type, format }: Schema, at: Place | undefined): unknown {
    if (type === undefined) return value;
    if (format === "byte" && typeof value !== "string") return this.#octets(value, at);
    const kind = type === "integer" ? integerKind(format) : (GO_SCALARS[type] ?? "string");
    const isOfType = typeof value === JSON_TYPES[type];
    if (!isOfType || (type === "integer" && !isInteger(Number(value), kind)))
      throw this.#refusal(value, kind, kind, at);
    return typeof value === "string" && format === "byte" ? this.#bytes(value) : value;
  }

  #list(value: unknown, { items = {} }: Schema, above: Place | undefined): unknown {
    if (!Array.isArray(value)) throw this.#refusal(value, `[]${goType(items)}`, "slice", above);
    return value.map((item: unknown, step) =>
      item === null ? zeroOf(items) : this.#value(item, items, { above, step, type: undefined }),
    );
  }

  #dictionary(value: unknown, { additionalProperties: element }: Schema, above: Place | undefined): unknown {
    const hasElements = typeof element === "object";
    if (!isObject(value)) {
      throw this.#refusal(value, hasElements ? `map[string]${goType(element)}` : "object", "map", above);
    }
    if (!hasElements) return value;
    const isOfTexts = element.type === "string" && element.format === undefined && element.$ref === undefined;
    if (isOfTexts && isStringMap(value)) return value;
    const decoded: Record<string, unknown> = {};
    for (const step of Object.keys(value)) {
      const item = value[step];
      if (isOfTexts && typeof item === "string") decoded[step] = item;
      else
        decoded[step] =
          item === null ? zeroOf(element) : this.#value(item, element, { above, step, type: undefined });
    }
    return decoded;
  }

  #bytes(value: string): string {
    const text = value.replaceAll(/[\r\n]/g, "");
    const end = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?/.exec(text)?.[0].length ?? 0;
    const lead = this.#of.isConverted === true ? "error decoding from json: " : "";
    const foreign = text.search(/[^A-Za-z0-9+/=]/);
    const wrong = foreign < 0 ? end : foreign;
    if (end !== text.length) throw this.#error(`${lead}illegal base64 data at input byte ${wrong}`);
    return text;
  }

  /** Go takes a list of numbers for bytes as well. */
  #octets(value: unknown, at: Place | undefined): string {
    if (!Array.isArray(value)) throw this.#refusal(value, "[]uint8", "slice", at);
    for (const it of value as readonly unknown[]) {
      if (typeof it === "number" && Number.isInteger(it) && it >= 0 && it <= MAX_OCTET) continue;
      if (it !== null) throw this.#error(decoderText(it, "uint8", whereOf(at)));
    }
    return Buffer.from(value.map(Number)).toString("base64");
  }

  /** @param type - The name of the Go type, if the place has no declared one. */
  #refusal(value: unknown, type: string, kind: GoKind, at: Place | undefined): Error {
    const wanted = declaredType(at) ?? type;
    if (this.#of.isConverted === true) return this.#error(converterText(value, wanted, kind));
    return this.#error(decoderText(value, wanted, whereOf(at)));
  }

  #error(why: string): Error {
    return new UndecodableError(this.#of.kind, this.#of.version, why);
  }
}

function whereOf(at: Place | undefined): string {
  return at === undefined ? "Go value" : `Go struct field ${structOf(at)}${goPathOf(at)}`;
}

const MAX_OCTET = 255;
const GO_SCALARS: Readonly<Record<string, GoKind>> = { string: "string", boolean: "bool", number: "float64" };
const JSON_TYPES: Readonly<Record<string, string>> = {
  string: "string",
  boolean: "boolean",
  number: "number",
  integer: "number",
};

function integerKind(format = "int64"): GoKind {
  return format === "int32" ? "int32" : "int64";
}

function isInteger(value: number, type: string): boolean {
  return Number.isInteger(value) && (type !== "int32" || (value >= -(2 ** 31) && value < 2 ** 31));
}

/** The values that `omitempty` omits: zeros of scalars, empty lists and maps, but never a struct. */
function isLeftOut(value: unknown, schema: Schema): boolean {
  if (value === "" || value === 0 || value === false) return true;
  if (schema.$ref !== undefined) return false;
  return typeof value === "object" && value !== null && Object.keys(value).length === 0;
}

function zeroOf(schema: Schema): unknown {
  if (schema.$ref === ANY_JSON) return null;
  if (schema.$ref !== undefined || schema.type === "object") return {};
  if (schema.type === "array") return [];
  if (schema.type === "boolean") return false;
  return schema.type === "string" ? "" : 0;
}

/** "io.k8s.api.core.v1.Container" → "v1.Container". */
function goName(definition: string): string {
  return definition.split(".").slice(-2).join(".");
}

function goType(schema: Schema): string {
  if (schema.$ref !== undefined) return goName(schema.$ref.slice(REF_PREFIX.length));
  if (schema.type === "array") return `[]${goType(schema.items ?? {})}`;
  if (schema.type === "integer") return schema.format ?? "int64";
  if (schema.format === "byte") return "[]uint8";
  return schema.type === "boolean" ? "bool" : (schema.type ?? "interface {}");
}
