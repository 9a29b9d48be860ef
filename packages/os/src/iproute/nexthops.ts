import { byText } from "@fairlead/base/text.ts";
import { compare } from "./compare.ts";
import { list, numberOf, objects, textOf } from "./json.ts";
import { type IpLine, line, setting } from "./line.ts";
import { addressWord, deviceWord, numberWord } from "./words.ts";

/**
 * A next hop that routes name by its id. Needs Linux 5.3. The kernel deletes it when its device goes down, and with it the
 * routes that name only it.
 *
 * Without `via`, the destination is on the link, and routes of both families can name it. IPv6 routes over several devices
 * without addresses, as those of WireGuard are, exist in this form only.
 */
export interface NextHop {
  readonly id: number;
  readonly device: string;
  readonly via?: string;
}

/** Several next hops that share the flows: all without `via`, or all with one of the same family. */
export interface NextHopGroup {
  readonly id: number;
  readonly members: readonly NextHopMember[];
  /** A flow that has packets keeps its next hop while that is in the group, whatever joins or leaves. Needs Linux 5.13. */
  readonly resilient?: ResilientGroup;
}

export interface NextHopMember {
  readonly id: number;
  /** Range: 1 to 255. Default: 1. */
  readonly weight?: number;
}

export interface ResilientGroup {
  /** Number of parts into which flows are hashed. To change it, the group and its routes are deleted and made again. Range: 1 to 65535. */
  readonly buckets: number;
  /** A part without packets for this long may move to another next hop. Unit: seconds. Default: 120. */
  readonly idleSeconds?: number;
}

export interface NextHopState {
  readonly nextHops: readonly NextHop[];
  readonly groups: readonly NextHopGroup[];
}

const DEFAULT_IDLE_SECONDS = 120;

export function replaceNextHop({ id, device, via }: NextHop): IpLine {
  // Of the family IPv6 it serves IPv4 routes too; the reverse is refused.
  return line(
    via === undefined ? "-6" : "",
    `nexthop replace id ${idWord(id)}`,
    setting("via", via, addressWord),
    `dev ${deviceWord(device)}`,
  );
}

export function replaceNextHopGroup({ id, members, resilient }: NextHopGroup): IpLine {
  const group = members.map((it) => `${idWord(it.id)},${numberWord(it.weight ?? 1, [1, 255])}`);
  return line(
    `nexthop replace id ${idWord(id)} group ${group.join("/")}`,
    resilient === undefined
      ? ""
      : `type resilient ${bucketWords(resilient)} idle_timer ${idleWord(resilient)}`,
  );
}

/** A next hop or a group; its routes go too. */
export function deleteNextHop(id: number): IpLine {
  return line(`nexthop delete id ${idWord(id)}`);
}

export function idWord(id: number): string {
  return numberWord(id, [1, 0x7fff_ffff]);
}

function bucketWords({ buckets }: ResilientGroup): string {
  return `buckets ${numberWord(buckets, [1, 65_535])}`;
}

function idleWord(resilient: ResilientGroup): string {
  return numberWord(resilient.idleSeconds ?? DEFAULT_IDLE_SECONDS, [0, 1_000_000]);
}

/** Lines before those of routes, which name next hops, and after them. Pure. */
export function diffNextHops(
  actual: NextHopState,
  desired: NextHopState,
): { readonly before: readonly IpLine[]; readonly after: readonly IpLine[] } {
  const hops = compare(actual.nextHops, desired.nextHops, (it) => [String(it.id), replaceNextHop(it)]);
  const groups = compare(actual.groups, desired.groups, (it) => [String(it.id), groupText(it)]);
  const shapes = new Map(actual.groups.map((it) => [it.id, shapeOf(it)]));
  const reshaped = groups.wrong.filter((it) => shapes.has(it.id) && shapes.get(it.id) !== shapeOf(it));
  return {
    before: [
      ...reshaped.map((it) => deleteNextHop(it.id)),
      ...hops.wrong.map((it) => replaceNextHop(it)),
      ...groups.wrong.map((it) => replaceNextHopGroup(it)),
    ],
    after: [...groups.stale, ...hops.stale].map((it) => deleteNextHop(it.id)),
  };
}

function groupText(group: NextHopGroup): string {
  const members = group.members.map((it) => `${it.id},${it.weight ?? 1}`).toSorted(byText);
  const idle = group.resilient === undefined ? "" : idleWord(group.resilient);
  return `${members.join("/")} ${shapeOf(group)} ${idle}`;
}

/** What the kernel does not change in a group that exists. */
function shapeOf({ resilient }: NextHopGroup): string {
  return resilient === undefined ? "" : bucketWords(resilient);
}

/** @param text - Output of `ip -j nexthop show`. */
export function parseNextHops(text: string, isOwn: (id: number) => boolean): NextHopState {
  const all = objects(text).filter((it) => isOwn(Number(it["id"])));
  return {
    nextHops: all.filter((it) => it["group"] === undefined).map((it) => parseNextHop(it)),
    groups: all.filter((it) => it["group"] !== undefined).map((it) => parseGroup(it)),
  };
}

function parseNextHop(it: Record<string, unknown>): NextHop {
  const via = textOf(it["gateway"]);
  return { id: Number(it["id"]), device: String(it["dev"]), ...(via === undefined ? {} : { via }) };
}

function parseGroup(it: Record<string, unknown>): NextHopGroup {
  const [resilient] = list([it["resilient_args"]]);
  return {
    id: Number(it["id"]),
    members: list(it["group"]).map((member) => ({
      id: Number(member["id"]),
      weight: numberOf(member["weight"]) ?? 1,
    })),
    ...(resilient === undefined
      ? {}
      : {
          resilient: { buckets: Number(resilient["buckets"]), idleSeconds: Number(resilient["idle_timer"]) },
        }),
  };
}
