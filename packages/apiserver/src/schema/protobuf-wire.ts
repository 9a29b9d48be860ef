import { badRequest } from "#status.ts";

const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export const VARINT = 0;
export const FIXED64 = 1;
export const BYTES = 2;
const FIXED32 = 5;

export function malformed(why: string): Error {
  return badRequest(`unable to decode protobuf: ${why}`);
}

/**
 * Reads protobuf's wire format from one range of bytes. Every length is checked against the range, so that hostile
 * input can neither read past it nor make it run long. Source: protobuf.dev, "Encoding".
 */
export class WireReader {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  readonly #end: number;
  #at: number;

  constructor(bytes: Uint8Array, start = 0, end = bytes.length) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    this.#at = start;
    this.#end = end;
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#end;
  }

  /** The next field's number and wire type. */
  tag(): { number: number; wireType: number } {
    const first = this.#bytes[this.#at] ?? 0x80;
    if (first < 0x80 && first > 7 && this.#at < this.#end) {
      // Fields up to 15: one byte, and nearly all there are.
      this.#at++;
      return { number: first >> 3, wireType: first & 7 };
    }
    const key = this.varint();
    const number = Number(key >> 3n);
    if (number < 1 || number > 0x1fffffff) throw malformed(`illegal field number ${number}`);
    return { number, wireType: Number(key & 7n) };
  }

  /** An unsigned 64-bit varint. */
  varint(): bigint {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      if (this.#at >= this.#end) throw malformed("unexpected end of input");
      const byte = this.#bytes[this.#at++] ?? 0;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return BigInt.asUintN(64, value);
    }
    throw malformed("a varint is longer than 10 bytes");
  }

  /** A varint that fits a length or a small number; the common case without 64-bit arithmetic. */
  #length(): number {
    const first = this.#bytes[this.#at] ?? 0x80;
    if (first < 0x80 && this.#at < this.#end) {
      this.#at++;
      return first;
    }
    const value = this.varint();
    if (value > BigInt(this.#end - this.#at)) throw malformed("a length runs past the end of its message");
    return Number(value);
  }

  /** A length-delimited value as a range of the same bytes. */
  bytes(): Uint8Array {
    const length = this.#length();
    if (this.#at + length > this.#end) throw malformed("a length runs past the end of its message");
    const value = this.#bytes.subarray(this.#at, this.#at + length);
    this.#at += length;
    return value;
  }

  text(): string {
    return utf8(this.bytes());
  }

  double(): number {
    if (this.#at + 8 > this.#end) throw malformed("unexpected end of input");
    const value = this.#view.getFloat64(this.#at, true);
    this.#at += 8;
    if (!Number.isFinite(value)) throw malformed("a number is not finite");
    return value;
  }

  /** Passes over the value of an unknown field. Groups were never used by Kubernetes and are refused. */
  skip(wireType: number): void {
    if (wireType === VARINT) this.varint();
    else if (wireType === BYTES) this.bytes();
    else if (wireType === FIXED64 || wireType === FIXED32) this.#at += wireType === FIXED64 ? 8 : 4;
    else throw malformed(`illegal wire type ${wireType}`);
    if (this.#at > this.#end) throw malformed("unexpected end of input");
  }
}

export function utf8(bytes: Uint8Array): string {
  try {
    return UTF8.decode(bytes);
  } catch {
    throw malformed("a string is not valid UTF-8");
  }
}

/** A signed integer that JavaScript holds exactly. Larger ones are refused rather than rounded. */
export function exactInteger(value: bigint): number {
  const signed = BigInt.asIntN(64, value);
  const double = Number(signed);
  if (!Number.isSafeInteger(double)) throw malformed(`integer ${signed} would be rounded`);
  return double;
}
