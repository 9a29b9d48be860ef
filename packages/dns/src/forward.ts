import { messageOf } from "@fairlead/base/errors.ts";
import { foldName, isUnder } from "#wire/name.ts";
import { type Message, type Question, RCODE, type ResourceRecord } from "#wire/types.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { Answer } from "./answer.ts";
import { AnswerCache } from "./cache.ts";
import { exchange } from "./exchange.ts";
import { formatSocketAddress, type SocketAddress } from "./listen-address.ts";
import { failure, type Forward } from "./resolver.ts";

export interface ForwardOptions {
  /** Folded. Questions under it go to `servers`. */
  readonly domain: string;
  /** Asked in turn until one answers. */
  readonly servers: readonly SocketAddress[];
  /** How long one server may take. Unit: milliseconds. Default: 1000. */
  readonly timeoutMs?: number;
  /** How often all servers are asked. Default: 2. */
  readonly rounds?: number;
  /** Most questions under way at a time. Default: 1024. */
  readonly maxPending?: number;
  /** Longest that an answer is kept. Unit: seconds. Default: 1, so that a change upstream shows within a second. */
  readonly maxTtl?: number;
  /** How long an answer may outlive its TTL while no server answers. Unit: seconds. Default: 3600. */
  readonly maxStale?: number;
}

const MAX_CACHE_ENTRIES = 10_000;

/**
 * Asks other servers about one domain, and keeps their answers for a moment. Equal questions under way are asked once.
 * While no server answers, or they only report failures, the last good answer is given (RFC 8767).
 */
export function createForward(options: ForwardOptions, deps: RuntimeDeps): Forward {
  const { domain, servers, timeoutMs = 1000, rounds = 2, maxPending = 1024 } = options;
  const cache = new AnswerCache({
    clock: deps.clock,
    maxEntries: MAX_CACHE_ENTRIES,
    maxTtl: options.maxTtl ?? 1,
    maxStale: options.maxStale ?? 3600,
  });
  const underWay = new Map<string, Promise<Answer>>();

  async function askServers(question: Question): Promise<Answer> {
    for (let round = 0; round < rounds; round++) {
      for (const server of servers) {
        const answer = await askServer(question, server);
        if (answer !== undefined) return answer;
      }
    }
    return failure(RCODE.SERVFAIL);
  }

  /** The answer of one server; undefined if it did not answer or refused. */
  async function askServer(question: Question, server: SocketAddress): Promise<Answer | undefined> {
    try {
      const message = await exchange(question, { server, timeoutMs, clock: deps.clock });
      const isAnswer = message.rcode === RCODE.NOERROR || message.rcode === RCODE.NXDOMAIN;
      return isAnswer ? answerOf(message, domain) : undefined;
    } catch (error) {
      const fields = { domain, server: formatSocketAddress(server), error: messageOf(error) };
      deps.log.debug("a DNS server did not answer", fields);
      return undefined;
    }
  }

  async function refresh(key: string, question: Question): Promise<Answer> {
    const answer = await askServers(question);
    cache.put(key, answer);
    return answer.rcode === RCODE.SERVFAIL ? (cache.stale(key) ?? answer) : answer;
  }

  return {
    domain,
    ask(question) {
      const key = `${question.type} ${foldName(question.name)}`;
      const known = cache.fresh(key);
      if (known !== undefined) return Promise.resolve(known);
      const before = underWay.get(key);
      if (before !== undefined) return before;
      if (underWay.size >= maxPending) return Promise.resolve(cache.stale(key) ?? failure(RCODE.SERVFAIL));
      const asked = refresh(key, question).finally(() => underWay.delete(key));
      underWay.set(key, asked);
      return asked;
    },
  };
}

/**
 * Accepts only records of the domain: a server has no authority over names outside of it. The AA flag is passed on, also for
 * cached answers, as CoreDNS does: some programs drop answers without it, and BIND's nslookup prints the additional records
 * as if they were part of the answer.
 */
function answerOf(message: Message, domain: string): Answer {
  const within = (records: readonly ResourceRecord[]): readonly ResourceRecord[] =>
    records.filter((record) => isUnder(record.name, domain));
  return {
    rcode: message.rcode,
    authoritative: message.authoritative,
    answers: within(message.answers),
    authorities: within(message.authorities),
    additionals: within(message.additionals),
  };
}
