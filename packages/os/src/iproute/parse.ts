import { defined } from "@fairlead/base/defined.ts";
import { isObject } from "@fairlead/base/json.ts";
import { list, numberOf, objects, textOf } from "./json.ts";
import { type Hop, MAIN_TABLE, type Route } from "./lines.ts";
import type { NetworkState } from "./state.ts";

export interface Link {
  readonly device: string;
  readonly index: number;
  /** Of a veth pair between two namespaces: the index of the other end in its namespace. */
  readonly peerIndex?: number;
  /** "veth", "tun", "wireguard"; absent for physical devices. */
  readonly kind?: string;
  /** The bridge, or other device, of which it is a port. */
  readonly master?: string;
  /** Unit: bytes. */
  readonly mtu: number;
  /** As an administrator set it; the link may lack its other end. */
  readonly isUp: boolean;
  /** Absent for devices without one, as those of WireGuard. */
  readonly hardwareAddress?: string;
}

/** @throws {FleetError} `EXEC_FAILED` when the text is not what `ip -j -d link show` prints. */
export function parseLinks(text: string): readonly Link[] {
  return objects(text).map((it) => {
    const [info = {}] = list([it["linkinfo"]]);
    return {
      device: String(it["ifname"]),
      index: Number(it["ifindex"]),
      mtu: Number(it["mtu"]),
      isUp: Array.isArray(it["flags"]) && it["flags"].includes("UP"),
      ...defined({
        kind: textOf(info["info_kind"]),
        master: textOf(it["master"]),
        peerIndex: numberOf(it["link_index"]),
        hardwareAddress: textOf(it["address"]),
      }),
    };
  });
}

/** What `ip -N -j` prints for one family. */
export interface FamilyTexts {
  readonly addresses: string;
  readonly routes: string;
  readonly neighbours: string;
  readonly rules: string;
}

/**
 * Addresses, routes and neighbours of both families, cut to what belongs to `devices`. Numbers instead of names of protocols:
 * names differ with /etc/iproute2.
 *
 * @throws {FleetError} `EXEC_FAILED` when a text is not such an answer.
 */
export function parseNetwork(
  ipv4: FamilyTexts,
  ipv6: FamilyTexts,
  devices: ReadonlySet<string>,
): Pick<NetworkState, "addresses" | "routes" | "neighbours"> {
  const isOwn = (it: Record<string, unknown>): boolean => devices.has(String(it["dev"]));
  return {
    addresses: [ipv4, ipv6].flatMap((it) =>
      objects(it.addresses)
        .filter((link) => devices.has(String(link["ifname"])))
        .flatMap((link) => parseAddresses(link)),
    ),
    routes: [...parseRoutes(ipv4.routes, "0.0.0.0/0"), ...parseRoutes(ipv6.routes, "::/0")].filter((it) =>
      it.hops.some((hop) => devices.has(hop.device)),
    ),
    neighbours: [ipv4, ipv6].flatMap((it) =>
      objects(it.neighbours)
        .filter((entry) => isOwn(entry) && typeof entry["lladdr"] === "string")
        .map((entry) => ({
          device: String(entry["dev"]),
          address: String(entry["dst"]),
          hardwareAddress: String(entry["lladdr"]),
        })),
    ),
  };
}

/** Addresses that the kernel made from router advertisements are not ours to judge. */
function parseAddresses(link: Record<string, unknown>): NetworkState["addresses"] {
  return list(link["addr_info"])
    .filter((it) => it["dynamic"] !== true && it["mngtmpaddr"] !== true)
    .map((it) => ({
      device: String(link["ifname"]),
      address: `${String(it["local"])}/${String(it["prefixlen"])}`,
    }));
}

/** RTPROT_KERNEL and RTPROT_RA of linux/rtnetlink.h: routes that come with addresses and router advertisements. */
const AUTOMATIC: ReadonlySet<unknown> = new Set(["2", "9", "kernel", "ra"]);

/** Routes in all tables but those of the kernel's own addresses. */
function parseRoutes(text: string, defaultPrefix: string): readonly Route[] {
  return objects(text)
    .filter((it) => !AUTOMATIC.has(it["protocol"]) && UNICAST.has(it["type"]))
    .map((it) => {
      const hops = it["nexthops"] === undefined ? [it] : list(it["nexthops"]);
      const [metrics = {}] = list(it["metrics"]);
      return {
        to: it["dst"] === "default" ? defaultPrefix : String(it["dst"]),
        table: Number(it["table"] ?? MAIN_TABLE),
        hops: hops.map((hop) => parseHop(hop)),
        ...defined({
          metric: numberOf(it["metric"]),
          nextHop: numberOf(it["nhid"]),
          source: textOf(it["prefsrc"]),
          mtu: numberOf(metrics["mtu"]),
          advertisedMss: numberOf(metrics["advmss"]),
        }),
      };
    });
}

/**
 * The devices of next hops with a gateway, those of routes that the kernel made included.
 *
 * @throws {FleetError} `EXEC_FAILED` when the text is not what `ip -j route show` prints.
 */
export function parseGatewayDevices(text: string): readonly string[] {
  const hops = objects(text).flatMap((it) => (it["nexthops"] === undefined ? [it] : list(it["nexthops"])));
  return hops.map((it) => parseHop(it)).flatMap(({ device, via }) => (via === undefined ? [] : [device]));
}

const UNICAST: ReadonlySet<unknown> = new Set([undefined, "unicast", "1"]);

function parseHop(hop: Record<string, unknown>): Hop {
  const { gateway, flags, dev } = hop;
  // A next hop of the other family (RFC 5549) has another field.
  const via = textOf(isObject(hop["via"]) ? hop["via"]["host"] : gateway);
  return {
    device: String(dev),
    ...(via === undefined ? {} : { via }),
    ...(Array.isArray(flags) && flags.includes("onlink") ? { isOnlink: true } : {}),
    weight: numberOf(hop["weight"]) ?? 1,
  };
}
