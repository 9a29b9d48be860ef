import { byText } from "@fairlead/base/text.ts";
import {
  deleteAddress,
  deleteNeighbour,
  deleteRoute,
  type IpLine,
  replaceAddress,
  replaceNeighbour,
  replaceRoute,
  type Route,
} from "./lines.ts";
import { addressWord, interfaceAddressWord, prefixWord } from "./words.ts";

/** Addresses, routes and permanent neighbours of some devices. Other devices are not touched. */
export interface NetworkState {
  readonly addresses: readonly { readonly device: string; readonly address: string }[];
  /** Of the main table. */
  readonly routes: readonly Route[];
  readonly neighbours: readonly {
    readonly device: string;
    readonly address: string;
    readonly hardwareAddress: string;
  }[];
}

/**
 * The lines that turn `actual` into `desired`, in an order that the kernel accepts: routes need addresses, and a deleted
 * address takes routes with it, so deletions come first. Nothing that is right is touched. Pure.
 */
export function diffNetwork(actual: NetworkState, desired: NetworkState): readonly IpLine[] {
  const addresses = compare(actual.addresses, desired.addresses, (it) => [
    `${it.device} ${interfaceAddressWord(it.address)}`,
    "",
  ]);
  const routes = compare(actual.routes, desired.routes, (it) => [prefixWord(it.to), routeText(it)]);
  const neighbours = compare(actual.neighbours, desired.neighbours, (it) => [
    `${it.device} ${addressWord(it.address)}`,
    it.hardwareAddress,
  ]);
  return [
    ...routes.stale.map((it) => deleteRoute(it.to)),
    ...neighbours.stale.map((it) => deleteNeighbour(it.device, it.address)),
    ...addresses.stale
      .filter((it) => !isLinkLocal(it.address))
      .map((it) => deleteAddress(it.device, it.address)),
    ...addresses.wrong.map((it) => replaceAddress(it.device, it.address)),
    ...neighbours.wrong.map((it) => replaceNeighbour(it.device, it.address, it.hardwareAddress)),
    // A next hop may be reachable by another of the routes, so on-link routes come first.
    ...routes.wrong
      .toSorted((a, b) => Number(hasGateway(a)) - Number(hasGateway(b)))
      .map((it) => replaceRoute(it)),
  ];
}

/** The kernel adds one of these to each device; iproute2 shows that only since 6.2. They are not touched. */
function isLinkLocal(address: string): boolean {
  return /^fe[89ab][0-9a-f]:/i.test(address);
}

function hasGateway(route: Route): boolean {
  return route.hops.some((it) => it.via !== undefined);
}

/** The entries to delete, and the entries to add or replace. */
function compare<T>(
  actual: readonly T[],
  desired: readonly T[],
  identify: (item: T) => readonly [key: string, value: string],
): { readonly stale: readonly T[]; readonly wrong: readonly T[] } {
  const have = new Map(actual.map((it) => identify(it)));
  const want = new Set(desired.map((it) => identify(it)[0]));
  return {
    stale: actual.filter((it) => !want.has(identify(it)[0])),
    wrong: desired.filter((it) => {
      const [key, value] = identify(it);
      return have.get(key) !== value;
    }),
  };
}

/** A route's canonical text: equal routes have equal texts. */
function routeText(route: Route): string {
  const hops = route.hops.map(
    (it) =>
      `${it.device} ${it.via === undefined ? "" : addressWord(it.via)} ${it.isOnlink === true ? "onlink" : ""}`,
  );
  const source = route.source === undefined ? "" : addressWord(route.source);
  return `${source} ${hops.toSorted(byText).join(", ")}`;
}
