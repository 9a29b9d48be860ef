import { FleetError } from "@fairlead/base/errors.ts";
import { isObject } from "@fairlead/base/json.ts";
import type { Hop, Route } from "./lines.ts";
import type { NetworkState } from "./state.ts";

export interface Link {
  readonly device: string;
  /** "veth", "tun", "wireguard", "vxlan"; absent for physical devices. */
  readonly kind?: string;
  /** Unit: bytes. */
  readonly mtu: number;
  /** As an administrator set it; the link may lack its other end. */
  readonly isUp: boolean;
}

/** @throws {FleetError} `EXEC_FAILED` when the text is not what `ip -j -d link show` prints. */
export function parseLinks(text: string): readonly Link[] {
  return objects(text).map((it) => {
    const kind = isObject(it["linkinfo"]) ? it["linkinfo"]["info_kind"] : undefined;
    return {
      device: String(it["ifname"]),
      ...(typeof kind === "string" ? { kind } : {}),
      mtu: Number(it["mtu"]),
      isUp: Array.isArray(it["flags"]) && it["flags"].includes("UP"),
    };
  });
}

/**
 * What `ip -N -j` prints, cut to what belongs to `devices`. Numbers instead of names of protocols: names differ with
 * /etc/iproute2.
 *
 * @throws {FleetError} `EXEC_FAILED` when a text is not such an answer.
 */
export function parseNetwork(
  texts: {
    readonly addresses: string;
    readonly routes4: string;
    readonly routes6: string;
    readonly neighbours: string;
  },
  devices: ReadonlySet<string>,
): NetworkState {
  const isOwn = (it: Record<string, unknown>): boolean => devices.has(String(it["dev"]));
  return {
    addresses: objects(texts.addresses)
      .filter((it) => devices.has(String(it["ifname"])))
      .flatMap((link) => parseAddresses(link)),
    routes: [...parseRoutes(texts.routes4, "0.0.0.0/0"), ...parseRoutes(texts.routes6, "::/0")].filter((it) =>
      it.hops.some((hop) => devices.has(hop.device)),
    ),
    neighbours: objects(texts.neighbours)
      .filter((it) => isOwn(it) && typeof it["lladdr"] === "string")
      .map((it) => ({
        device: String(it["dev"]),
        address: String(it["dst"]),
        hardwareAddress: String(it["lladdr"]),
      })),
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

function parseRoutes(text: string, defaultPrefix: string): readonly Route[] {
  return objects(text)
    .filter((it) => !AUTOMATIC.has(it["protocol"]) && (it["type"] ?? "unicast") === "unicast")
    .map((it) => {
      const hops = it["nexthops"] === undefined ? [it] : list(it["nexthops"]);
      return {
        to: it["dst"] === "default" ? defaultPrefix : String(it["dst"]),
        hops: hops.map((hop) => parseHop(hop)),
        ...(typeof it["prefsrc"] === "string" ? { source: it["prefsrc"] } : {}),
      };
    });
}

function parseHop(hop: Record<string, unknown>): Hop {
  const { gateway, flags, dev } = hop;
  // A next hop of the other family (RFC 5549) has another field.
  const via = isObject(hop["via"]) ? hop["via"]["host"] : gateway;
  return {
    device: String(dev),
    ...(typeof via === "string" ? { via } : {}),
    ...(Array.isArray(flags) && flags.includes("onlink") ? { isOnlink: true } : {}),
  };
}

function objects(text: string): readonly Record<string, unknown>[] {
  // ip prints nothing if there are no entries.
  if (text.trim() === "") return [];
  try {
    return list(JSON.parse(text));
  } catch (cause) {
    throw new FleetError("EXEC_FAILED", "the output of ip is not JSON", { cause });
  }
}

function list(value: unknown): readonly Record<string, unknown>[] {
  return Array.isArray(value) ? value.filter((it) => isObject(it)) : [];
}
