/** The Distinguished Encoding Rules of ASN.1 (X.690), as far as certificates and requests for them need it. */

export interface Element {
  readonly tag: number;
  readonly content: Buffer;
  /** With tag and length. */
  readonly raw: Buffer;
}

export const Tag = {
  boolean: 0x01,
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  oid: 0x06,
  utf8String: 0x0c,
  utcTime: 0x17,
  generalizedTime: 0x18,
  sequence: 0x30,
  set: 0x31,
} as const;

/** Context-specific tag number `n`: constructed ones hold elements. */
export function contextTag(n: number, form: "primitive" | "constructed"): number {
  return (form === "constructed" ? 0xa0 : 0x80) | n;
}

/** Thrown by a reader for bytes that are not DER, or not the DER that was expected. */
export class DerError extends Error {}

/** The one element that `bytes` consist of. */
export function readElement(bytes: Buffer, tag?: number): Element {
  const [element, ...more] = readElements(bytes);
  if (element === undefined || more.length > 0) throw new DerError("exactly one ASN.1 element is expected");
  return tag === undefined ? element : expectTag(element, tag);
}

/** The elements that follow each other in `bytes`. */
export function readElements(bytes: Buffer): readonly Element[] {
  const elements: Element[] = [];
  let at = 0;
  while (at < bytes.length) {
    const element = elementAt(bytes, at);
    elements.push(element);
    at += element.raw.length;
  }
  return elements;
}

/** The elements inside `element`, which must be of `tag`. */
export function childrenOf(element: Element | undefined, tag: number): readonly Element[] {
  return readElements(expectTag(element, tag).content);
}

export function expectTag(element: Element | undefined, tag: number): Element {
  if (element?.tag === tag) return element;
  const found = element === undefined ? "nothing" : `tag ${element.tag}`;
  throw new DerError(`ASN.1 tag ${tag} is expected, found ${found}`);
}

function elementAt(bytes: Buffer, start: number): Element {
  const tag = bytes[start];
  const first = bytes[start + 1];
  // Tag numbers above 30 take further bytes; X.509 has none.
  if (tag === undefined || first === undefined || (tag & 0x1f) === 0x1f)
    throw new DerError("ASN.1 data is truncated");
  const { length, size } = first < 0x80 ? { length: first, size: 1 } : longLength(bytes, start + 1, first);
  const from = start + 1 + size;
  if (from + length > bytes.length) throw new DerError("ASN.1 data is truncated");
  return { tag, content: bytes.subarray(from, from + length), raw: bytes.subarray(start, from + length) };
}

function longLength(bytes: Buffer, at: number, first: number): { length: number; size: number } {
  const count = first & 0x7f;
  // Three bytes are 16 MiB, more than any request's body; DER forbids an indefinite length.
  if (count === 0 || count > 3 || at + count >= bytes.length) throw new DerError("ASN.1 length is wrong");
  const length = bytes.readUIntBE(at + 1, count);
  if (length < 0x80 || bytes[at + 1] === 0) throw new DerError("ASN.1 length is not the shortest form");
  return { length, size: 1 + count };
}

/** "1.2.840.10045.2.1". */
export function readOid(element: Element | undefined): string {
  const { content } = expectTag(element, Tag.oid);
  const arcs: number[] = [];
  let value = 0;
  for (const byte of content) {
    value = value * 128 + (byte & 0x7f);
    if (value > Number.MAX_SAFE_INTEGER / 128) throw new DerError("ASN.1 object identifier is too long");
    if ((byte & 0x80) !== 0) continue;
    arcs.push(value);
    value = 0;
  }
  const [first = 0, ...rest] = arcs;
  const root = Math.min(Math.floor(first / 40), 2);
  return [root, first - root * 40, ...rest].join(".");
}

export function encode(tag: number, ...contents: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(contents);
  const { length } = content;
  if (length < 0x80) return Buffer.concat([Buffer.from([tag, length]), content]);
  const size = length < 0x100 ? 1 : length < 0x1_0000 ? 2 : 3;
  const head = Buffer.alloc(2 + size);
  head[0] = tag;
  head[1] = 0x80 | size;
  head.writeUIntBE(length, 2, size);
  return Buffer.concat([head, content]);
}

export function sequence(...contents: readonly Uint8Array[]): Buffer {
  return encode(Tag.sequence, ...contents);
}

export function encodeOid(oid: string): Buffer {
  const [first = 0, second = 0, ...rest] = oid.split(".").map(Number);
  const bytes = [first * 40 + second, ...rest].flatMap((arc) => {
    const groups = [arc & 0x7f];
    for (let left = Math.floor(arc / 128); left > 0; left = Math.floor(left / 128)) {
      groups.unshift((left & 0x7f) | 0x80);
    }
    return groups;
  });
  return encode(Tag.oid, Buffer.from(bytes));
}

/** A bit string of whole bytes. */
export function encodeBits(bytes: Uint8Array, unusedBits = 0): Buffer {
  return encode(Tag.bitString, Buffer.from([unusedBits]), bytes);
}

/** RFC 5280, section 4.1.2.5: two digits of the year until 2049. */
export function encodeTime(atMs: number): Buffer {
  const digits = new Date(atMs).toISOString().replaceAll(/[-:T]/g, "").slice(0, 14);
  const isShort = Number(digits.slice(0, 4)) < 2050;
  const text = `${isShort ? digits.slice(2) : digits}Z`;
  return encode(isShort ? Tag.utcTime : Tag.generalizedTime, Buffer.from(text, "latin1"));
}
