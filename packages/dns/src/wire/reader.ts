import { FleetError } from "@fairlead/base/errors.ts";
import { labelText, MAX_NAME_BYTES } from "./name.ts";

/** Length of the fixed header. Unit: bytes. */
export const HEADER_BYTES = 12;

export function malformed(what: string, at: number): FleetError {
  return new FleetError("DNS_MALFORMED", `DNS message: ${what} at byte ${at}`);
}

/**
 * A cursor over a message that never reads outside it. Every failure that RFC 9267 lists (pointers that loop or point
 * forward, lengths and counts that lie, labels of reserved kinds) ends in `DNS_MALFORMED` after work that is linear in
 * the length of the message.
 */
export class MessageReader {
  readonly #bytes: Buffer;
  /** The offset of the next read. */
  at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = Buffer.isBuffer(bytes)
      ? bytes
      : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  get left(): number {
    return this.#bytes.length - this.at;
  }

  u8(): number {
    const value = this.#bytes[this.at];
    if (value === undefined) throw malformed("it is truncated", this.at);
    this.at += 1;
    return value;
  }

  u16(): number {
    return this.u8() * 0x100 + this.u8();
  }

  u32(): number {
    return this.u16() * 0x1_0000 + this.u16();
  }

  u128(): bigint {
    const high = (BigInt(this.u32()) << 32n) | BigInt(this.u32());
    const low = (BigInt(this.u32()) << 32n) | BigInt(this.u32());
    return (high << 64n) | low;
  }

  /** A copy of the next `length` bytes: nothing decoded keeps the datagram alive. */
  bytes(length: number): Uint8Array {
    this.#need(length);
    const copy = Uint8Array.from(this.#bytes.subarray(this.at, this.at + length));
    this.at += length;
    return copy;
  }

  /** The next `length` bytes, one character each. */
  latin1(length: number): string {
    this.#need(length);
    const text = this.#bytes.toString("latin1", this.at, this.at + length);
    this.at += length;
    return text;
  }

  /**
   * A name, with pointers followed. A pointer must point before the run of labels that contains it, so that each jump
   * goes strictly backwards and no loop is possible (RFC 1035 section 4.1.4 says "prior occurrence").
   */
  name(): string {
    let text = "";
    let wireBytes = 1;
    let at = this.at;
    let runStart = at;
    let resumeAt = -1;
    for (;;) {
      const length = this.#byteAt(at);
      if (length >= 0xc0) {
        if (resumeAt < 0) resumeAt = at + 2;
        at = this.#pointerAt(at, runStart);
        runStart = at;
        continue;
      }
      if (length > 63) throw malformed("a label has a reserved type", at);
      const end = at + 1 + length;
      if (length === 0) {
        this.at = resumeAt < 0 ? end : resumeAt;
        return text === "" ? "." : text;
      }
      wireBytes += length + 1;
      if (wireBytes > MAX_NAME_BYTES) throw malformed("a name is longer than 255 bytes", at);
      if (end > this.#bytes.length) throw malformed("a label ends after the message", at);
      text += `${labelText(this.#bytes, at + 1, end)}.`;
      at = end;
    }
  }

  /** The target of the pointer at `at`, which must be less than `before`. */
  #pointerAt(at: number, before: number): number {
    const target = (this.#byteAt(at) & 0x3f) * 0x100 + this.#byteAt(at + 1);
    if (target >= HEADER_BYTES && target < before) return target;
    throw malformed("a pointer does not point backwards", at);
  }

  #byteAt(at: number): number {
    const value = this.#bytes[at];
    if (value === undefined) throw malformed("it is truncated", at);
    return value;
  }

  #need(length: number): void {
    if (length > this.left) throw malformed("it is truncated", this.at);
  }
}
