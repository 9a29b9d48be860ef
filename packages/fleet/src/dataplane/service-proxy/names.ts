import type { NftSetSpec, NftTableName } from "@fairlead/os/nft/state.ts";

/** The table that the proxy owns. */
export const PROXY_TABLE: NftTableName = { family: "inet", name: "fairlead-proxy" };

export type Family = "4" | "6";
const FAMILIES: readonly Family[] = ["4", "6"];

/**
 * The proxy's sets and maps, each once per family:
 * - `services`: address, protocol and port of a Service to the chain that handles it.
 * - `external`: the same for sources outside the cluster, where `externalTrafficPolicy: Local` makes a difference.
 * - `endpoints`: number of a slot and address, protocol and port of a Service to address and port of an endpoint. The
 *   slots of one Service port are consecutive, so that one chain per *number* of slots serves all Services and a change
 *   of endpoints touches elements only.
 * - `virtual`: every address of a Service, so that its other ports are refused.
 * - `masquerade`: addresses, protocols and ports at which sources outside the cluster get the node's address, so that
 *   replies return through this node.
 * - `masquerade-all`: the same for every source: at a node port, pods of other nodes are like any other source.
 * - `guarded`: where only some sources may come in, and `allowed`: those that may.
 * - `remember`: which endpoint of a Service with affinity to remember, and for how long.
 * - `affinity`: client and Service to the endpoint that the client was given. Filled by packets. These two are for IPv4.
 * - `hairpin`: an endpoint of this node and itself: it may be chosen for its own request.
 * - `cluster`: prefixes of the cluster's pods.
 * - `own`: those of the pods on this node.
 */
export type SetKind =
  | "services"
  | "external"
  | "endpoints"
  | "virtual"
  | "masquerade"
  | "masquerade-all"
  | "guarded"
  | "allowed"
  | "remember"
  | "affinity"
  | "hairpin"
  | "cluster"
  | "own";

export function setName(kind: SetKind, family: Family): string {
  return `${kind}-${family}`;
}

function specs(family: Family): Readonly<Record<SetKind, NftSetSpec>> {
  const address = family === "4" ? "ipv4_addr" : "ipv6_addr";
  const frontend = [address, "inet_proto", "inet_service"] as const;
  return {
    services: { key: frontend, value: "verdict" },
    external: { key: frontend, value: "verdict" },
    endpoints: { key: ["integer", ...frontend], value: [address, "inet_service"] },
    virtual: { key: [address] },
    masquerade: { key: frontend },
    "masquerade-all": { key: frontend },
    guarded: { key: frontend },
    allowed: { key: [...frontend, address], interval: true },
    remember: { key: [...frontend, address, "inet_service"], value: "verdict" },
    affinity: { key: [address, ...frontend], value: [address, "inet_service"], dynamic: true },
    hairpin: { key: [address, address] },
    cluster: { key: [address], interval: true },
    own: { key: [address], interval: true },
  };
}

/** Every set of the table by name. */
export const SET_SPECS: ReadonlyMap<string, NftSetSpec> = new Map(
  FAMILIES.flatMap((family) =>
    Object.entries(specs(family))
      .filter(([kind]) => family === "4" || (kind !== "remember" && kind !== "affinity"))
      .map(([kind, spec]) => [setName(kind as SetKind, family), spec] as const),
  ),
);

/** The first slot of node-local endpoint lists: after all slots of the list of all endpoints. */
export const LOCAL_BASE = 65_536;

/**
 * Up to this many endpoints have one slot each; more share a table. Each number is some chains, and without root the
 * table's rules have to fit into a socket's buffer of 208 KiB (net.core.wmem_default): they come in one transaction.
 */
export const EXACT_SLOTS = 16;

/**
 * Sizes of tables: primes, so that every step of `assignSlots` walks the whole table. Few, because each is a chain, and
 * the chains are there from the start: a change of endpoints never changes anything but elements.
 */
export const TABLE_SIZES = [61, 1021, 8191, 65_521] as const;

/** How a chain chooses a slot: at random, or so that a client gets the same endpoint again. */
export type Choice = "pick" | "sticky";
/** Which list of endpoints a chain chooses from: all of them, or those of this node. */
export type Scope = "all" | "local";

/** A chain that chooses among `slots` slots. */
export interface ChoiceChain {
  readonly choice: Choice;
  readonly scope: Scope;
  readonly slots: number;
}

export function choiceChainName({ choice, scope, slots }: ChoiceChain): string {
  return scope === "all" ? `${choice}-${slots}` : `${choice}-${scope}-${slots}`;
}

/** Every chain that an element may lead to, apart from the two below. */
export function choiceChains(): readonly ChoiceChain[] {
  const exact = Array.from({ length: EXACT_SLOTS }, (_, at) => at + 1);
  const picks = [...new Set([...exact, ...TABLE_SIZES])];
  return (["all", "local"] as const).flatMap((scope) =>
    (["pick", "sticky"] as const).flatMap((choice) =>
      picks.map((slots): ChoiceChain => ({ choice, scope, slots })),
    ),
  );
}

/**
 * How long an affinity may last: to the second up to ten, in steps of five seconds up to a minute, of a minute up to ten, of ten minutes up to an
 * hour, of half an hour up to three hours and of three hours up to a day. The chains for all of them are there from the
 * start. Unit: seconds.
 */
const AFFINITY_STEPS = [
  [10, 1],
  [60, 5],
  [600, 60],
  [3600, 600],
  [10_800, 1800],
  [86_400, 10_800],
] as const;

/** Every timeout that has a chain. Unit: seconds. */
export function affinityTimeouts(): readonly number[] {
  const timeouts: number[] = [];
  for (const [limit, step] of AFFINITY_STEPS)
    for (let at = (timeouts.at(-1) ?? 0) + step; at <= limit; at += step) timeouts.push(at);
  return timeouts;
}

/** The shortest of these timeouts that is long enough. */
export function affinityTimeout(seconds: number): number {
  const [limit, step] = AFFINITY_STEPS.find(([upTo]) => seconds <= upTo) ?? [86_400, 10_800];
  return Math.min(limit, Math.ceil(seconds / step) * step);
}

/** The chain that remembers which endpoint a client was given. */
export function rememberChainName(seconds: number): string {
  return `remember-${seconds}`;
}

/** Refuses a connection: a reset, or "port unreachable". */
export const REFUSE_CHAIN = "refuse";
/** Drops without an answer, as kube-proxy does for traffic policy Local without an endpoint on the node. */
export const DROP_CHAIN = "no-local-endpoint";
