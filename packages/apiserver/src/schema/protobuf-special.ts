import { parseJson } from "./json.ts";
import { exactInteger, malformed, utf8, WireReader } from "./protobuf-wire.ts";

/** Decodes the body of a message whose JSON form is not an object of its fields. `undefined`: JSON's null, left out. */
export type SpecialDecoder = (body: Uint8Array, decode: DecodeMessage) => unknown;

/** Decodes a nested ordinary message by the name of its definition. */
type DecodeMessage = (name: string, body: Uint8Array) => Record<string, unknown>;

const META = "io.k8s.apimachinery.pkg.apis.meta.v1";
const APIEXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1";

/** Last value per field number of a small message: enough for all of the below. */
function readFields(body: Uint8Array): Map<number, (bigint | Uint8Array)[]> {
  const fields = new Map<number, (bigint | Uint8Array)[]>();
  const reader = new WireReader(body);
  while (!reader.isAtEnd) {
    const { number, wireType } = reader.tag();
    const values = fields.get(number) ?? [];
    if (wireType === 0) fields.set(number, [...values.slice(-1), reader.varint()]);
    else if (wireType === 2) values.push(reader.bytes());
    else reader.skip(wireType);
    if (wireType === 2) fields.set(number, values);
  }
  return fields;
}

function integerOf(fields: Map<number, (bigint | Uint8Array)[]>, number: number): number {
  const value = fields.get(number)?.at(-1) ?? 0n;
  if (typeof value !== "bigint") throw malformed("an integer is not a varint");
  return exactInteger(value);
}

function bytesOf(fields: Map<number, (bigint | Uint8Array)[]>, number: number): Uint8Array | undefined {
  const value = fields.get(number)?.at(-1);
  if (typeof value === "bigint") throw malformed("bytes are not length-delimited");
  return value;
}

function textOf(fields: Map<number, (bigint | Uint8Array)[]>, number: number): string {
  return utf8(bytesOf(fields, number) ?? new Uint8Array());
}

/** Go's zero time is an empty message, and null in JSON. Source: apimachinery, meta/v1/time_proto.go. */
function dateOf(body: Uint8Array): { seconds: number; nanos: number } | undefined {
  if (body.length === 0) return undefined;
  const fields = readFields(body);
  const seconds = integerOf(fields, 1);
  const year = new Date(seconds * 1000).getUTCFullYear();
  if (!(year >= 0 && year <= 9999)) throw malformed("a time is outside the years 0 to 9999");
  return { seconds, nanos: integerOf(fields, 2) };
}

function withoutFraction(seconds: number): string {
  return new Date(seconds * 1000).toISOString().slice(0, 19);
}

function decodeTime(body: Uint8Array): string | undefined {
  const date = dateOf(body);
  return date === undefined ? undefined : `${withoutFraction(date.seconds)}Z`;
}

/** Always six digits: clients compare lease times as text. */
function decodeMicroTime(body: Uint8Array): string | undefined {
  const date = dateOf(body);
  if (date === undefined) return undefined;
  if (date.nanos < 0 || date.nanos > 999_999_999) throw malformed("nanoseconds are out of range");
  const micros = String(Math.trunc(date.nanos / 1000)).padStart(6, "0");
  return `${withoutFraction(date.seconds)}.${micros}Z`;
}

function decodeQuantity(body: Uint8Array): string {
  const text = textOf(readFields(body), 1);
  return text === "" ? "0" : text;
}

function decodeIntOrString(body: Uint8Array): string | number {
  const fields = readFields(body);
  return integerOf(fields, 1) === 1 ? textOf(fields, 3) : integerOf(fields, 2);
}

/** JSON text in field 1: RawExtension, FieldsV1 and apiextensions' JSON. */
function decodeRaw(body: Uint8Array): unknown {
  const raw = bytesOf(readFields(body), 1);
  if (raw === undefined || raw.length === 0) return undefined;
  return parseJson(utf8(raw)).value ?? undefined;
}

function decodeItems(body: Uint8Array): unknown {
  const items = readFields(body).get(1) ?? [];
  return items.map((item) => {
    if (typeof item === "bigint") throw malformed("a string is not length-delimited");
    return utf8(item);
  });
}

function decodeSchemaOrBool(body: Uint8Array, decode: DecodeMessage): unknown {
  const fields = readFields(body);
  const schema = bytesOf(fields, 2);
  return schema === undefined
    ? integerOf(fields, 1) !== 0
    : decode(`${APIEXTENSIONS}.JSONSchemaProps`, schema);
}

function decodeSchemaOrList(body: Uint8Array, decode: DecodeMessage): unknown {
  const fields = readFields(body);
  const list = fields.get(2) ?? [];
  const parse = (item: bigint | Uint8Array): unknown => {
    if (typeof item === "bigint") throw malformed("a schema is not length-delimited");
    return decode(`${APIEXTENSIONS}.JSONSchemaProps`, item);
  };
  if (list.length > 0) return list.map(parse);
  const schema = bytesOf(fields, 1);
  return schema === undefined ? undefined : parse(schema);
}

function decodeSchemaOrTexts(body: Uint8Array, decode: DecodeMessage): unknown {
  const fields = readFields(body);
  const texts = fields.get(2) ?? [];
  if (texts.length > 0) return texts.map((it) => (typeof it === "bigint" ? String(it) : utf8(it)));
  const schema = bytesOf(fields, 1);
  return schema === undefined ? undefined : decode(`${APIEXTENSIONS}.JSONSchemaProps`, schema);
}

/** By the name of the message's definition. */
export const SPECIAL_DECODERS: ReadonlyMap<string, SpecialDecoder> = new Map<string, SpecialDecoder>([
  [`${META}.Time`, decodeTime],
  [`${META}.MicroTime`, decodeMicroTime],
  [`${META}.FieldsV1`, decodeRaw],
  ["io.k8s.apimachinery.pkg.runtime.RawExtension", decodeRaw],
  ["io.k8s.apimachinery.pkg.api.resource.Quantity", decodeQuantity],
  ["io.k8s.apimachinery.pkg.util.intstr.IntOrString", decodeIntOrString],
  ["io.k8s.api.authentication.v1.ExtraValue", decodeItems],
  ["io.k8s.api.authentication.v1.AttestationValue", decodeItems],
  ["io.k8s.api.authorization.v1.ExtraValue", decodeItems],
  ["io.k8s.api.certificates.v1.ExtraValue", decodeItems],
  [`${APIEXTENSIONS}.JSON`, decodeRaw],
  [`${APIEXTENSIONS}.JSONSchemaPropsOrBool`, decodeSchemaOrBool],
  [`${APIEXTENSIONS}.JSONSchemaPropsOrArray`, decodeSchemaOrList],
  [`${APIEXTENSIONS}.JSONSchemaPropsOrStringArray`, decodeSchemaOrTexts],
]);
