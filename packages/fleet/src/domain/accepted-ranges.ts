import { bitsOf, familyOf, type IpAddress } from "@fairlead/base/netaddr/address.ts";
import { aggregated } from "@fairlead/base/netaddr/aggregate.ts";
import {
  containsPrefix,
  overlaps,
  parsePrefix,
  type Prefix,
  prefixOf,
} from "@fairlead/base/netaddr/prefix.ts";
import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import {
  ACCEPTED_NODE_RANGES,
  ACCEPTED_POD_RANGES,
  GRANTED_CIDRS_ANNOTATION,
  NODE_RANGES,
  POD_RANGES,
  SERVICE_RANGES,
} from "#api/fairlead.dev/names.ts";
import { formatRanges, grantedRanges, listedRanges } from "./ranges.ts";

/** The ranges that count although only a member's agent reports them: trust on first use, within bounds. Pure. */

/** RFC 1918, RFC 6598 and RFC 4193: a report gives no member an address of the internet. */
const PRIVATE = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"].map((it) =>
  parsePrefix(it),
);
/** The largest range: in IPv4 a private one as a whole, in IPv6 the network of one site (RFC 4193). Unit: bits. */
const SHORTEST = { IPv4: 8, IPv6: 48 };
/** A later range has this many bits in common with one that the member had before: clusters add nodes, not networks. Unit: bits. */
const IN_COMMON = { IPv4: 16, IPv6: 48 };

type Accepted = Readonly<Record<typeof ACCEPTED_POD_RANGES | typeof ACCEPTED_NODE_RANGES, string>>;

/** The annotations of a MemberCluster with what is accepted of its reports. */
function acceptedOf({ metadata: { annotations } }: MemberCluster): Accepted {
  return {
    [ACCEPTED_POD_RANGES]: annotations?.[ACCEPTED_POD_RANGES] ?? "",
    [ACCEPTED_NODE_RANGES]: annotations?.[ACCEPTED_NODE_RANGES] ?? "",
  };
}

/**
 * What is to be accepted of the reports of `member`: of the first one what no other member has, and later what is near that. A
 * range that is not reported any more is free for others.
 *
 * @param others - Members of the same network.
 * @param hub - Addresses of the hub's API server.
 * @returns The annotations to write; undefined if they are as they should be.
 */
export function acceptRanges(
  member: MemberCluster,
  others: Iterable<MemberCluster>,
  hub: readonly IpAddress[],
): Accepted | undefined {
  const { annotations } = member.metadata;
  const { properties } = member.status ?? {};
  const before = acceptedOf(member);
  let known: IsFree | undefined;
  const isFree: IsFree = (range) => (known ??= freeBeside(others, hub))(range);
  const accept = (accepted: string, report: string | undefined, joined: readonly Prefix[]): string => {
    const had = listedRanges(accepted);
    const reported = listedRanges(report);
    const kept = had.filter((it) => reported.some((one) => containsPrefix(one, it)));
    const base = [...joined, ...had];
    const added = reported.filter(
      (it) =>
        !had.some((one) => containsPrefix(one, it)) &&
        isBounded(it) &&
        (base.length === 0 || base.some((one) => isNear(one, it))) &&
        isFree(it),
    );
    return formatRanges(aggregated([...kept, ...added]));
  };
  const after: Accepted = {
    [ACCEPTED_POD_RANGES]: accept(
      before[ACCEPTED_POD_RANGES],
      properties?.[POD_RANGES]?.value,
      listedRanges(annotations?.[POD_RANGES]),
    ),
    [ACCEPTED_NODE_RANGES]: accept(before[ACCEPTED_NODE_RANGES], properties?.[NODE_RANGES]?.value, []),
  };
  const isSame =
    after[ACCEPTED_POD_RANGES] === before[ACCEPTED_POD_RANGES] &&
    after[ACCEPTED_NODE_RANGES] === before[ACCEPTED_NODE_RANGES];
  return isSame ? undefined : after;
}

/** Whether a change frees ranges that another member's reports may have been refused for. */
export function areRangesFreed(before: MemberCluster | undefined, after: MemberCluster | undefined): boolean {
  if (before === undefined) return false;
  if (after === undefined) return takenBy(before).length > 0;
  const texts = (it: MemberCluster): string => TAKEN.map((name) => it.metadata.annotations?.[name]).join(" ");
  if (texts(before) === texts(after)) return false;
  const now = takenBy(after);
  return takenBy(before).some((it) => !now.some((one) => containsPrefix(one, it)));
}

function isBounded(range: Prefix): boolean {
  return range.length >= SHORTEST[range.family] && PRIVATE.some((it) => containsPrefix(it, range));
}

function isNear(known: Prefix, range: Prefix): boolean {
  const bits = IN_COMMON[range.family];
  return range.length >= bits && overlaps(prefixOf(range.network, bits), known);
}

type IsFree = (range: Prefix) => boolean;

/** The annotations whose ranges belong to a member. */
const TAKEN = [
  GRANTED_CIDRS_ANNOTATION,
  POD_RANGES,
  SERVICE_RANGES,
  ACCEPTED_POD_RANGES,
  ACCEPTED_NODE_RANGES,
];

function takenBy({ metadata: { annotations } }: MemberCluster): Prefix[] {
  return TAKEN.flatMap((name) =>
    name === GRANTED_CIDRS_ANNOTATION
      ? grantedRanges(annotations?.[name])
      : listedRanges(annotations?.[name]),
  );
}

/** Ordered and disjoint ranges are searched by halves: reports and fleets may be long. */
function freeBeside(others: Iterable<MemberCluster>, hub: readonly IpAddress[]): IsFree {
  const hosts = hub.map((it) => prefixOf(it, bitsOf(familyOf(it))));
  const taken = aggregated([...[...others].flatMap(takenBy), ...hosts]);
  return (range) => {
    let [low, high] = [0, taken.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      const at = taken[middle];
      if (at === undefined || overlaps(at, range)) return at === undefined;
      if (isBefore(at, range)) low = middle + 1;
      else high = middle;
    }
    return true;
  };
}

function isBefore(a: Prefix, b: Prefix): boolean {
  return a.family === b.family ? a.network < b.network : a.family < b.family;
}
