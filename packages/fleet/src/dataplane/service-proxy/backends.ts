import type { ServicePort } from "@fairlead/kube/api/core/v1/types.ts";
import type { Endpoint, EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { byText } from "@fairlead/base/text.ts";
import { formatAddress, tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import type { Weights } from "./maglev.ts";
import type { Family, Scope } from "./names.ts";

/** The node whose kernel is programmed. */
export interface NodePlace {
  readonly name: string;
  /** Its `topology.kubernetes.io/zone`, if it has one. */
  readonly zone: string | undefined;
}

/** An endpoint's address and port in canonical text: "10.0.0.1 . 8080". */
export type Backend = string;

export interface Backends extends Readonly<Record<Scope, readonly Backend[]>> {
  /** Of a list, if they are not all alike. */
  readonly weights: Readonly<Record<Scope, Weights | undefined>>;
  /** Addresses of the endpoints on this node. */
  readonly localAddresses: readonly string[];
}

/** What the endpoints of several slices together get of the requests. */
export interface SliceShare {
  readonly group: string;
  /** All slices of a group have the same. */
  readonly weight: number;
}

interface BackendQuery {
  /** Undefined: all endpoints are alike. */
  readonly shareOf?: ((slice: EndpointSlice) => SliceShare) | undefined;
  readonly port: ServicePort;
  readonly family: Family;
  readonly node: NodePlace;
}

interface Candidate {
  readonly share: SliceShare | undefined;
  readonly address: string;
  readonly backend: Backend;
  readonly isLocal: boolean;
  readonly isReady: boolean;
  readonly hints: NonNullable<Endpoint["hints"]>;
}

/**
 * Endpoints of one port: from every slice that has a port of that name, with the number that this slice gives it. A
 * selector-less Service may have slices of several clusters whose numbers differ.
 *
 * Where none is ready, those that still serve while they terminate are used (KEP-1669), for the whole cluster and for the
 * node apart.
 */
export function selectBackends(slices: readonly EndpointSlice[], query: BackendQuery): Backends {
  const candidates = slices.flatMap((slice) => sliceCandidates(slice, query));
  const local = usable(candidates.filter((it) => it.isLocal));
  const all = nearest(usable(candidates), query.node);
  const weights = { all: weigh(all), local: weigh(local) };
  return {
    all: weights.all === undefined ? uniqueSorted(all.map((it) => it.backend)) : [...weights.all.keys()],
    local:
      weights.local === undefined ? uniqueSorted(local.map((it) => it.backend)) : [...weights.local.keys()],
    weights,
    localAddresses: uniqueSorted(candidates.filter((it) => it.isLocal).map((it) => it.address)),
  };
}

/** An API server lets nothing else through; one object that slipped by must not hold up all others. */
export function isPort(port: number | null | undefined): port is number {
  return Number.isInteger(port) && Number(port) > 0 && Number(port) < 65_536;
}

function sliceCandidates(slice: EndpointSlice, query: BackendQuery): readonly Candidate[] {
  if (slice.addressType !== (query.family === "4" ? "IPv4" : "IPv6")) return [];
  const number = slice.ports?.find(
    (it) =>
      (it.name ?? "") === (query.port.name ?? "") &&
      (it.protocol ?? "TCP") === (query.port.protocol ?? "TCP"),
  )?.port;
  if (!isPort(number)) return [];
  const share = query.shareOf?.(slice);
  return slice.endpoints.flatMap((endpoint) => {
    // The first address counts; more than one has no defined meaning (EndpointSlice API).
    const address = tryParseAddress(endpoint.addresses[0] ?? "");
    if (address === undefined || !canServe(endpoint)) return [];
    const isReady = isReadyEndpoint(endpoint);
    const text = formatAddress(address);
    const isLocal = endpoint.nodeName === query.node.name;
    const backend = `${text} . ${number}`;
    return [{ share, address: text, backend, isLocal, isReady, hints: endpoint.hints ?? {} }];
  });
}

/**
 * The weights of backends, sorted, without those that get nothing: the backends of a group share what the group has. Undefined if
 * all groups have the same, or none has any: then backends are alike, as in any Service.
 */
function weigh(candidates: readonly Candidate[]): Weights | undefined {
  const groups = Map.groupBy(candidates, (it) => it.share?.group);
  const parts = [...groups.values()].map((members) => ({
    weight: Math.max(...members.map((it) => it.share?.weight ?? 1)),
    backends: uniqueSorted(members.map((it) => it.backend)),
  }));
  const kinds = new Set(parts.map((it) => it.weight));
  if (kinds.size < 2) return undefined;
  const weights = new Map<string, number>();
  for (const { weight, backends } of parts)
    if (weight > 0)
      for (const it of backends) weights.set(it, (weights.get(it) ?? 0) + weight / backends.length);
  return new Map([...weights].toSorted(([a], [b]) => byText(a, b)));
}

function isReadyEndpoint({ conditions }: Endpoint): boolean {
  return conditions?.ready ?? true;
}

/** Whether an endpoint is ready, or terminates and serves until it ends. */
export function canServe(endpoint: Endpoint): boolean {
  const { serving, terminating } = endpoint.conditions ?? {};
  return isReadyEndpoint(endpoint) || (serving === true && terminating === true);
}

function usable(candidates: readonly Candidate[]): readonly Candidate[] {
  const ready = candidates.filter((it) => it.isReady);
  return ready.length > 0 ? ready : candidates;
}

/**
 * The endpoints that hints assign to this node, else to its zone. Hints count only if every ready endpoint has them and
 * some are for here; otherwise no endpoint would be left (KEP-2433, KEP-3015).
 */
function nearest(candidates: readonly Candidate[], { name, zone }: NodePlace): readonly Candidate[] {
  if (candidates.some((it) => !it.isReady)) return candidates;
  const forNode = meantFor(candidates, ({ forNodes }) => forNodes, name);
  if (forNode.length > 0) return forNode;
  const forZone = zone === undefined ? [] : meantFor(candidates, ({ forZones }) => forZones, zone);
  return forZone.length > 0 ? forZone : candidates;
}

function meantFor(
  candidates: readonly Candidate[],
  listOf: (hints: Candidate["hints"]) => readonly { readonly name: string }[] | undefined,
  place: string,
): readonly Candidate[] {
  if (candidates.some((it) => (listOf(it.hints) ?? []).length === 0)) return [];
  return candidates.filter((it) => listOf(it.hints)?.some((hint) => hint.name === place));
}

function uniqueSorted(texts: readonly string[]): readonly string[] {
  return [...new Set(texts)].toSorted(byText);
}
