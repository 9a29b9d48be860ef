import type { IpAddress } from "@fairlead/base/netaddr/address.ts";
import { decodeMessage } from "@fairlead/dns/wire/decode.ts";
import { encodeMessage } from "@fairlead/dns/wire/encode.ts";
import { foldName } from "@fairlead/dns/wire/name.ts";
import { CLASS, type Message, OPCODE, type Question } from "@fairlead/dns/wire/types.ts";

/** What the DNS proxy reads of messages. Pure. Whatever is not plain is not understood, and does not pass. */

export interface Query {
  readonly message: Message;
  readonly question: Question;
}

/** A question as programs ask it; undefined for anything else. */
export function readQuery(bytes: Uint8Array): Query | undefined {
  const message = decoded(bytes);
  const question = message?.questions[0];
  if (message === undefined || question === undefined) return undefined;
  const isPlain = !message.response && message.opcode === OPCODE.QUERY && message.questions.length === 1;
  return isPlain && question.class === CLASS.IN ? { message, question } : undefined;
}

/** The answer to a query that was sent with another id. */
export function readAnswer(bytes: Uint8Array, { question }: Query, id: number): Message | undefined {
  const message = decoded(bytes);
  const [asked, ...others] = message?.questions ?? [];
  const isAnswer =
    message?.response === true &&
    message.id === id &&
    others.length === 0 &&
    asked?.type === question.type &&
    asked.class === question.class &&
    foldName(asked.name) === foldName(question.name);
  return isAnswer ? message : undefined;
}

function decoded(bytes: Uint8Array): Message | undefined {
  try {
    return decodeMessage(bytes);
  } catch {
    return undefined;
  }
}

/** The characters that patterns stand for. */
const PLAIN = /^[-\w.]*$/;

/** A name as patterns have it; undefined if it has characters that no pattern but `*` stands for, such as a dot inside a label. */
export function plainName(name: string): string | undefined {
  const text = foldName(name).slice(0, -1);
  return PLAIN.test(text) ? text : undefined;
}

/** The message that refuses a query, or says that there is no answer. */
export function failureOf({ message }: Query, rcode: number): Buffer {
  const { id, opcode, recursionDesired, questions } = message;
  return encodeMessage({
    id,
    response: true,
    opcode,
    authoritative: false,
    truncated: false,
    recursionDesired,
    recursionAvailable: true,
    authenticData: false,
    checkingDisabled: false,
    rcode,
    questions,
    answers: [],
    authorities: [],
    additionals: [],
  });
}

/** Longer chains are not followed. */
const MAX_ALIASES = 16;

/** The addresses that an answer gives the name that was asked for, by itself or through aliases, with their TTL in seconds. */
export function addressesIn({ question }: Query, answer: Message): ReadonlyMap<IpAddress, number> {
  const records = answer.answers
    .filter((it) => it.class === CLASS.IN)
    .map((it) => ({ ...it, name: foldName(it.name) }));
  const aliases = new Map(
    records.flatMap(({ name, data }) => (data.type === "CNAME" ? [[name, foldName(data.target)]] : [])),
  );
  const names = new Set<string>();
  let name: string | undefined = foldName(question.name);
  for (let at = 0; at < MAX_ALIASES && name !== undefined && !names.has(name); at++) {
    names.add(name);
    name = aliases.get(name);
  }
  return new Map(
    records.flatMap((it): readonly (readonly [IpAddress, number])[] => {
      const { data, ttl } = it;
      const isAddress = data.type === "A" || data.type === "AAAA";
      return isAddress && names.has(it.name) ? [[data.address, ttl]] : [];
    }),
  );
}
