import type { Service, ServicePort } from "#api/core/v1/types.ts";
import { type Endpoint, type EndpointSlice, SERVICE_NAME_LABEL } from "#api/discovery/v1/types.ts";
import { byText } from "#base/text.ts";
import { familyOf, formatAddress, tryParseAddress } from "#netaddr/address.ts";
import { assignSlots, tableSize } from "./maglev.ts";
import {
  type Choice,
  DROP_CHAIN,
  EXACT_SLOTS,
  type Family,
  LOCAL_BASE,
  choiceChainName,
  REFUSE_CHAIN,
  type Scope,
  type SetKind,
  setName,
} from "./names.ts";

/** What one Service puts into the proxy's sets and maps. Pure. */

export interface PlannedElement {
  readonly set: string;
  readonly key: string;
  readonly value: string;
}

export interface ServiceView {
  readonly service: Service;
  /** All slices that name the Service, whoever manages them. */
  readonly slices: Iterable<EndpointSlice>;
  /** The node whose kernel is programmed. */
  readonly nodeName: string;
}

/** Another proxy serves it (well-known label). */
const PROXY_NAME_LABEL = "service.kubernetes.io/service-proxy-name";
/** Slices of a headless Service (well-known label). */
const HEADLESS_LABEL = "service.kubernetes.io/headless";

/** The Service that a slice belongs to, or undefined: "namespace/name" comes out of it. */
export function serviceNameOf(slice: EndpointSlice): string | undefined {
  const labels = slice.metadata.labels;
  return labels?.[HEADLESS_LABEL] === undefined ? labels?.[SERVICE_NAME_LABEL] : undefined;
}

export function planService(view: ServiceView): readonly PlannedElement[] {
  const addresses = virtualAddresses(view.service);
  if (addresses.length === 0) return [];
  const slices = [...view.slices];
  const elements: PlannedElement[] = [];
  const put = (kind: SetKind, family: Family, [key, value]: readonly [string, string]): void => {
    elements.push({ set: setName(kind, family), key, value });
  };
  for (const address of addresses) {
    put("virtual", address.family, [address.text, ""]);
    if (address.isExternal && view.service.spec?.externalTrafficPolicy !== "Local")
      put("masquerade", address.family, [address.text, ""]);
    for (const port of servedPorts(view.service)) {
      const backends = selectBackends(slices, { port, family: address.family, nodeName: view.nodeName });
      for (const part of planPort(view.service, { address, port, backends }))
        put(part.kind, address.family, part.entry);
    }
  }
  return elements;
}

/** An address at which a Service is reached. */
interface VirtualAddress {
  readonly text: string;
  readonly family: Family;
  /** Of a load balancer: packets come from outside the cluster too. */
  readonly isExternal: boolean;
}

/**
 * The Service's own addresses and those that a provider gave it. `spec.externalIPs` is not among them: anyone who may
 * write a Service could take over any address with it (CVE-2020-8554).
 */
function virtualAddresses(service: Service): readonly VirtualAddress[] {
  const { spec, status, metadata } = service;
  if (spec === undefined || spec.type === "ExternalName" || metadata.labels?.[PROXY_NAME_LABEL] !== undefined)
    return [];
  const own = spec.clusterIPs ?? (spec.clusterIP === undefined ? [] : [spec.clusterIP]);
  // With ipMode "Proxy" the load balancer rewrites the destination itself (KEP-1860).
  const ingress = (status?.loadBalancer?.ingress ?? []).filter((it) => it.ipMode !== "Proxy");
  const external = spec.type === "LoadBalancer" ? ingress.flatMap((it) => it.ip ?? []) : [];
  return [
    ...own.flatMap((text) => virtualAddress(text, false)),
    ...external.flatMap((text) => virtualAddress(text, true)),
  ];
}

function virtualAddress(text: string, isExternal: boolean): readonly VirtualAddress[] {
  const address = tryParseAddress(text);
  if (address === undefined) return [];
  return [{ text: formatAddress(address), family: familyOf(address) === "IPv4" ? "4" : "6", isExternal }];
}

/** SCTP is accepted by the API and carried by nobody here. */
function servedPorts(service: Service): readonly ServicePort[] {
  return (service.spec?.ports ?? []).filter((it) => it.protocol !== "SCTP" && isPort(it.port));
}

/** An API server lets nothing else through; one object that slipped by must not hold up all others. */
function isPort(port: number | null | undefined): port is number {
  return Number.isInteger(port) && Number(port) > 0 && Number(port) < 65_536;
}

/** An endpoint's address and port in canonical text: "10.0.0.1 . 8080". */
type Backend = string;

interface Backends {
  readonly all: readonly Backend[];
  /** Those on this node. */
  readonly local: readonly Backend[];
  /** Addresses of the endpoints on this node. */
  readonly localAddresses: readonly string[];
}

interface BackendQuery {
  readonly port: ServicePort;
  readonly family: Family;
  readonly nodeName: string;
}

interface Candidate {
  readonly address: string;
  readonly backend: Backend;
  readonly isLocal: boolean;
  readonly isReady: boolean;
}

/**
 * Endpoints of one port: from every slice that has a port of that name, with the number that this slice gives it. A
 * selector-less Service may have slices of several clusters whose numbers differ.
 *
 * Where none is ready, those that still serve while they terminate are used (KEP-1669), for the whole cluster and for the
 * node apart.
 */
function selectBackends(slices: readonly EndpointSlice[], query: BackendQuery): Backends {
  const candidates = slices.flatMap((slice) => sliceCandidates(slice, query));
  const local = usable(candidates.filter((it) => it.isLocal));
  return {
    all: uniqueSorted(usable(candidates).map((it) => it.backend)),
    local: uniqueSorted(local.map((it) => it.backend)),
    localAddresses: uniqueSorted(candidates.filter((it) => it.isLocal).map((it) => it.address)),
  };
}

function sliceCandidates(slice: EndpointSlice, query: BackendQuery): readonly Candidate[] {
  if (slice.addressType !== (query.family === "4" ? "IPv4" : "IPv6")) return [];
  const number = slice.ports?.find(
    (it) =>
      (it.name ?? "") === (query.port.name ?? "") &&
      (it.protocol ?? "TCP") === (query.port.protocol ?? "TCP"),
  )?.port;
  if (!isPort(number)) return [];
  return slice.endpoints.flatMap((endpoint) => {
    // The first address counts; more than one has no defined meaning (EndpointSlice API).
    const address = tryParseAddress(endpoint.addresses[0] ?? "");
    const isReady = endpoint.conditions?.ready ?? true;
    if (address === undefined || !(isReady || isServingLast(endpoint))) return [];
    const text = formatAddress(address);
    return [
      {
        address: text,
        backend: `${text} . ${number}`,
        isLocal: endpoint.nodeName === query.nodeName,
        isReady,
      },
    ];
  });
}

function isServingLast(endpoint: Endpoint): boolean {
  return endpoint.conditions?.serving === true && endpoint.conditions.terminating === true;
}

function usable(candidates: readonly Candidate[]): readonly Candidate[] {
  const ready = candidates.filter((it) => it.isReady);
  return ready.length > 0 ? ready : candidates;
}

function uniqueSorted(texts: readonly string[]): readonly string[] {
  return [...new Set(texts)].toSorted(byText);
}

interface PortView {
  readonly address: VirtualAddress;
  readonly port: ServicePort;
  readonly backends: Backends;
}

interface PlannedPart {
  readonly kind: SetKind;
  readonly entry: readonly [key: string, value: string];
}

function planPort(service: Service, { address, port, backends }: PortView): readonly PlannedPart[] {
  const frontend = `${address.text} . ${(port.protocol ?? "TCP").toLowerCase()} . ${port.port}`;
  const choice: Choice = service.spec?.sessionAffinity === "ClientIP" ? "sticky" : "pick";
  return [
    ...endpointLists(service, address).flatMap(({ kind, scope }): readonly PlannedPart[] => {
      const slots = fillSlots(choice, backends[scope]);
      const chain =
        slots.length > 0
          ? choiceChainName({ choice, scope, slots: slots.length })
          : emptyChain(scope, backends);
      const base = scope === "all" ? 0 : LOCAL_BASE;
      return [
        { kind, entry: [frontend, `goto ${chain}`] },
        ...slots.map((backend, at): PlannedPart => ({
          kind: "endpoints",
          entry: [`${base + at} . ${frontend}`, backend],
        })),
      ];
    }),
    ...backends.localAddresses.map((it): PlannedPart => ({ kind: "hairpin", entry: [`${it} . ${it}`, ""] })),
  ];
}

interface EndpointList {
  readonly kind: "services" | "external";
  readonly scope: Scope;
}

/** Which endpoints an address leads to. Pods of the cluster reach all endpoints at a load balancer's address too. */
function endpointLists({ spec }: Service, address: VirtualAddress): readonly EndpointList[] {
  if (address.isExternal) {
    const all: EndpointList = { kind: "services", scope: "all" };
    return spec?.externalTrafficPolicy === "Local" ? [all, { kind: "external", scope: "local" }] : [all];
  }
  return [{ kind: "services", scope: spec?.internalTrafficPolicy === "Local" ? "local" : "all" }];
}

/**
 * Chance takes one slot for each endpoint. Affinity takes a table that moves few clients when endpoints change, and so do
 * so many endpoints that a slot each would need chains of their own.
 */
function fillSlots(choice: Choice, backends: readonly Backend[]): readonly Backend[] {
  const isExact = backends.length === 0 || (choice === "pick" && backends.length <= EXACT_SLOTS);
  return isExact ? backends : assignSlots(backends, tableSize(backends.length));
}

function emptyChain(scope: Scope, backends: Backends): string {
  return scope === "local" && backends.all.length > 0 ? DROP_CHAIN : REFUSE_CHAIN;
}
