import { familyOf, type IpAddress, tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import { containsAddress, formatPrefix, type Prefix, prefixOf } from "@fairlead/base/netaddr/prefix.ts";
import { isSpecialPurpose } from "@fairlead/base/netaddr/special-purpose.ts";
import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import {
  ACCEPTED_NODE_RANGES,
  GRANTED_CIDRS_ANNOTATION,
  NODE_RANGES,
  SERVICE_RANGES,
} from "#api/fairlead.dev/names.ts";
import type { GatewayCandidate } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { shown } from "./formats.ts";
import { isBasePort } from "./gateway.ts";
import { grantedRanges, listedRanges } from "./ranges.ts";

/** The addresses at which other gateways may try to reach one, so that they probe no hosts of others. Pure. */

const TYPES = new Set(["private", "public", "reflexive"]);

/** The fault of an address as a candidate; undefined if it can be one. */
export type CandidateCheck = (address: IpAddress) => string | undefined;

export interface JudgedCandidates {
  /** Each once. */
  readonly usable: GatewayCandidate[];
  /** Why the others are left out, each in words. */
  readonly faults: readonly string[];
}

export function judgeCandidates(
  candidates: readonly GatewayCandidate[],
  check: CandidateCheck,
): JudgedCandidates {
  const seen = new Set<string>();
  const faultOf = ({ type, address: text, basePort }: GatewayCandidate): string | undefined => {
    const address = typeof text === "string" ? tryParseAddress(text) : undefined;
    if (address === undefined) return "is not an IP address";
    if (!TYPES.has(type)) return `has the type ${shown(type)}`;
    if (basePort !== undefined && !isBasePort(basePort)) return `has the base port ${shown(basePort)}`;
    const fault = check(address);
    if (fault !== undefined) return fault;
    const key = `${address} ${basePort}`;
    if (seen.has(key)) return "is there twice";
    seen.add(key);
    return undefined;
  };
  const judged = candidates.map((it) => ({ it, fault: faultOf(it) }));
  return {
    usable: judged.flatMap(({ it: { type, address, basePort }, fault }) =>
      fault === undefined ? [{ type, address, ...(basePort === undefined ? {} : { basePort }) }] : [],
    ),
    faults: judged.flatMap(({ it, fault }) => (fault === undefined ? [] : [`${shown(it.address)} ${fault}`])),
  };
}

/**
 * Nodes of members may share a network, and networks of members may overlap: a member's own nodes are allowed in the networks
 * of others' nodes. Networks of Services and the hub's API server have nodes only where an administrator or the hub says so.
 *
 * @param members - All of the fleet: they may share an underlay, whatever their profiles.
 * @param hub - Addresses of the hub's API server.
 * @returns By member and the prefixes of its parallel network.
 */
export function candidateChecks(
  members: Iterable<MemberCluster>,
  hub: readonly IpAddress[],
): (cluster: string, network: readonly Prefix[]) => CandidateCheck {
  const all = new Map([...members].map((it) => [it.metadata.name, it]));
  // What only an agent reports of its Services leaves no candidates of others out.
  const services = new OwnedRanges(all, SERVICE_RANGES);
  const nodes = new OwnedRanges(all, ACCEPTED_NODE_RANGES);
  return (cluster, network) => {
    const { metadata, status } = all.get(cluster) ?? { metadata: { name: cluster } };
    const { annotations } = metadata;
    const granted = grantedRanges(annotations?.[GRANTED_CIDRS_ANNOTATION]);
    const confirmed = [...granted, ...listedRanges(annotations?.[ACCEPTED_NODE_RANGES])];
    const reported = listedRanges(status?.properties?.[NODE_RANGES]?.value);
    const faultOf = (address: IpAddress): string | undefined => {
      const isIn = (ranges: readonly Prefix[]): boolean => ranges.some((it) => containsAddress(it, address));
      if (isIn(confirmed)) return undefined;
      if (hub.includes(address)) return "is the hub's API server";
      const ofServices = services.ownerOf(address);
      if (ofServices !== undefined) return `is in the network of the Services of member ${ofServices}`;
      const ofNodes = nodes.ownerOf(address);
      if (ofNodes !== undefined && !isIn(reported))
        return `is in a network of the nodes of member ${ofNodes}`;
      return undefined;
    };
    return (address) => {
      if (isSpecialPurpose(address)) return "is a special-purpose address";
      if (network.some((it) => containsAddress(it, address))) return "is a fleet address";
      const fault = faultOf(address);
      return fault === undefined
        ? undefined
        : `${fault} (if gateways are there, add it to the annotation ${GRANTED_CIDRS_ANNOTATION} of the MemberCluster)`;
    };
  };
}

/** Ranges by their lengths: a look-up costs one step for each length, however many members there are. */
class OwnedRanges {
  readonly #owners = new Map<string, string>();
  readonly #lengths = { IPv4: new Set<number>(), IPv6: new Set<number>() };

  constructor(members: ReadonlyMap<string, MemberCluster>, annotation: string) {
    for (const [name, { metadata }] of members)
      for (const range of listedRanges(metadata.annotations?.[annotation])) {
        this.#owners.set(formatPrefix(range), name);
        this.#lengths[range.family].add(range.length);
      }
  }

  ownerOf(address: IpAddress): string | undefined {
    for (const length of this.#lengths[familyOf(address)]) {
      const owner = this.#owners.get(formatPrefix(prefixOf(address, length)));
      if (owner !== undefined) return owner;
    }
    return undefined;
  }
}
