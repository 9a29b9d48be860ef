import { defined } from "@fairlead/base/defined.ts";
import { byAddress, familyOf, type IpAddress } from "@fairlead/base/netaddr/address.ts";
import { containsAddress, formatPrefix, type Prefix, prefixOf } from "@fairlead/base/netaddr/prefix.ts";
import { doesFqdnMatch } from "./fqdn.ts";
import type { FqdnPattern, Peer, PolicyId, PortMatch, Rule, Tier, Transport, Way } from "./model.ts";
import { FQDN, type FqdnSet, IDENTIFIED, matchOf, type SetKey } from "./peers.ts";
import { otherClusters } from "./selector.ts";
import type {
  Changes,
  Group,
  GroupKeys,
  GroupRule,
  NamedPortElement,
  SetChange,
  SetElement,
} from "./state.ts";

/** The first packet of a flow, after the translation of Service addresses. */
export interface Flow {
  readonly source: IpAddress;
  readonly destination: IpAddress;
  readonly traffic: Traffic;
  /** The name that a DNS proxy was asked for: without it, rules for certain names match nothing. Lower case, without the final dot. */
  readonly dnsName?: string;
}

export type Traffic =
  | { readonly kind: "transport"; readonly protocol: Transport; readonly port: number }
  | { readonly kind: "icmp"; readonly type: number }
  /** IP protocol number. */
  | { readonly kind: "protocol"; readonly number: number };

/**
 * `rule` is absent where no rule decided: no policy selects the end, or none of its rules matches (`tier` says which denied by default, and
 * `deniedBy` by which policies).
 */
export interface Verdict {
  readonly isAllowed: boolean;
  readonly tier?: Tier;
  readonly deniedBy?: readonly PolicyId[];
  readonly rule?: { readonly policy: PolicyId; readonly origin: string };
}

/** In order. */
const ANSWERS = ["no", "maybe", "yes"] as const;
type Answer = (typeof ANSWERS)[number];

function best(all: readonly Answer[]): Answer {
  return ANSWERS.findLast((it) => all.includes(it)) ?? "no";
}

/**
 * Says what becomes of a flow, by the rules that nftables gets: for tests, and for those who ask why. Holds what the Resolver reported.
 */
export class Enforced {
  readonly #sets = new Map<SetKey, Members>();
  readonly #groups = new Map<string, Group>();
  readonly #addresses = new Map<IpAddress, GroupKeys>();
  readonly #host: ReadonlySet<IpAddress>;
  #hostGroups: GroupKeys = {};

  /** @param host The addresses of the own node: what it sends to its pods always passes, as the kubelet probes them. */
  constructor(host: readonly IpAddress[] = []) {
    this.#host = new Set(host);
  }

  apply(changes: Changes): void {
    for (const change of changes.sets) this.#applySet(change);
    for (const group of changes.groups) this.#groups.set(group.key, group);
    for (const { address, groups } of changes.addresses)
      if (groups === undefined) this.#addresses.delete(address);
      else this.#addresses.set(address, groups);
    for (const key of changes.groupsGone) this.#groups.delete(key);
    this.#hostGroups = changes.host ?? this.#hostGroups;
  }

  /** What DNS answered for a pattern. */
  resolved(set: SetKey, addresses: readonly IpAddress[]): void {
    for (const address of addresses) this.#sets.get(set)?.add(address);
  }

  /** The verdict at one end: `egress` at the source, `ingress` at the destination. */
  verdict(flow: Flow, way: Way): Verdict {
    const end = way === "egress" ? flow.source : flow.destination;
    if (this.#host.has(flow.source) && this.#isOwnPod(flow.destination, way)) return { isAllowed: true };
    const group = this.#groupAt(end, way);
    for (const { tier, rules, isDefaultDeny, deniedBy } of group?.tiers ?? []) {
      const rule = rules.find((it) => this.#matches(it, flow, way));
      if (rule === undefined && isDefaultDeny) return { isAllowed: false, tier, ...defined({ deniedBy }) };
      if (rule !== undefined && rule.action !== "pass") return decided(rule, tier);
    }
    return { isAllowed: true };
  }

  /**
   * Whether a flow may be allowed at one end, though it is not known which pod of another cluster the other end is.
   *
   * @param cluster - The own one.
   */
  mayBeAllowed(flow: Flow, way: Way, cluster: string): boolean {
    if (this.#host.has(flow.source) && this.#isOwnPod(flow.destination, way)) return true;
    const group = this.#groupAt(way === "egress" ? flow.source : flow.destination, way);
    for (const { rules, isDefaultDeny } of group?.tiers ?? []) {
      const found = rules.map((it) => ({ it, answer: this.#mayMatch(it, flow, way, cluster) }));
      const last = found.findIndex(({ answer }) => answer === "yes");
      const met = found.slice(0, last < 0 ? undefined : last + 1).filter(({ answer }) => answer !== "no");
      if (met.some(({ it }) => it.action === "allow")) return true;
      // The next tier decides.
      const isLeft = met.some(({ it }) => it.action === "pass") || (last < 0 && !isDefaultDeny);
      if (!isLeft) return false;
    }
    return true;
  }

  /** Whether it is known what has an address; undefined where no rule depends on that. */
  isIdentified(address: IpAddress): boolean | undefined {
    return this.#sets.get(IDENTIFIED)?.has(address);
  }

  /** Whether what a local pod asks of DNS servers has to be looked at. */
  isProxied(address: IpAddress): boolean {
    const group = this.#groupAt(address, "egress");
    return group !== undefined && needsDnsProxy(group);
  }

  /** The sets of names for which policies let an address out. */
  fqdnSetsOf(address: IpAddress): readonly FqdnSet[] {
    const group = this.#groupAt(address, "egress");
    return group === undefined ? [] : fqdnSetsOf(group);
  }

  /** In a form that can be compared. */
  dump(): Readonly<Record<string, unknown>> {
    return {
      sets: [...this.#sets].map(([key, it]): [string, unknown] => [key, it.dump()]).toSorted(byName),
      groups: [...this.#groups].toSorted(byName),
      addresses: [...this.#addresses].toSorted(([a], [b]) => byAddress(a, b)),
      host: this.#hostGroups,
    };
  }

  /** Of the node. No ingress of others is looked at here. */
  #isOwnPod(address: IpAddress, way: Way): boolean {
    return way === "ingress" ? !this.#host.has(address) : this.#addresses.has(address);
  }

  #groupAt(end: IpAddress, way: Way): Group | undefined {
    const keys = this.#host.has(end) ? this.#hostGroups : this.#addresses.get(end);
    return this.#groups.get(keys?.[way] ?? "");
  }

  #applySet({ key, state, added, removed }: SetChange): void {
    if (state === "gone") {
      if (!this.#sets.delete(key)) throw new TypeError(`the set ${key} is removed and does not exist`);
      return;
    }
    if (this.#sets.has(key) === (state === "new")) throw new TypeError(`the set ${key} is not ${state}`);
    const members = this.#sets.get(key) ?? new Members();
    this.#sets.set(key, members);
    for (const it of removed) members.delete(it);
    for (const it of added) members.add(it);
  }

  #matches(rule: Rule, { source, destination, traffic, dnsName }: Flow, way: Way): boolean {
    const other = way === "egress" ? destination : source;
    if (rule.dns !== undefined && !rule.dns.some((it) => isName(it, dnsName))) return false;
    return (
      (rule.ports === "any" || rule.ports.some((it) => this.#isPort(it, destination, traffic))) &&
      (rule.peers === "any" || rule.peers.some((it) => this.#isPeer(it, other)))
    );
  }

  #isPeer(peer: Peer, address: IpAddress): boolean {
    const { set, within, unless, beyond } = matchOf(peer);
    const isIn = (key: SetKey): boolean => {
      const members = this.#sets.get(key);
      if (members === undefined) throw new TypeError(`a rule refers to the set ${key}, which does not exist`);
      return members.has(address);
    };
    return (
      (set === undefined || isIn(set)) &&
      (within === undefined || isIn(within)) &&
      (unless === undefined || !isIn(unless)) &&
      (beyond === undefined || !isIn(beyond))
    );
  }

  /** Whether a rule matches a flow whose other end may be any pod of another cluster, or none. */
  #mayMatch(rule: Rule, flow: Flow, way: Way, cluster: string): Answer {
    const { source, destination, traffic, dnsName } = flow;
    const other = way === "egress" ? destination : source;
    if (rule.dns !== undefined && !rule.dns.some((it) => isName(it, dnsName))) return "no";
    const peers =
      rule.peers === "any" ? "yes" : best(rule.peers.map((it) => this.#mayBe(it, other, cluster)));
    const isOpen = (it: PortMatch): boolean =>
      it.kind === "named" && way === "egress" && isTransport(traffic, it.protocol);
    const portOf = (it: PortMatch): Answer => {
      if (isOpen(it)) return "maybe";
      return this.#isPort(it, destination, traffic) ? "yes" : "no";
    };
    const ports = rule.ports === "any" ? "yes" : best(rule.ports.map(portOf));
    return ANSWERS[Math.min(ANSWERS.indexOf(peers), ANSWERS.indexOf(ports))] ?? "no";
  }

  #mayBe(peer: Peer, address: IpAddress, cluster: string): Answer {
    if (peer.kind === "unidentified") return "no";
    if (peer.kind === "pods") return otherClusters(peer.selector, cluster) === "none" ? "no" : "maybe";
    const isInside = (it: Prefix): boolean => containsAddress(it, address);
    if (peer.kind === "cidr" && (peer.within !== undefined || !(peer.matchesPods && peer.matchesNodes)))
      return peer.prefixes.some(isInside) ? "maybe" : "no";
    if (!this.#isPeer(peer, address)) return "no";
    return peer.kind === "entity" && peer.entity.startsWith("world") ? "maybe" : "yes";
  }

  #isPort(match: PortMatch, destination: IpAddress, traffic: Traffic): boolean {
    switch (match.kind) {
      case "range":
        return (
          isTransport(traffic, match.protocol) && traffic.port >= match.first && traffic.port <= match.last
        );
      case "named": {
        const set = this.#sets.get(`port:${match.protocol}:${match.name}`);
        return (
          isTransport(traffic, match.protocol) &&
          set?.has({ address: destination, port: traffic.port }) === true
        );
      }
      case "protocol":
        return traffic.kind === "protocol" && traffic.number === match.number;
      case "icmp":
        return (
          traffic.kind === "icmp" && traffic.type === match.type && familyOf(destination) === match.family
        );
      default:
        return match satisfies never;
    }
  }
}

function isName(pattern: FqdnPattern, name: string | undefined): boolean {
  return pattern === "*" || (name !== undefined && doesFqdnMatch(name, pattern));
}

/** Whether the pods of a group have to ask DNS servers through the proxy. */
export function needsDnsProxy(group: Group): boolean {
  const rules = group.way === "egress" ? group.tiers.flatMap((it) => it.rules) : [];
  return rules.some((it) => it.dns !== undefined || fqdnSetsIn(it).length > 0);
}

export function fqdnSetsOf({ tiers }: Group): readonly FqdnSet[] {
  return [...new Set(tiers.flatMap((it) => it.rules).flatMap((it) => fqdnSetsIn(it)))];
}

function fqdnSetsIn({ peers }: Rule): readonly FqdnSet[] {
  return (peers === "any" ? [] : peers).flatMap((it) =>
    it.kind === "fqdn" ? [it.key.slice(FQDN.length)] : [],
  );
}

function isTransport(
  traffic: Traffic,
  protocol: Transport,
): traffic is Extract<Traffic, { readonly kind: "transport" }> {
  return traffic.kind === "transport" && traffic.protocol === protocol;
}

function decided(rule: GroupRule, tier: Tier): Verdict {
  return { isAllowed: rule.action === "allow", tier, rule: { policy: rule.policy, origin: rule.origin } };
}

function byName([a]: readonly unknown[], [b]: readonly unknown[]): number {
  return String(a) < String(b) ? -1 : 1;
}

class Members {
  readonly #plain = new Map<string, IpAddress | NamedPortElement>();
  /** By family and length: a set of many prefixes has few lengths. */
  readonly #prefixes = new Map<string, Map<IpAddress, Prefix>>();

  add(element: SetElement): void {
    if (isPrefix(element)) this.#alike(element).set(element.network, element);
    else if (this.#plain.has(idOf(element)))
      throw new TypeError(`${idOf(element)} is added and is in the set`);
    else this.#plain.set(idOf(element), element);
  }

  delete(element: SetElement): void {
    if (isPrefix(element)) this.#alike(element).delete(element.network);
    else if (!this.#plain.delete(idOf(element)))
      throw new TypeError(`${idOf(element)} is removed and is not in the set`);
  }

  has(element: IpAddress | NamedPortElement): boolean {
    if (this.#plain.has(idOf(element))) return true;
    if (typeof element === "object") return false;
    const family = familyOf(element);
    return this.#prefixes.values().some((alike) => {
      const [first] = alike.values();
      return first?.family === family && alike.has(prefixOf(element, first.length).network);
    });
  }

  dump(): readonly string[] {
    const prefixes = [...this.#prefixes.values()].flatMap((it) => [...it.values()]);
    return [...this.#plain.keys(), ...prefixes.map(formatPrefix)].toSorted();
  }

  #alike({ family, length }: Prefix): Map<IpAddress, Prefix> {
    const key = `${family}/${length}`;
    const found = this.#prefixes.get(key) ?? new Map<IpAddress, Prefix>();
    this.#prefixes.set(key, found);
    return found;
  }
}

function isPrefix(element: SetElement): element is Prefix {
  return typeof element === "object" && "network" in element;
}

function idOf(element: IpAddress | NamedPortElement): string {
  return typeof element === "object" ? `${element.address}#${element.port}` : `${typeof element} ${element}`;
}
