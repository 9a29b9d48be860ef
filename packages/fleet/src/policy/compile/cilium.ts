import type { Fields } from "@fairlead/base/fields.ts";
import type { CiliumNetworkPolicy } from "#api/cilium.io/v2/types.ts";
import type { Compilation, CompiledPolicy, Direction, FqdnPattern, Rule, Subject, Way } from "../model.ts";
import { unitedPeers } from "../peers.ts";
import { selectorOf } from "../selector.ts";
import type { PeerContext } from "./cilium-context.ts";
import { ciliumAttribute, ciliumPeers, peerFieldsOf } from "./cilium-peers.ts";
import { icmpsOf, portsEntryOf } from "./cilium-ports.ts";
import { Draft, policyKey, type PolicyObjects, type PolicySettings, ruleOf } from "./draft.ts";
import { isIn, nodeAttribute, requirementsOf } from "./labels.ts";
import { isPresent, open, type Part, partAt, partsAt, readAll, shown } from "./part.ts";

/** CiliumNetworkPolicy and CiliumClusterwideNetworkPolicy of `cilium.io/v2`. */

interface Context {
  readonly draft: Draft;
  readonly namespace: string | undefined;
  readonly settings: PolicySettings;
  readonly objects: PolicyObjects;
}

const SUBJECT_FIELDS = ["endpointSelector", "nodeSelector"];
const RULE_LISTS = ["ingress", "ingressDeny", "egress", "egressDeny"];
/** Without effect on what is allowed. */
const NOTES = ["labels", "description", "log"];
const SPEC_FIELDS = [...SUBJECT_FIELDS, ...RULE_LISTS, ...NOTES, "enableDefaultDeny"];

/** @param policy Of the cluster if it has no namespace. */
export function compileCiliumPolicy(
  policy: CiliumNetworkPolicy,
  settings: PolicySettings,
  objects: PolicyObjects,
): Compilation {
  const { namespace } = policy.metadata;
  const draft = new Draft(
    namespace === undefined ? "CiliumClusterwideNetworkPolicy" : "CiliumNetworkPolicy",
    policy,
  );
  const context = { draft, namespace, settings, objects };
  const list = partsAt({ specs: policy.specs }, "", "specs") ?? [];
  const parts = [
    ...(isPresent(policy.spec) ? [{ path: "spec", value: policy.spec }] : []),
    ...list.map(({ path, value }) => ({ path: path.slice(1), value })),
  ];
  if (parts.length === 0) draft.refuse("policy not enforced")("spec", "One of spec and specs is needed.");
  const compiled = parts.map((part, index) => specOf(part, index, context));
  return draft.done(compiled.filter((it) => it !== undefined));
}

function specOf(part: Part, index: number, context: Context): CompiledPolicy | undefined {
  const { draft } = context;
  const fields = fieldsOfSpec(part, draft);
  const subject = fields && subjectOf(fields, part.path, context);
  if (fields === undefined || subject === undefined) return undefined;
  const ingress = directionOf(fields, "ingress", { ...context, path: part.path });
  const egress = directionOf(fields, "egress", { ...context, path: part.path });
  return {
    key: index === 0 ? policyKey(draft.id) : `${policyKey(draft.id)}#${index}`,
    id: draft.id,
    tier: "network-policy",
    priority: 0,
    subject,
    ...(ingress === undefined ? {} : { ingress }),
    ...(egress === undefined ? {} : { egress }),
  };
}

/** Whatever an unknown field may mean: with one, a policy allows nothing. */
function fieldsOfSpec(part: Part, draft: Draft): Fields | undefined {
  const fields = open(part, SPEC_FIELDS, draft.refuse("matches nothing"));
  if (fields !== undefined || typeof part.value !== "object" || part.value === null) return fields;
  const known = Object.entries(part.value).filter(([key]) => SPEC_FIELDS.includes(key));
  return Object.fromEntries(
    known.map(([key, value]) => [key, /^(in|e)gress$/.test(key) ? [{}] : (value as unknown)]),
  );
}

function subjectOf(fields: Fields, path: string, { draft, namespace }: Context): Subject | undefined {
  const refuse = draft.refuse("policy not enforced");
  const [pods, nodes] = SUBJECT_FIELDS.map((it) => partAt(fields, path, it));
  if ((pods === undefined) === (nodes === undefined))
    return refuse(path, "Exactly one of endpointSelector and nodeSelector is needed.");
  if (nodes !== undefined) {
    if (namespace !== undefined)
      return refuse(nodes.path, "Nodes can be selected in a CiliumClusterwideNetworkPolicy only.");
    const selected = requirementsOf(nodes, nodeAttribute, refuse);
    return selected && { of: "nodes", selector: selectorOf(selected) };
  }
  const requirements = pods && requirementsOf(pods, ciliumAttribute, refuse);
  if (pods === undefined || requirements === undefined) return undefined;
  const others = requirements.filter(
    (it) =>
      it.attribute === "namespace" &&
      !(it.operator === "In" && it.values.every((value) => value === namespace)),
  );
  if (namespace === undefined) return { of: "pods", selector: selectorOf(requirements) };
  if (others.length > 0) return refuse(pods.path, "The policy can select pods of its own namespace only.");
  return { of: "pods", selector: selectorOf([...requirements, isIn("namespace", namespace)]) };
}

function directionOf(
  fields: Fields,
  way: Way,
  context: Context & { readonly path: string },
): Direction | undefined {
  const { path, draft } = context;
  const denies = partsAt(fields, path, `${way}Deny`) ?? [];
  const allows = partsAt(fields, path, way) ?? [];
  const hasRules = denies.length + allows.length > 0;
  const asked = defaultDeny(fields, way, context);
  // As Cilium has it: what a policy enables by default is a matter of its rules of that direction.
  const isDefaultDeny = hasRules && asked !== false;
  const rules = [
    ...denies.flatMap((it) => rulesOf(it, peerContext(way, true, context))),
    ...allows.flatMap((it) => rulesOf(it, peerContext(way, false, context))),
  ];
  if (isDefaultDeny || rules.length > 0) return { isDefaultDeny, rules };
  const says = (field: string, why: string): void =>
    draft.refuse("part ignored")(
      `${path}.${field}`,
      `${why} To deny by default, write a list with one empty rule.`,
    );
  if (!hasRules && asked === true)
    says(`enableDefaultDeny.${way}`, `Without a rule in ${way} or ${way}Deny it says nothing.`);
  else if (isPresent(fields[way]) || isPresent(fields[`${way}Deny`]))
    says(way, "An empty list says nothing.");
  return undefined;
}

function peerContext(way: Way, isDenying: boolean, context: Context): PeerContext {
  return { ...context, way, isDenying, refuse: context.draft.forRule(isDenying ? "deny" : "allow") };
}

function defaultDeny(
  fields: Fields,
  way: Way,
  { path, draft }: Context & { readonly path: string },
): boolean | undefined {
  const part = partAt(fields, path, "enableDefaultDeny");
  const value = part && open(part, ["ingress", "egress"], draft.refuse("part ignored"))?.[way];
  if (!isPresent(value) || typeof value === "boolean")
    return value === null ? undefined : (value as boolean | undefined);
  draft.refuse("part ignored")(
    `${path}.enableDefaultDeny.${way}`,
    `${shown(value)} is neither true nor false.`,
  );
  return undefined;
}

/** Entries with names of DNS are a rule each, with all the peers. Only they are more than one, and they allow. */
const MAX_PAIRS = 65_536;

/** One rule for all plain ports, and one for each entry with names of DNS. */
function rulesOf(part: Part, context: PeerContext): readonly Rule[] {
  const { isDenying } = context;
  const origin = part.path;
  const known = [...peerFieldsOf(context), "toPorts", "icmps", ...(isDenying ? [] : ["authentication"])];
  const fields = open(part, known, context.refuse);
  if (fields === undefined) return isDenying ? [{ action: "deny", peers: "any", ports: "any", origin }] : [];
  if (!canConnect(fields, origin, context)) return [];
  const peers = ciliumPeers(fields, origin, context);
  const entries = entriesOf(fields, origin, context);
  // As Cilium has it: an empty rule matches nothing, but it denies by default.
  if (peers === "absent" && entries === "absent") return [];
  const to = peers === "absent" ? "any" : peers;
  const wanted = entries === "absent" ? [ANY_PORTS] : joined(entries);
  return eachOf(wanted, to === "any" ? to : to && unitedPeers(to), { ...context, origin });
}

function eachOf(
  wanted: readonly Ports[],
  peers: Rule["peers"] | undefined,
  { isDenying, origin, refuse }: PeerContext & { readonly origin: string },
): readonly Rule[] {
  if (Array.isArray(peers) && peers.length * wanted.length > MAX_PAIRS) {
    const reason = `${peers.length} peers with ${wanted.length} entries of toPorts are more than a rule can have. Write several rules.`;
    refuse(origin, reason);
    return [];
  }
  const rules = wanted.map(({ ports, dns }) => {
    const rule = ruleOf(isDenying ? "deny" : "allow", origin, { peers, ports });
    return rule && dns ? { ...rule, dns } : rule;
  });
  return rules.filter((it) => it !== undefined);
}

function canConnect(fields: Fields, path: string, { refuse }: PeerContext): boolean {
  const part = partAt(fields, path, "authentication");
  const read = part && open(part, ["mode"], refuse);
  if (part === undefined || (read !== undefined && (read["mode"] ?? "disabled") === "disabled")) return true;
  if (read !== undefined) refuse(part.path, "Fairlead does not authenticate connections. Remove the field.");
  return false;
}

interface Ports {
  readonly ports: Rule["ports"] | undefined;
  readonly dns?: readonly FqdnPattern[];
}

const ANY_PORTS: Ports = { ports: "any" };

/** Entries without names of DNS as one. */
function joined(entries: Entries | undefined): readonly Ports[] {
  if (entries === undefined) return [{ ports: undefined }];
  const plain = entries.filter((it) => it.dns === undefined).flatMap((it) => it.ports);
  return [...(plain.length === 0 ? [] : [{ ports: plain }]), ...entries.filter((it) => it.dns !== undefined)];
}

type Entries = readonly NonNullable<ReturnType<typeof portsEntryOf>>[];

function entriesOf(fields: Fields, path: string, context: PeerContext): Entries | "absent" | undefined {
  const ports = partsAt(fields, path, "toPorts") ?? [];
  const icmps = partsAt(fields, path, "icmps") ?? [];
  if (ports.length > 0 && icmps.length > 0)
    return context.refuse(`${path}.icmps`, "A rule cannot have both toPorts and icmps. Write two rules.");
  if (ports.length > 0) return readAll(ports, context.isDenying, (it) => portsEntryOf(it, context));
  if (icmps.length === 0) return "absent";
  const read = readAll(icmps, context.isDenying, (it) => icmpsOf(it, context));
  return read && [{ ports: read.flat() }];
}
