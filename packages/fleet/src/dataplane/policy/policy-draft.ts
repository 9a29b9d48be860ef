import { formatAddress, type IpAddress } from "@fairlead/base/netaddr/address.ts";
import { defined } from "@fairlead/base/defined.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { formatPrefix } from "@fairlead/base/netaddr/prefix.ts";
import type { Way } from "#policy/model.ts";
import type { SetKey } from "#policy/peers.ts";
import type { Changes, Group, GroupKeys, SetChange, SetElement } from "#policy/state.ts";
import { needsDnsProxy } from "#policy/enforced.ts";
import { TableDraft } from "@fairlead/os/nft/draft.ts";
import { elementData, elementKey, jumpVerdict } from "@fairlead/os/nft/element.ts";
import { type Base, baseChains } from "./table.ts";
import {
  DNS_PROXY_PORT,
  FAMILIES,
  type Family,
  groupChain,
  IPV4,
  IPV6,
  OWN_SETS,
  ownSet,
  ownSetSpec,
  peerSet,
  peerSetSpec,
} from "./names.ts";
import { NumberSets } from "./number-sets.ts";
import { renderGroup } from "./rules.ts";
import { UnionSets } from "./union-sets.ts";

/** The wanted table of policies: what the resolver says, written into a draft. Pure. */
export class PolicyDraft {
  readonly table = new TableDraft();
  readonly #unions = new UnionSets(this.table);
  readonly #numbers = new NumberSets(this.table);
  #base: Base = {
    isGuarded: false,
    isProxied: false,
    host: {},
    isLogging: false,
    unchecked: [],
    uplinks: undefined,
  };
  /** Chains of a group, by its key. */
  readonly #chains = new Map<string, readonly string[]>();
  /** Groups whose pods ask the DNS proxy. */
  readonly #proxied = new Set<string>();
  /** The egress group of local addresses. */
  readonly #egress = new Map<IpAddress, string>();
  #proxies: Readonly<Record<Family["name"], string>> = NO_PROXIES;

  constructor() {
    for (const kind of OWN_SETS)
      for (const family of FAMILIES) this.table.addSet(ownSet(kind, family), ownSetSpec(kind, family));
    this.#renderBase();
  }

  /**
   * Whether pods that are not known are cut off: some policy could select them.
   *
   * @param uplinks - Where pods are known by their devices: the other devices.
   */
  guard(isGuarded: boolean, uplinks?: readonly string[]): void {
    this.#base = { ...this.#base, isGuarded, uplinks };
    this.#renderBase();
  }

  /** The node's addresses, at which its DNS proxy listens. */
  setProxies(addresses: readonly IpAddress[]): void {
    const before = this.#proxies;
    this.#proxies = { ...NO_PROXIES };
    for (const family of FAMILIES) {
      const found = addresses.find((it) => familyOf(it) === family);
      if (found !== undefined) this.#proxies = { ...this.#proxies, [family.name]: formatAddress(found) };
    }
    if (!sameJson(before, this.#proxies)) for (const it of this.#egress.keys()) this.#setDns(it);
  }

  /** Whether pods of the node ask the DNS proxy. */
  get isProxied(): boolean {
    return this.#egress.values().some((it) => this.#proxied.has(it));
  }

  /**
   * The prefixes of this node's pods.
   *
   * @param elsewhere - Addresses in these of pods of other nodes.
   */
  setNodePrefixes(prefixes: readonly string[], elsewhere: readonly IpAddress[] = []): void {
    this.#setAll("node", prefixes);
    this.#setAll("elsewhere", elsewhere.map(formatAddress));
  }

  /** The devices whose sources are not checked. */
  setUnchecked(unchecked: readonly string[]): void {
    if (sameJson(unchecked, this.#base.unchecked)) return;
    this.#base = { ...this.#base, unchecked };
    this.#renderBase();
  }

  /** The addresses of local pods whose allowed connections are noted. */
  setLogged(addresses: readonly string[]): void {
    this.#setAll("logged", addresses);
    const isLogging = addresses.length > 0;
    if (isLogging === this.#base.isLogging) return;
    this.#base = { ...this.#base, isLogging };
    this.#renderBase();
  }

  #setAll(kind: "node" | "elsewhere" | "logged", texts: readonly string[]): void {
    for (const family of FAMILIES) {
      const wanted = new Set(
        texts
          .filter((it) => it.includes(":") === (family === IPV6))
          .map((it) => elementKey(ownSetSpec(kind, family), [it])),
      );
      const name = ownSet(kind, family);
      for (const key of this.table.whole.sets.get(name)?.elements.keys() ?? [])
        if (!wanted.has(key)) this.table.setElement(name, key, undefined);
      for (const key of wanted) this.table.setElement(name, key, "");
    }
  }

  apply({ sets, groups, groupsGone, addresses, host }: Changes): void {
    for (const it of sets) this.#applySet(it);
    for (const it of groups) this.#setGroup(it);
    for (const { address, groups: keys } of addresses) this.#setAddress(address, keys);
    for (const key of groupsGone) this.#removeGroup(key);
    const { isProxied } = this;
    if (host === undefined && isProxied === this.#base.isProxied) return;
    this.#base = { ...this.#base, isProxied, ...defined({ host }) };
    this.#renderBase();
  }

  #renderBase(): void {
    for (const [name, chain] of baseChains(this.#base)) this.table.setChain(name, chain);
  }

  #setAddress(address: IpAddress, keys: GroupKeys | undefined): void {
    this.#setOwn("known", address, keys === undefined ? undefined : "");
    for (const way of WAYS) {
      const key = keys?.[way];
      this.#setOwn(way, address, key === undefined ? undefined : jumpVerdict(groupChain(way, key)));
    }
    const isIsolated = WAYS.some((it) => keys?.[it] !== undefined);
    for (const kind of ["isolated", "self"] as const)
      this.#setOwn(kind, address, isIsolated ? "" : undefined);
    if (keys?.egress === undefined) this.#egress.delete(address);
    else this.#egress.set(address, keys.egress);
    this.#setDns(address);
  }

  #setDns(address: IpAddress): void {
    const family = familyOf(address);
    const isProxied = this.#proxied.has(this.#egress.get(address) ?? "");
    const proxy = elementData(ownSetSpec("dns", family), [this.#proxies[family.name], DNS_PROXY_PORT]);
    this.#setOwn("dns", address, isProxied ? proxy : undefined);
  }

  #setOwn(
    kind: "ingress" | "egress" | "known" | "isolated" | "self" | "dns",
    address: IpAddress,
    value: string | undefined,
  ): void {
    const family = familyOf(address);
    const text = formatAddress(address);
    const spec = ownSetSpec(kind, family);
    const key = elementKey(spec, kind === "self" ? [text, text] : [text]);
    this.table.setElement(ownSet(kind, family), key, value);
  }

  #setGroup(group: Group): void {
    const id = group.key;
    const { chains, sets } = renderGroup(group);
    for (const name of this.#chains.get(id) ?? [])
      if (!chains.has(name)) this.table.setChain(name, undefined);
    for (const [name, chain] of chains) this.table.setChain(name, chain);
    this.#chains.set(id, [...chains.keys()]);
    this.#unions.use(id, sets.unions);
    this.#numbers.use(id, sets.numbers);
    this.#setProxied(id, needsDnsProxy(group));
  }

  #setProxied(id: string, isProxied: boolean): void {
    if (this.#proxied.has(id) === isProxied) return;
    if (isProxied) this.#proxied.add(id);
    else this.#proxied.delete(id);
    for (const [address, key] of this.#egress) if (key === id) this.#setDns(address);
  }

  #removeGroup(id: string): void {
    for (const name of this.#chains.get(id) ?? []) this.table.setChain(name, undefined);
    this.#chains.delete(id);
    this.#proxied.delete(id);
    this.#unions.use(id, new Map());
    this.#numbers.use(id, new Map());
  }

  #applySet({ key, state, added, removed }: SetChange): void {
    for (const family of FAMILIES) {
      const name = peerSet(key, family);
      if (state === "gone") {
        this.table.removeSet(name);
        continue;
      }
      const spec = peerSetSpec(key, family);
      this.table.addSet(name, spec);
      const set = (it: SetElement, isThere: boolean): void => {
        if (familyOfElement(it) !== family) return;
        const element = elementKey(spec, partsOf(key, it));
        if (this.table.whole.sets.get(name)?.elements.has(element) === isThere) return;
        this.table.setElement(name, element, isThere ? "" : undefined);
        this.#unions.changed(key, family, element, isThere);
      };
      for (const it of removed) set(it, false);
      for (const it of added) set(it, true);
    }
  }
}

/** Where a node has no address of a family, what is sent there is dropped: by RFC 1122, section 3.2.1.3, it is not on the wire. */
const NO_PROXIES = { IPv4: "127.0.0.1", IPv6: "::1" };

const WAYS: readonly Way[] = ["ingress", "egress"];

function partsOf(key: SetKey, element: SetElement): readonly (string | number)[] {
  if (typeof element !== "object") return [formatAddress(element)];
  if ("network" in element) return [formatPrefix(element)];
  const [, protocol = ""] = key.split(":", 2);
  return [formatAddress(element.address), protocol.toLowerCase(), element.port];
}

function familyOfElement(element: SetElement): Family {
  if (typeof element !== "object") return familyOf(element);
  return familyOf("network" in element ? element.network : element.address);
}

function familyOf(address: IpAddress): Family {
  return typeof address === "number" ? IPV4 : IPV6;
}
