import { byAddress } from "@fairlead/base/netaddr/address.ts";
import { formatPrefix, overlaps, type Prefix, tryParsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import {
  type AddressBlock,
  type ClusterMeshProfile,
  type ParallelNetwork,
  RELEASED_AT_ANNOTATION,
} from "#api/fairlead.dev/v1alpha1/mesh.ts";
import {
  type AddressPlan,
  BLOCK_LENGTHS,
  divide,
  findOverlap,
  type Owner,
  planOf,
  planOfPrefixes,
} from "#domain/address-plan.ts";
import { byAge } from "#domain/mesh-members.ts";
import { rangesOf } from "#domain/ranges.ts";
import { timestamp } from "@fairlead/kube/objects/conditions.ts";
import type { Pair } from "./plan-paths.ts";
import { dueInMs, planTransition, type Progress } from "./plan-transition.ts";

/** The blocks of the members of one parallel network. Pure. */

/**
 * How long the block of a member that left is not given to another: a member that is cut off from the hub for a day still
 * sends to the gateways that it knows, and flows and names outlive what they were made for. Unit: milliseconds.
 */
export const RECLAIM_MS = 24 * 3600 * 1000;

export interface AddressesView {
  readonly profile: ClusterMeshProfile;
  /** Oldest first. */
  readonly members: readonly MemberCluster[];
  /** What the view says of the network; it may be there when the status of the profile was lost. */
  readonly network: ParallelNetwork | undefined;
  /** Those of the view. */
  readonly blocks: readonly AddressBlock[];
  /** How many blocks the nodes of a member need; undefined: its agent has not reported yet, or takes no part. */
  readonly nodesOf: (cluster: string) => number | undefined;
  /** How far a member is with fleet addresses; "gone" if its agent does not answer. */
  readonly progressOf: (cluster: string) => Progress | "gone";
  /** Members, of those whose agents answer, that have no path to each other. */
  readonly unconnected: readonly Pair[];
  readonly nowMs: number;
}

export interface Fault {
  readonly reason: "InvalidAddresses" | "AddressesOverlap" | "AddressesExhausted";
  readonly message: string;
}

export interface AddressesPlan {
  /** Undefined if the profile's prefixes cannot be used. */
  readonly plan: AddressPlan | undefined;
  /** All that are to be there. */
  readonly blocks: readonly AddressBlock["spec"][];
  /** Blocks that are kept from others, and since when. */
  readonly released: readonly { readonly spec: AddressBlock["spec"]; readonly at: string }[];
  readonly faults: readonly Fault[];
  readonly againInMs: number | undefined;
}

export function planAddresses(view: AddressesView): AddressesPlan {
  const { profile, members, nowMs } = view;
  const names = new Set(members.map((it) => it.metadata.name));
  const blocks = view.blocks.filter((it) => it.spec.profile === profile.metadata.name).toSorted(byAge);
  const present = new Map(blocks.filter((it) => !isReleased(it)).map((it) => [it.spec.cluster, it.spec]));
  const stepOf = transitions(view, present);
  const isLive = ({ spec: { cluster } }: AddressBlock): boolean =>
    names.has(cluster) && stepOf(cluster) !== "left";
  const live = blocks.filter(isLive);
  const released = blocks
    .filter((it) => !isLive(it))
    .map(({ metadata, spec }) => ({ spec, at: releasedAt(metadata.annotations, nowMs) }))
    .filter((it) => nowMs - Date.parse(it.at) < RECLAIM_MS);
  const rest = { released };
  const plan = pinnedPlan(profile.status?.addresses ?? view.network, live.length > 0) ?? planOf(profile);
  const reclaimInMs = released.map((it) => Date.parse(it.at) + RECLAIM_MS - nowMs);
  if (profile.spec.network.mode === "flat" && live.length === 0)
    return { plan: undefined, blocks: [], faults: [], ...rest, againInMs: soonest(reclaimInMs) };
  if (typeof plan === "string")
    return {
      plan: undefined,
      blocks: [],
      faults: [{ reason: "InvalidAddresses", message: plan }],
      ...rest,
      againInMs: soonest(reclaimInMs),
    };
  const overlapping = members.flatMap((it) => overlapOf(plan, it) ?? []);
  const known = new Set(live.map((it) => it.spec.cluster));
  const avoided = new Set(overlapping.map((it) => it.cluster));
  const eligible = members.filter(({ metadata: { name } }) => {
    const isNew = stepOf(name) !== "left" && !avoided.has(name) && view.nodesOf(name) !== undefined;
    return known.has(name) || isNew;
  });
  const divided = divideAmong({ ...view, members: eligible }, plan, [...live, ...released]);
  const faults: Fault[] = [
    ...overlapping.map((it): Fault => ({ reason: "AddressesOverlap", message: it.message })),
    ...divided.faults,
  ];
  const described = divided.blocks.map((spec) => {
    const transition = stepOf(spec.cluster);
    return transition === undefined || transition === "left" ? spec : { ...spec, transition };
  });
  const stepInMs = described.flatMap(({ transition }) =>
    transition === undefined ? [] : [dueInMs(transition, nowMs)],
  );
  return { plan, blocks: described, faults, ...rest, againInMs: soonest([...reclaimInMs, ...stepInMs]) };
}

function soonest(all: readonly number[]): number | undefined {
  return all.length === 0 ? undefined : Math.max(1, Math.min(...all));
}

/** @param present - The blocks of members that are in use. */
function transitions(
  { profile, members, nodesOf, progressOf, unconnected, nowMs }: AddressesView,
  present: ReadonlyMap<string, AddressBlock["spec"]>,
): (cluster: string) => ReturnType<typeof planTransition> {
  const { mode } = profile.spec.network;
  const isRoutable = areRoutable(members);
  const taking = members.filter((it) => nodesOf(it.metadata.name) !== undefined);
  const progress = new Map(taking.map(({ metadata: { name } }) => [name, progressOf(name)]));
  const all = [...progress.values()].filter((it) => it !== "gone");
  const inUse = [...present.values()].filter(({ cluster }) => progress.has(cluster));
  const steps = inUse.flatMap((it) => it.transition ?? []);
  const isEstablished = steps.length < inUse.length;
  const isSwitching = (it: string): boolean => present.get(it)?.transition?.phase === "switch";
  const hasLostPaths = unconnected.some((pair) => pair.every(isSwitching));
  const isConnected = unconnected.length === 0;
  const network = { mode, isRoutable, isConnected, hasLostPaths, isEstablished, steps, all, nowMs };
  return (cluster) => {
    const own = progress.get(cluster);
    const spec = present.get(cluster);
    const before = spec === undefined ? undefined : { transition: spec.transition };
    return planTransition({ ...network, before, own: own === "gone" ? undefined : own });
  };
}

/** Whether the addresses of pods differ between all members, as far as these say: they may have been in use between them. */
export function areRoutable(members: readonly MemberCluster[]): boolean {
  const pods = members.map((it) => rangesOf(it).filter(({ of }) => of === "pod"));
  if (members.length < 2 || pods.some((it) => it.length === 0)) return false;
  // In this order, a prefix that is part of another comes after it, and after other parts of it only.
  const ordered = pods.flat().toSorted((a, b) => byNetwork(a.range, b.range));
  return ordered.every(({ range }, at) => {
    const last = ordered[at - 1];
    return last === undefined || !overlaps(last.range, range);
  });
}

function byNetwork(a: Prefix, b: Prefix): number {
  return byAddress(a.network, b.network) || a.length - b.length;
}

function isReleased({ metadata }: AddressBlock): boolean {
  return metadata.annotations?.[RELEASED_AT_ANNOTATION] !== undefined;
}

/** Since when something is not used: as its annotations say, or from now on. */
export function releasedAt(annotations: Readonly<Record<string, string>> | undefined, nowMs: number): string {
  const at = annotations?.[RELEASED_AT_ANNOTATION] ?? "";
  return Number.isNaN(Date.parse(at)) || Date.parse(at) > nowMs ? timestamp(nowMs) : at;
}

/** Prefixes that members have blocks of stay, whatever the profile says now. */
function pinnedPlan(
  addresses: { readonly ipv4: string; readonly ipv6: string } | undefined,
  isUsed: boolean,
): AddressPlan | undefined {
  const ipv4 = tryParsePrefix(addresses?.ipv4 ?? "");
  const ipv6 = tryParsePrefix(addresses?.ipv6 ?? "");
  const isPinned = isUsed && ipv4?.family === "IPv4" && ipv6?.family === "IPv6";
  return isPinned ? planOfPrefixes(ipv4, ipv6) : undefined;
}

function overlapOf(
  plan: AddressPlan,
  member: MemberCluster,
): { readonly cluster: string; readonly message: string } | undefined {
  const ranges = rangesOf(member);
  const overlap = findOverlap(
    plan,
    ranges.map((it) => it.range),
  );
  if (overlap === undefined) return undefined;
  const cluster = member.metadata.name;
  const of = ranges.find((it) => it.range === overlap)?.of;
  const prefix = overlap.family === "IPv4" ? plan.ipv4 : plan.ipv6;
  const field = `spec.network.addresses.${overlap.family === "IPv4" ? "ipv4" : "ipv6"}`;
  return {
    cluster,
    message: `${formatPrefix(overlap)} of the ${of} addresses of member ${cluster} overlaps ${formatPrefix(prefix)}: it gets no fleet addresses; use a profile with another ${field}`,
  };
}

interface Division {
  readonly blocks: readonly AddressBlock["spec"][];
  readonly faults: readonly Fault[];
}

function divideAmong(
  { profile, members, nodesOf }: AddressesView,
  plan: AddressPlan,
  existing: readonly { readonly spec: AddressBlock["spec"] }[],
): Division {
  const names = new Set(members.map((it) => it.metadata.name));
  const order = new Set([...existing.map((it) => it.spec.cluster), ...names]);
  const specs = new Map(existing.map(({ spec }) => [spec.cluster, spec]));
  const families = (["IPv4", "IPv6"] as const).map((family) => {
    const field = family === "IPv4" ? "ipv4" : "ipv6";
    const { member, node } = BLOCK_LENGTHS[family];
    const owners = [...order].map((name): Owner => {
      const has = specs.get(name)?.[field] ?? [];
      const wants = Math.max(1, Math.ceil((nodesOf(name) ?? 0) / 2 ** (node - member)));
      return { name, has, wants: names.has(name) ? wants : 0 };
    });
    const except = [family === "IPv4" ? plan.vipIPv4 : plan.vipIPv6];
    return {
      family,
      prefix: plan[field],
      ...divide({ parents: [plan[field]], length: member, except, owners }),
    };
  });
  const [v4, v6] = families;
  const blocks = [...names].flatMap((cluster) => {
    const [ipv4 = [], ipv6 = []] = [v4?.blocks.get(cluster), v6?.blocks.get(cluster)];
    if (ipv4.length === 0 || ipv6.length === 0) return [];
    return [{ profile: profile.metadata.name, cluster, ipv4: [...ipv4], ipv6: [...ipv6] }];
  });
  const faults = families
    .filter((it) => it.lacking.length > 0)
    .map(({ family, prefix, lacking }): Fault => ({
      reason: "AddressesExhausted",
      message: `${formatPrefix(prefix)} has no free block of ${BLOCK_LENGTHS[family].member} bits for ${listed(lacking)}: ${family === "IPv4" ? "use a profile with a shorter spec.network.addresses.ipv4, or" : ""} move members to another profile; blocks of members that left are free again after ${RECLAIM_MS / 3_600_000} h`,
    }));
  return { blocks, faults };
}

const MAX_LISTED = 10;

/** The first of many names. */
export function listed(names: readonly string[]): string {
  const more = names.length - MAX_LISTED;
  return `${names.slice(0, MAX_LISTED).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}
