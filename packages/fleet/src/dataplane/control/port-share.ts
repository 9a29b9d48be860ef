import { chainRef, type NftRule, rule, setRef } from "@fairlead/os/nft/rule.ts";
import { elementKey } from "@fairlead/os/nft/element.ts";
import type { NftSet, NftSetSpec, NftTable, NftTableName } from "@fairlead/os/nft/state.ts";
import { CONTROL_BYTES, type UdpEndpoint } from "./datagram.ts";

/** The table, in the node's own namespace, in which the sockets of WireGuard and of the agent are. */
export const PORT_SHARE_TABLE: NftTableName = { family: "inet", name: "fairlead-ports" };

/** A UDP port of WireGuard, and the port of the agent's socket whose datagrams leave from it. */
export interface SharedPort {
  readonly wireGuard: number;
  readonly agent: number;
}

/** A source whose datagrams for the port of a tunnel are dropped. */
export interface BlockedSource {
  readonly port: number;
  readonly source: UdpEndpoint;
}

/** Control datagrams from one address, per second, that reach the agent. The largest fleet sends a tenth of it. */
const PER_SOURCE = { rate: 500, burst: 1000 };

const UDP_HEADER_BYTES = 8;

/**
 * Rules by which the agent's sockets share the ports of WireGuard: what the agent sends leaves from WireGuard's port, and
 * control datagrams that arrive there are delivered to the agent. So the mappings of NATs on the way, the entries of
 * conntrack and the rules of firewalls that hold for the tunnel hold for control datagrams.
 *
 * The port is exchanged next to the socket, before conntrack on the way out and after filters on the way in: nothing else
 * on the machine sees the agent's ports, and conntrack needs no exception. Other datagrams are not changed.
 */
export function portShareTable(
  ports: readonly SharedPort[],
  blocked: readonly BlockedSource[] = [],
): NftTable {
  const entries = ports.map(({ wireGuard, agent }) => [String(wireGuard), String(agent)] as const);
  const toAgent = new Map(entries);
  const toWireGuard = new Map(entries.map(([wireGuard, agent]) => [agent, wireGuard]));
  const agents = new Map(entries.map(([, agent]) => [agent, ""]));
  return {
    chains: new Map([
      [
        "output",
        {
          hook: { type: "filter", hook: "output", priority: -300 },
          rules: [rule`udp sport set udp sport map ${setRef("to-wireguard")}`],
        },
      ],
      ["control", { rules: controlRules() }],
      [
        "input",
        {
          hook: { type: "filter", hook: "input", priority: 300 },
          rules: [
            // Datagrams for the agent come through WireGuard's ports only.
            rule`udp dport ${setRef("agents")} drop`,
            // The first byte behind the UDP header: WireGuard's datagrams begin with 1 to 4, control datagrams with 0xf_.
            rule`udp dport ${setRef("wireguards")} @th,64,8 240-255 goto ${chainRef("control")}`,
            rule`udp dport . ip saddr . udp sport ${setRef("blocked4")} drop`,
            rule`udp dport . ip6 saddr . udp sport ${setRef("blocked6")} drop`,
          ],
        },
      ],
    ]),
    sets: new Map([
      ["to-wireguard", { key: ["inet_service"], value: ["inet_service"], elements: toWireGuard }],
      ["to-agent", { key: ["inet_service"], value: ["inet_service"], elements: toAgent }],
      ["agents", { key: ["inet_service"], elements: agents }],
      ["wireguards", { key: ["inet_service"], elements: new Map(entries.map(([port]) => [port, ""])) }],
      ["blocked4", blockedSet("ipv4_addr", blocked)],
      ["blocked6", blockedSet("ipv6_addr", blocked)],
      ["sources4", { key: ["ipv4_addr"], dynamic: true, elements: new Map() }],
      ["sources6", { key: ["ipv6_addr"], dynamic: true, elements: new Map() }],
    ]),
  };
}

function blockedSet(type: "ipv4_addr" | "ipv6_addr", blocked: readonly BlockedSource[]): NftSet {
  const spec: NftSetSpec = { key: ["inet_service", type, "inet_service"] };
  const ofFamily = blocked.filter(({ source }) => source.address.includes(":") === (type === "ipv6_addr"));
  const keys = ofFamily.map(({ port, source }) => elementKey(spec, [port, source.address, source.port]));
  return { ...spec, elements: new Map(keys.map((it) => [it, ""])) };
}

/** Control datagrams that arrived at a port of WireGuard. */
function controlRules(): readonly NftRule[] {
  const { rate, burst } = PER_SOURCE;
  return [
    rule`udp length != ${UDP_HEADER_BYTES + CONTROL_BYTES} drop`,
    rule`update ${setRef("sources4")} { ip saddr timeout 10s limit rate over ${rate}/second burst ${burst} packets } drop`,
    // One sender may have a /64 (RFC 6177).
    rule`update ${setRef("sources6")} { ip6 saddr & ffff:ffff:ffff:ffff:: timeout 10s limit rate over ${rate}/second burst ${burst} packets } drop`,
    rule`udp dport set udp dport map ${setRef("to-agent")}`,
  ];
}
