import { hash } from "node:crypto";
import type { Route } from "@fairlead/os/iproute/lines.ts";
import type { Rule } from "@fairlead/os/iproute/rules.ts";
import type { NetworkState } from "@fairlead/os/iproute/state.ts";
import type { Sysctls } from "@fairlead/os/netns/sysctl.ts";
import { vethName } from "./names.ts";

/** A pod's link to the fleet namespace of its node, and its addresses there. */
export interface PodLink {
  readonly podUID: string;
  /** One for each family that the link has. */
  readonly addresses: readonly string[];
  /** The pod's own addresses, as far as they are known. */
  readonly ownAddresses: readonly string[];
  /** The fleet's prefixes, those of virtual IPs included: where the pod reaches others through the link. */
  readonly prefixes: readonly string[];
  /** Largest packet on the link. Unit: bytes. At least 1280, which IPv6 needs. */
  readonly mtu: number;
}

/** The pod's end of the link. Fleetboard's name: programs look for it. */
export const POD_DEVICE = "eth-fleet";

/** Routing tables of the pod: routes to the fleet's prefixes, and that from its fleet addresses to anywhere else. */
const POD_TABLES = { fleet: 10_114, elsewhere: 10_112 } as const;
/**
 * Connections that the pod opened from its own addresses before it had its link continue on their way. All else for the fleet has one route,
 * whether the source is chosen yet or not: the kernel keeps a smaller path MTU with the route that it finds with the source, and sockets that
 * are not connected send by the route that it finds without.
 */
const PRIORITIES = { own: 10_113, fleet: 10_114, elsewhere: 10_115 } as const;
/** Linux: RT_TABLE_MAIN. */
const MAIN_TABLE = 254;
/** Earlier versions had a rule of the first one. */
export const RULE_PRIORITIES = [10_112, PRIORITIES.elsewhere] as const;

/**
 * Next hops of the pod. No device has these addresses: permanent neighbours lead to the other end of the link, so that no
 * packet waits for ARP or neighbour discovery. They are not those of Calico and of the lab (169.254.1.1).
 */
const GATEWAY = { IPv4: "169.254.112.1", IPv6: "fe80::1" } as const;
const ANYWHERE = { IPv4: "0.0.0.0/0", IPv6: "::/0" } as const;

/** One end of a link, in its namespace. */
export interface LinkSide {
  readonly device: string;
  readonly hardwareAddress: string;
  readonly state: NetworkState;
  /** Written before the device is up. */
  readonly sysctls: Sysctls;
}

/** The end in the fleet namespace: routes and neighbours for the pod's addresses. */
export function fleetSide(link: PodLink): LinkSide {
  const device = vethName(link.podUID);
  const { fleet, pod } = hardwareAddresses(link.podUID);
  return {
    device,
    hardwareAddress: fleet,
    state: {
      addresses: [],
      routes: link.addresses.map((to) => ({ to: hostPrefix(to), hops: [{ device }] })),
      neighbours: link.addresses.map((address) => ({ device, address, hardwareAddress: pod })),
    },
    // Strict: a pod sends from its own addresses only. IPv6 has no such setting.
    sysctls: {
      [`net/ipv4/conf/${device}/rp_filter`]: 1,
      ...(hasIpv6(link) ? { [`net/ipv6/conf/${device}/accept_ra`]: 0 } : {}),
    },
  };
}

/**
 * The end in the pod. The fleet's prefixes are reached from the fleet addresses, whatever the pod's other routes are; and what
 * comes to a fleet address from anywhere is answered on the way that it came.
 */
export function podSide(link: PodLink): LinkSide {
  const device = POD_DEVICE;
  const { fleet, pod } = hardwareAddresses(link.podUID);
  const ends = link.addresses.map((address) => ({ address, family: familyOf(address) }));
  const state: NetworkState = {
    addresses: ends.map(({ address }) => ({ device, address: hostPrefix(address) })),
    routes: ends.flatMap(({ address, family }) => {
      const hops = [{ device, via: GATEWAY[family], ...(family === "IPv4" ? { isOnlink: true } : {}) }];
      const route = (to: string): Route => ({ to, hops, source: address, mtu: link.mtu });
      return [
        ...link.prefixes
          .filter((it) => familyOf(it) === family)
          .map((it) => ({ ...route(it), table: POD_TABLES.fleet })),
        { ...route(ANYWHERE[family]), table: POD_TABLES.elsewhere },
      ];
    }),
    neighbours: ends.map(({ family }) => ({ device, address: GATEWAY[family], hardwareAddress: fleet })),
    rules: rulesOf(link),
  };
  const sysctls: Sysctls = {
    // Loose: sources outside the fleet arrive here, too, and the pod's default route is elsewhere.
    [`net/ipv4/conf/${device}/rp_filter`]: 2,
    // Runtimes turn IPv6 off in pods that the CNI gives no IPv6 address.
    ...(hasIpv6(link)
      ? { [`net/ipv6/conf/${device}/disable_ipv6`]: 0, [`net/ipv6/conf/${device}/accept_ra`]: 0 }
      : {}),
  };
  return { device, hardwareAddress: pod, state, sysctls };
}

function rulesOf({ addresses, ownAddresses }: PodLink): readonly Rule[] {
  const from = (address: string) => ({ family: familyOf(address), from: hostPrefix(address) });
  const families = new Set(addresses.map((it) => familyOf(it)));
  const own = ownAddresses.filter((it) => families.has(familyOf(it)));
  return [
    ...own.map((it) => ({ ...from(it), priority: PRIORITIES.own, table: MAIN_TABLE })),
    ...[...families].map((family) => ({ family, priority: PRIORITIES.fleet, table: POD_TABLES.fleet })),
    ...addresses.map((it) => ({
      ...from(it),
      priority: PRIORITIES.elsewhere,
      table: POD_TABLES.elsewhere,
    })),
  ];
}

/** A machine may have been started without IPv6, and then has none of its settings. */
function hasIpv6({ addresses }: PodLink): boolean {
  return addresses.some((it) => familyOf(it) === "IPv6");
}

/** Locally administered unicast addresses (IEEE 802: in the first byte, bit 1 set and bit 0 clear) that the UID decides. */
function hardwareAddresses(podUID: string): { readonly fleet: string; readonly pod: string } {
  const digest = hash("sha256", `fleet ${podUID}`);
  const at = (from: number): string =>
    ["02", ...(digest.slice(from, from + 10).match(/../g) ?? [])].join(":");
  return { fleet: at(0), pod: at(10) };
}

function familyOf(text: string): "IPv4" | "IPv6" {
  return text.includes(":") ? "IPv6" : "IPv4";
}

function hostPrefix(address: string): string {
  return `${address}/${familyOf(address) === "IPv4" ? 32 : 128}`;
}
