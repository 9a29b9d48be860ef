import { foldName } from "#dnswire/name.ts";
import { type Question, RCODE, type ResourceRecord, TYPE } from "#dnswire/types.ts";
import { type RecordSet, type RecordSets, type RecordTree, setOf, type Zone } from "./tree.ts";

/** What a server says to a question, before it is put into a message. */
export interface Answer {
  readonly rcode: number;
  readonly authoritative: boolean;
  readonly answers: readonly ResourceRecord[];
  readonly authorities: readonly ResourceRecord[];
  readonly additionals: readonly ResourceRecord[];
}

export interface ZoneAnswer extends Answer {
  /** Where the answer goes on when an alias leads out of the server's own zones. */
  readonly continueAt?: string;
}

/** Longest chain of aliases that is followed. */
const MAX_ALIASES = 8;
/** Most targets of an SRV answer whose addresses are added: more would not fit anyway. */
const MAX_ADDITIONAL_TARGETS = 32;

/**
 * Answers from the zones of `tree`; undefined when the name is in none of them.
 *
 * @param zoneOf - The zone that answers for a folded name. It may know fewer than the tree: others may answer for a domain
 *   inside of one of its zones.
 */
export function answerFromTree(
  tree: RecordTree,
  question: Question,
  zoneOf: (name: string) => Zone | undefined,
): ZoneAnswer | undefined {
  let name = foldName(question.name);
  let zone = zoneOf(name);
  if (zone === undefined) return undefined;
  const aliases: ResourceRecord[] = [];
  for (;;) {
    const sets = tree.find(name);
    if (sets === undefined) return negative(RCODE.NXDOMAIN, zone, aliases);
    const own = pickSet(sets, question.type);
    if (own !== undefined) return positive(tree, own, aliases);
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

function positive(tree: RecordTree, set: RecordSet, aliases: readonly ResourceRecord[]): Answer {
  const answers = aliases.length === 0 ? rotated(set) : [...aliases, ...rotated(set)];
  return { ...plain(answers), additionals: targetAddresses(tree, set) };
}

/** The SOA record tells how long "no" may be kept (RFC 2308). */
function negative(rcode: number, zone: Zone, aliases: readonly ResourceRecord[]): Answer {
  return { rcode, authoritative: true, answers: aliases, authorities: [zone.soa], additionals: [] };
}

/** Each answer begins with another record, so that clients which take the first one spread over all. */
function rotated(set: RecordSet): readonly ResourceRecord[] {
  const { records } = set;
  if (records.length < 2) return records;
  const from = set.turn % records.length;
  set.turn = from + 1;
  return from === 0 ? records : [...records.slice(from), ...records.slice(0, from)];
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
