import { byText } from "@fairlead/base/text.ts";
import { compare } from "./compare.ts";
import type { IpLine } from "./line.ts";
import {
  deleteAddress,
  deleteNeighbour,
  deleteRoute,
  MAIN_TABLE,
  metricOf,
  replaceAddress,
  replaceNeighbour,
  replaceRoute,
  type Route,
} from "./lines.ts";
import { diffNextHops, type NextHop, type NextHopGroup } from "./nexthops.ts";
import { type ActualRule, diffRules, type Rule } from "./rules.ts";
import { addressWord, interfaceAddressWord, prefixWord } from "./words.ts";

/**
 * Addresses, routes and permanent neighbours of some devices, and next hops and rules in some ranges.
 * Others are not touched.
 */
export interface NetworkState {
  readonly addresses: readonly { readonly device: string; readonly address: string }[];
  /** In any table. */
  readonly routes: readonly Route[];
  readonly neighbours: readonly {
    readonly device: string;
    readonly address: string;
    readonly hardwareAddress: string;
  }[];
  /** Absent: none. */
  readonly nextHops?: readonly NextHop[];
  /** Absent: none. */
  readonly nextHopGroups?: readonly NextHopGroup[];
  /** Absent: none. */
  readonly rules?: readonly Rule[];
}

/** A state as it is read. */
export interface ActualNetworkState extends NetworkState {
  readonly rules?: readonly ActualRule[];
}

/**
 * The lines for `ip -batch` that turn `actual` into `desired`, in an order that the kernel accepts: routes need addresses
 * and next hops, and a deleted address takes routes with it, so deletions come first. Nothing that is right is touched.
 * Pure.
 */
export function diffNetwork(actual: ActualNetworkState, desired: NetworkState): readonly IpLine[] {
  const addresses = compare(actual.addresses, desired.addresses, (it) => [
    `${it.device} ${interfaceAddressWord(it.address)}`,
    "",
  ]);
  const routes = compare(actual.routes, desired.routes, (it) => [routeKey(it), routeText(it)]);
  const neighbours = compare(actual.neighbours, desired.neighbours, (it) => [
    `${it.device} ${addressWord(it.address)}`,
    it.hardwareAddress,
  ]);
  const nextHops = diffNextHops(
    { nextHops: actual.nextHops ?? [], groups: actual.nextHopGroups ?? [] },
    { nextHops: desired.nextHops ?? [], groups: desired.nextHopGroups ?? [] },
  );
  return [
    ...routes.stale.map((it) => deleteRoute(it)),
    ...neighbours.stale.map((it) => deleteNeighbour(it.device, it.address)),
    ...addresses.stale
      .filter((it) => !isLinkLocal(it.address))
      .map((it) => deleteAddress(it.device, it.address)),
    ...addresses.wrong.map((it) => replaceAddress(it.device, it.address)),
    ...neighbours.wrong.map((it) => replaceNeighbour(it.device, it.address, it.hardwareAddress)),
    ...nextHops.before,
    // A next hop may be reachable by another of the routes, so on-link routes come first.
    ...routes.wrong
      .toSorted((a, b) => Number(hasGateway(a)) - Number(hasGateway(b)))
      .map((it) => replaceRoute(it)),
    ...nextHops.after,
    ...diffRules(actual.rules ?? [], desired.rules ?? []),
  ];
}

/** The kernel adds one of these to each device; iproute2 shows that only since 6.2. They are not touched. */
function isLinkLocal(address: string): boolean {
  return /^fe[89ab][0-9a-f]:/i.test(address);
}

function hasGateway(route: Route): boolean {
  return route.hops.some((it) => it.via !== undefined);
}

function routeKey(route: Route): string {
  return `${prefixWord(route.to)} ${route.table ?? MAIN_TABLE} ${metricOf(route)}`;
}

/** A route's canonical text: equal routes have equal texts. */
function routeText(route: Route): string {
  const isShared = route.hops.length > 1;
  const hops = route.hops.map((it) =>
    [
      it.device,
      it.via === undefined ? "" : addressWord(it.via),
      it.isOnlink === true ? "onlink" : "",
      isShared ? (it.weight ?? 1) : 1,
    ].join(" "),
  );
  const source = route.source === undefined ? "" : addressWord(route.source);
  const path = route.nextHop === undefined ? hops.toSorted(byText).join(", ") : `id ${route.nextHop}`;
  return `${source} ${route.mtu ?? 0} ${route.advertisedMss ?? 0} ${path}`;
}
