import { type IpAddress, tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import { containsAddress, type Prefix } from "@fairlead/base/netaddr/prefix.ts";
import { isSpecialPurpose } from "@fairlead/base/netaddr/special-purpose.ts";
import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { CLUSTER_UID_ANNOTATION, GRANTED_CIDRS_ANNOTATION } from "#api/fairlead.dev/names.ts";
import type { GatewayCandidate } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { shown } from "./formats.ts";
import { isBasePort } from "./gateway.ts";
import { grantedRanges } from "./ranges.ts";

/** The addresses at which other gateways may try to reach one. Pure. */

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

/** The hub, as far as gateways may be there. */
export interface HubPlace {
  /** Addresses of its API server. */
  readonly servers: readonly IpAddress[];
  /** UID of the namespace kube-system of its cluster; undefined if unknown. */
  readonly uid: string | undefined;
}

/**
 * Members may share an underlay, be behind one NAT, or have the same private networks: an address in a network of another member says
 * nothing. Only the hub's API server has no gateways but those of its own cluster, which `join` found there, and where an administrator
 * says so. Each member leaves out those that are its own places, and asks strange addresses seldom.
 *
 * @param network - The prefixes of the member's parallel network.
 */
export function candidateCheck(
  member: MemberCluster | undefined,
  hub: HubPlace,
  network: readonly Prefix[],
): CandidateCheck {
  const annotations = member?.metadata.annotations;
  const isHub = hub.uid !== undefined && annotations?.[CLUSTER_UID_ANNOTATION] === hub.uid;
  const granted = grantedRanges(annotations?.[GRANTED_CIDRS_ANNOTATION]);
  const servers = isHub ? [] : hub.servers;
  return (address) => {
    if (isSpecialPurpose(address)) return "is a special-purpose address";
    if (network.some((it) => containsAddress(it, address))) return "is a fleet address";
    if (!servers.includes(address) || granted.some((it) => containsAddress(it, address))) return undefined;
    return `is the hub's API server (if a gateway is there, add it to the annotation ${GRANTED_CIDRS_ANNOTATION} of the MemberCluster)`;
  };
}

/** Addresses of a cluster at which there is no gateway of another one. */
export interface OwnPlaces {
  readonly services: readonly Prefix[];
  /** Nodes, and the API server. */
  readonly hosts: ReadonlySet<IpAddress>;
}

/** Candidates of another cluster's gateway without those at which this cluster would ask itself. */
export function reachableCandidates(
  candidates: readonly GatewayCandidate[],
  { services, hosts }: OwnPlaces,
): GatewayCandidate[] {
  return candidates.filter(({ address: text }) => {
    const address = tryParseAddress(text);
    if (address === undefined || hosts.has(address)) return false;
    return !services.some((it) => containsAddress(it, address));
  });
}
