import type { Fields } from "@fairlead/base/fields.ts";
import type { NetworkPolicy } from "@fairlead/kube/api/networking/v1/types.ts";
import type { Compilation, Direction, Peer, PortMatch, Rule, Way } from "../model.ts";
import { cidrPeer, podsPeer } from "../peers.ts";
import { selectorOf } from "../selector.ts";
import { prefixOfPart, withoutExceptions } from "./cidrs.ts";
import { Draft, policyKey, ruleOf } from "./draft.ts";
import {
  type ClusterSettings,
  isIn,
  namespaceAttribute,
  peerSelector,
  podAttribute,
  requirementsOf,
} from "./labels.ts";
import { isPresent, open, type Part, partAt, partsAt, readAll, type Refuse, shown } from "./part.ts";
import { allPorts, isPort, isPortName, isTransport, refusePort } from "./ports.ts";

/** NetworkPolicy of `networking.k8s.io/v1`. In addition, a `podSelector` can have the label of a cluster. */

const SPEC_FIELDS = ["podSelector", "policyTypes", "ingress", "egress"];

interface Context {
  readonly draft: Draft;
  readonly namespace: string;
  readonly settings: ClusterSettings;
}

export function compileNetworkPolicy(policy: NetworkPolicy, settings: ClusterSettings): Compilation {
  const draft = new Draft("NetworkPolicy", policy);
  const namespace = policy.metadata.namespace ?? "default";
  const whole = draft.refuse("policy not enforced");
  const fields = open({ path: "spec", value: policy.spec ?? {} }, SPEC_FIELDS, whole);
  const subject =
    fields &&
    requirementsOf({ path: "spec.podSelector", value: fields["podSelector"] ?? {} }, podAttribute, whole);
  if (fields === undefined || subject === undefined) return draft.done([]);
  const context = { draft, namespace, settings };
  const ways = waysOf(fields, draft);
  return draft.done([
    {
      key: policyKey(draft.id),
      id: draft.id,
      tier: "network-policy",
      priority: 0,
      subject: { of: "pods", selector: selectorOf([...subject, isIn("namespace", namespace)]) },
      ...(ways.includes("ingress") ? { ingress: directionOf(fields, "ingress", context) } : {}),
      ...(ways.includes("egress") ? { egress: directionOf(fields, "egress", context) } : {}),
    },
  ]);
}

const TYPES: Readonly<Record<Way, string>> = { ingress: "Ingress", egress: "Egress" };

function waysOf(fields: Fields, draft: Draft): readonly Way[] {
  const types = partsAt(fields, "spec", "policyTypes") ?? [];
  const hasRules = (way: Way): boolean => (partsAt(fields, "spec", way) ?? []).length > 0;
  if (types.length === 0) return hasRules("egress") ? ["ingress", "egress"] : ["ingress"];
  const refuse = draft.refuse("part ignored");
  for (const { path, value } of types)
    if (!Object.values(TYPES).includes(String(value)))
      refuse(path, `${shown(value)} is neither Ingress nor Egress.`);
  return (["ingress", "egress"] as const).filter((way) => {
    const isWanted = types.some((it) => it.value === TYPES[way]);
    if (!isWanted && hasRules(way))
      refuse(`spec.${way}`, "The rules have no effect: spec.policyTypes does not contain the direction.");
    return isWanted;
  });
}

function directionOf(fields: Fields, way: Way, context: Context): Direction {
  const rules = partsAt(fields, "spec", way) ?? [];
  return {
    isDefaultDeny: true,
    rules: rules.map((it) => ruleOfPart(it, way, context)).filter((it) => it !== undefined),
  };
}

function ruleOfPart(part: Part, way: Way, context: Context): Rule | undefined {
  const refuse = context.draft.forRule("allow");
  const list = way === "ingress" ? "from" : "to";
  const fields = open(part, [list, "ports"], refuse);
  if (fields === undefined) return undefined;
  const peers = partsAt(fields, part.path, list) ?? [];
  const ports = partsAt(fields, part.path, "ports") ?? [];
  return ruleOf("allow", part.path, {
    peers: peers.length === 0 ? "any" : readAll(peers, false, (it) => peerOf(it, context, refuse)),
    ports: ports.length === 0 ? "any" : readAll(ports, false, (it) => portOf(it, refuse)),
  });
}

function peerOf(part: Part, { namespace, settings, draft }: Context, refuse: Refuse): Peer | undefined {
  const fields = open(part, ["podSelector", "namespaceSelector", "ipBlock"], refuse);
  if (fields === undefined) return undefined;
  const [pods, namespaces, block] = ["podSelector", "namespaceSelector", "ipBlock"].map((it) =>
    partAt(fields, part.path, it),
  );
  if (block !== undefined) {
    if (pods === undefined && namespaces === undefined) return blockOf(block, draft, refuse);
    return refuse(block.path, "ipBlock cannot be combined with a selector in one peer. Write two peers.");
  }
  if (pods === undefined && namespaces === undefined) return refuse(part.path, "The peer is empty.");
  const ofPods = pods === undefined ? [] : requirementsOf(pods, podAttribute, refuse);
  const ofNamespaces =
    namespaces === undefined
      ? [isIn("namespace", namespace)]
      : requirementsOf(namespaces, namespaceAttribute, refuse);
  if (ofPods === undefined || ofNamespaces === undefined) return undefined;
  return podsPeer(peerSelector([...ofPods, ...ofNamespaces], settings));
}

function blockOf(part: Part, draft: Draft, refuse: Refuse): Peer | undefined {
  const fields = open(part, ["cidr", "except"], refuse);
  if (fields === undefined) return undefined;
  const cidr = prefixOfPart({ path: `${part.path}.cidr`, value: fields["cidr"] }, refuse);
  const left = cidr && withoutExceptions(cidr, partsAt(fields, part.path, "except") ?? [], draft, refuse);
  return left && cidrPeer(left, { matchesPods: true, matchesNodes: true });
}

function portOf(part: Part, refuse: Refuse): PortMatch | undefined {
  const fields = open(part, ["protocol", "port", "endPort"], refuse);
  if (fields === undefined) return undefined;
  const { port, endPort } = fields;
  const protocol = fields["protocol"] ?? "TCP";
  if (!isTransport(protocol))
    return refuse(`${part.path}.protocol`, `${shown(protocol)} is not TCP, UDP or SCTP.`);
  if (!isPresent(port)) {
    if (isPresent(endPort)) return refuse(`${part.path}.endPort`, "endPort needs a port, which is a number.");
    return allPorts(protocol);
  }
  if (isPortName(port)) {
    if (isPresent(endPort))
      return refuse(`${part.path}.endPort`, "endPort needs a port that is a number, not a name.");
    return { kind: "named", protocol, name: port };
  }
  if (!isPort(port)) return refusePort(`${part.path}.port`, port, refuse);
  if (!isPresent(endPort)) return { kind: "range", protocol, first: port, last: port };
  if (!isPort(endPort) || endPort < port)
    return refuse(`${part.path}.endPort`, `${shown(endPort)} is not a port from ${port} to 65535.`);
  return { kind: "range", protocol, first: port, last: endPort };
}
