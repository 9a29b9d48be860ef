import { answering } from "#domain/answering.ts";
import type { TrafficRoute, TrafficTarget } from "#api/fairlead.dev/v1alpha1/traffic-route.ts";
import type { Rng } from "@fairlead/base/rng.ts";
import { foldName, parseName } from "@fairlead/dns/wire/name.ts";
import {
  CLASS,
  type Question,
  RCODE,
  type RecordData,
  type ResourceRecord,
  TYPE,
} from "@fairlead/dns/wire/types.ts";
import { tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import { type Answer, draw } from "@fairlead/dns/answer.ts";
import { isLabel } from "@fairlead/dns/labels.ts";
import type { Forward } from "@fairlead/dns/resolver.ts";

/** One target, with its records of each type. */
interface Choice extends Pick<TrafficTarget, "priority" | "degraded" | "drained"> {
  readonly weight: number;
  readonly a: readonly ResourceRecord[];
  readonly aaaa: readonly ResourceRecord[];
  readonly cname: readonly ResourceRecord[];
}

export interface TrafficZoneOptions {
  /** Folded. */
  readonly origin: string;
  /** How long "no" may be kept. Unit: seconds. */
  readonly negativeTtl: number;
  readonly serial: number;
  readonly isReady: () => boolean;
  readonly rng: Rng;
}

/**
 * Names of the traffic manager. Each query is answered with one target, drawn by weight among those that share the
 * requests now: over many queries the shares are exact, whatever resolvers do with the order of records.
 */
export class TrafficZone implements Forward {
  readonly domain: string;
  readonly #options: TrafficZoneOptions;
  readonly #choices = new Map<string, readonly Choice[]>();
  readonly #soa: ResourceRecord;

  constructor(options: TrafficZoneOptions) {
    this.#options = options;
    this.domain = options.origin;
    this.#soa = soaOf(options);
  }

  /** How many names there are. */
  get size(): number {
    return this.#choices.size;
  }

  put(label: string, route: TrafficRoute | undefined): void {
    const name = `${label}.${this.domain}`;
    if (route === undefined || !isLabel(label)) this.#choices.delete(name);
    else this.#choices.set(name, choicesOf(name, route));
  }

  ask(question: Question): Answer {
    if (!this.#options.isReady()) return { ...this.#no(RCODE.SERVFAIL), authorities: [] };
    const name = foldName(question.name);
    if (name === this.domain && question.type === TYPE.SOA) return this.#yes([this.#soa]);
    const choices = this.#choices.get(name);
    if (choices === undefined) return this.#no(name === this.domain ? RCODE.NOERROR : RCODE.NXDOMAIN);
    const records = this.#draw(choices, question.type);
    return records.length === 0 ? this.#no(RCODE.NOERROR) : this.#yes(records);
  }

  /**
   * Only targets that have something of the asked type take part: a client of one family is not sent to the other, and gets a
   * degraded target of its family if that has no other.
   */
  #draw(choices: readonly Choice[], type: number): readonly ResourceRecord[] {
    const having = choices.flatMap((it) => {
      const records = recordsOf(it, type);
      return records.length === 0 ? [] : [{ ...it, records }];
    });
    return draw(answering(having), this.#options.rng);
  }

  #yes(answers: readonly ResourceRecord[]): Answer {
    return { rcode: RCODE.NOERROR, authoritative: true, answers, authorities: [], additionals: [] };
  }

  #no(rcode: number): Answer {
    return { rcode, authoritative: true, answers: [], authorities: [this.#soa], additionals: [] };
  }
}

function recordsOf({ a, aaaa, cname }: Choice, type: number): readonly ResourceRecord[] {
  if (cname.length > 0) return cname;
  if (type === TYPE.A) return a;
  if (type === TYPE.AAAA) return aaaa;
  return type === TYPE.ANY ? [...a, ...aaaa] : [];
}

function choicesOf(name: string, { spec }: TrafficRoute): Choice[] {
  return (spec.targets ?? []).map((target) => choiceOf(name, spec.ttl, target));
}

function choiceOf(
  name: string,
  ttl: number,
  { weight, addresses = [], hostname, ...standing }: TrafficTarget,
): Choice {
  const record = (data: RecordData): ResourceRecord => ({ name, class: CLASS.IN, ttl, data });
  const parsed = addresses.flatMap((text) => tryParseAddress(text) ?? []);
  const target = parsed.length === 0 && hostname !== undefined ? tryParseName(hostname) : undefined;
  return {
    ...standing,
    weight,
    a: parsed.flatMap((it) => (typeof it === "number" ? [record({ type: "A", address: it })] : [])),
    aaaa: parsed.flatMap((it) => (typeof it === "bigint" ? [record({ type: "AAAA", address: it })] : [])),
    cname: target === undefined ? [] : [record({ type: "CNAME", target })],
  };
}

/** The author of the object is not trusted to have written a valid domain. */
function tryParseName(text: string): string | undefined {
  try {
    return foldName(parseName(text));
  } catch {
    return undefined;
  }
}

function soaOf({ origin, negativeTtl, serial }: TrafficZoneOptions): ResourceRecord {
  const timers = { refresh: 7200, retry: 1800, expire: 86_400, minimum: negativeTtl };
  const [mname, rname] = [`ns.dns.${origin}`, `hostmaster.${origin}`];
  return {
    name: origin,
    class: CLASS.IN,
    ttl: negativeTtl,
    data: { type: "SOA", mname, rname, serial, ...timers },
  };
}
