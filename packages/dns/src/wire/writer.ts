import { FleetError } from "@fairlead/base/errors.ts";
import { foldName, labelBytes, MAX_LABEL_BYTES, MAX_NAME_BYTES, splitLabels } from "./name.ts";

/** Pointers have 14 bits (RFC 1035, section 4.1.4). */
const MAX_POINTER = 0x3fff;

/** A growing message, and the names in it to which a later name can point. */
export class MessageWriter {
  #bytes: Buffer = Buffer.allocUnsafe(512);
  /**
   * Folded name, and each tail of it → its offset. After a name was removed, no further name may be written. Created with
   * the second name: most answers repeat one name, which needs only a comparison.
   */
  #names: Map<string, number> | undefined;
  #first = "";
  #firstAt = 0;
  /** The offset of the next write. */
  at = 0;

  /** The message up to `end`. The writer must not be used after it. */
  take(end: number): Buffer {
    return this.#bytes.subarray(0, end);
  }

  u8(value: number): void {
    this.#grow(1);
    this.#bytes[this.at++] = value;
  }

  u16(value: number): void {
    this.#grow(2);
    this.#bytes[this.at++] = value >>> 8;
    this.#bytes[this.at++] = value;
  }

  u32(value: number): void {
    this.u16(value >>> 16);
    this.u16(value & 0xffff);
  }

  u128(value: bigint): void {
    for (let shift = 96n; shift >= 0n; shift -= 32n) this.u32(Number((value >> shift) & 0xffff_ffffn));
  }

  bytes(value: Uint8Array): void {
    this.#grow(value.length);
    this.#bytes.set(value, this.at);
    this.at += value.length;
  }

  /** A length byte and up to 255 bytes, one for each character. */
  characterString(text: string): void {
    if (text.length > 255)
      throw new FleetError("DNS_MALFORMED", "a DNS character string has at most 255 bytes");
    this.u8(text.length);
    this.#grow(text.length);
    this.#bytes.write(text, this.at, "latin1");
    this.at += text.length;
  }

  /** A name, whose longest tail that is already in the message becomes a pointer. */
  name(name: string): void {
    const folded = foldName(name);
    if (folded === this.#first) {
      this.u16(0xc000 | this.#firstAt);
      return;
    }
    checkLength(name);
    if (this.#first !== "") {
      this.#names ??= tailsOf(this.#first, this.#firstAt);
      this.#compressed(name, folded, this.#names);
      return;
    }
    if (name !== "." && this.at <= MAX_POINTER) {
      this.#first = folded;
      this.#firstAt = this.at;
    }
    this.#plain(name);
  }

  #compressed(name: string, folded: string, names: Map<string, number>): void {
    const end = labelsEnd(name);
    let start = 0;
    while (start < end) {
      const tail = start === 0 ? folded : folded.slice(start);
      const known = names.get(tail);
      if (known !== undefined) {
        this.u16(0xc000 | known);
        return;
      }
      if (this.at <= MAX_POINTER) names.set(tail, this.at);
      start = this.#label(name, start);
    }
    this.u8(0);
  }

  uncompressedName(name: string): void {
    checkLength(name);
    this.#plain(name);
  }

  #plain(name: string): void {
    const end = labelsEnd(name);
    let start = 0;
    while (start < end) start = this.#label(name, start);
    this.u8(0);
  }

  /** Writes the label that begins at `start`; returns where the next one does. */
  #label(name: string, start: number): number {
    const end = labelEnd(name, start);
    const length = end - start;
    const label = name.slice(start, end);
    if (label.includes("\\") || length > MAX_LABEL_BYTES || length === 0) {
      const bytes = labelBytes(label);
      this.u8(bytes.length);
      this.bytes(bytes);
      return end + 1;
    }
    this.#grow(length + 1);
    this.#bytes[this.at++] = length;
    for (let at = start; at < end; at++) {
      const code = name.charCodeAt(at);
      if (code > 0x7e || code < 0x21) labelBytes(label);
      this.#bytes[this.at++] = code;
    }
    return end + 1;
  }

  #grow(by: number): void {
    if (this.at + by <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafe(Math.max(this.#bytes.length * 2, this.at + by));
    this.#bytes.copy(larger, 0, 0, this.at);
    this.#bytes = larger;
  }
}

/** The name that was written at `at`, and each of its tails, and where they begin. */
function tailsOf(name: string, at: number): Map<string, number> {
  const tails = new Map<string, number>();
  let start = 0;
  let tailAt = at;
  for (const label of splitLabels(name)) {
    if (tailAt <= MAX_POINTER) tails.set(name.slice(start), tailAt);
    start += label.length + 1;
    tailAt += (label.includes("\\") ? labelBytes(label).length : label.length) + 1;
  }
  return tails;
}

/** A name has one byte more on the wire than its text has characters, and fewer when there are escapes. */
function checkLength(name: string): void {
  if (name === "") throw new FleetError("DNS_MALFORMED", 'a domain name is empty; the root is "."');
  if (name.length < MAX_NAME_BYTES) return;
  const bytes = splitLabels(name).reduce((sum, label) => sum + labelBytes(label).length + 1, 1);
  if (bytes <= MAX_NAME_BYTES) return;
  throw new FleetError("DNS_MALFORMED", `a domain name is longer than 255 bytes: ${name.slice(0, 80)}`);
}

/** The end of the labels of a name; the root has none. */
function labelsEnd(name: string): number {
  return name === "." ? 0 : name.length;
}

/** The end of the label that begins at `start`: its dot. */
function labelEnd(name: string, start: number): number {
  let at = start;
  while (at < name.length) {
    const code = name.charCodeAt(at);
    if (code === 46) return at;
    at += code === 92 ? 2 : 1;
  }
  throw new FleetError("DNS_MALFORMED", `a domain name has no final dot: ${name.slice(0, 80)}`);
}
