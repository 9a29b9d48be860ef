import { formatAddress } from "@fairlead/base/netaddr/address.ts";
import type {
  CiliumCidrRule,
  CiliumEgressRule,
  CiliumFqdn,
  CiliumIcmpRule,
  CiliumIngressRule,
  CiliumPolicySpec,
  CiliumPort,
  CiliumPortRule,
  CiliumService,
} from "#api/cilium.io/v2/types.ts";
import type { LabelSelector } from "@fairlead/kube/api/meta/types.ts";
import { fits, isInCluster, isInside, isNamedPort, labelsOf, type Question } from "./oracle-words.fake.ts";
import { type Actor, isOwnNode, namespaceOf, type World } from "./world.fake.ts";

/** CiliumNetworkPolicy and CiliumClusterwideNetworkPolicy, as manifests. */

interface Context {
  readonly world: World;
  readonly question: Question;
  readonly namespace: string | undefined;
}

type CiliumRule = CiliumIngressRule & CiliumEgressRule;

interface CiliumVerdict {
  readonly isDenied: boolean;
  readonly isAllowed: boolean;
  readonly isIsolated: boolean;
}

export function ciliumVerdict(world: World, question: Question): CiliumVerdict {
  const verdicts = [...world.ciliumPolicies.values()].flatMap(({ metadata, spec, specs = [] }) =>
    [...(spec === undefined ? [] : [spec]), ...specs].map((it) =>
      specVerdict(it, { world, question, namespace: metadata.namespace }),
    ),
  );
  return {
    isDenied: verdicts.some((it) => it?.isDenied),
    isAllowed: verdicts.some((it) => it?.isAllowed),
    isIsolated: verdicts.some((it) => it?.isIsolated),
  };
}

function specVerdict(spec: CiliumPolicySpec, context: Context): CiliumVerdict | undefined {
  const { way } = context.question;
  if (!isSubject(spec, context)) return undefined;
  const denies: readonly CiliumRule[] = (way === "ingress" ? spec.ingressDeny : spec.egressDeny) ?? [];
  const allows: readonly CiliumRule[] = (way === "ingress" ? spec.ingress : spec.egress) ?? [];
  return {
    isDenied: denies.some((rule) => doesMatch(rule, context)),
    isAllowed: allows.some((rule) => doesMatch(rule, context)),
    isIsolated: denies.length + allows.length > 0 && spec.enableDefaultDeny?.[way] !== false,
  };
}

function isSubject(
  { endpointSelector, nodeSelector }: CiliumPolicySpec,
  { world, question, namespace }: Context,
): boolean {
  const { subject } = question;
  if (nodeSelector !== undefined) return subject.kind === "node" && fits(nodeSelector, nodeLabels(subject));
  return (
    subject.kind === "pod" &&
    (namespace === undefined || subject.pod.namespace === namespace) &&
    fits(endpointSelector ?? {}, labelsOf(world, subject))
  );
}

function nodeLabels({ node }: Actor & { kind: "node" }): Readonly<Record<string, string>> {
  return { ...node.labels, "io.cilium.k8s.policy.cluster": node.cluster };
}

function doesMatch(rule: CiliumRule, context: Context): boolean {
  const peers = arePeers(rule, context);
  const isPorts = rule.toPorts !== undefined && rule.toPorts.length > 0;
  const isIcmp = rule.icmps !== undefined && rule.icmps.length > 0;
  if (peers === "absent" && !isPorts && !isIcmp) return false;
  if (peers === false) return false;
  if (isPorts) return (rule.toPorts ?? []).some((it) => isPortRule(it, context));
  return isIcmp ? (rule.icmps ?? []).some((it) => isIcmpRule(it, context)) : true;
}

function arePeers(rule: CiliumRule, context: Context): boolean | "absent" {
  const lists: readonly [readonly unknown[] | undefined, () => boolean][] = [
    listed(rule.fromEndpoints ?? rule.toEndpoints, (it) => isEndpoint(it, context)),
    listed(rule.fromCIDR ?? rule.toCIDR, (it) => isAddress(it, [], context)),
    listed(rule.fromCIDRSet ?? rule.toCIDRSet, (it) => isCidrRule(it, context)),
    listed(rule.fromEntities ?? rule.toEntities, (it) => isEntity(it, context)),
    listed(rule.fromNodes ?? rule.toNodes, (it) => isNode(it, context)),
    listed(rule.toServices, (it) => isService(it, context)),
    listed(rule.toFQDNs, (it) => isNamed(it, context)),
  ];
  const found = lists.find(([list]) => list !== undefined);
  return found === undefined ? "absent" : found[1]();
}

function listed<T>(
  list: readonly T[] | undefined,
  is: (item: T) => boolean,
): [readonly T[] | undefined, () => boolean] {
  return [list, () => (list ?? []).some(is)];
}

function isEndpoint(selector: LabelSelector, { world, question, namespace }: Context): boolean {
  const { peer } = question;
  if (Object.hasOwn(selector.matchLabels ?? {}, "reserved:host"))
    return peer.kind === "node" && isOwnNode(world, peer.node);
  if (peer.kind !== "pod" || namespaceOf(world, peer.pod) === undefined) return false;
  const keys = JSON.stringify(selector);
  const isElsewhere =
    keys.includes("io.kubernetes.pod.namespace") || keys.includes("io.cilium.k8s.namespace.labels.");
  const isHome = isElsewhere || namespace === undefined || peer.pod.namespace === namespace;
  return isHome && isInCluster(world, selector, peer.pod) && fits(selector, labelsOf(world, peer));
}

function isAddress(cidr: string, except: readonly string[], { world, question }: Context): boolean {
  const { peer } = question;
  if (peer.kind === "pod" && !world.cidrMatchesPods) return false;
  if (peer.kind === "node" && !world.cidrMatchesNodes) return false;
  return isInside(cidr, peer.address) && !except.some((it) => isInside(it, peer.address));
}

function isCidrRule(
  { cidr, cidrGroupRef, cidrGroupSelector, except = [] }: CiliumCidrRule,
  context: Context,
): boolean {
  if (cidr !== undefined) return isAddress(cidr, except, context);
  return context.world.cidrGroups
    .filter(({ metadata }) =>
      cidrGroupSelector === undefined
        ? metadata.name === cidrGroupRef
        : fits(cidrGroupSelector, metadata.labels ?? {}),
    )
    .some(({ spec }) => (spec?.externalCIDRs ?? []).some((it) => isAddress(it, except, context)));
}

function isEntity(entity: string, { world, question }: Context): boolean {
  const { peer } = question;
  const isAnyNode = peer.kind === "node";
  const isHost = isAnyNode && isOwnNode(world, peer.node);
  const isOutside = peer.kind === "external";
  const entities = new Map([
    ["all", true],
    ["host", isHost],
    ["remote-node", isAnyNode && !isHost],
    ["cluster", isAnyNode || (peer.kind === "pod" && peer.pod.cluster === world.cluster)],
    ["world", isOutside],
    ["world-ipv4", isOutside && typeof peer.address === "number"],
    ["world-ipv6", isOutside && typeof peer.address === "bigint"],
    ["kube-apiserver", world.apiServers.includes(peer.address)],
  ]);
  return entities.get(entity) ?? false;
}

function isNode(selector: LabelSelector, { world, question }: Context): boolean {
  const { peer } = question;
  return (
    peer.kind === "node" &&
    !isOwnNode(world, peer.node) &&
    isInCluster(world, selector, peer.node) &&
    fits(selector, nodeLabels(peer))
  );
}

function isService({ k8sService, k8sServiceSelector }: CiliumService, context: Context): boolean {
  const { world, question, namespace } = context;
  const { peer } = question;
  const home = k8sService?.namespace ?? k8sServiceSelector?.namespace ?? namespace;
  const services = world.services.filter(
    (it) =>
      (home === undefined || it.namespace === home) &&
      (k8sService === undefined || it.name === k8sService.serviceName) &&
      (k8sServiceSelector === undefined || fits(k8sServiceSelector.selector, it.labels)),
  );
  return services.some(({ selector, addresses, namespace: ofService }) => {
    if (selector === undefined)
      return addresses.includes(peer.address) && isAddress(formatAddress(peer.address), [], context);
    if (peer.kind !== "pod" || namespaceOf(world, peer.pod) === undefined || peer.pod.namespace !== ofService)
      return false;
    return (
      (!world.isLocalByDefault || peer.pod.cluster === world.cluster) &&
      fits({ matchLabels: { ...selector } }, labelsOf(world, peer))
    );
  });
}

function isNamed({ matchName, matchPattern = matchName }: CiliumFqdn, { world, question }: Context): boolean {
  if (question.peer.kind !== "external") return false;
  const { address } = question.peer;
  return [...world.names].some(
    ([name, found]) => found.includes(address) && doesNameMatch(name, matchPattern ?? ""),
  );
}

export function doesNameMatch(name: string, pattern: string): boolean {
  if (pattern === "*") return true;
  const labels = name.toLowerCase().split(".").toReversed();
  const wanted = pattern.toLowerCase().replace(/\.$/, "").split(".").toReversed();
  const isDeep = wanted.at(-1) === "**";
  const fixed = isDeep ? wanted.slice(0, -1) : wanted;
  if (isDeep ? labels.length <= fixed.length : labels.length !== fixed.length) return false;
  return fixed.every((part, index) => isLabel(labels[index] ?? "", part));
}

function isLabel(label: string, pattern: string): boolean {
  const [first = "", ...rest] = pattern.split("*");
  const last = rest.at(-1);
  if (last === undefined) return label === first;
  return label.length >= first.length + last.length && label.startsWith(first) && label.endsWith(last);
}

function isPortRule({ ports = [], rules }: CiliumPortRule, { question }: Context): boolean {
  if (rules?.dns !== undefined && rules.dns.length > 0 && !rules.dns.some((it) => it.matchPattern === "*"))
    return false;
  return ports.some((it) => isPort(it, question));
}

function isPort(wanted: CiliumPort, question: Question): boolean {
  const { traffic } = question;
  const { protocol = "ANY" } = wanted;
  if (protocol === "VRRP" || protocol === "IGMP")
    return traffic.kind === "protocol" && traffic.number === (protocol === "IGMP" ? 2 : 112);
  if (traffic.kind !== "transport" || (protocol !== "ANY" && protocol !== traffic.protocol)) return false;
  return (
    isPortNumber(wanted, traffic.port) ||
    isNamedPort((wanted.port ?? "").toLowerCase(), question, [traffic.protocol])
  );
}

function isPortNumber({ port = "", endPort = 0 }: CiliumPort, number: number): boolean {
  const first = Number(port === "" ? "none" : port);
  return first === 0 || (number >= first && number <= Math.max(first, endPort));
}

const ICMP_NAMES: Readonly<Record<string, number>> = {
  "IPv4 EchoRequest": 8,
  "IPv4 EchoReply": 0,
  "IPv6 EchoRequest": 128,
};

function isIcmpRule({ fields = [] }: CiliumIcmpRule, { question }: Context): boolean {
  const { traffic, peer } = question;
  const family = typeof peer.address === "number" ? "IPv4" : "IPv6";
  return fields.some(
    (it) =>
      traffic.kind === "icmp" &&
      (it.family ?? "IPv4") === family &&
      traffic.type === (typeof it.type === "number" ? it.type : ICMP_NAMES[`${family} ${it.type}`]),
  );
}
