/** What server and client of a probe say to each other. Pure. */

import { isObject } from "@fairlead/base/json.ts";

/** The first line of a connection. */
export interface Hello {
  /** The cluster of the server. */
  readonly cluster: string;
  /** The address of the client as the server sees it. */
  readonly peer: string;
}

/** Longest first line. Unit: bytes. */
export const MAX_HELLO = 1024;

export function hello(said: Hello): string {
  return `${JSON.stringify(said)}\n`;
}

export function parseHello(line: string): Hello | undefined {
  const { cluster, peer } = parsed(line);
  return typeof cluster === "string" && typeof peer === "string" ? { cluster, peer } : undefined;
}

function parsed(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}

/** Begins every datagram, so that an answer belongs to it. Unit: bytes. */
export const NONCE_BYTES = 16;

/** The nonce and the received size: an answer is never longer than its question, and measures one direction only. */
export function answerOf(datagram: Uint8Array): Uint8Array {
  const answer = Buffer.alloc(Math.min(datagram.length, NONCE_BYTES + 4));
  answer.set(datagram.subarray(0, NONCE_BYTES));
  if (answer.length === NONCE_BYTES + 4) answer.writeUInt32BE(datagram.length, NONCE_BYTES);
  return answer;
}

export function isAnswerTo(datagram: Uint8Array, answer: Uint8Array): boolean {
  const wanted = answerOf(datagram);
  return answer.length === wanted.length && Buffer.compare(answer, wanted) === 0;
}

/** Types of ICMP echo requests (RFC 792, RFC 4443). */
const ECHO = { IPv4: 8, IPv6: 128 } as const;
/** Type, code, checksum, identifier and sequence number; the kernel fills in the identifier and the checksum. Unit: bytes. */
const ICMP_HEADER = 8;

export function echoRequest(family: "IPv4" | "IPv6", nonce: Uint8Array): Uint8Array {
  const bytes = Buffer.alloc(ICMP_HEADER + nonce.length);
  bytes[0] = ECHO[family];
  bytes.set(nonce, ICMP_HEADER);
  return bytes;
}

export function isEchoReply(nonce: Uint8Array, answer: Uint8Array): boolean {
  return Buffer.compare(answer.subarray(ICMP_HEADER), nonce) === 0;
}

/** IP and UDP headers without options. Unit: bytes. */
export const UDP_OVERHEAD = { IPv4: 28, IPv6: 48 } as const;
