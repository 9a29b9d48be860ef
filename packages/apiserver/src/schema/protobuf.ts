import { badRequest } from "#status.ts";
import { definitionName, splitApiVersion } from "./definitions.ts";
import { parseJson } from "./json.ts";
import { ALWAYS, MAP, MESSAGES, POINTER, REPEATED, type MessageField } from "./protobuf-messages.ts";
import { SPECIAL_DECODERS } from "./protobuf-special.ts";
import { BYTES, exactInteger, FIXED64, malformed, utf8, VARINT, WireReader } from "./protobuf-wire.ts";

/** "k8s" and NUL: begins every protobuf body. Source: apimachinery, runtime/serializer/protobuf. */
const MAGIC = [0x6b, 0x38, 0x73, 0x00] as const;
const DELETE_OPTIONS = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
/** The JSON schema of a CRD is the deepest message there is; 100 is far beyond any that works. */
const MAX_DEPTH = 100;
/** Values in one body: a body of the greatest size may not become hundreds of megabytes of empty objects. */
const MAX_VALUES = 1_000_000;

/**
 * Decodes the body of a write into the object that the JSON form of the same request holds: zero values that Go would
 * leave out of JSON are left out, pointers' zeros and required fields stay.
 *
 * @throws {StatusError} 400 for whatever is malformed, unknown, deeper than 100 messages, or holds integers beyond 2^53.
 */
export function decodeProtobuf(
  bytes: Uint8Array,
  implied?: { readonly apiVersion: string; readonly kind: string },
): Record<string, unknown> {
  if (MAGIC.some((byte, at) => bytes[at] !== byte))
    throw malformed("the body does not begin with k8s and NUL");
  const envelope = readEnvelope(new WireReader(bytes, MAGIC.length));
  const { raw } = envelope;
  const isSaid = envelope.apiVersion !== "" || envelope.kind !== "";
  const { apiVersion, kind } = isSaid ? envelope : (implied ?? envelope);
  if (envelope.contentType === "application/json") return jsonObject(raw, apiVersion, kind);
  const { group, version } = splitApiVersion(apiVersion);
  // DeleteOptions is registered in every group version, and typed clients send it under their own.
  const name = kind === "DeleteOptions" ? DELETE_OPTIONS : definitionName(group, version, kind);
  if (name === undefined || !MESSAGES.has(name)) {
    throw badRequest(`no kind "${kind}" is registered for version "${apiVersion}" in protobuf`);
  }
  return { apiVersion, kind, ...new Decoder().message(name, raw, 0) };
}

interface Envelope {
  apiVersion: string;
  kind: string;
  raw: Uint8Array;
  contentType: string;
}

function readEnvelope(reader: WireReader): Envelope {
  const envelope: Envelope = { apiVersion: "", kind: "", raw: new Uint8Array(), contentType: "" };
  while (!reader.isAtEnd) {
    const { number, wireType } = reader.tag();
    if (wireType !== BYTES) reader.skip(wireType);
    else if (number === 1) readTypeMeta(new WireReader(reader.bytes()), envelope);
    else if (number === 2) envelope.raw = reader.bytes();
    else if (number === 3) refuseEncoding(reader.text());
    else if (number === 4) envelope.contentType = reader.text();
    else reader.skip(wireType);
  }
  return envelope;
}

function refuseEncoding(encoding: string): void {
  if (encoding !== "") throw malformed(`unknown content encoding ${JSON.stringify(encoding)}`);
}

function readTypeMeta(reader: WireReader, into: Envelope): void {
  while (!reader.isAtEnd) {
    const { number, wireType } = reader.tag();
    if (wireType === BYTES && number === 1) into.apiVersion = reader.text();
    else if (wireType === BYTES && number === 2) into.kind = reader.text();
    else reader.skip(wireType);
  }
}

function jsonObject(raw: Uint8Array, apiVersion: string, kind: string): Record<string, unknown> {
  const { value } = parseJson(utf8(raw));
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw malformed("not an object");
  return { apiVersion, kind, ...value };
}

class Decoder {
  #values = 0;

  message(name: string, body: Uint8Array, depth: number): Record<string, unknown> {
    if (depth > MAX_DEPTH) throw malformed(`messages are nested deeper than ${MAX_DEPTH}`);
    const fields = MESSAGES.get(name);
    const into: Record<string, unknown> = {};
    const reader = new WireReader(body);
    while (!reader.isAtEnd) {
      const { number, wireType } = reader.tag();
      const field = fields?.get(number);
      if (field === undefined) reader.skip(wireType);
      else this.#field(into, field, { reader, wireType, depth });
    }
    return into;
  }

  #field(into: Record<string, unknown>, field: MessageField, at: Position): void {
    if ((field.bits & MAP) !== 0) this.#entry(into, field, at);
    else if ((field.bits & REPEATED) !== 0) this.#item(into, field, at);
    else if (field.json === "") {
      Object.assign(into, this.message(field.type, expectBytes(at), at.depth + 1));
    } else {
      const value = this.#value(field.type, at);
      if (value === undefined) return;
      if ((field.bits & (POINTER | ALWAYS)) !== 0 || !isZero(value)) into[field.json] = value;
    }
  }

  #item(into: Record<string, unknown>, field: MessageField, at: Position): void {
    const items = (into[field.json] ??= []) as unknown[];
    const isPacked = at.wireType === BYTES && (field.type === "int32" || field.type === "int64");
    if (!isPacked) {
      items.push(this.#value(field.type, at) ?? null);
      return;
    }
    const packed = new WireReader(at.reader.bytes());
    while (!packed.isAtEnd) items.push(this.#value(field.type, { ...at, reader: packed, wireType: VARINT }));
  }

  #entry(into: Record<string, unknown>, field: MessageField, at: Position): void {
    const reader = new WireReader(expectBytes(at));
    let key = "";
    let value: unknown;
    while (!reader.isAtEnd) {
      const { number, wireType } = reader.tag();
      if (number === 1 && wireType === BYTES) key = reader.text();
      else if (number === 2) value = this.#value(field.type, { reader, wireType, depth: at.depth + 1 });
      else reader.skip(wireType);
    }
    if (key === "__proto__") throw malformed("__proto__ is not taken as a key");
    const entries = (into[field.json] ??= {}) as Record<string, unknown>;
    entries[key] = value ?? this.#zeroOf(field.type, at.depth);
  }

  /** The value of a map entry without a value. */
  #zeroOf(type: string, depth: number): unknown {
    if (type === "string" || type === "bytes") return "";
    const special = SPECIAL_DECODERS.get(type);
    const empty = new Uint8Array();
    const nested = (name: string, body: Uint8Array): Record<string, unknown> =>
      this.message(name, body, depth + 1);
    return special === undefined ? {} : (special(empty, nested) ?? null);
  }

  #value(type: string, at: Position): unknown {
    if (++this.#values > MAX_VALUES) throw malformed(`the body holds more than ${MAX_VALUES} values`);
    switch (type) {
      case "string":
        return utf8(expectBytes(at));
      case "bytes":
        return base64(expectBytes(at));
      case "bool":
        return expectVarint(at) !== 0n;
      case "int32":
        return Number(BigInt.asIntN(32, expectVarint(at)));
      case "int64":
        return exactInteger(expectVarint(at));
      case "double":
        if (at.wireType !== FIXED64) throw malformed("a double has the wrong wire type");
        return at.reader.double();
      default:
        return this.#nested(type, expectBytes(at), at.depth + 1);
    }
  }

  #nested(type: string, body: Uint8Array, depth: number): unknown {
    if (depth > MAX_DEPTH) throw malformed(`messages are nested deeper than ${MAX_DEPTH}`);
    const special = SPECIAL_DECODERS.get(type);
    if (special === undefined) return this.message(type, body, depth);
    return special(body, (name, nested) => this.message(name, nested, depth + 1));
  }
}

interface Position {
  readonly reader: WireReader;
  readonly wireType: number;
  readonly depth: number;
}

function expectBytes(at: Position): Uint8Array {
  if (at.wireType !== BYTES) throw malformed("a length-delimited field has the wrong wire type");
  return at.reader.bytes();
}

function expectVarint(at: Position): bigint {
  if (at.wireType !== VARINT) throw malformed("an integer field has the wrong wire type");
  return at.reader.varint();
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("base64");
}

function isZero(value: unknown): boolean {
  if (value === "" || value === 0 || value === false) return true;
  return typeof value === "object" && value !== null && Object.keys(value).length === 0;
}
