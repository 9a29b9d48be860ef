import type { NftSetSpec, NftTableName } from "#nft/state.ts";

/** The table that the proxy owns. */
export const PROXY_TABLE: NftTableName = { family: "inet", name: "fairlead-proxy" };

export type Family = "4" | "6";
const FAMILIES: readonly Family[] = ["4", "6"];

/**
 * The proxy's sets and maps, each once per family:
 *
 * - `services`: address, protocol and port of a Service to the chain that treats it.
 * - `external`: the same for sources outside the cluster, where `externalTrafficPolicy: Local` makes a difference.
 * - `endpoints`: number of a slot and address, protocol and port of a Service to address and port of an endpoint. The
 *   slots of one Service port are consecutive, so that one chain per *number* of slots serves all Services and a change
 *   of endpoints touches elements only.
 * - `virtual`: every address of a Service, so that ports nobody serves are refused.
 * - `masquerade`: addresses at which sources outside the cluster get the node's address, so that answers come back this
 *   way.
 * - `hairpin`: an endpoint of this node and itself: it may be chosen for its own request.
 * - `cluster`: prefixes of the cluster's pods.
 */
export type SetKind =
  | "services"
  | "external"
  | "endpoints"
  | "virtual"
  | "masquerade"
  | "hairpin"
  | "cluster";

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
    masquerade: { key: [address] },
    hairpin: { key: [address, address] },
    cluster: { key: [address], interval: true },
  };
}

/** Every set of the table by name. */
export const SET_SPECS: ReadonlyMap<string, NftSetSpec> = new Map(
  FAMILIES.flatMap((family) =>
    Object.entries(specs(family)).map(([kind, spec]) => [setName(kind as SetKind, family), spec] as const),
  ),
);

/** Where slots of node-local endpoint lists begin: behind all slots of the list of all endpoints. */
export const LOCAL_BASE = 65_536;

/** Up to this many endpoints have one slot each; more share a table. */
export const EXACT_SLOTS = 64;

/**
 * Sizes of tables: primes, so that every step of `assignSlots` walks the whole table. Few, because each is a chain, and
 * the chains are there from the start: a change of endpoints never changes anything but elements.
 */
export const TABLE_SIZES = [61, 1021, 8191, 65_521] as const;

/** How a chain chooses a slot: by chance, or by a hash of the client's address. */
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
  return (["all", "local"] as const).flatMap((scope) => [
    ...picks.map((slots): ChoiceChain => ({ choice: "pick", scope, slots })),
    ...TABLE_SIZES.map((slots): ChoiceChain => ({ choice: "sticky", scope, slots })),
  ]);
}

/** Answers that nobody serves this: a reset, or "port unreachable". */
export const REFUSE_CHAIN = "refuse";
/** Drops without an answer: what kube-proxy does for traffic policy Local where there is no endpoint on the node. */
export const DROP_CHAIN = "no-local-endpoint";
