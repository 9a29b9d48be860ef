import { familyOf, tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import { aggregated } from "@fairlead/base/netaddr/aggregate.ts";
import { formatPrefix, type Prefix, prefixOf, tryParsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import type { MemberCluster, MemberClusterStatus } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import type { Node } from "@fairlead/kube/api/core/v1/types.ts";
import type { ServiceCidr } from "@fairlead/kube/api/networking/v1/types.ts";
import { NODE_RANGES, POD_RANGES, SERVICE_RANGES } from "#api/fairlead.dev/names.ts";

/** Which ranges a cluster takes addresses from, as its agent reports them and the hub keeps them. */

type Properties = NonNullable<MemberClusterStatus["properties"]>;

/** Part of a status. */
export interface RangeStatus {
  readonly properties?: Properties;
}

function statusOf(entries: readonly (readonly [string, Properties[string]])[]): RangeStatus {
  return entries.length === 0 ? {} : { properties: Object.fromEntries(entries) };
}

/** The limit of a member's ranges: clusters of thousands of nodes have few. Unit: ranges, and characters. */
const MAX_RANGES = 1000;
const MAX_TEXT = 50_000;

export function podRangesOf(nodes: Iterable<Node>): string[] {
  return [...nodes].flatMap(({ spec }) => spec?.podCIDRs ?? [spec?.podCIDR ?? ""]);
}

/** A node's network is not known: this much around its addresses belongs to it. Unit: bits. */
const NODE_NETWORKS = { IPv4: 24, IPv6: 64 };

/** The networks around the nodes' own addresses. */
export function nodeRangesOf(nodes: Iterable<Node>): string[] {
  return [...nodes].flatMap(({ status }) =>
    (status?.addresses ?? [])
      .filter((it) => it.type === "InternalIP")
      .flatMap((it) => tryParseAddress(it.address) ?? [])
      .map((it) => formatPrefix(prefixOf(it, NODE_NETWORKS[familyOf(it)]))),
  );
}

export function serviceRangesOf(all: Iterable<ServiceCidr>): string[] {
  return [...all].flatMap(({ spec }) => spec?.cidrs ?? []);
}

/** The valid ranges, merged into as few as possible. */
export function readRanges(texts: readonly string[]): readonly Prefix[] {
  return aggregated(texts.flatMap((it) => tryParsePrefix(it.trim()) ?? []));
}

export function formatRanges(ranges: readonly Prefix[]): string {
  return ranges.map(formatPrefix).join(",");
}

/** Parses a comma-separated list of ranges. One that is too long counts as empty. */
export function listedRanges(text = ""): readonly Prefix[] {
  return text.length > MAX_TEXT ? [] : readRanges(text.split(","));
}

/** Parses the annotation by which an administrator grants networks. */
export function grantedRanges(text = ""): readonly Prefix[] {
  return text.split(",").flatMap((it) => tryParsePrefix(it.trim(), { hostBits: "clear" }) ?? []);
}

/**
 * What of `texts` is to be kept. What was observed before stays as it is.
 *
 * @param texts - By property; one without valid ranges is ignored.
 * @param now - RFC 3339.
 */
export function rangeProperties(
  texts: Readonly<Record<string, readonly string[]>>,
  before: Properties | undefined,
  now: string,
): RangeStatus {
  return statusOf(
    Object.entries(texts).flatMap(([name, found]) => {
      const value = formatRanges(readRanges(found).slice(0, MAX_RANGES));
      const known = before?.[name];
      if (value === "") return [];
      return [[name, known?.value === value ? known : { value, observationTime: now }] as const];
    }),
  );
}

/** Of what a member reports, what the hub keeps: its ranges, in our own writing. */
export function reportedRanges(reported: Properties | undefined): RangeStatus {
  return statusOf(
    [POD_RANGES, SERVICE_RANGES, NODE_RANGES].flatMap((name) => {
      const property = reported?.[name];
      const value = formatRanges(listedRanges(property?.value));
      return property === undefined || value === "" ? [] : [[name, { ...property, value }] as const];
    }),
  );
}

export interface NamedRange {
  /** What has its addresses there, in words. */
  readonly of: "pod" | "service" | "node";
  readonly range: Prefix;
}

/** The ranges of a member: those that `join` found, and those that its agent reported since, for later nodes. */
export function rangesOf({ metadata: { annotations }, status }: MemberCluster): NamedRange[] {
  const kinds = [
    ["pod", POD_RANGES],
    ["service", SERVICE_RANGES],
    ["node", NODE_RANGES],
  ] as const;
  return kinds.flatMap(([of, name]) =>
    aggregated([
      ...listedRanges(annotations?.[name]),
      ...listedRanges(status?.properties?.[name]?.value),
    ]).map((range) => ({ of, range })),
  );
}
