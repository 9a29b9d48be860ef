import { ALWAYS, MAP, MESSAGES, POINTER, REPEATED, type MessageField } from "./protobuf-messages.ts";

/** The writing half of the codec, as far as its tests need it: scalars, nested messages, lists and maps. */
export function encodeEnvelope(apiVersion: string, kind: string, raw: Uint8Array): Uint8Array {
  const meta = [...delimited(1, utf8(apiVersion)), ...delimited(2, utf8(kind))];
  return Uint8Array.from([0x6b, 0x38, 0x73, 0, ...delimited(1, meta), ...delimited(2, raw)]);
}

export function encodeMessage(name: string, value: Readonly<Record<string, unknown>>): number[] {
  const out: number[] = [];
  for (const [number, field] of MESSAGES.get(name) ?? []) out.push(...encodeField(number, field, value));
  return out;
}

function encodeField(
  number: number,
  field: MessageField,
  value: Readonly<Record<string, unknown>>,
): readonly number[] {
  if (field.json === "") return delimited(number, encodeMessage(field.type, value));
  const given = value[field.json];
  if ((field.bits & REPEATED) !== 0) {
    return ((given ?? []) as unknown[]).flatMap((item) => encodeValue(number, field.type, item));
  }
  if ((field.bits & MAP) !== 0) {
    return Object.entries((given ?? {}) as Record<string, unknown>).flatMap(([name, item]) =>
      delimited(number, [...delimited(1, utf8(name)), ...encodeValue(2, field.type, item)]),
    );
  }
  if (given !== undefined) return encodeValue(number, field.type, given);
  // Go writes the zero value of every field that is not a pointer.
  return (field.bits & (POINTER | ALWAYS)) === 0 ? encodeZero(number, field.type) : [];
}

function encodeZero(number: number, type: string): readonly number[] {
  if (type === "bool" || type === "int32" || type === "int64") return [...key(number, 0), 0];
  if (type === "double") return [...key(number, 1), 0, 0, 0, 0, 0, 0, 0, 0];
  return delimited(number, []);
}

function encodeValue(number: number, type: string, value: unknown): readonly number[] {
  switch (type) {
    case "string":
      return delimited(number, utf8(value as string));
    case "bytes":
      return delimited(number, Buffer.from(value as string, "base64"));
    case "bool":
      return [...key(number, 0), value === true ? 1 : 0];
    case "int32":
    case "int64":
      return [...key(number, 0), ...varint(BigInt.asUintN(64, BigInt(value as number)))];
    case "double": {
      const bytes = new Uint8Array(8);
      new DataView(bytes.buffer).setFloat64(0, value as number, true);
      return [...key(number, 1), ...bytes];
    }
    default:
      return delimited(number, encodeMessage(type, value as Record<string, unknown>));
  }
}

function key(number: number, wireType: number): number[] {
  return varint(BigInt(number) * 8n + BigInt(wireType));
}

export function varint(value: bigint): number[] {
  const out: number[] = [];
  let rest = value;
  for (; rest > 127n; rest >>= 7n) out.push(Number(rest & 127n) | 128);
  return [...out, Number(rest)];
}

export function delimited(number: number, bytes: Iterable<number>): number[] {
  const body = [...bytes];
  return [...key(number, 2), ...varint(BigInt(body.length)), ...body];
}

export function utf8(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}
