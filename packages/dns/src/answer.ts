import type { Rng } from "@fairlead/base/rng.ts";
import { foldName } from "#wire/name.ts";
import { type Question, RCODE, type ResourceRecord, TYPE } from "#wire/types.ts";
import { type RecordSet, type RecordSets, type RecordTree, setOf, type Share, type Zone } from "./tree.ts";

/** The answer to a question, before it is encoded into a message. */
export interface Answer {
  readonly rcode: number;
  readonly authoritative: boolean;
  readonly answers: readonly ResourceRecord[];
  readonly authorities: readonly ResourceRecord[];
  readonly additionals: readonly ResourceRecord[];
}

export interface ZoneAnswer extends Answer {
  /** The name at which the answer continues if an alias points outside the server's zones. */
  readonly continueAt?: string;
}

/** Longest chain of aliases that is followed. */
const MAX_ALIASES = 8;
/** Most targets of an SRV answer whose addresses are added: more would not fit anyway. */
const MAX_ADDITIONAL_TARGETS = 32;

export interface AnswerSource {
  readonly tree: RecordTree;
  /** Draws among records that have weights. */
  readonly rng: Rng;
  /** The zone that answers for a folded name. It may know fewer than the tree: others may answer for a domain inside. */
  readonly zoneOf: (name: string) => Zone | undefined;
}

/** Answers from the zones of `tree`; undefined when the name is in none of them. */
export function answerFromTree(
  { tree, rng, zoneOf }: AnswerSource,
  question: Question,
): ZoneAnswer | undefined {
  let name = foldName(question.name);
  let zone = zoneOf(name);
  if (zone === undefined) return undefined;
  const aliases: ResourceRecord[] = [];
  for (;;) {
    const sets = tree.find(name);
    if (sets === undefined) return negative(RCODE.NXDOMAIN, zone, aliases);
    const own = pickSet(sets, question.type);
    if (own !== undefined) return positive({ tree, rng }, own, aliases);
    const alias = setOf(sets, TYPE.CNAME)?.records[0];
    if (alias?.data.type !== "CNAME") return negative(RCODE.NOERROR, zone, aliases);
    aliases.push(alias);
    if (aliases.length > MAX_ALIASES) return { ...negative(RCODE.SERVFAIL, zone, []), authorities: [] };
    name = foldName(alias.data.target);
    zone = zoneOf(name);
    if (zone === undefined) return { ...plain(aliases), continueAt: name };
  }
}

/** For ANY one set is enough of an answer (RFC 8482, section 4.1). */
function pickSet(sets: RecordSets, type: number): RecordSet | undefined {
  return type === TYPE.ANY ? sets[0] : setOf(sets, type);
}

function plain(answers: readonly ResourceRecord[]): Answer {
  return { rcode: RCODE.NOERROR, authoritative: true, answers, authorities: [], additionals: [] };
}

function positive(
  { tree, rng }: Pick<AnswerSource, "tree" | "rng">,
  set: RecordSet,
  aliases: readonly ResourceRecord[],
): Answer {
  const records = rotated(set, set.shares === undefined ? set.records : draw(set.shares, rng));
  const answers = aliases.length === 0 ? records : [...aliases, ...records];
  return { ...plain(answers), additionals: targetAddresses(tree, set) };
}

/** The SOA record determines how long a negative answer may be cached (RFC 2308). */
function negative(rcode: number, zone: Zone, aliases: readonly ResourceRecord[]): Answer {
  return { rcode, authoritative: true, answers: aliases, authorities: [zone.soa], additionals: [] };
}

/** Each answer begins with another record, so that clients which take the first one spread over all. */
function rotated(set: RecordSet, records: readonly ResourceRecord[]): readonly ResourceRecord[] {
  if (records.length < 2) return records;
  const from = set.turn % records.length;
  set.turn = from + 1;
  return from === 0 ? records : [...records.slice(from), ...records.slice(0, from)];
}

/** One share, each as often as its weight says. */
export function draw(shares: readonly Share[], rng: Rng): readonly ResourceRecord[] {
  const total = shares.reduce((sum, it) => sum + it.weight, 0);
  let left = rng.random() * (total === 0 ? shares.length : total);
  for (const { weight, records } of shares) {
    left -= total === 0 ? 1 : weight;
    if (left < 0) return records;
  }
  return shares.at(-1)?.records ?? [];
}

function targetAddresses(tree: RecordTree, set: RecordSet): readonly ResourceRecord[] {
  if (set.records[0]?.data.type !== "SRV") return [];
  const targets = new Set<string>();
  for (const { data } of set.records) {
    if (data.type === "SRV" && targets.size < MAX_ADDITIONAL_TARGETS) targets.add(foldName(data.target));
  }
  return [...targets].flatMap((target) => {
    const sets = tree.find(target) ?? [];
    return [TYPE.A, TYPE.AAAA].flatMap((type) => setOf(sets, type)?.records ?? []);
  });
}
