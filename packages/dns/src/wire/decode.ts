import { HEADER_BYTES, malformed, MessageReader } from "./reader.ts";
import {
  CLASS,
  type Edns,
  type EdnsOption,
  type Header,
  type Message,
  type Question,
  type RecordData,
  type ResourceRecord,
  TYPE,
} from "./types.ts";

/** Fewest bytes of a question and of a record: the root name and the fixed fields. */
const MIN_QUESTION_BYTES = 5;
const MIN_RECORD_BYTES = 11;

/**
 * Reads a whole message. Strict: every count, length and pointer must be right and no byte may be left over.
 *
 * @throws {FleetError} `DNS_MALFORMED`
 */
export function decodeMessage(bytes: Uint8Array): Message {
  const reader = new MessageReader(bytes);
  const header = readHeader(reader);
  const counts = [reader.u16(), reader.u16(), reader.u16(), reader.u16()] as const;
  const [questionCount, answerCount, authorityCount, additionalCount] = counts;
  const least =
    questionCount * MIN_QUESTION_BYTES + (answerCount + authorityCount + additionalCount) * MIN_RECORD_BYTES;
  if (least > reader.left) throw malformed("its counts exceed its size", reader.at);
  const questions = readQuestions(reader, questionCount);
  const noEdns = (): never => {
    throw malformed("an OPT record is outside the additional section", reader.at);
  };
  const answers = readRecords(reader, answerCount, noEdns);
  const authorities = readRecords(reader, authorityCount, noEdns);
  let opt: OptRecord | undefined;
  const additionals = readRecords(reader, additionalCount, (found) => {
    if (opt !== undefined) throw malformed("it has more than one OPT record", reader.at);
    opt = found;
  });
  if (reader.left > 0) throw malformed("it has trailing bytes", reader.at);
  const message = { ...header, questions, answers, authorities, additionals };
  if (opt === undefined) return message;
  return { ...message, rcode: header.rcode | (opt.rcodeHigh << 4), edns: opt.edns };
}

/**
 * The header of a message that may be broken behind it: what an error answer needs.
 *
 * @returns undefined when there are not even enough bytes for a header.
 */
export function decodeHeader(bytes: Uint8Array): Header | undefined {
  return bytes.length < HEADER_BYTES ? undefined : readHeader(new MessageReader(bytes));
}

function readHeader(reader: MessageReader): Header {
  const id = reader.u16();
  const flags = reader.u16();
  return {
    id,
    response: (flags & 0x8000) !== 0,
    opcode: (flags >> 11) & 15,
    authoritative: (flags & 0x0400) !== 0,
    truncated: (flags & 0x0200) !== 0,
    recursionDesired: (flags & 0x0100) !== 0,
    recursionAvailable: (flags & 0x0080) !== 0,
    authenticData: (flags & 0x0020) !== 0,
    checkingDisabled: (flags & 0x0010) !== 0,
    rcode: flags & 15,
  };
}

function readQuestions(reader: MessageReader, count: number): Question[] {
  const questions: Question[] = [];
  for (let index = 0; index < count; index++) {
    questions.push({ name: reader.name(), type: reader.u16(), class: reader.u16() });
  }
  return questions;
}

interface OptRecord {
  readonly edns: Edns;
  readonly rcodeHigh: number;
}

function readRecords(
  reader: MessageReader,
  count: number,
  onOpt: (opt: OptRecord) => void,
): ResourceRecord[] {
  const records: ResourceRecord[] = [];
  for (let index = 0; index < count; index++) {
    const name = reader.name();
    const type = reader.u16();
    const classCode = reader.u16();
    const ttl = reader.u32();
    const length = reader.u16();
    const end = reader.at + length;
    if (length > reader.left) throw malformed("a record ends after the message", reader.at);
    if (type === TYPE.OPT) onOpt(readOpt(reader, { name, udpSize: classCode, ttl, end }));
    else {
      // A TTL with the sign bit set counts as zero (RFC 2181, section 8).
      records.push({
        name,
        class: classCode,
        ttl: ttl > 0x7fff_ffff ? 0 : ttl,
        data: isBare(classCode, length) ? bare(type) : readData(reader, type, end),
      });
    }
    if (reader.at !== end) throw malformed("the data of a record does not have the stated length", reader.at);
  }
  return records;
}

/** In updates a record without data stands for all of its type, or for none (RFC 2136, sections 2.4 and 2.5). */
function isBare(classCode: number, length: number): boolean {
  return length === 0 && (classCode === CLASS.ANY || classCode === CLASS.NONE);
}

function bare(type: number): RecordData {
  return { type: "unknown", code: type, bytes: new Uint8Array() };
}

function readData(reader: MessageReader, type: number, end: number): RecordData {
  switch (type) {
    case TYPE.A:
      return { type: "A", address: reader.u32() };
    case TYPE.AAAA:
      return { type: "AAAA", address: reader.u128() };
    case TYPE.CNAME:
      return { type: "CNAME", target: reader.name() };
    case TYPE.NS:
      return { type: "NS", target: reader.name() };
    case TYPE.PTR:
      return { type: "PTR", target: reader.name() };
    case TYPE.SRV:
      return {
        type: "SRV",
        priority: reader.u16(),
        weight: reader.u16(),
        port: reader.u16(),
        target: reader.name(),
      };
    case TYPE.TXT:
      return { type: "TXT", strings: readStrings(reader, end) };
    case TYPE.SOA:
      return {
        type: "SOA",
        mname: reader.name(),
        rname: reader.name(),
        serial: reader.u32(),
        refresh: reader.u32(),
        retry: reader.u32(),
        expire: reader.u32(),
        minimum: reader.u32(),
      };
    default:
      return { type: "unknown", code: type, bytes: reader.bytes(end - reader.at) };
  }
}

function readStrings(reader: MessageReader, end: number): string[] {
  const strings = [reader.latin1(reader.u8())];
  while (reader.at < end) strings.push(reader.latin1(reader.u8()));
  return strings;
}

interface OptFields {
  readonly name: string;
  readonly udpSize: number;
  readonly ttl: number;
  readonly end: number;
}

/** OPT keeps the UDP size in the class, and the upper rcode bits, version and flags in the TTL (RFC 6891, section 6.1). */
function readOpt(reader: MessageReader, { name, udpSize, ttl, end }: OptFields): OptRecord {
  if (name !== ".") throw malformed("the name of an OPT record is not the root", reader.at);
  const options: EdnsOption[] = [];
  while (reader.at < end) {
    const code = reader.u16();
    options.push({ code, data: reader.bytes(reader.u16()) });
  }
  const edns = { udpSize, version: (ttl >>> 16) & 255, dnssecOk: (ttl & 0x8000) !== 0, options };
  return { edns, rcodeHigh: ttl >>> 24 };
}
