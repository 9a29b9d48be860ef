import { type AddressFamily, familyOfText } from "@fairlead/base/netaddr/address.ts";
import type { NftElementOp } from "@fairlead/os/nft/diff.ts";
import { chainRef, type NftRule, rule, setRef } from "@fairlead/os/nft/rule.ts";
import type { NftChain, NftSetSpec, NftTable, NftTableName } from "@fairlead/os/nft/state.ts";
import { CONTROL_BYTES, type UdpEndpoint } from "#dataplane/control/datagram.ts";
import { legId, legOf, MAX_INDEX, type Registration } from "./registration-table.ts";

/**
 * The kernel's part of the relay: one table that forwards datagrams between registered gateways without state of flows, and
 * lets only control datagrams through to the relay, at a limited rate.
 *
 * A datagram is looked up once, by the port it came to and its source; the number of its leg is its mark while the
 * addresses are exchanged, since each exchange changes what the next lookup could see. The source address is exchanged
 * last, after routing: the kernel accepts no packet from the wire that claims one of its own addresses.
 */

/** One relay per base port and namespace. */
export function relayTableName(basePort: number): NftTableName {
  return { family: "inet", name: `fairlead-relay-${basePort}` };
}

export interface RelayTableOptions {
  readonly basePort: number;
  /** Most that one gateway may send to another. Unit: bytes per second. Absent: unlimited. */
  readonly legLimit?: number | undefined;
  /** The families that this machine forwards packets of. Datagrams of the other are forwarded by the relay's own sockets. */
  readonly families: readonly AddressFamily[];
  /** TCP port for gateways whose UDP is dropped. Absent: none. */
  readonly tlsPort?: number | undefined;
}

/** A registration, and the relay's own address that its datagrams come to and go from. */
export interface KernelRegistration extends Registration {
  readonly local: string;
}

/**
 * What reaches the relay, per second. Control datagrams: of one address, of all unknown ones, and of one registered gateway's
 * leg. TLS connections: of one address.
 */
const LIMITS = {
  source: 200,
  sourceBurst: 400,
  unknown: 5000,
  leg: 5,
  legBurst: 20,
  connections: 5,
  connectionsBurst: 20,
} as const;
/**
 * Datagrams per second of one leg that the relay itself forwards: between gateways of different address families, and to
 * those that are connected by TLS.
 */
const CROSSING = 20_000;

const UDP_HEADER_BYTES = 8;

const SETS: ReadonlyMap<string, NftSetSpec> = new Map<string, NftSetSpec>([
  // The leg of a datagram, by the port it came to and its source.
  ["legs4", { key: ["inet_service", "ipv4_addr", "inet_service"], value: ["mark"] }],
  ["legs6", { key: ["inet_service", "ipv6_addr", "inet_service"], value: ["mark"] }],
  // Where the datagrams of a leg go.
  ["targets4", { key: ["mark"], value: ["ipv4_addr"] }],
  ["targets6", { key: ["mark"], value: ["ipv6_addr"] }],
  ["ports", { key: ["mark"], value: ["inet_service"] }],
  // The port of the gateway that sends, from which they are sent on.
  ["senders", { key: ["mark"], value: ["inet_service"] }],
  // The relay's own address, by the port and destination of what it sends.
  ["locals4", { key: ["inet_service", "ipv4_addr", "inet_service"], value: ["ipv4_addr"] }],
  ["locals6", { key: ["inet_service", "ipv6_addr", "inet_service"], value: ["ipv6_addr"] }],
  ["sources4", { key: ["ipv4_addr"], dynamic: true }],
  ["sources6", { key: ["ipv6_addr"], dynamic: true }],
  ["connections4", { key: ["ipv4_addr"], dynamic: true }],
  ["connections6", { key: ["ipv6_addr"], dynamic: true }],
  ["renewals", { key: ["mark"], dynamic: true }],
  ["rates", { key: ["mark"], dynamic: true }],
  ["crossings", { key: ["mark"], dynamic: true }],
  ["traffic", { key: ["mark"], dynamic: true }],
]);

/** The set that counts the packets and bytes of each leg. */
export const TRAFFIC_SET = "traffic";

const ref = setRef;

/** The whole table around `elements`. */
export function renderRelayTable(
  options: RelayTableOptions,
  registrations: Iterable<KernelRegistration>,
): NftTable {
  const { basePort } = options;
  const last = basePort + MAX_INDEX;
  const elements = new Map([...SETS.keys()].map((name) => [name, new Map<string, string>()]));
  for (const it of registrations)
    for (const [set, key, value] of elementsOf(it, basePort)) elements.get(set)?.set(key, value);
  const hooked = (
    hook: "prerouting" | "output" | "postrouting",
    priority: number,
    rules: readonly NftRule[],
  ): NftChain => ({ hook: { type: "filter", hook, priority }, rules });
  return {
    chains: new Map<string, NftChain>([
      ["forward4", { rules: forwardRules("4", options) }],
      ["forward6", { rules: forwardRules("6", options) }],
      ["count", { rules: countRules() }],
      ["renewal", { rules: renewalRules() }],
      ["control", { rules: controlRules() }],
      ["relay", { rules: relayRules() }],
      ["source", { rules: sourceRules() }],
      [
        "prerouting",
        hooked("prerouting", -300, [
          rule`udp dport ${basePort}-${last} fib daddr type local goto ${chainRef("relay")}`,
          ...connectionRules(options),
        ]),
      ],
      [
        "output",
        hooked("output", -300, [
          rule`udp sport ${basePort}-${last} notrack`,
          // An error is longer than the datagram it answers. The destination port of the datagram is behind two headers.
          rule`icmp type destination-unreachable @th,240,16 ${basePort}-${last} drop`,
          rule`icmpv6 type destination-unreachable @th,400,16 ${basePort}-${last} drop`,
        ]),
      ],
      [
        "postrouting",
        hooked("postrouting", 300, [rule`udp sport ${basePort}-${last} goto ${chainRef("source")}`]),
      ],
    ]),
    sets: new Map(
      [...SETS].map(([name, spec]) => [name, { ...spec, elements: elements.get(name) ?? new Map() }]),
    ),
  };
}

/** A handshake of TLS costs the relay more than it costs who begins it. */
function connectionRules({ tlsPort }: RelayTableOptions): readonly NftRule[] {
  if (tlsPort === undefined) return [];
  const { connections, connectionsBurst } = LIMITS;
  return [
    rule`tcp dport ${tlsPort} tcp flags & (syn | ack) == syn fib daddr type local update ${ref("connections4")} { ip saddr timeout 10s limit rate over ${connections}/second burst ${connectionsBurst} packets } drop`,
    rule`tcp dport ${tlsPort} tcp flags & (syn | ack) == syn fib daddr type local update ${ref("connections6")} { ip6 saddr & ffff:ffff:ffff:ffff:: timeout 10s limit rate over ${connections}/second burst ${connectionsBurst} packets } drop`,
  ];
}

/** `@th,64,8` is the first byte behind the UDP header: WireGuard's datagrams begin with 1 to 4. */
function relayRules(): readonly NftRule[] {
  return [
    rule`notrack`,
    // Of fragments only the first has a port. Tunnels are set up so that their datagrams need none.
    rule`ip frag-off & 0x3fff != 0 drop`,
    rule`exthdr frag exists drop`,
    rule`@th,64,8 1-4 meta mark set udp dport . ip saddr . udp sport map ${ref("legs4")} goto ${chainRef("forward4")}`,
    rule`@th,64,8 1-4 meta mark set udp dport . ip6 saddr . udp sport map ${ref("legs6")} goto ${chainRef("forward6")}`,
    // From unknown sources, or of a length that no control datagram has.
    rule`udp length != ${UDP_HEADER_BYTES + CONTROL_BYTES} drop`,
    rule`@th,64,8 1-4 drop`,
    rule`meta mark set udp dport . ip saddr . udp sport map ${ref("legs4")} goto ${chainRef("renewal")}`,
    rule`meta mark set udp dport . ip6 saddr . udp sport map ${ref("legs6")} goto ${chainRef("renewal")}`,
    rule`goto ${chainRef("control")}`,
  ];
}

function forwardRules(family: "4" | "6", { legLimit, families }: RelayTableOptions): readonly NftRule[] {
  const isForwarded = families.includes(family === "4" ? "IPv4" : "IPv6");
  const pass = rule`meta mark set 0 accept`;
  if (!isForwarded) return [pass];
  const limit =
    legLimit === undefined
      ? []
      : [
          rule`update ${ref("rates")} { meta mark timeout 10s limit rate over ${legLimit} bytes/second burst ${burstOf(legLimit)} bytes } drop`,
        ];
  const [targets, ports, senders] = [ref(`targets${family}`), ref("ports"), ref("senders")];
  return [
    ...limit,
    family === "4"
      ? rule`ip daddr set meta mark map ${targets} udp sport set meta mark map ${senders} udp dport set meta mark map ${ports} goto ${chainRef("count")}`
      : rule`ip6 daddr set meta mark map ${targets} udp sport set meta mark map ${senders} udp dport set meta mark map ${ports} goto ${chainRef("count")}`,
    // The other gateway is not registered, or by the other family: the relay's own sockets forward.
    rule`update ${ref("crossings")} { meta mark timeout 10s limit rate over ${CROSSING}/second burst ${CROSSING} packets } drop`,
    pass,
  ];
}

function countRules(): readonly NftRule[] {
  return [rule`update ${ref(TRAFFIC_SET)} { meta mark timeout 1h counter }`, rule`meta mark set 0 accept`];
}

/** A tenth of a second at the full rate, or a few large datagrams. */
export function burstOf(bytesPerSecond: number): number {
  return Math.max(Math.floor(bytesPerSecond / 10), 65_536);
}

/** From where a gateway is registered: not in the queue of the unknown. */
function renewalRules(): readonly NftRule[] {
  const { leg, legBurst } = LIMITS;
  return [
    rule`update ${ref("renewals")} { meta mark timeout 60s limit rate over ${leg}/second burst ${legBurst} packets } drop`,
    rule`meta mark set 0 accept`,
  ];
}

function controlRules(): readonly NftRule[] {
  const { source, sourceBurst, unknown } = LIMITS;
  return [
    rule`update ${ref("sources4")} { ip saddr timeout 10s limit rate over ${source}/second burst ${sourceBurst} packets } drop`,
    // One sender may have a /64 (RFC 6177).
    rule`update ${ref("sources6")} { ip6 saddr & ffff:ffff:ffff:ffff:: timeout 10s limit rate over ${source}/second burst ${sourceBurst} packets } drop`,
    rule`limit rate over ${unknown}/second burst ${unknown} packets drop`,
    rule`accept`,
  ];
}

function sourceRules(): readonly NftRule[] {
  return [
    rule`ip saddr set udp sport . ip daddr . udp dport map ${ref("locals4")}`,
    rule`ip6 saddr set udp sport . ip6 daddr . udp dport map ${ref("locals6")}`,
  ];
}

type Element = readonly [set: string, key: string, value: string];

/**
 * The elements of one registration. They do not depend on the other gateway's: what `from` sends is forwarded as soon as
 * `to` has registered, too.
 */
function elementsOf(of: KernelRegistration, basePort: number): readonly Element[] {
  const family = familyOfText(of.source.address) === "IPv4" ? "4" : "6";
  const key = `${basePort + of.to} . ${of.source.address} . ${of.source.port}`;
  const sent = String(legId(of));
  const received = String(legId({ from: of.to, to: of.from, parity: of.parity }));
  return [
    [`legs${family}`, key, sent],
    [`locals${family}`, key, of.local],
    ["senders", sent, String(basePort + of.from)],
    [`targets${family}`, received, of.source.address],
    ["ports", received, String(of.source.port)],
  ];
}

/** The steps from one registration to another of the same leg, or from or to none. */
export function registrationOps(
  before: KernelRegistration | undefined,
  after: KernelRegistration | undefined,
  basePort: number,
): readonly NftElementOp[] {
  const old = before === undefined ? [] : elementsOf(before, basePort);
  const fresh = after === undefined ? [] : elementsOf(after, basePort);
  const has = (list: readonly Element[], of: Element): boolean =>
    list.some((it) => String(it) === String(of));
  return [
    ...old.filter((it) => !has(fresh, it)).flatMap(([set, key]) => deleteOp(set, key)),
    ...fresh.filter((it) => !has(old, it)).flatMap(([set, key, value]) => addOp(set, key, value)),
  ];
}

function deleteOp(set: string, key: string): readonly NftElementOp[] {
  const spec = SETS.get(set);
  return spec === undefined ? [] : [{ verb: "delete-elements", set, spec, keys: [key] }];
}

function addOp(set: string, key: string, value: string): readonly NftElementOp[] {
  const spec = SETS.get(set);
  return spec === undefined ? [] : [{ verb: "add-elements", set, spec, elements: [[key, value]] }];
}

/** The registrations that a table in the kernel forwards by. */
export function registrationsIn(
  table: NftTable | undefined,
  basePort: number,
): readonly Omit<KernelRegistration, "via">[] {
  return ["4", "6"].flatMap((family) => {
    const locals = table?.sets.get(`locals${family}`)?.elements;
    return [...(table?.sets.get(`legs${family}`)?.elements ?? [])].flatMap(([key, mark]) => {
      const [port, address, sourcePort] = key.split(" . ");
      const source: UdpEndpoint = { address: address ?? "", port: Number(sourcePort) };
      const [leg, local] = [legOf(Number(mark)), locals?.get(key)];
      if (leg === undefined || local === undefined || Number(port) !== basePort + leg.to) return [];
      return [{ ...leg, source, local }];
    });
  });
}
