import { createHmac, timingSafeEqual } from "node:crypto";
import { FleetError } from "@fairlead/base/errors.ts";
import { decodeMessage } from "./decode.ts";
import { encodeMessage } from "./encode.ts";
import { foldName } from "./name.ts";
import { malformed, MessageReader } from "./reader.ts";
import { CLASS, type Message, TYPE } from "./types.ts";
import { MessageWriter } from "./writer.ts";

/** Signed messages: TSIG (RFC 8945) with HMAC-SHA256, the one algorithm that every implementation has to know. */

const ALGORITHM = "hmac-sha256.";
/** How far clocks may be apart (RFC 8945, section 10). Unit: seconds. */
const FUDGE = 300;

export interface TsigKey {
  /** Complete, with its final dot. */
  readonly name: string;
  readonly secret: Uint8Array;
}

/** Errors of TSIG, which are in the record and not in the header (RFC 8945, section 3). */
const ERRORS: Readonly<Record<number, string>> = {
  16: "BADSIG",
  17: "BADKEY",
  18: "BADTIME",
  22: "BADTRUNC",
};

export interface SignedMessage {
  readonly bytes: Buffer;
  /** The part of the answer's signature input that is not in the answer. */
  readonly mac: Uint8Array;
}

interface Tsig {
  readonly key: string;
  readonly algorithm: string;
  /** Unit: seconds since the Unix epoch. */
  readonly time: number;
  readonly fudge: number;
  readonly mac: Uint8Array;
  readonly originalId: number;
  readonly error: number;
  readonly other: Uint8Array;
}

/**
 * Encodes and signs a message, which must be without EDNS: the signature is the last record.
 *
 * @param requestMac - Of the request, for an answer.
 */
export function signMessage(
  message: Message,
  key: TsigKey,
  nowMs: number,
  requestMac?: Uint8Array,
): SignedMessage {
  if (message.edns !== undefined)
    throw new FleetError("DNS_MALFORMED", "cannot sign a DNS message with an OPT record");
  const fields = { key: key.name, algorithm: ALGORITHM, time: Math.floor(nowMs / 1000), fudge: FUDGE };
  const unsigned = {
    ...fields,
    mac: new Uint8Array(),
    originalId: message.id,
    error: 0,
    other: new Uint8Array(),
  };
  const covered = requestMac === undefined ? [] : [withLength(requestMac)];
  const mac = macOf(key, [...covered, encodeMessage(message), variables(unsigned)]);
  const record = {
    name: key.name,
    class: CLASS.ANY,
    ttl: 0,
    data: { type: "unknown" as const, code: TYPE.TSIG, bytes: writeTsig({ ...unsigned, mac }) },
  };
  return { mac, bytes: encodeMessage({ ...message, additionals: [...message.additionals, record] }) };
}

/**
 * Reads the answer to a signed message, without its signature.
 *
 * @throws {FleetError} `DNS_REFUSED` when the server did not accept our signature, or its own is missing or wrong.
 */
export function verifyAnswer(bytes: Buffer, key: TsigKey, requestMac: Uint8Array, nowMs: number): Message {
  const { start, tsig } = findTsig(bytes);
  if (tsig === undefined) throw refused("the answer is not signed: does the server know the key?", key);
  const message = decodeMessage(bytes);
  if (tsig.error !== 0) {
    const name = ERRORS[tsig.error] ?? String(tsig.error);
    throw refused(`the server says ${name}${HINTS[name] ?? ""}`, key);
  }
  if (foldName(tsig.key) !== foldName(key.name) || foldName(tsig.algorithm) !== ALGORITHM)
    throw refused(`the answer is signed with another key, ${tsig.key} (${tsig.algorithm})`, key);
  const stripped = Buffer.from(bytes.subarray(0, start));
  stripped.writeUInt16BE(tsig.originalId, 0);
  stripped.writeUInt16BE(stripped.readUInt16BE(10) - 1, 10);
  const expected = macOf(key, [withLength(requestMac), stripped, variables(tsig)]);
  if (tsig.mac.length !== expected.length || !timingSafeEqual(tsig.mac, expected))
    throw refused("the signature of the answer is wrong", key);
  if (Math.abs(nowMs / 1000 - tsig.time) > tsig.fudge)
    throw refused("the answer was signed at another time: are the clocks right?", key);
  return { ...message, additionals: message.additionals.slice(0, -1) };
}

const HINTS: Readonly<Record<string, string>> = {
  BADKEY: ": it has no key of this name",
  BADSIG: ": its key of this name has another secret",
  BADTIME: ": its clock and ours are more than five minutes apart",
};

function refused(what: string, { name }: TsigKey): FleetError {
  return new FleetError("DNS_REFUSED", `DNS messages signed with key ${name}: ${what}`);
}

function macOf({ secret }: TsigKey, parts: readonly Uint8Array[]): Buffer {
  const hmac = createHmac("sha256", secret);
  for (const part of parts) hmac.update(part);
  return hmac.digest();
}

function withLength(mac: Uint8Array): Uint8Array {
  const writer = new MessageWriter();
  writer.u16(mac.length);
  writer.bytes(mac);
  return writer.take(writer.at);
}

/** The signature input in addition to the message: the record without what depends on the signature (RFC 8945, section 4.3.3). */
function variables(tsig: Tsig): Uint8Array {
  const writer = new MessageWriter();
  writer.uncompressedName(foldName(tsig.key));
  writer.u16(CLASS.ANY);
  writer.u32(0);
  writer.uncompressedName(foldName(tsig.algorithm));
  writeTime(writer, tsig);
  writer.u16(tsig.error);
  writer.u16(tsig.other.length);
  writer.bytes(tsig.other);
  return writer.take(writer.at);
}

function writeTsig(tsig: Tsig): Uint8Array {
  const writer = new MessageWriter();
  writer.uncompressedName(tsig.algorithm);
  writeTime(writer, tsig);
  writer.u16(tsig.mac.length);
  writer.bytes(tsig.mac);
  writer.u16(tsig.originalId);
  writer.u16(tsig.error);
  writer.u16(tsig.other.length);
  writer.bytes(tsig.other);
  return writer.take(writer.at);
}

/** 48 bits of time, and the fudge. */
function writeTime(writer: MessageWriter, { time, fudge }: Tsig): void {
  writer.u16(Math.floor(time / 0x1_0000_0000));
  writer.u32(time % 0x1_0000_0000);
  writer.u16(fudge);
}

/** The signature, which is the last record, and where it begins. */
function findTsig(bytes: Buffer): { readonly start: number; readonly tsig: Tsig | undefined } {
  const reader = new MessageReader(bytes);
  reader.at = 4;
  const questions = reader.u16();
  const records = reader.u16() + reader.u16() + reader.u16();
  for (let at = 0; at < questions; at++) {
    reader.name();
    reader.u32();
  }
  for (let at = 1; at < records; at++) skipRecord(reader);
  const start = reader.at;
  if (records === 0) return { start, tsig: undefined };
  const key = reader.name();
  const type = reader.u16();
  const [classCode, ttl] = [reader.u16(), reader.u32()];
  if (type !== TYPE.TSIG) return { start, tsig: undefined };
  if (classCode !== CLASS.ANY || ttl !== 0) throw malformed("a signature has a class or a TTL", start);
  const length = reader.u16();
  const end = reader.at + length;
  const tsig = readTsig(reader, key);
  if (reader.at !== end) throw malformed("a signature does not have the stated length", reader.at);
  return { start, tsig };
}

function skipRecord(reader: MessageReader): void {
  reader.name();
  reader.bytes(8);
  reader.bytes(reader.u16());
}

function readTsig(reader: MessageReader, key: string): Tsig {
  const algorithm = reader.name();
  const time = reader.u16() * 0x1_0000_0000 + reader.u32();
  const fudge = reader.u16();
  const mac = reader.bytes(reader.u16());
  const originalId = reader.u16();
  const error = reader.u16();
  return { key, algorithm, time, fudge, mac, originalId, error, other: reader.bytes(reader.u16()) };
}

/**
 * Reads a key as `tsig-keygen` and BIND's configuration write it: `key "name" { algorithm hmac-sha256; secret "..."; };`
 *
 * @throws {FleetError} `OPTION_INVALID`
 */
export function parseTsigKey(text: string): TsigKey {
  const plain = text.replaceAll(/(?:^|\s)(?:\/\/|#)[^\n]*/g, "");
  const name = /\bkey\s+"?([^"\s{]+)"?\s*\{/.exec(plain)?.[1];
  const algorithm = /\balgorithm\s+"?([^"\s;]+)"?\s*;/.exec(plain)?.[1]?.toLowerCase();
  const secret = /\bsecret\s+"?([A-Za-z0-9+/=]+)"?\s*;/.exec(plain)?.[1];
  const problem = (what: string): FleetError =>
    new FleetError("OPTION_INVALID", `a key for DNS updates ${what}`);
  if (name === undefined || algorithm === undefined || secret === undefined)
    throw problem('must read key "name" { algorithm hmac-sha256; secret "..."; };');
  if (algorithm !== "hmac-sha256") throw problem(`must be of algorithm hmac-sha256, got ${algorithm}`);
  const bytes = Buffer.from(secret, "base64");
  if (bytes.length < 16) throw problem("must have a secret of at least 16 bytes");
  return { name: name.endsWith(".") ? name.toLowerCase() : `${name.toLowerCase()}.`, secret: bytes };
}
