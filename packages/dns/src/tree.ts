import { defined } from "@fairlead/base/defined.ts";
import { isUnder } from "#wire/name.ts";
import { CLASS, type ResourceRecord, typeCode } from "#wire/types.ts";

/** The records of one owner, such as a service. All names are folded. */
export interface Contribution {
  readonly records: readonly ResourceRecord[];
  /** Names that exist even without a record. */
  readonly names?: readonly string[];
  /** Names that must not exist although names beneath them do. */
  readonly reserved?: readonly string[];
  /** By name: groups of its records. An answer has one group, chosen by weight. The records are in `records` too. */
  readonly shares?: ReadonlyMap<string, readonly Share[]>;
}

/** Records that are answered together. */
export interface Share {
  /** Relative to the other shares. At least 0; if all are 0, shares are equal. */
  readonly weight: number;
  readonly records: readonly ResourceRecord[];
}

/** The records of one name and type. */
export interface RecordSet {
  readonly type: number;
  readonly records: readonly ResourceRecord[];
  /** Counts the answers given from this set: each begins with another record. */
  turn: number;
  /** Set if an answer has only one of these. */
  readonly shares?: readonly Share[];
}

export interface Zone {
  /** Folded. */
  readonly origin: string;
  readonly soa: ResourceRecord;
}

export interface ZoneOptions {
  readonly origin: string;
  /** How long a negative answer may be kept. Unit: seconds. */
  readonly negativeTtl: number;
  readonly serial: number;
}

/** An owner whose records all are at one name or beneath it. */
export interface LazyOwner {
  readonly owner: string;
  readonly name: string;
}

/** The sets of one name. A handful at most: searching a short list beats a Map in time and in memory. */
export type RecordSets = readonly RecordSet[];

/** One name. There are at least as many of these as endpoints, so they use lists instead of Maps. */
interface Node {
  /** Nearly always one. Many are in a Map, by owner: an address that many services claim has all their names. */
  parts: readonly NodePart[] | Map<string, NodePart>;
  /** How many names exist directly beneath. */
  below: number;
  sets: RecordSets;
  /** Whether `sets` are those of other parts. They are merged when the name is asked for. */
  isStale: boolean;
}

interface NodePart {
  readonly owner: string;
  readonly records: readonly ResourceRecord[];
  readonly isReserved: boolean;
  readonly shares?: readonly Share[];
}

const NOTHING: readonly never[] = [];
/** As many parts are in a list. */
const FEW = 8;

export function setOf(sets: RecordSets, type: number): RecordSet | undefined {
  for (const set of sets) if (set.type === type) return set;
  return undefined;
}

/**
 * The names of one server and their records, by owner: a change of one owner touches its own names only. A name exists
 * when it has an owner or when a name beneath it exists (RFC 8020), unless it is reserved.
 */
export class RecordTree {
  readonly #nodes = new Map<string, Node>();
  /** The innermost first. */
  #zones: readonly Zone[] = [];
  readonly #ownNames = new Map<string, readonly string[]>();
  /** Contributions of which no name has been asked for, by the name that they are at or beneath. */
  readonly #pending = new Map<string, { readonly owner: string; readonly make: () => Contribution }>();

  addZone({ origin, negativeTtl, serial }: ZoneOptions): void {
    const below = origin === "." ? "" : origin;
    const soa: ResourceRecord = {
      name: origin,
      class: CLASS.IN,
      ttl: negativeTtl,
      data: {
        type: "SOA",
        mname: `ns.dns.${below}`,
        rname: `hostmaster.${below}`,
        serial,
        refresh: 7200,
        retry: 1800,
        expire: 86_400,
        minimum: negativeTtl,
      },
    };
    const others = this.#zones.filter((it) => it.origin !== origin);
    this.#zones = [...others, { origin, soa }].toSorted((a, b) => b.origin.length - a.origin.length);
    this.put(`zone ${origin}`, { records: [soa] });
  }

  /** How many names have an owner or something beneath them. */
  get size(): number {
    return this.#nodes.size;
  }

  /** The innermost zone that holds `name`, or undefined when none does. */
  zoneOf(name: string): Zone | undefined {
    return this.#zones.find((zone) => isUnder(name, zone.origin));
  }

  /** The record sets of a name by type, empty when it exists without records; undefined when it does not exist. */
  find(name: string): RecordSets | undefined {
    if (this.#pending.size > 0) this.#makePending(name);
    const node = this.#nodes.get(name);
    if (node === undefined) return undefined;
    if (node.isStale) {
      node.sets = mergedSets(node);
      node.isStale = false;
    }
    if (node.sets.length === 0 && listOf(node).some((part) => part.isReserved)) return undefined;
    return node.sets;
  }

  /** Makes `contribution` all that `owner` has in the tree. */
  put(owner: string, contribution: Contribution): void {
    const wanted = partsOf(owner, contribution);
    for (const name of this.#ownNames.get(owner) ?? []) if (!wanted.has(name)) this.#drop(name, owner);
    for (const [name, part] of wanted) this.#set(name, part);
    if (wanted.size === 0) this.#ownNames.delete(owner);
    else this.#ownNames.set(owner, [...wanted.keys()]);
  }

  /** As `put`, but computes the contribution when a name of it is asked for first, so that others cost next to nothing. */
  putLazily({ owner, name }: LazyOwner, make: () => Contribution): void {
    this.put(owner, { records: [], names: [name] });
    this.#pending.set(name, { owner, make });
  }

  remove(owner: string): void {
    this.put(owner, { records: [] });
  }

  removeLazy({ owner, name }: LazyOwner): void {
    this.#pending.delete(name);
    this.remove(owner);
  }

  #makePending(name: string): void {
    for (let at: string | undefined = name; at !== undefined; at = parentOf(at)) {
      const found = this.#pending.get(at);
      if (found === undefined) continue;
      this.#pending.delete(at);
      this.put(found.owner, found.make());
    }
  }

  #set(name: string, part: NodePart): void {
    const node = this.#nodes.get(name) ?? this.#add(name);
    if (node.parts instanceof Map) {
      // The newest is last.
      node.parts.delete(part.owner);
      node.parts.set(part.owner, part);
    } else {
      const parts = [...node.parts.filter((it) => it.owner !== part.owner), part];
      node.parts = parts.length <= FEW ? parts : new Map(parts.map((it) => [it.owner, it]));
    }
    node.isStale = true;
  }

  #drop(name: string, owner: string): void {
    const node = this.#nodes.get(name);
    if (node === undefined) return;
    if (node.parts instanceof Map) node.parts.delete(owner);
    else node.parts = node.parts.filter((it) => it.owner !== owner);
    node.isStale = true;
    this.#prune(name, node);
  }

  /** Adds a name, and the names above it that are missing. */
  #add(name: string): Node {
    const node: Node = { parts: NOTHING, below: 0, sets: NOTHING, isStale: false };
    this.#nodes.set(name, node);
    const above = parentOf(name);
    if (above !== undefined) (this.#nodes.get(above) ?? this.#add(above)).below += 1;
    return node;
  }

  /** Removes a name that nothing keeps, and the names above it that it alone kept. */
  #prune(name: string, node: Node): void {
    const { parts } = node;
    if ((parts instanceof Map ? parts.size : parts.length) > 0 || node.below > 0) return;
    this.#nodes.delete(name);
    const above = parentOf(name);
    const parent = above === undefined ? undefined : this.#nodes.get(above);
    if (above === undefined || parent === undefined) return;
    parent.below -= 1;
    this.#prune(above, parent);
  }
}

/** Names in the tree have no escapes: their labels are checked before they are added. */
function parentOf(name: string): string | undefined {
  const dot = name.indexOf(".");
  return dot < 0 || dot === name.length - 1 ? undefined : name.slice(dot + 1);
}

function partsOf(
  owner: string,
  { records, names = NOTHING, reserved = NOTHING, shares }: Contribution,
): Map<string, NodePart> {
  const parts = new Map<string, NodePart>();
  for (const name of reserved) parts.set(name, { owner, records: NOTHING, isReserved: true });
  for (const name of names) parts.set(name, { owner, records: NOTHING, isReserved: false });
  for (const [name, own] of Map.groupBy(records, (record) => record.name)) {
    const drawn = shares?.get(name);
    parts.set(name, {
      owner,
      records: own,
      isReserved: false,
      ...defined({ shares: drawn }),
    });
  }
  return parts;
}

function listOf({ parts }: Node): readonly NodePart[] {
  return parts instanceof Map ? [...parts.values()] : parts;
}

/** The records of all owners by type. Sets keep their turn. */
function mergedSets(node: Node): RecordSets {
  const parts = listOf(node);
  const records = parts.length === 1 ? parts[0]?.records : parts.flatMap((it) => it.records);
  if (records === undefined || records.length === 0) return NOTHING;
  const sets: RecordSet[] = [];
  for (const [type, own] of Map.groupBy(records, (record) => typeCode(record.data))) {
    // A name with one type of records, as that of most hosts, has them in one list only.
    const shared = own.length === records.length ? records : own;
    const shares = sharesOf(parts, type);
    sets.push({
      type,
      records: shared,
      turn: setOf(node.sets, type)?.turn ?? 0,
      ...(shares.length < 2 ? {} : { shares }),
    });
  }
  return sets;
}

/** The records of one type in each share; a share without such records is not chosen. */
function sharesOf(parts: readonly NodePart[], type: number): readonly Share[] {
  const shares = parts.flatMap((part) => part.shares ?? NOTHING);
  return shares
    .map(({ weight, records }) => ({ weight, records: records.filter((it) => typeCode(it.data) === type) }))
    .filter((it) => it.records.length > 0);
}
