import {
  addressWord,
  deviceWord,
  hardwareWord,
  interfaceAddressWord,
  netnsWord,
  numberWord,
  prefixWord,
} from "./words.ts";

/** One line for `ip -batch`, made of checked words. Only this file makes it. */
export type IpLine = string & { readonly __brand: "IpLine" };

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
}

export interface Route {
  /** A prefix; "0.0.0.0/0" and "::/0" are the defaults. */
  readonly to: string;
  /** Several share the flows. */
  readonly hops: readonly Hop[];
  /** Address that this machine uses as its own on this route. Default: the kernel's choice. */
  readonly source?: string;
}

export function replaceRoute(route: Route): IpLine {
  const source = route.source === undefined ? "" : `src ${addressWord(route.source)}`;
  const hops = route.hops.map((it) => hopWords(it));
  const [only = ""] = hops;
  const path = hops.length === 1 ? only : hops.map((it) => `nexthop ${it}`).join(" ");
  return line(`route replace ${prefixWord(route.to)}`, source, path);
}

/** Whatever its next hops. */
export function deleteRoute(to: string): IpLine {
  return line(`route delete ${prefixWord(to)}`);
}

function hopWords(hop: Hop): string {
  return words(
    hop.via === undefined ? "" : `via ${addressWord(hop.via)}`,
    `dev ${deviceWord(hop.device)}`,
    hop.isOnlink === true ? "onlink" : "",
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

function mtuWord(mtu: number): string {
  return numberWord(mtu, [68, 65_535]);
}

function line(...parts: readonly string[]): IpLine {
  return words(...parts) as IpLine;
}

function words(...parts: readonly string[]): string {
  return parts.filter((it) => it !== "").join(" ");
}
