import { tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import { aggregated } from "@fairlead/base/netaddr/aggregate.ts";
import {
  containsAddress,
  formatPrefix,
  overlaps,
  type Prefix,
  tryParsePrefix,
} from "@fairlead/base/netaddr/prefix.ts";
import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import {
  ACCEPTED_NODE_RANGES,
  ACCEPTED_POD_RANGES,
  GRANTED_CIDRS_ANNOTATION,
  POD_RANGES,
} from "#api/fairlead.dev/names.ts";
import type { AddressCheck } from "./identity-slice.ts";
import {
  type AddressBlock,
  MAX_MEMBER_PREFIXES,
  type MemberNetwork,
} from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { byText } from "@fairlead/base/text.ts";
import { byAge } from "./mesh-members.ts";
import { listedRanges } from "./ranges.ts";

/** The member that an address belongs to, when members say which pods have it. Pure. */

/**
 * Lower ones count more: blocks that the hub gave; networks that an administrator granted; what `join` found when an administrator
 * added the cluster; what the hub accepted of the reports of its agent. Among equals the older member counts: a member that claims
 * the networks of an older one gets nothing by it.
 */
const RANKS = { block: 0, granted: 1, joined: 2, accepted: 3 } as const;

interface Claim {
  readonly prefix: Prefix;
  readonly rank: number;
  readonly isOfNodes: boolean;
}

export interface Claimant {
  readonly member: MemberCluster;
  /** Its fleet addresses, in a parallel network. */
  readonly block?: { readonly prefixes: readonly string[]; readonly hasPodAddresses: boolean };
}

/** For each member of one network, what checks addresses of its pods and nodes. */
export function addressChecks(
  claimants: readonly Claimant[],
): (cluster: string, of: "pods" | "nodes") => AddressCheck {
  const ordered = claimants.toSorted((a, b) => byAge(a.member, b.member));
  const claims = new Map(ordered.map((it, age) => [it.member.metadata.name, { age, claims: claimsOf(it) }]));
  const known = new Map<string, AddressCheck>();
  return (cluster, of) => {
    const key = `${cluster} ${of}`;
    const check = known.get(key) ?? makeCheck(claims, cluster, of);
    known.set(key, check);
    return check;
  };
}

/**
 * Networks in which others see the pods of each member by their own addresses: what of its claims is not of the nodes. What a member has beyond
 * the bound is left out: an administrator can grant it fewer and wider ones.
 *
 * @param blocks - Of the members in a parallel network.
 */
export function podNetworksOf(
  members: Iterable<MemberCluster>,
  blocks: readonly AddressBlock["spec"][],
): MemberNetwork[] {
  const blockOf = new Map(blocks.map((it) => [it.cluster, it]));
  const all = [...members].map((member) => {
    const cluster = member.metadata.name;
    const claims = claimsOf(claimantOf(member, blockOf.get(cluster)));
    const ofPods = claims.filter((it) => !it.isOfNodes && it.rank !== RANKS.block).map((it) => it.prefix);
    return { cluster, podCIDRs: aggregated(ofPods).slice(0, MAX_MEMBER_PREFIXES).map(formatPrefix) };
  });
  return all.filter((it) => it.podCIDRs.length > 0).toSorted((a, b) => byText(a.cluster, b.cluster));
}

/** @param block - In a parallel network, if it is in use. */
export function claimantOf(member: MemberCluster, block: AddressBlock["spec"] | undefined): Claimant {
  if (block === undefined) return { member };
  const { ipv4, ipv6, transition } = block;
  return { member, block: { prefixes: [...ipv4, ...ipv6], hasPodAddresses: transition !== undefined } };
}

type Claims = ReadonlyMap<string, { readonly age: number; readonly claims: readonly Claim[] }>;

function makeCheck(all: Claims, cluster: string, of: "pods" | "nodes"): AddressCheck {
  const self = all.get(cluster);
  const own = (self?.claims ?? []).filter(
    (it) => it.isOfNodes === (of === "nodes") || it.rank < RANKS.joined,
  );
  if (self === undefined || own.length === 0)
    return () =>
      `no network of the member's ${of} counts, because its agent reports none, or one that is public or of another member: set the annotation ${GRANTED_CIDRS_ANNOTATION} of its MemberCluster`;
  const rivals = [...all].flatMap(([name, { age, claims }]) =>
    name === cluster
      ? []
      : claims
          .filter((it) => own.some((mine) => overlaps(mine.prefix, it.prefix)))
          .map((it) => ({ ...it, age, name })),
  );
  return (text) => {
    const address = tryParseAddress(text);
    const ranks = own
      .filter((it) => address !== undefined && containsAddress(it.prefix, address))
      .map((it) => it.rank);
    if (address === undefined || ranks.length === 0)
      return `${text.slice(0, 45)} is not in the networks of the member: if it should be, add them to the annotation ${GRANTED_CIDRS_ANNOTATION} of its MemberCluster`;
    const rank = Math.min(...ranks);
    const rival = rivals.find(
      (it) =>
        (it.rank < rank || (it.rank === rank && it.age < self.age)) && containsAddress(it.prefix, address),
    );
    return rival === undefined ? undefined : `${text} is in a network of member ${rival.name}`;
  };
}

function claimsOf({ member, block }: Claimant): Claim[] {
  const { annotations } = member.metadata;
  const of = (texts: readonly string[], rank: number): Claim[] =>
    texts
      .flatMap((it) => tryParsePrefix(it.trim(), { hostBits: "clear" }) ?? [])
      .map((prefix) => ({ prefix, rank, isOfNodes: false }));
  const blocks = block === undefined ? [] : of(block.prefixes, RANKS.block);
  if (block?.hasPodAddresses === false) return blocks;
  const granted = annotations?.[GRANTED_CIDRS_ANNOTATION];
  // A grant is all that a member may have.
  if (granted !== undefined) return [...blocks, ...of(granted.split(","), RANKS.granted)];
  const listed = (name: string, rest: Omit<Claim, "prefix">): Claim[] =>
    listedRanges(annotations?.[name]).map((prefix) => ({ prefix, ...rest }));
  return [
    ...blocks,
    ...listed(POD_RANGES, { rank: RANKS.joined, isOfNodes: false }),
    ...listed(ACCEPTED_POD_RANGES, { rank: RANKS.accepted, isOfNodes: false }),
    ...listed(ACCEPTED_NODE_RANGES, { rank: RANKS.accepted, isOfNodes: true }),
  ];
}
