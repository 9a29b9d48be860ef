import { answering } from "#domain/answering.ts";
import type { TrafficTarget } from "#api/fairlead.dev/v1alpha1/traffic-route.ts";
import { byText } from "@fairlead/base/text.ts";
import { foldName } from "@fairlead/dns/wire/name.ts";
import { CLASS, type RecordData, type ResourceRecord, TYPE, typeCode } from "@fairlead/dns/wire/types.ts";
import { tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import type { TrafficName } from "../../provider.ts";
import type { ZoneUpdate } from "./exchange.ts";

/**
 * Which records make a name lead to its targets, and what changes them into these. Pure.
 *
 * Plain DNS has no weights: a server gives every record of a name. So the records of a name are a subset of its targets,
 * and another one in each slice of time, such that over time each target's share of the answers is that of its weight.
 */

/** The golden ratio's fractional part: its multiples fill [0, 1) evenly, so shares are right soon and not only at last. */
const GOLDEN = 0.618_033_988_749_894_9;

/**
 * The targets of one slice of time. As many as possible: with equal weights all, always. Systematic sampling: points at
 * equal distances over the weights laid end to end, which a slice moves by its own offset. No weight is longer than the
 * distance, so none is hit twice.
 */
export function drawSubset<T extends { readonly weight: number }>(
  targets: readonly T[],
  slice: number,
  limit = Number.POSITIVE_INFINITY,
): readonly T[] {
  const size = subsetSize(targets, limit);
  if (size >= targets.length) return targets;
  const total = targets.reduce((sum, it) => sum + it.weight, 0);
  const offset = (slice * GOLDEN) % 1;
  const points = Array.from({ length: size }, (_, at) => ((at + offset) * total) / size);
  const drawn = new Set<T>();
  let end = 0;
  let next = 0;
  for (const it of targets) {
    end += it.weight;
    for (; next < points.length && (points[next] ?? 0) < end; next++) drawn.add(it);
  }
  return [...drawn];
}

function subsetSize(targets: readonly { readonly weight: number }[], limit: number): number {
  const total = targets.reduce((sum, it) => sum + it.weight, 0);
  const largest = Math.max(1, ...targets.map((it) => it.weight));
  return Math.max(1, Math.min(limit, targets.length, Math.floor(total / largest)));
}

export interface NameRecords {
  readonly records: readonly ResourceRecord[];
  /** When other records are due. Unit: milliseconds from now. Undefined: only when the targets change. */
  readonly changeInMs: number | undefined;
}

/** The records of a name at a moment. A slice lasts as long as the records may be kept. */
export function recordsOf(
  fqdn: string,
  { targets, ttlSeconds }: Pick<TrafficName, "targets" | "ttlSeconds">,
  nowMs: number,
): NameRecords {
  const serving = answering(targets).toSorted((a, b) => byText(a.name, b.name));
  const sliceMs = ttlSeconds * 1000;
  // A CNAME is the only record of its name (RFC 1034, section 3.6.2).
  const limit = serving.some((it) => it.hostname !== undefined) ? 1 : Number.POSITIVE_INFINITY;
  const drawn = drawSubset(serving, Math.floor(nowMs / sliceMs), limit);
  const record = (data: RecordData): ResourceRecord => ({
    name: fqdn,
    class: CLASS.IN,
    ttl: ttlSeconds,
    data,
  });
  return {
    records: drawn.flatMap((it) => dataOf(it, drawn.length === 1).map(record)),
    changeInMs: drawn.length < serving.length ? sliceMs - (nowMs % sliceMs) : undefined,
  };
}

/** Among others a target has one address of each family: with more it would get more than its share. */
function dataOf({ addresses = [], hostname }: TrafficTarget, isAlone: boolean): RecordData[] {
  if (hostname !== undefined) return [{ type: "CNAME", target: `${hostname}.` }];
  const parsed = addresses.flatMap((it) => tryParseAddress(it) ?? []);
  const four = parsed.flatMap((it) => (typeof it === "number" ? [{ type: "A" as const, address: it }] : []));
  const six = parsed.flatMap((it) =>
    typeof it === "bigint" ? [{ type: "AAAA" as const, address: it }] : [],
  );
  return isAlone ? [...four, ...six] : [...four.slice(0, 1), ...six.slice(0, 1)];
}

/** What the zone has of a name: its addresses and alias, and the texts that say whose it is. */
export interface ActualName {
  readonly owners: readonly string[];
  readonly records: readonly ResourceRecord[];
}

export interface NameIdentity {
  readonly fqdn: string;
  /** Where its ownership is written. */
  readonly ownerName: string;
  /** The hub that writes. */
  readonly owner: string;
}

const HERITAGE = "heritage=fairlead";

/** A TXT record marks the owner of a name, as with external-dns; below the name, because a CNAME excludes other records. */
export function identityOf(label: string, zone: string, owner: string): NameIdentity {
  const fqdn = foldName(`${label}.${zone}.`);
  return { fqdn, owner, ownerName: `_fairlead.${fqdn}` };
}

function ownershipText(owner: string, profile: string): string {
  return `${HERITAGE},owner=${owner},profile=${profile}`;
}

/** Returns another owner of the name that Fairlead's marks show, or undefined. */
export function strangerOf({ owners }: ActualName, { owner }: NameIdentity): string | undefined {
  const found = owners.map((text) => /^heritage=fairlead,owner=([^,]*)/.exec(text)?.[1]);
  return found.includes(owner) ? undefined : found.find((it) => it !== undefined);
}

/** The text by which a name is this hub's; undefined where it is not. */
function ownText({ owners }: ActualName, { owner }: NameIdentity): string | undefined {
  return owners.find((text) => text.startsWith(`${HERITAGE},owner=${owner},`));
}

/**
 * Returns the smallest update from the actual to the desired records of a name; undefined if they are equal. Its
 * prerequisites make the server check, in the same transaction, that the name is free or has this owner.
 */
export function planUpdate(
  actual: ActualName,
  wanted: { readonly records: readonly ResourceRecord[]; readonly profile: string },
  identity: NameIdentity,
): ZoneUpdate | undefined {
  const mark = txt(identity, ownershipText(identity.owner, wanted.profile));
  const before = ownText(actual, identity);
  if (before === undefined)
    return {
      prerequisites: [notInUse(identity.fqdn), notInUse(identity.ownerName)],
      changes: [mark, ...wanted.records],
    };
  const keys = new Set(wanted.records.map(keyOf));
  const present = new Map(actual.records.map((it) => [keyOf(it), it.ttl]));
  const changes = [
    ...actual.records.filter((it) => !keys.has(keyOf(it))).map(deletion),
    ...wanted.records.filter((it) => present.get(keyOf(it)) !== it.ttl),
    ...(before === ownershipText(identity.owner, wanted.profile)
      ? []
      : [deletion(txt(identity, before)), mark]),
  ];
  return changes.length === 0 ? undefined : { prerequisites: [exists(identity, before)], changes };
}

/** Removes a name; undefined if it is not ours. Records of other types at the name stay. */
export function planWithdrawal(actual: ActualName, identity: NameIdentity): ZoneUpdate | undefined {
  const before = ownText(actual, identity);
  if (before === undefined) return undefined;
  const all = [TYPE.A, TYPE.AAAA, TYPE.CNAME].map((type) => whole(identity.fqdn, type));
  return {
    prerequisites: [exists(identity, before)],
    changes: [...all, deletion(txt(identity, before))],
  };
}

/** What makes two records the same: all but how long they may be kept. */
function keyOf({ data }: ResourceRecord): string {
  if (data.type === "CNAME") return `CNAME ${foldName(data.target)}`;
  return "address" in data ? `${data.type} ${data.address}` : `${typeCode(data)}`;
}

function txt({ ownerName }: NameIdentity, text: string): ResourceRecord {
  return { name: ownerName, class: CLASS.IN, ttl: 60, data: { type: "TXT", strings: [text] } };
}

function bare(type: number): RecordData {
  return { type: "unknown", code: type, bytes: new Uint8Array() };
}

/** RFC 2136, section 2.4.5: name is not in use. */
function notInUse(name: string): ResourceRecord {
  return { name, class: CLASS.NONE, ttl: 0, data: bare(TYPE.ANY) };
}

/** Section 2.4.2: the set is there and is exactly this. */
function exists(identity: NameIdentity, text: string): ResourceRecord {
  return { ...txt(identity, text), ttl: 0 };
}

/** Section 2.5.4: delete one record. */
function deletion(record: ResourceRecord): ResourceRecord {
  return { ...record, class: CLASS.NONE, ttl: 0 };
}

/** Section 2.5.2: delete all records of a type. */
function whole(name: string, type: number): ResourceRecord {
  return { name, class: CLASS.ANY, ttl: 0, data: bare(type) };
}
