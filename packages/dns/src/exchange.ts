import { defined } from "@fairlead/base/defined.ts";
import { randomInt } from "node:crypto";
import { createSocket } from "node:dgram";
import { connect } from "node:net";
import type { Clock } from "@fairlead/base/clock.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { decodeMessage } from "#wire/decode.ts";
import { encodeMessage } from "#wire/encode.ts";
import { foldName } from "#wire/name.ts";
import { type Message, OPCODE, type Question, type RecordData, type ResourceRecord } from "#wire/types.ts";
import { formatSocketAddress, type SocketAddress } from "./listen-address.ts";
import { MAX_UDP_BYTES } from "./responder.ts";

export interface ExchangeOptions {
  readonly server: SocketAddress;
  /** Unit: milliseconds. For UDP and TCP each. */
  readonly timeoutMs: number;
  readonly clock: Clock;
}

/**
 * Asks one server one question: over UDP, and again over TCP when the answer was cut.
 *
 * An answer counts only if it comes from the server's address to the random port, and carries the random id and the
 * question in the very spelling in which it was asked (RFC 5452; draft-vixie-dnsext-dns0x20). Anything else is ignored, as if
 * it had not come. The names of its records come back folded.
 *
 * @throws {FleetError} `TIMED_OUT`; `API_UNAVAILABLE` if no server listens there.
 */
export async function exchange(question: Question, options: ExchangeOptions): Promise<Message> {
  const asked = { ...question, name: spelledAtRandom(question.name) };
  const query = queryMessage(asked);
  const wire = encodeMessage(query);
  const accept = (bytes: Buffer): Message | undefined => acceptable(bytes, query);
  let answer = await overUdp(wire, accept, options);
  if (answer.truncated) answer = await overTcp(wire, accept, options);
  return {
    ...answer,
    answers: answer.answers.map(folded),
    authorities: answer.authorities.map(folded),
    additionals: answer.additionals.map(folded),
  };
}

/** Names that were written as pointers into the question came back in its random spelling. */
function folded(record: ResourceRecord): ResourceRecord {
  return { ...record, name: foldName(record.name), data: foldedData(record.data) };
}

function foldedData(data: RecordData): RecordData {
  if ("target" in data) return { ...data, target: foldName(data.target) };
  if (data.type !== "SOA") return data;
  return { ...data, mname: foldName(data.mname), rname: foldName(data.rname) };
}

function queryMessage(question: Question): Message {
  return {
    id: randomInt(0x1_0000),
    response: false,
    opcode: OPCODE.QUERY,
    authoritative: false,
    truncated: false,
    recursionDesired: true,
    recursionAvailable: false,
    authenticData: false,
    checkingDisabled: false,
    rcode: 0,
    questions: [question],
    answers: [],
    authorities: [],
    additionals: [],
    edns: { udpSize: MAX_UDP_BYTES, version: 0, dnssecOk: false, options: [] },
  };
}

/** Each letter in upper or lower case by chance: some bits more that a forger would have to guess. */
function spelledAtRandom(name: string): string {
  let text = "";
  let bits = 0;
  for (let at = 0; at < name.length; at++) {
    if (at % 32 === 0) bits = randomInt(0x1_0000_0000);
    const character = name.charAt(at);
    text += ((bits >>> (at % 32)) & 1) === 0 ? character.toLowerCase() : character.toUpperCase();
  }
  return text;
}

function acceptable(bytes: Buffer, query: Message): Message | undefined {
  let message: Message;
  try {
    message = decodeMessage(bytes);
  } catch {
    return undefined;
  }
  const isOurs = message.response && message.id === query.id && message.questions.length === 1;
  return isOurs && isSameQuestion(message.questions[0], query.questions[0]) ? message : undefined;
}

/** The same in every letter: a server copies the question as it came. */
function isSameQuestion(a: Question | undefined, b: Question | undefined): boolean {
  return a?.name === b?.name && a?.type === b?.type && a?.class === b?.class;
}

/** What a received message is; undefined: not an answer. */
export type Accept<T> = (bytes: Buffer) => T | undefined;

/** Sends a message as it is, and waits for the first one that is an answer. @throws as `exchange`. */
export async function overUdp<T>(wire: Buffer, accept: Accept<T>, options: ExchangeOptions): Promise<T> {
  const { server } = options;
  // A separate port for each question, chosen by the kernel; connected, so that only the server's datagrams arrive.
  const socket = createSocket(server.family === "IPv6" ? "udp6" : "udp4");
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  using _timer = options.clock.after(options.timeoutMs, () => reject(timedOut(server)));
  socket.on("error", (cause) => reject(unreachable(server, cause)));
  socket.on("message", (bytes) => {
    const message = accept(bytes);
    if (message !== undefined) resolve(message);
  });
  socket.once("connect", () => socket.send(wire));
  socket.connect(server.port, server.host);
  try {
    return await promise;
  } finally {
    socket.close();
  }
}

/** As `overUdp`; what comes first is the answer, or there is none. */
export async function overTcp<T>(wire: Buffer, accept: Accept<T>, options: ExchangeOptions): Promise<T> {
  const { server } = options;
  const socket = connect({ port: server.port, host: server.host, noDelay: true });
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  using _timer = options.clock.after(options.timeoutMs, () => reject(timedOut(server)));
  let received = Buffer.alloc(0);
  socket.on("error", (cause) => reject(unreachable(server, cause)));
  socket.on("close", () => reject(unreachable(server)));
  socket.on("data", (chunk: Buffer) => {
    received = Buffer.concat([received, chunk]);
    if (received.length < 2 || received.length < 2 + received.readUInt16BE(0)) return;
    const message = accept(received.subarray(2, 2 + received.readUInt16BE(0)));
    if (message === undefined) reject(unreachable(server));
    else resolve(message);
  });
  const length = Buffer.alloc(2);
  length.writeUInt16BE(wire.length);
  socket.write(Buffer.concat([length, wire]));
  try {
    return await promise;
  } finally {
    socket.destroy();
  }
}

function timedOut(server: SocketAddress): FleetError {
  return new FleetError("TIMED_OUT", `no DNS answer from ${formatSocketAddress(server)}`, {
    retriable: true,
  });
}

function unreachable(server: SocketAddress, cause?: Error): FleetError {
  return new FleetError("API_UNAVAILABLE", `cannot reach the DNS server ${formatSocketAddress(server)}`, {
    retriable: true,
    ...defined({ cause }),
  });
}
