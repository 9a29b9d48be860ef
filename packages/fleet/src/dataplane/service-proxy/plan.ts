import type { Service, ServicePort } from "@fairlead/kube/api/core/v1/types.ts";
import { type EndpointSlice, SERVICE_NAME_LABEL } from "@fairlead/kube/api/discovery/v1/types.ts";
import { type Frontend, frontendsOf, sourceRanges } from "./addresses.ts";
import {
  type Backend,
  type Backends,
  isPort,
  type NodePlace,
  selectBackends,
  type SliceShare,
} from "./backends.ts";
import { assignSlots, tableSize, type Weights, weighedTableSize } from "./maglev.ts";
import {
  affinityTimeout,
  type Choice,
  choiceChainName,
  DROP_CHAIN,
  EXACT_SLOTS,
  LOCAL_BASE,
  REFUSE_CHAIN,
  rememberChainName,
  type Scope,
  type SetKind,
  setName,
} from "./names.ts";

/** The elements of one Service in the proxy's sets and maps. Pure. */

export interface PlannedElement {
  readonly set: string;
  readonly key: string;
  readonly value: string;
}

export interface ServiceView {
  readonly service: Service;
  /** All slices of the Service, regardless of their manager. */
  readonly slices: Iterable<EndpointSlice>;
  readonly node: NodePlace & { readonly addresses: readonly string[] };
  /** Undefined: all endpoints are alike. */
  readonly shareOf?: (slice: EndpointSlice) => SliceShare;
}

/** Slices of a headless Service (well-known label). */
const HEADLESS_LABEL = "service.kubernetes.io/headless";

/** The key "namespace/name" of the Service that a slice belongs to, or undefined. */
export function serviceNameOf(slice: EndpointSlice): string | undefined {
  const labels = slice.metadata.labels;
  return labels?.[HEADLESS_LABEL] === undefined ? labels?.[SERVICE_NAME_LABEL] : undefined;
}

export function planService(view: ServiceView): readonly PlannedElement[] {
  const { service, node, shareOf } = view;
  const slices = [...view.slices];
  return frontendsOf(service, node.addresses).flatMap((frontend) => {
    const { family, kind, text } = frontend;
    const isWhole = kind === "cluster" || kind === "balancer";
    const whole: PlannedPart[] = isWhole ? [{ kind: "virtual", entry: [text, ""] }] : [];
    const parts = portsAt(service, frontend).flatMap((port) => {
      const backends = selectBackends(slices, { port, family, node, shareOf });
      return planPort(service, { frontend, port, backends });
    });
    return [...whole, ...parts].map(({ kind: set, entry: [key, value] }): PlannedElement => ({
      set: setName(set, family),
      key,
      value,
    }));
  });
}

/** The ports of a Service at an address, with their numbers there. The API accepts SCTP; this proxy does not forward it. */
export function portsAt(service: Service, { kind }: Frontend): readonly ServicePort[] {
  const ports = (service.spec?.ports ?? []).filter((it) => it.protocol !== "SCTP");
  if (kind !== "node") return ports.filter((it) => isPort(it.port));
  return ports.flatMap((it) => (isPort(it.nodePort) ? [{ ...it, port: it.nodePort }] : []));
}

interface PortView {
  readonly frontend: Frontend;
  /** With the number at which the frontend has it. */
  readonly port: ServicePort;
  readonly backends: Backends;
}

interface PlannedPart {
  readonly kind: SetKind;
  readonly entry: readonly [key: string, value: string];
}

function planPort(service: Service, { frontend, port, backends }: PortView): readonly PlannedPart[] {
  const at = `${frontend.text} . ${(port.protocol ?? "TCP").toLowerCase()} . ${port.port}`;
  const isSticky = service.spec?.sessionAffinity === "ClientIP";
  const isHashed = isSticky && frontend.family === "6";
  const choice: Choice = isSticky ? "sticky" : "pick";
  return [
    ...masquerading(service, frontend).map((kind): PlannedPart => ({ kind, entry: [at, ""] })),
    ...guards(service, frontend, at),
    ...endpointLists(service, frontend).flatMap(({ kind, scope }): readonly PlannedPart[] => {
      const slots = fillSlots(backends[scope], backends.weights[scope], isHashed);
      const chain =
        slots.length > 0
          ? choiceChainName({ choice, scope, slots: slots.length })
          : emptyChain(scope, backends);
      const base = scope === "all" ? 0 : LOCAL_BASE;
      return [
        { kind, entry: [at, `goto ${chain}`] },
        ...slots.map((backend, slot): PlannedPart => ({
          kind: "endpoints",
          entry: [`${base + slot} . ${at}`, backend],
        })),
        ...(isSticky && !isHashed ? remembering(service, at, backends[scope]) : []),
      ];
    }),
    ...backends.localAddresses.map((it): PlannedPart => ({ kind: "hairpin", entry: [`${it} . ${it}`, ""] })),
  ];
}

/** How long an affinity lasts where the Service does not say: the API's default. Unit: seconds. */
const DEFAULT_AFFINITY = 10_800;

function remembering(service: Service, at: string, backends: readonly Backend[]): readonly PlannedPart[] {
  const { timeoutSeconds = DEFAULT_AFFINITY } = service.spec?.sessionAffinityConfig?.clientIP ?? {};
  const verdict = `goto ${rememberChainName(affinityTimeout(timeoutSeconds))}`;
  return backends.map((backend): PlannedPart => ({
    kind: "remember",
    entry: [`${at} . ${backend}`, verdict],
  }));
}

/** With policy Local the endpoint is on this node and its answers come this way anyhow: the client's address stays. */
function masquerading(service: Service, { kind }: Frontend): readonly SetKind[] {
  if (kind === "cluster" || service.spec?.externalTrafficPolicy === "Local") return [];
  return [kind === "node" ? "masquerade-all" : "masquerade"];
}

function guards(service: Service, frontend: Frontend, at: string): readonly PlannedPart[] {
  const ranges = sourceRanges(service, frontend);
  if (ranges === undefined) return [];
  const allowed = ranges.map((range): PlannedPart => ({ kind: "allowed", entry: [`${at} . ${range}`, ""] }));
  return [{ kind: "guarded", entry: [at, ""] }, ...allowed];
}

interface EndpointList {
  readonly kind: "services" | "external";
  readonly scope: Scope;
}

/** Which endpoints a frontend leads to. What comes from inside the cluster reaches all endpoints everywhere. */
function endpointLists({ spec }: Service, { kind }: Frontend): readonly EndpointList[] {
  if (kind !== "cluster") {
    const all: EndpointList = { kind: "services", scope: "all" };
    return spec?.externalTrafficPolicy === "Local" ? [all, { kind: "external", scope: "local" }] : [all];
  }
  return [{ kind: "services", scope: spec?.internalTrafficPolicy === "Local" ? "local" : "all" }];
}

/**
 * Chance takes one slot for each endpoint. Weights take a table with a share for each. A hash takes one that moves few clients when endpoints change, and so do
 * so many endpoints that a slot each would need chains of their own.
 */
function fillSlots(
  backends: readonly Backend[],
  weights: Weights | undefined,
  isHashed: boolean,
): readonly Backend[] {
  if (weights !== undefined) return assignSlots(backends, weighedTableSize(weights), weights);
  const isExact = backends.length === 0 || (!isHashed && backends.length <= EXACT_SLOTS);
  return isExact ? backends : assignSlots(backends, tableSize(backends.length));
}

function emptyChain(scope: Scope, backends: Backends): string {
  return scope === "local" && backends.all.length > 0 ? DROP_CHAIN : REFUSE_CHAIN;
}
