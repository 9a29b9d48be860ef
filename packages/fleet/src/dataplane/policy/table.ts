import type { Way } from "#policy/model.ts";
import type { GroupKeys } from "#policy/state.ts";
import {
  chainRef,
  deviceSet,
  fragment,
  type NftRule,
  type NftWord,
  quotedName,
  rule,
  setRef,
} from "@fairlead/os/nft/rule.ts";
import type { NftChain } from "@fairlead/os/nft/state.ts";
import {
  ALLOW_CHAIN,
  denyChain,
  DNS_PORT,
  DNS_PROXY_PORT,
  groupChain,
  IPV4,
  IPV6,
  type OwnSet,
  ownSet,
  UNKNOWN_CHAIN,
} from "./names.ts";

/**
 * The chains of the table that are always there, in the namespace of the node.
 *
 * `sources` drops what a pod sends with an address of another one, also in flows that are established.
 * What is established or related passes: policies decide on the first packet of a flow. `forward` has the traffic of pods with all others,
 * after the translation of Service addresses, and with br_netfilter also that of pods at one bridge. `input` has the traffic of pods to the
 * node. What the node itself sends is looked at for policies whose subject is the node only, and never on its way to the node's pods: the
 * kubelet probes them.
 */

function set4(kind: OwnSet): NftWord {
  return setRef(ownSet(kind, IPV4));
}

function set6(kind: OwnSet): NftWord {
  return setRef(ownSet(kind, IPV6));
}

const BEGIN: readonly NftRule[] = [
  rule`ct state established,related accept`,
  // Without these there is no IPv6; at a bridge they come by here.
  rule`icmpv6 type { nd-router-solicit, nd-router-advert, nd-neighbor-solicit, nd-neighbor-advert } accept`,
];

/**
 * A connection that conntrack does not know is not taken up in its middle: a flow that was cut would come back, begun by what the server
 * sends.
 */
const MIDDLES: readonly NftRule[] = [
  rule`ct state new tcp flags & (fin | syn | rst | ack) != syn ip saddr ${set4("isolated")} drop`,
  rule`ct state new tcp flags & (fin | syn | rst | ack) != syn ip6 saddr ${set6("isolated")} drop`,
  rule`ct state new tcp flags & (fin | syn | rst | ack) != syn ip daddr ${set4("isolated")} drop`,
  rule`ct state new tcp flags & (fin | syn | rst | ack) != syn ip6 daddr ${set6("isolated")} drop`,
];

const EGRESS: readonly NftRule[] = [
  rule`ip saddr vmap ${set4("egress")}`,
  rule`ip6 saddr vmap ${set6("egress")}`,
];

const INGRESS: readonly NftRule[] = [
  rule`ip daddr vmap ${set4("ingress")}`,
  rule`ip6 daddr vmap ${set6("ingress")}`,
];

const UNKNOWN = chainRef(UNKNOWN_CHAIN);

/** Pods that the agent does not know yet: whether a policy selects them is not known either. */
const UNKNOWN_SOURCES: readonly NftRule[] = [
  rule`ip saddr ${set4("node")} ip saddr != ${set4("known")} ip saddr != ${set4("elsewhere")} goto ${UNKNOWN}`,
  rule`ip6 saddr ${set6("node")} ip6 saddr != ${set6("known")} ip6 saddr != ${set6("elsewhere")} goto ${UNKNOWN}`,
];

const UNKNOWN_DESTINATIONS: readonly NftRule[] = [
  rule`ip daddr ${set4("node")} ip daddr != ${set4("known")} ip daddr != ${set4("elsewhere")} goto ${UNKNOWN}`,
  rule`ip6 daddr ${set6("node")} ip6 daddr != ${set6("known")} ip6 daddr != ${set6("elsewhere")} goto ${UNKNOWN}`,
];

/**
 * The same by the device of a pod, where its prefixes are not known: a veth pair of its own, whose end on the node has no address. Those of
 * Fairlead begin with `fl`.
 */
function unknownByLink(uplinks: readonly string[]): Record<"from" | "to", readonly NftRule[]> {
  const except = (key: NftWord): NftWord =>
    uplinks.reduce((all, it) => fragment`${all} ${key} != ${quotedName(it)}`, fragment`${key} != "fl*"`);
  const [from, to] = [
    fragment`meta iifkind "veth" ${except(fragment`iifname`)}`,
    fragment`meta oifkind "veth" ${except(fragment`oifname`)}`,
  ];
  return {
    from: [
      rule`${from} ip saddr != ${set4("known")} goto ${UNKNOWN}`,
      rule`${from} ip6 saddr != ${set6("known")} ip6 saddr != fe80::/10 goto ${UNKNOWN}`,
    ],
    to: [
      rule`${to} ip daddr != ${set4("known")} goto ${UNKNOWN}`,
      rule`${to} ip6 daddr != ${set6("known")} goto ${UNKNOWN}`,
    ],
  };
}

const TO_OWN_PODS: readonly NftRule[] = [
  rule`ip daddr ${set4("known")} accept`,
  rule`ip6 daddr ${set6("known")} accept`,
  rule`ip daddr ${set4("node")} ip daddr != ${set4("elsewhere")} accept`,
  rule`ip6 daddr ${set6("node")} ip6 daddr != ${set6("elsewhere")} accept`,
];

/**
 * Policies know pods by their addresses, so that a pod sends with its own ones only: the node reaches the source by the link that the packet
 * came by (strict reverse path, RFC 3704). An address of a pod of this node, or of the node, comes by no other link either. Addresses of a
 * link are not forwarded, and neighbour discovery needs them.
 *
 * @param unchecked - Devices of the kinds that links of pods have, which are not links of pods.
 */
function sources(unchecked: readonly string[]): readonly NftRule[] {
  const others = unchecked.length === 0 ? fragment`` : fragment` iifname != ${deviceSet(unchecked)}`;
  return [
    rule`ip6 saddr fe80::/10 accept`,
    rule`meta iifkind { "veth", "bridge" }${others} fib saddr . iif oif missing drop`,
    ...(["known", "node"] as const).flatMap((kind) => [
      rule`ip saddr ${set4(kind)} fib saddr . iif oif missing drop`,
      rule`ip6 saddr ${set6(kind)} fib saddr . iif oif missing drop`,
    ]),
    // The kernel drops these of IPv4.
    rule`iifname != "lo" meta nfproto ipv6 fib saddr type local drop`,
  ];
}
/** Before conntrack (-200): packets with sources of others take none of its room. */
const SOURCES_PRIORITY = -300;

/** A pod that a Service leads to itself. */
const SELF: readonly NftRule[] = [
  rule`ip saddr . ip daddr ${set4("self")} accept`,
  rule`ip6 saddr . ip6 daddr ${set6("self")} accept`,
];

/**
 * DNS of pods whose policies are about names. It comes before the translation of Service addresses (-100): the first translation of a flow
 * counts, and the proxy looks up the Service itself. Without a proxy nothing listens there, and these pods get no answers.
 */
const REDIRECT: readonly NftRule[] = [
  rule`meta l4proto { tcp, udp } th dport ${DNS_PORT} dnat ip to ip saddr map ${set4("dns")}`,
  rule`meta l4proto { tcp, udp } th dport ${DNS_PORT} dnat ip6 to ip6 saddr map ${set6("dns")}`,
];
const REDIRECT_PRIORITY = -110;

/** The proxy decides about what was redirected to it; other packets do not reach it. */
const PROXY: readonly NftRule[] = [
  rule`meta l4proto { tcp, udp } th dport ${DNS_PROXY_PORT} ct status dnat accept`,
  rule`meta l4proto { tcp, udp } th dport ${DNS_PROXY_PORT} drop`,
];

/** Before the filters of others (0). */
const PRIORITY = -10;

/**
 * What is denied is noted, each flow once, and forgotten after a minute; so is what is allowed, for pods whose namespace asks for it. A source
 * has 256 flows, and one more each second, so that one pod that tries all ports of all others leaves room for them.
 */
const noted = (kind: "denied" | "allowed"): readonly NftRule[] => {
  const [flow4, flow6] = (["ip", "ip6"] as const).map((it) => {
    const [from, to] =
      it === "ip" ? [fragment`ip saddr`, fragment`ip daddr`] : [fragment`ip6 saddr`, fragment`ip6 daddr`];
    return fragment`${from} . ${to} . meta l4proto . th dport`;
  }) as [NftWord, NftWord];
  // A flow that is added is counted by that: the other rule comes before.
  return [
    rule`meta l4proto { tcp, udp, sctp } ${flow4} ${set4(kind)} update ${set4(kind)} { ${flow4} timeout 60s counter }`,
    rule`meta l4proto { tcp, udp, sctp } ${flow4} != ${set4(kind)} update ${set4("noted")} { ip saddr timeout 60s limit rate 1/second burst 256 packets } add ${set4(kind)} { ${flow4} timeout 60s counter }`,
    rule`meta l4proto { tcp, udp, sctp } ${flow6} ${set6(kind)} update ${set6(kind)} { ${flow6} timeout 60s counter }`,
    rule`meta l4proto { tcp, udp, sctp } ${flow6} != ${set6(kind)} update ${set6("noted")} { ip6 saddr timeout 60s limit rate 1/second burst 256 packets } add ${set6(kind)} { ${flow6} timeout 60s counter }`,
  ];
};

const DENY: readonly NftRule[] = [...noted("denied"), rule`drop`];

const LOGGED: readonly NftRule[] = [
  rule`ip saddr ${set4("logged")} goto ${chainRef(ALLOW_CHAIN)}`,
  rule`ip6 saddr ${set6("logged")} goto ${chainRef(ALLOW_CHAIN)}`,
  rule`ip daddr ${set4("logged")} goto ${chainRef(ALLOW_CHAIN)}`,
  rule`ip6 daddr ${set6("logged")} goto ${chainRef(ALLOW_CHAIN)}`,
];

export interface Base {
  /** Whether some policy could select a pod that is not known yet. */
  readonly isGuarded: boolean;
  /** Whether pods ask the DNS proxy. */
  readonly isProxied: boolean;
  /** The groups of the node's own network. */
  readonly host: GroupKeys;
  /** Whether allowed connections of some pods are noted. */
  readonly isLogging: boolean;
  /** Devices whose sources are not checked. */
  readonly unchecked: readonly string[];
  /** The devices that are not those of pods, where pods are known by their devices; undefined: where they are not. */
  readonly uplinks: readonly string[] | undefined;
}

export function baseChains(base: Base): ReadonlyMap<string, NftChain> {
  const { isGuarded, isProxied, host, isLogging, unchecked, uplinks } = base;
  const byLink = uplinks === undefined ? { from: [], to: [] } : unknownByLink(uplinks);
  const guards = (rules: readonly NftRule[]): readonly NftRule[] => (isGuarded ? rules : []);
  const own = (way: Way): readonly NftRule[] => {
    const key = host[way];
    return key === undefined ? [] : [rule`jump ${chainRef(groupChain(way, key))}`];
  };
  return new Map<string, NftChain>([
    [denyChain("ingress"), { rules: DENY }],
    [denyChain("egress"), { rules: DENY }],
    [UNKNOWN_CHAIN, { rules: DENY }],
    [ALLOW_CHAIN, { rules: noted("allowed") }],
    [
      "sources",
      { hook: { type: "filter", hook: "prerouting", priority: SOURCES_PRIORITY }, rules: sources(unchecked) },
    ],
    [
      "forward",
      {
        hook: { type: "filter", hook: "forward", priority: PRIORITY },
        rules: [
          ...BEGIN,
          ...SELF,
          ...MIDDLES,
          ...guards([...UNKNOWN_SOURCES, ...UNKNOWN_DESTINATIONS, ...byLink.from, ...byLink.to]),
          ...EGRESS,
          ...INGRESS,
          ...(isLogging ? LOGGED : []),
        ],
      },
    ],
    [
      "input",
      {
        hook: { type: "filter", hook: "input", priority: PRIORITY },
        rules: [
          rule`iifname "lo" accept`,
          ...BEGIN,
          ...guards([...UNKNOWN_SOURCES, ...byLink.from]),
          ...(isProxied ? PROXY : []),
          ...EGRESS,
          ...own("ingress"),
          ...(isLogging ? LOGGED : []),
        ],
      },
    ],
    ["dns", { hook: { type: "nat", hook: "prerouting", priority: REDIRECT_PRIORITY }, rules: REDIRECT }],
    [
      "output",
      {
        hook: { type: "filter", hook: "output", priority: PRIORITY },
        rules:
          host.egress === undefined
            ? []
            : [rule`oifname "lo" accept`, ...BEGIN, ...TO_OWN_PODS, ...own("egress")],
      },
    ],
  ]);
}
