import { parseAddress } from "@fairlead/base/netaddr/address.ts";
import { type DataType, protocolNumber } from "../datatype.ts";
import type { NftElementOp } from "../diff.ts";
import { checkElement, checkKey, splitParts, splitVerdict } from "../element.ts";
import { checkName } from "../rule.ts";
import type { NftSetSpec, NftTableName } from "../state.ts";
import { ATTRIBUTE, attribute, type ElementMessage, FAMILY_NUMBERS, textBytes, writeU32 } from "./message.ts";

/** Steps on elements as netlink messages. Pure. */

/**
 * Bytes of elements in one message: an attribute's length has 16 bits, and the list of elements is one attribute. The
 * largest element takes less than 200 bytes and the name of a chain.
 */
const LIST_BYTES = 60_000;

/** Verdicts that are negative numbers of `enum nft_verdicts`, and the two of netfilter. */
const VERDICT_CODES: ReadonlyMap<string, number> = new Map([
  ["continue", -1],
  ["jump", -3],
  ["goto", -4],
  ["return", -5],
  ["drop", 0],
  ["accept", 1],
]);

/** @throws {FleetError} `OPTION_INVALID` for an element that is not in canonical text. */
export function elementMessages(table: NftTableName, op: NftElementOp): readonly ElementMessage[] {
  const elements = op.verb === "add-elements" ? op.elements : op.keys.map((key) => [key, undefined] as const);
  const head = [
    attribute(ATTRIBUTE.list.table, textBytes(checkName(table.name))),
    attribute(ATTRIBUTE.list.set, textBytes(checkName(op.set))),
  ];
  const verb = op.verb === "add-elements" ? "add" : "delete";
  const family = FAMILY_NUMBERS[table.family];
  return chunks(elements.map(([key, value]) => encodeElement(op.spec, key, value))).map((list) => ({
    verb,
    family,
    attributes: [...head, attribute(ATTRIBUTE.list.elements, list)],
  }));
}

function chunks(encoded: readonly Uint8Array[]): readonly (readonly Uint8Array[])[] {
  const lists: Uint8Array[][] = [];
  let size = LIST_BYTES;
  for (const element of encoded) {
    if (size + element.length > LIST_BYTES) {
      lists.push([]);
      size = 0;
    }
    lists[lists.length - 1]?.push(element);
    size += element.length;
  }
  return lists;
}

function encodeElement(spec: NftSetSpec, key: string, value: string | undefined): Uint8Array {
  if (value === undefined) checkKey(spec, key);
  else checkElement(spec, key, value);
  const parts = [attribute(ATTRIBUTE.element.key, [dataValue(spec.key, key)])];
  if (value !== undefined && spec.value === "verdict")
    parts.push(attribute(ATTRIBUTE.element.data, [verdict(value)]));
  else if (value !== undefined && spec.value !== undefined && spec.value !== "verdict")
    parts.push(attribute(ATTRIBUTE.element.data, [dataValue(spec.value, value)]));
  return attribute(ATTRIBUTE.item.element, parts);
}

function verdict(text: string): Uint8Array {
  const { verb, chain } = splitVerdict(text);
  const code = Buffer.alloc(4);
  code.writeInt32BE(VERDICT_CODES.get(verb) ?? 0);
  const parts = [attribute(ATTRIBUTE.verdict.code, code)];
  if (chain !== undefined) parts.push(attribute(ATTRIBUTE.verdict.chain, textBytes(chain)));
  return attribute(ATTRIBUTE.data.verdict, parts);
}

function dataValue(types: readonly DataType[], text: string): Uint8Array {
  return attribute(ATTRIBUTE.data.value, encodeParts(types, text));
}

/** Registers are 32 bits wide: each part of a concatenation begins at a multiple of four bytes. */
function encodeParts(types: readonly DataType[], text: string): Uint8Array {
  const parts = splitParts(text);
  const isConcatenation = types.length > 1;
  const size = types.reduce((sum, it) => sum + (isConcatenation ? padded(BYTES[it]) : BYTES[it]), 0);
  const bytes = Buffer.alloc(size);
  let at = 0;
  for (const [index, type] of types.entries()) {
    writePart(bytes, at, { type, text: parts[index] ?? "" });
    at += padded(BYTES[type]);
  }
  return bytes;
}

const BYTES: Readonly<Record<DataType, number>> = {
  ipv4_addr: 4,
  ipv6_addr: 16,
  inet_proto: 1,
  inet_service: 2,
  integer: 4,
  mark: 4,
};

function padded(bytes: number): number {
  return (bytes + 3) & ~3;
}

function writePart(
  bytes: Buffer,
  at: number,
  part: { readonly type: DataType; readonly text: string },
): void {
  switch (part.type) {
    case "ipv4_addr":
    case "ipv6_addr":
      writeAddress(bytes, at, part.text);
      return;
    case "inet_proto":
      bytes[at] = protocolNumber(part.text);
      return;
    case "inet_service":
      bytes.writeUInt16BE(Number(part.text), at);
      return;
    case "integer":
    case "mark":
      writeU32(bytes, Number(part.text), at);
      return;
    default:
      part.type satisfies never;
  }
}

function writeAddress(bytes: Buffer, at: number, text: string): void {
  const address = parseAddress(text);
  if (typeof address === "number") {
    bytes.writeUInt32BE(address, at);
    return;
  }
  bytes.writeBigUInt64BE(address >> 64n, at);
  bytes.writeBigUInt64BE(address & 0xffff_ffff_ffff_ffffn, at + 8);
}
