import { FleetError } from "@fairlead/base/errors.ts";
import {
  type Edns,
  type Header,
  type Message,
  type RecordData,
  type ResourceRecord,
  TYPE,
  typeCode,
} from "./types.ts";
import { MessageWriter } from "./writer.ts";

/** Every DNS program must take UDP messages of this size (RFC 1035). Unit: bytes. */
export const MIN_UDP_BYTES = 512;
/** The longest message over TCP, limited by its length prefix. Unit: bytes. */
export const MAX_MESSAGE_BYTES = 65_535;

export interface EncodeOptions {
  /**
   * Largest message. Unit: bytes. Range: 512 to 65 535. Default: 65 535. Additional records that do not fit are left out;
   * when an answer or authority record does not fit, TC is set and nothing follows it (RFC 2181, section 9).
   */
  readonly limit?: number;
}

/**
 * Writes a message, with names compressed where every reader understands it.
 *
 * @throws {FleetError} `DNS_MALFORMED` when a name or a field cannot be written.
 */
export function encodeMessage(message: Message, options: EncodeOptions = {}): Buffer {
  const limit = Math.min(Math.max(options.limit ?? MAX_MESSAGE_BYTES, MIN_UDP_BYTES), MAX_MESSAGE_BYTES);
  const writer = new MessageWriter();
  const room = limit - ednsBytes(message.edns);
  writer.at = 12;
  for (const question of message.questions) {
    writer.name(question.name);
    writer.u16(question.type);
    writer.u16(question.class);
  }
  if (writer.at > room)
    throw new FleetError("DNS_MALFORMED", "the questions of a DNS message do not fit in it");
  const answers = writeRecords(writer, message.answers, room);
  const answersFit = answers === message.answers.length;
  const authorities = answersFit ? writeRecords(writer, message.authorities, room) : 0;
  const truncated = !answersFit || authorities < message.authorities.length;
  let additionals = truncated ? 0 : writeRecords(writer, message.additionals, room);
  if (message.edns !== undefined) {
    writeOpt(writer, message.edns, message.rcode);
    additionals += 1;
  }
  const end = writer.at;
  writer.at = 0;
  writer.u16(message.id);
  writer.u16(flagsOf(message, truncated));
  for (const count of [message.questions.length, answers, authorities, additionals]) writer.u16(count);
  return writer.take(end);
}

function flagsOf(header: Header, truncated: boolean): number {
  const bit = (on: boolean, value: number): number => (on ? value : 0);
  return (
    bit(header.response, 0x8000) |
    ((header.opcode & 15) << 11) |
    bit(header.authoritative, 0x0400) |
    bit(header.truncated || truncated, 0x0200) |
    bit(header.recursionDesired, 0x0100) |
    bit(header.recursionAvailable, 0x0080) |
    bit(header.authenticData, 0x0020) |
    bit(header.checkingDisabled, 0x0010) |
    (header.rcode & 15)
  );
}

/** Writes records until one does not fit in front of `room`; returns how many did. */
function writeRecords(writer: MessageWriter, records: readonly ResourceRecord[], room: number): number {
  for (let index = 0; index < records.length; index++) {
    const record = records[index];
    if (record === undefined) continue;
    const start = writer.at;
    writeRecord(writer, record);
    if (writer.at > room) {
      writer.at = start;
      return index;
    }
  }
  return records.length;
}

function writeRecord(writer: MessageWriter, record: ResourceRecord): void {
  writer.name(record.name);
  writer.u16(typeCode(record.data));
  writer.u16(record.class);
  writer.u32(record.ttl);
  const lengthAt = writer.at;
  writer.u16(0);
  writeData(writer, record.data);
  const end = writer.at;
  writer.at = lengthAt;
  writer.u16(end - lengthAt - 2);
  writer.at = end;
}

function writeData(writer: MessageWriter, data: RecordData): void {
  switch (data.type) {
    case "A":
      writer.u32(data.address);
      return;
    case "AAAA":
      writer.u128(data.address);
      return;
    case "CNAME":
    case "NS":
    case "PTR":
      writer.name(data.target);
      return;
    case "SRV":
      writer.u16(data.priority);
      writer.u16(data.weight);
      writer.u16(data.port);
      // RFC 2782 forbids compression here; RFC 3597 allows it only in the types of RFC 1035.
      writer.uncompressedName(data.target);
      return;
    case "TXT":
      for (const text of data.strings) writer.characterString(text);
      return;
    case "SOA":
      writer.name(data.mname);
      writer.name(data.rname);
      for (const field of [data.serial, data.refresh, data.retry, data.expire, data.minimum])
        writer.u32(field);
      return;
    case "unknown":
      writer.bytes(data.bytes);
      return;
    default:
      data satisfies never;
  }
}

function ednsBytes(edns: Edns | undefined): number {
  if (edns === undefined) return 0;
  return edns.options.reduce((sum, option) => sum + 4 + option.data.length, 11);
}

function writeOpt(writer: MessageWriter, edns: Edns, rcode: number): void {
  writer.u8(0);
  writer.u16(TYPE.OPT);
  writer.u16(edns.udpSize);
  writer.u8((rcode >> 4) & 255);
  writer.u8(edns.version);
  writer.u16(edns.dnssecOk ? 0x8000 : 0);
  writer.u16(ednsBytes(edns) - 11);
  for (const option of edns.options) {
    writer.u16(option.code);
    writer.u16(option.data.length);
    writer.bytes(option.data);
  }
}
