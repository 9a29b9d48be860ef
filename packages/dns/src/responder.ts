import { messageOf } from "@fairlead/base/errors.ts";
import type { Logger } from "@fairlead/base/log.ts";
import { decodeHeader, decodeMessage } from "#wire/decode.ts";
import { encodeMessage, MAX_MESSAGE_BYTES, MIN_UDP_BYTES } from "#wire/encode.ts";
import { CLASS, type Edns, type Header, type Message, OPCODE, type Question, RCODE } from "#wire/types.ts";
import type { Answer } from "./answer.ts";
import type { DnsMeters, Transport } from "./meters.ts";
import { failure, isRefusedType, type Resolve } from "./resolver.ts";

/** Largest answer over UDP: it fits a packet on every path, so nothing is fragmented (DNS flag day 2020). Unit: bytes. */
export const MAX_UDP_BYTES = 1232;

export interface ResponderOptions {
  readonly resolve: Resolve;
  /** Whether answers have the RA flag (recursion available), which a stub resolver expects from its only server. */
  readonly isRecursive: boolean;
  readonly meters: DnsMeters;
  readonly log: Logger;
}

/** Turns the bytes of a query into the bytes of its answer; undefined means that silence is the right answer. */
export type Respond = (
  query: Uint8Array,
  transport: Transport,
) => Buffer | undefined | Promise<Buffer | undefined>;

/** The sender of a query. */
export interface Client {
  readonly address: string;
  readonly port: number;
}

/** As `Respond`, where the answer depends on the client. */
export type RespondTo = (query: Uint8Array, transport: Transport, client: Client) => ReturnType<Respond>;

export function createResponder({ resolve, isRecursive, meters, log }: ResponderOptions): Respond {
  function finish(query: Message, answer: Answer, transport: Transport): Buffer {
    const bytes = encodeMessage(reply(query, answer, isRecursive), { limit: limitOf(query.edns, transport) });
    meters.answered(answer.rcode);
    return bytes;
  }

  function fail(query: Header, rcode: number): Buffer {
    meters.answered(rcode);
    return encodeMessage(reply({ ...query, ...NO_SECTIONS }, failure(rcode), isRecursive));
  }

  /** One query that cannot be answered must not cost others theirs. */
  function giveUp(query: Message, error: unknown, transport: Transport): Buffer {
    log.error("cannot answer a query", { error: messageOf(error) });
    return finish(query, failure(RCODE.SERVFAIL), transport);
  }

  async function finishLater(query: Message, answer: Promise<Answer>, transport: Transport): Promise<Buffer> {
    try {
      return finish(query, await answer, transport);
    } catch (error) {
      return giveUp(query, error, transport);
    }
  }

  function answerTo(query: Message, transport: Transport): Buffer | Promise<Buffer> {
    const [question] = query.questions;
    const refusal = question === undefined ? RCODE.FORMERR : refusalOf(query, question);
    if (question === undefined || refusal !== undefined) {
      return finish(query, failure(refusal ?? RCODE.FORMERR), transport);
    }
    try {
      const answer = resolve(question);
      if (answer instanceof Promise) return finishLater(query, answer, transport);
      return finish(query, answer, transport);
    } catch (error) {
      return giveUp(query, error, transport);
    }
  }

  return function respond(bytes, transport) {
    const header = decodeHeader(bytes);
    // Answering an answer could loop for ever between two servers.
    if (header === undefined || header.response) return undefined;
    meters.asked(transport);
    if (header.opcode !== OPCODE.QUERY) return fail(header, RCODE.NOTIMP);
    let query: Message;
    try {
      query = decodeMessage(bytes);
    } catch {
      return fail(header, RCODE.FORMERR);
    }
    return answerTo(query, transport);
  };
}

/** Why a question is not even looked up. */
function refusalOf(query: Message, question: Question): number | undefined {
  if (query.questions.length !== 1) return RCODE.FORMERR;
  if (query.edns !== undefined && query.edns.version !== 0) return RCODE.BADVERS;
  if (question.class !== CLASS.IN || isRefusedType(question.type)) return RCODE.REFUSED;
  return undefined;
}

const NO_SECTIONS = { questions: [], answers: [], authorities: [], additionals: [] } as const;

function reply(query: Message, answer: Answer, recursionAvailable: boolean): Message {
  const { rcode, authoritative, ...sections } = answer;
  return {
    id: query.id,
    response: true,
    opcode: query.opcode,
    authoritative,
    truncated: false,
    recursionDesired: query.recursionDesired,
    recursionAvailable,
    authenticData: false,
    checkingDisabled: query.checkingDisabled,
    rcode,
    questions: query.questions,
    ...sections,
    ...(query.edns === undefined ? {} : { edns: replyEdns(query.edns) }),
  };
}

function replyEdns({ dnssecOk }: Edns): Edns {
  return { udpSize: MAX_UDP_BYTES, version: 0, dnssecOk, options: [] };
}

function limitOf(edns: Edns | undefined, transport: Transport): number {
  if (transport === "tcp") return MAX_MESSAGE_BYTES;
  return edns === undefined ? MIN_UDP_BYTES : Math.min(Math.max(edns.udpSize, MIN_UDP_BYTES), MAX_UDP_BYTES);
}
