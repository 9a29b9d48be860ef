import type { Elements, Keys } from "./desired.ts";
import { LOCAL_BASE, setName } from "./names.ts";

/** Which of the flows that conntrack remembers lead to endpoints that a Service no longer has. Pure. */

export type Protocol = "tcp" | "udp";

/** The client side of a Service port, and the endpoint that answers there. */
export interface ServiceFlow {
  readonly protocol: Protocol;
  readonly address: string;
  readonly port: number;
  readonly endpoint: { readonly address: string; readonly port: number };
}

/** The endpoints of flows, from the elements of the table. */
export interface Choices {
  /** Whether new flows may still be given this endpoint. */
  isUsed(flow: ServiceFlow): boolean;
  /** Whether a Service has this address and port. */
  isService(flow: ServiceFlow): boolean;
}

export function choicesOf(desired: Elements): Choices {
  const known = new Map<string, ReadonlySet<string>>();
  return {
    isUsed(flow) {
      const frontend = frontendOf(flow);
      const set = setName("endpoints", familyOf(flow));
      const backends = known.get(frontend) ?? backendsOf(desired.get(set), frontend);
      known.set(frontend, backends);
      return backends.has(`${flow.endpoint.address} . ${flow.endpoint.port}`);
    },
    isService: (flow) => desired.get(setName("services", familyOf(flow)))?.has(frontendOf(flow)) === true,
  };
}

/**
 * Flows of endpoints that Service ports lost by a change, and for UDP those that went out untranslated before the port
 * had any endpoint.
 *
 * @param before - Values as they were, for the keys in `changed`.
 * @param options - `isClosed`: packets for ports without endpoints are refused, so that none went out untranslated.
 */
export function goneFlows(
  before: Elements,
  desired: Elements,
  changed: Keys,
  { isClosed = false }: { readonly isClosed?: boolean } = {},
): readonly ServiceFlow[] {
  const { isUsed } = choicesOf(desired);
  const gone = new Map<string, ServiceFlow>();
  for (const set of [setName("endpoints", "4"), setName("endpoints", "6")])
    for (const key of changed.get(set) ?? []) {
      const target = before.get(set)?.get(key);
      const flow = target === undefined && isClosed ? undefined : flowOf(key, target);
      if (flow !== undefined && !isUsed(flow)) gone.set(flowText(flow), flow);
    }
  return [...gone.values()];
}

export function flowText(flow: ServiceFlow): string {
  return `${frontendOf(flow)} ${flow.endpoint.address} ${flow.endpoint.port}`;
}

function frontendOf({ address, protocol, port }: ServiceFlow): string {
  return `${address} . ${protocol} . ${port}`;
}

function familyOf({ address }: ServiceFlow): "4" | "6" {
  return address.includes(":") ? "6" : "4";
}

/** @param key - Of a slot. @param target - The endpoint that it had. */
function flowOf(key: string, target: string | undefined): ServiceFlow | undefined {
  const [slot = "", address = "", protocol = "", port = ""] = key.split(" . ");
  if (protocol !== "tcp" && protocol !== "udp") return undefined;
  const of = { protocol, address, port: Number(port) } as const;
  if (target !== undefined) {
    const [to = "", toPort] = target.split(" . ");
    return { ...of, endpoint: { address: to, port: Number(toPort) } };
  }
  // The first slot appears with the port's first endpoint. Before, TCP was refused, which conntrack does not note.
  if (protocol === "tcp" || Number(slot) % LOCAL_BASE !== 0) return undefined;
  return { ...of, endpoint: { address, port: of.port } };
}

/** The endpoints that a port has now. */
function backendsOf(
  endpoints: ReadonlyMap<string, string> | undefined,
  frontend: string,
): ReadonlySet<string> {
  const backends = new Set<string>();
  for (const base of [0, LOCAL_BASE]) {
    for (let slot = base; ; slot++) {
      const backend = endpoints?.get(`${slot} . ${frontend}`);
      if (backend === undefined) break;
      backends.add(backend);
    }
  }
  return backends;
}
