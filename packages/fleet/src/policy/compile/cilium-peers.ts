import type { Fields } from "@fairlead/base/fields.ts";
import { containsPrefix, type Prefix } from "@fairlead/base/netaddr/prefix.ts";
import { isObject } from "@fairlead/base/json.ts";
import type { Entity, Peer, Rule } from "../model.ts";
import { entityPeer, fqdnPeer, nodesPeer, podsPeer } from "../peers.ts";
import { type Attribute, type Requirement, selectorOf, selects } from "../selector.ts";
import { prefixOfPart, withoutExceptions } from "./cidrs.ts";
import { labelOf, ofPrefixes, type PeerContext, plainAttribute } from "./cilium-context.ts";
import type { RuleContext } from "./cilium-ports.ts";
import { serviceOf } from "./cilium-services.ts";
import { TOO_MANY_EXCEPTIONS } from "./exceptions.ts";
import { fqdnOf } from "./fqdn.ts";
import { isIn, nodeAttribute, peerSelector, podAttribute, requirementsOf } from "./labels.ts";
import { isPresent, open, type Part, partAt, partsAt, readAll, type Refuse, shown, textOf } from "./part.ts";

/** The peers of a rule of Cilium's kinds. */

type Peers = Rule["peers"];
type Reader = (parts: readonly Part[], context: PeerContext) => Peers | undefined;

const READERS: Readonly<Record<string, Reader>> = {
  Endpoints: (parts, context) => each(parts, context, (it) => endpointsOf(it, context))?.flat(),
  Requires: (parts, { refuse }) =>
    refuse(
      parts[0]?.path ?? "",
      "Cilium has removed this field. Add its labels to fromEndpoints or toEndpoints.",
    ),
  CIDR: (parts, context) =>
    ofPrefixes(
      each(parts, context, (it) => prefixOfPart(it, context.refuse, true)),
      context,
    ),
  CIDRSet: (parts, context) =>
    ofPrefixes(each(parts, context, (it) => cidrRuleOf(it, context))?.flat(), context),
  Entities: (parts, context) => entitiesOf(parts, context),
  Groups: (parts, { refuse }) =>
    refuse(
      parts[0]?.path ?? "",
      "Fairlead does not know groups of cloud providers. List their CIDRs in a CiliumCIDRGroup.",
    ),
  Nodes: (parts, context) => each(parts, context, (it) => nodesOf(it, context)),
  Services: (parts, context) => each(parts, context, (it) => serviceOf(it, context))?.flat(),
  FQDNs: (parts, context) => fqdnsOf(parts, context),
};

const PEER_FIELDS = {
  ingress: ["Endpoints", "Requires", "CIDR", "CIDRSet", "Entities", "Groups", "Nodes"].map(
    (it) => `from${it}`,
  ),
  egress: Object.keys(READERS).map((it) => `to${it}`),
};

export function peerFieldsOf({ way }: RuleContext): readonly string[] {
  return PEER_FIELDS[way];
}

/** `absent`: the rule has no field of peers. Undefined: they are refused. */
export function ciliumPeers(
  fields: Fields,
  path: string,
  context: PeerContext,
): Peers | "absent" | undefined {
  const present = peerFieldsOf(context).filter((it) => isPresent(fields[it]));
  const [name, other] = present;
  if (name === undefined) return "absent";
  if (other !== undefined)
    return context.refuse(
      `${path}.${other}`,
      `A rule cannot have both ${name} and ${other}. Write two rules.`,
    );
  const parts = partsAt(fields, path, name) ?? [];
  // As Cilium has it: a list that is there and empty selects nothing.
  if (parts.length === 0) return [];
  return READERS[name.replace(/^(from|to)/, "")]?.(parts, context);
}

function each<T>(
  parts: readonly Part[],
  { isDenying }: PeerContext,
  read: (part: Part) => T | undefined,
): readonly T[] | undefined {
  return readAll(parts, isDenying, read);
}

/** Labels of pods are those of the sources `k8s` and `any`, which is the default. */
export function ciliumAttribute(key: string): Attribute | undefined {
  const label = labelOf(key);
  return label === undefined ? undefined : podAttribute(label);
}

function endpointsOf(part: Part, context: PeerContext): readonly Peer[] | undefined {
  const entity = reservedOf(part);
  if (entity !== undefined) return entityOf({ path: part.path, value: entity }, context.refuse);
  const requirements = requirementsOf(part, ciliumAttribute, context.refuse);
  return (
    requirements && [podsPeer(peerSelector(inNamespace(requirements, context.namespace), context.settings))]
  );
}

/** The entity that a selector of one label such as `reserved:host` means. */
function reservedOf({ value }: Part): string | undefined {
  if (!isObject(value)) return undefined;
  const labels = isObject(value["matchLabels"]) ? Object.entries(value["matchLabels"]) : [];
  const expressions = Array.isArray(value["matchExpressions"])
    ? (value["matchExpressions"] as readonly unknown[])
    : [];
  if (labels.length + expressions.length !== 1) return undefined;
  const [expression] = expressions;
  const exists = isObject(expression) && expression["operator"] === "Exists" ? expression["key"] : undefined;
  const key = labels[0]?.[1] === "" ? labels[0][0] : exists;
  return typeof key === "string" && key.startsWith("reserved:") ? key.slice("reserved:".length) : undefined;
}

/** Peers are in the namespace of the policy unless they name one, by name or by labels. */
function inNamespace(
  requirements: readonly Requirement[],
  namespace: string | undefined,
): readonly Requirement[] {
  const isNamed = requirements.some((it) => it.attribute === "namespace" || it.attribute.startsWith("ns:"));
  return isNamed || namespace === undefined ? requirements : [...requirements, isIn("namespace", namespace)];
}

const ENTITIES: Readonly<Record<string, Entity>> = {
  host: "host",
  "remote-node": "remote-node",
  "kube-apiserver": "kube-apiserver",
  cluster: "cluster",
  world: "world",
  "world-ipv4": "world-ipv4",
  "world-ipv6": "world-ipv6",
};
/** Without Cilium's data plane, nothing has these identities. */
const EMPTY_ENTITIES: ReadonlySet<string> = new Set(["none", "init", "health", "ingress", "unmanaged"]);

function entitiesOf(parts: readonly Part[], context: PeerContext): Peers | undefined {
  if (parts.some((it) => it.value === "all")) return "any";
  return each(parts, context, (it) => entityOf(it, context.refuse))?.flat();
}

function entityOf(part: Part, refuse: Refuse): readonly Peer[] | undefined {
  const name = textOf(part, refuse);
  if (name === undefined) return undefined;
  if (EMPTY_ENTITIES.has(name)) return [];
  const entity = Object.hasOwn(ENTITIES, name) ? ENTITIES[name] : undefined;
  return entity === undefined ? refuse(part.path, `${shown(name)} is not an entity.`) : [entityPeer(entity)];
}

function cidrRuleOf(part: Part, context: PeerContext): readonly Prefix[] | undefined {
  const { refuse } = context;
  const fields = open(part, ["cidr", "cidrGroupRef", "cidrGroupSelector", "except"], refuse);
  if (fields === undefined) return undefined;
  const [cidr, name, selector] = ["cidr", "cidrGroupRef", "cidrGroupSelector"].map((it) =>
    partAt(fields, part.path, it),
  );
  const [kind, ...more] = [cidr, name, selector].filter((it) => it !== undefined);
  if (kind === undefined || more.length > 0)
    return refuse(part.path, "Exactly one of cidr, cidrGroupRef and cidrGroupSelector is needed.");
  const exceptions = partsAt(fields, part.path, "except") ?? [];
  if (cidr !== undefined) {
    const prefix = prefixOfPart(cidr, refuse);
    return prefix && withoutExceptions(prefix, exceptions, context.draft, refuse);
  }
  const group = groupCidrs(name, selector, context);
  return group && withoutSome(group, exceptions, context);
}

/** The CIDRs of the groups of this name, or that the selector selects. A group that does not exist has none. */
function groupCidrs(
  name: Part | undefined,
  selector: Part | undefined,
  context: PeerContext,
): readonly Prefix[] | undefined {
  const { draft, objects, refuse, isDenying } = context;
  draft.reads.cidrGroups = true;
  const requirements = selector && requirementsOf(selector, plainAttribute, refuse);
  if (selector !== undefined && requirements === undefined) return undefined;
  const wanted = objects.cidrGroups.filter(({ metadata }) =>
    requirements === undefined
      ? metadata.name === name?.value
      : selects(selectorOf(requirements), (it) => metadata.labels?.[it.slice("pod:".length)]),
  );
  const parts = wanted.flatMap(({ metadata, spec }) =>
    (spec?.externalCIDRs ?? []).map((value, index) => ({
      path: `CiliumCIDRGroup ${metadata.name} spec.externalCIDRs[${index}]`,
      value,
    })),
  );
  return readAll(parts, isDenying, (it) => prefixOfPart(it, refuse, true));
}

/** Exceptions of groups are taken from those of their CIDRs that they are in. */
function withoutSome(
  prefixes: readonly Prefix[],
  exceptions: readonly Part[],
  { draft, refuse }: PeerContext,
): readonly Prefix[] | undefined {
  // Each is compared with each CIDR of the groups.
  if (exceptions.length > draft.exceptionsLeft) return refuse(exceptions[0]?.path ?? "", TOO_MANY_EXCEPTIONS);
  const read = exceptions.map((part) => ({ part, prefix: prefixOfPart(part, refuse) }));
  if (read.some((it) => it.prefix === undefined)) return undefined;
  const left = prefixes.map((prefix) => {
    if (read.some((it) => it.prefix !== undefined && containsPrefix(it.prefix, prefix))) return [];
    const inside = read.filter((it) => it.prefix !== undefined && containsPrefix(prefix, it.prefix));
    return withoutExceptions(
      prefix,
      inside.map((it) => it.part),
      draft,
      refuse,
    );
  });
  return left.includes(undefined) ? undefined : left.flatMap((it) => it ?? []);
}

function nodesOf(part: Part, { refuse, settings }: PeerContext): Peer | undefined {
  const attribute = (key: string): Attribute | undefined => {
    const label = labelOf(key);
    return label === undefined ? undefined : nodeAttribute(label);
  };
  const requirements = requirementsOf(part, attribute, refuse);
  return requirements && nodesPeer(peerSelector(requirements, settings), true);
}

function fqdnsOf(parts: readonly Part[], context: PeerContext): Peers | undefined {
  if (context.isDenying) return context.refuse(parts[0]?.path ?? "", "Names cannot be denied. Deny CIDRs.");
  return each(parts, context, (it) => fqdnOf(it, context.refuse))?.map((it) => fqdnPeer(it));
}
