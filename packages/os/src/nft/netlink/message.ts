/**
 * Netlink messages of nf_tables: what goes into a batch and what comes back. Pure.
 *
 * Source: netlink(7); linux/netlink.h, linux/netfilter/nfnetlink.h, linux/netfilter/nf_tables.h. Headers are in the
 * machine's byte order, attributes of nf_tables in network order.
 */

const NLMSG_ERROR = 2;
export const NLM_F_REQUEST = 0x1;
const NLM_F_ACK = 0x4;
export const NLM_F_DUMP = 0x300;
const NLM_F_EXCL = 0x200;
const NLM_F_CREATE = 0x400;
const NFNL_MSG_BATCH_BEGIN = 0x10;
const NFNL_MSG_BATCH_END = 0x11;
const NFNL_SUBSYS_NFTABLES = 10;
const NFT_MSG_NEWSETELEM = 12;
const NFT_MSG_DELSETELEM = 14;
const NLA_F_NESTED = 0x8000;

/** nlmsghdr and nfgenmsg. Unit: bytes. */
const HEADER_BYTES = 20;

/** `nfproto` of a table's family. */
export const FAMILY_NUMBERS = { inet: 1, ip: 2, ip6: 10 } as const;

/** Attributes by number, as far as elements need them. */
export const ATTRIBUTE = {
  list: { table: 1, set: 2, elements: 3 },
  item: { element: 1 },
  element: { key: 1, data: 2 },
  data: { value: 1, verdict: 2 },
  verdict: { code: 1, chain: 2 },
} as const;

/** One attribute: its number, and bytes or attributes inside it. */
export function attribute(number: number, content: Uint8Array | readonly Uint8Array[]): Uint8Array {
  const isNested = !(content instanceof Uint8Array);
  const length = 4 + (isNested ? content.reduce((sum, it) => sum + it.length, 0) : content.length);
  // The padding to four bytes is not part of the length (RTA_ALIGN).
  const bytes = Buffer.alloc(align(length));
  writeU16(bytes, length, 0);
  writeU16(bytes, isNested ? number | NLA_F_NESTED : number, 2);
  let at = 4;
  for (const part of isNested ? content : [content]) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

/** Text with the NUL that ends it. */
export function textBytes(text: string): Uint8Array {
  return Buffer.from(`${text}\0`, "latin1");
}

export interface ElementMessage {
  readonly verb: "add" | "delete";
  readonly family: number;
  /** Attributes of `nft_set_elem_list`. */
  readonly attributes: readonly Uint8Array[];
}

/**
 * The batch that carries out `messages` as one transaction. Message number n has sequence number `sequence` + 1 + n; the
 * last one asks for an acknowledgement, and so does each that fails.
 */
export function renderBatch(messages: readonly ElementMessage[], sequence: number): Uint8Array {
  const parts: Uint8Array[] = [
    header({ type: NFNL_MSG_BATCH_BEGIN, flags: NLM_F_REQUEST, sequence, length: 0 }),
  ];
  for (const [at, { verb, family, attributes }] of messages.entries()) {
    const type = (NFNL_SUBSYS_NFTABLES << 8) | (verb === "add" ? NFT_MSG_NEWSETELEM : NFT_MSG_DELSETELEM);
    const isLast = at === messages.length - 1;
    const flags = NLM_F_REQUEST | (verb === "add" ? NLM_F_CREATE | NLM_F_EXCL : 0) | (isLast ? NLM_F_ACK : 0);
    const length = attributes.reduce((sum, it) => sum + it.length, 0);
    parts.push(header({ type, flags, sequence: sequence + 1 + at, length, family }), ...attributes);
  }
  const end = { type: NFNL_MSG_BATCH_END, flags: NLM_F_REQUEST, sequence: sequence + 1 + messages.length };
  parts.push(header({ ...end, length: 0 }));
  return Buffer.concat(parts);
}

interface Header {
  readonly type: number;
  readonly flags: number;
  readonly sequence: number;
  /** Of what follows. Unit: bytes. */
  readonly length: number;
  /** Absent for the marks of a batch, which name the subsystem instead. */
  readonly family?: number;
}

function header(of: Header): Buffer {
  const bytes = Buffer.alloc(HEADER_BYTES);
  writeU32(bytes, HEADER_BYTES + of.length, 0);
  writeU16(bytes, of.type, 4);
  writeU16(bytes, of.flags, 6);
  writeU32(bytes, of.sequence, 8);
  bytes[16] = of.family ?? 0;
  bytes.writeUInt16BE(of.family === undefined ? NFNL_SUBSYS_NFTABLES : 0, 18);
  return bytes;
}

/** One message of a netfilter subsystem, outside of batches. */
export function renderMessage(
  of: Omit<Header, "length"> & { readonly attributes: readonly Uint8Array[] },
): Uint8Array {
  const length = of.attributes.reduce((sum, it) => sum + it.length, 0);
  return Buffer.concat([header({ ...of, length }), ...of.attributes]);
}

/** A message that the kernel sent. */
export interface Message {
  readonly type: number;
  readonly sequence: number;
  readonly payload: Buffer;
}

/** The messages in what one `recv` gave. */
export function parseMessages(bytes: Uint8Array): readonly Message[] {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const found: Message[] = [];
  for (let at = 0; at + 16 <= buffer.length;) {
    const length = readU32(buffer, at);
    if (length < 16) break;
    const payload = buffer.subarray(at + 16, at + length);
    found.push({ type: readU16(buffer, at + 4), sequence: readU32(buffer, at + 8), payload });
    at += align(length);
  }
  return found;
}

/** Attributes by number, in `bytes` from `from` on; the value of a nested one is its content. */
export function parseAttributes(bytes: Buffer, from = 0): ReadonlyMap<number, Buffer> {
  const found = new Map<number, Buffer>();
  for (let at = from; at + 4 <= bytes.length;) {
    const length = readU16(bytes, at);
    if (length < 4) break;
    found.set(readU16(bytes, at + 2) & ~NLA_F_NESTED, bytes.subarray(at + 4, at + length));
    at += align(length);
  }
  return found;
}

/** The kernel's word on one message. */
export interface Acknowledgement {
  readonly sequence: number;
  /** 0: done. */
  readonly errno: number;
}

/** Acknowledgements in what one `recv` gave. */
export function parseAcknowledgements(bytes: Uint8Array): readonly Acknowledgement[] {
  return parseMessages(bytes)
    .filter((it) => it.type === NLMSG_ERROR && it.payload.length >= 4)
    .map((it) => ({ sequence: it.sequence, errno: -readI32(it.payload, 0) }));
}

function align(length: number): number {
  return (length + 3) & ~3;
}

const IS_LITTLE_ENDIAN = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;

/** Writes a number in the machine's byte order. */
export function writeU32(buffer: Buffer, value: number, at: number): void {
  if (IS_LITTLE_ENDIAN) buffer.writeUInt32LE(value, at);
  else buffer.writeUInt32BE(value, at);
}

export function writeU16(buffer: Buffer, value: number, at: number): void {
  if (IS_LITTLE_ENDIAN) buffer.writeUInt16LE(value, at);
  else buffer.writeUInt16BE(value, at);
}

export function readU32(buffer: Buffer, at: number): number {
  return IS_LITTLE_ENDIAN ? buffer.readUInt32LE(at) : buffer.readUInt32BE(at);
}

export function readU16(buffer: Buffer, at: number): number {
  return IS_LITTLE_ENDIAN ? buffer.readUInt16LE(at) : buffer.readUInt16BE(at);
}

function readI32(buffer: Buffer, at: number): number {
  return IS_LITTLE_ENDIAN ? buffer.readInt32LE(at) : buffer.readInt32BE(at);
}
