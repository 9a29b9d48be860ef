import { type IpLine, line, setting, words } from "./line.ts";
import { idWord } from "./nexthops.ts";
import {
  addressWord,
  deviceWord,
  hardwareWord,
  interfaceAddressWord,
  mtuWord,
  netnsWord,
  numberWord,
  prefixWord,
  tableWord,
} from "./words.ts";

export type { IpLine } from "./line.ts";

export interface LinkEnd {
  readonly device: string;
  /** File of the network namespace; default: the one in which the line runs. */
  readonly netns?: string;
  /** Default: the kernel's choice. */
  readonly hardwareAddress?: string;
  /** Unit: bytes. Range: 68 to 65535. Default: 1500. */
  readonly mtu?: number;
}

/** A pair of virtual Ethernet devices, each in any namespace. */
export function addVethPair(a: LinkEnd, b: LinkEnd): IpLine {
  return line("link add", endWords(a), "type veth peer", endWords(b));
}

function endWords(end: LinkEnd): string {
  return words(
    `name ${deviceWord(end.device)}`,
    end.hardwareAddress === undefined ? "" : `address ${hardwareWord(end.hardwareAddress)}`,
    end.mtu === undefined ? "" : `mtu ${mtuWord(end.mtu)}`,
    end.netns === undefined ? "" : `netns ${netnsWord(end.netns)}`,
  );
}

export interface LinkSettings {
  readonly up?: boolean;
  /** Unit: bytes. Range: 68 to 65535. */
  readonly mtu?: number;
  readonly hardwareAddress?: string;
  /** "none": no IPv6 link-local address by itself, and so no duplicate detection and no router solicitation. */
  readonly addressGeneration?: "none";
  /** Says whose the device is: a path. The kernel keeps up to 255 bytes. */
  readonly alias?: string;
}

export function setLink(device: string, settings: LinkSettings): IpLine {
  return line(
    `link set dev ${deviceWord(device)}`,
    settings.up === undefined ? "" : settings.up ? "up" : "down",
    settings.mtu === undefined ? "" : `mtu ${mtuWord(settings.mtu)}`,
    settings.hardwareAddress === undefined ? "" : `address ${hardwareWord(settings.hardwareAddress)}`,
    settings.addressGeneration === undefined ? "" : `addrgenmode ${settings.addressGeneration}`,
    settings.alias === undefined ? "" : `alias ${netnsWord(settings.alias)}`,
  );
}

/** Moves a device into the namespace of the file `netns`. It is down there, and has no addresses. */
export function moveLink(device: string, netns: string): IpLine {
  return line(`link set dev ${deviceWord(device)} netns ${netnsWord(netns)}`);
}

/** A device of the kernel's WireGuard in `netns`; its UDP socket is in the namespace in which the line runs. */
export function addWireguard(device: string, netns: string, mtu: number): IpLine {
  return line(
    `link add name ${deviceWord(device)} mtu ${mtuWord(mtu)} netns ${netnsWord(netns)} type wireguard`,
  );
}

export function deleteLink(device: string): IpLine {
  return line(`link delete dev ${deviceWord(device)}`);
}

/** `address` with its prefix length. IPv6 is usable at once: our addresses come from a plan (no duplicate detection). */
export function replaceAddress(device: string, address: string): IpLine {
  const word = interfaceAddressWord(address);
  return line(`address replace ${word} dev ${deviceWord(device)}`, word.includes(":") ? "nodad" : "");
}

export function deleteAddress(device: string, address: string): IpLine {
  return line(`address delete ${interfaceAddressWord(address)} dev ${deviceWord(device)}`);
}

export interface Hop {
  readonly device: string;
  /** Next hop; absent: the destination is on the link. */
  readonly via?: string;
  /** Treat the next hop as on-link although no prefix covers it. Default: false. */
  readonly isOnlink?: boolean;
  /** Share of the flows among several hops. Range: 1 to 256. Default: 1. */
  readonly weight?: number;
}

/** What tells routes to one prefix from each other. */
export interface RouteKey {
  /** A prefix; "0.0.0.0/0" and "::/0" are the defaults. */
  readonly to: string;
  /** Default: 254, main. */
  readonly table?: number;
  /** Lower is preferred. Default: 0 for IPv4, 1024 for IPv6. */
  readonly metric?: number;
}

export interface Route extends RouteKey {
  /** Several share the flows. IPv6 routes over several hops need `via` in each; without, name a group by `nextHop`. */
  readonly hops: readonly Hop[];
  /** Id of a next hop or of a group of them; `hops` is empty then. */
  readonly nextHop?: number;
  /** Address that this machine uses as its own on this route. Default: the kernel's choice. */
  readonly source?: string;
  /** Largest packet. Unit: bytes. Default: that of the device. */
  readonly mtu?: number;
  /** Largest TCP segment that this machine asks for. Unit: bytes. Default: by the MTU. */
  readonly advertisedMss?: number;
}

export const MAIN_TABLE = 254;

export function replaceRoute(route: Route): IpLine {
  const isShared = route.hops.length > 1;
  const hops = route.hops.map((it) =>
    isShared ? `nexthop ${hopWords(it)}` : hopWords({ ...it, weight: 1 }),
  );
  return line(
    `route replace ${prefixWord(route.to)}`,
    tableWords(route),
    setting("metric", route.metric, metricWord),
    setting("src", route.source, addressWord),
    setting("mtu", route.mtu, mtuWord),
    setting("advmss", route.advertisedMss, mtuWord),
    setting("nhid", route.nextHop, idWord),
    ...hops,
  );
}

/** Whatever its next hops. */
export function deleteRoute(route: RouteKey): IpLine {
  // Without a metric, the preferred one would go. No IPv6 route has 0, and for IPv4 that is the preferred one.
  return line(
    `route delete ${prefixWord(route.to)}`,
    tableWords(route),
    metricOf(route) === 0 ? "" : `metric ${metricWord(metricOf(route))}`,
  );
}

function tableWords({ table = MAIN_TABLE }: RouteKey): string {
  return table === MAIN_TABLE ? "" : `table ${tableWord(table)}`;
}

/** The metric that the kernel gives. */
export function metricOf({ to, metric }: RouteKey): number {
  return metric ?? (to.includes(":") ? 1024 : 0);
}

function metricWord(metric: number): string {
  return numberWord(metric, [0, 0xffff_ffff]);
}

function hopWords(hop: Hop): string {
  return words(
    setting("via", hop.via, addressWord),
    `dev ${deviceWord(hop.device)}`,
    hop.isOnlink === true ? "onlink" : "",
    hop.weight === undefined || hop.weight === 1 ? "" : `weight ${numberWord(hop.weight, [1, 256])}`,
  );
}

/** A permanent neighbour: no packet waits for ARP or neighbour discovery. */
export function replaceNeighbour(device: string, address: string, hardwareAddress: string): IpLine {
  return line(
    `neighbour replace ${addressWord(address)} lladdr ${hardwareWord(hardwareAddress)}`,
    `dev ${deviceWord(device)} nud permanent`,
  );
}

export function deleteNeighbour(device: string, address: string): IpLine {
  return line(`neighbour delete ${addressWord(address)} dev ${deviceWord(device)}`);
}
