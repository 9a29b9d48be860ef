import type { Fields } from "@fairlead/base/fields.ts";
import type { ClusterNetworkPolicy } from "#api/policy.networking.k8s.io/v1alpha2/types.ts";
import type { Compilation, Direction, Peer, Rule, Subject, Tier, Way } from "../model.ts";
import { selectorOf } from "../selector.ts";
import { clusterPeers, selectedOf } from "./cluster-peers.ts";
import { clusterPorts } from "./cluster-ports.ts";
import { Draft, policyKey, ruleOf } from "./draft.ts";
import type { ClusterSettings } from "./labels.ts";
import { open, type Part, partsAt, readAll, type Refuse, shown } from "./part.ts";

/** ClusterNetworkPolicy of `policy.networking.k8s.io/v1alpha2`. What is not understood accepts nothing, and denies everything. */

interface Context {
  readonly draft: Draft;
  readonly settings: ClusterSettings;
}

const TIERS: ReadonlyMap<unknown, Tier> = new Map([
  ["Admin", "admin"],
  ["Baseline", "baseline"],
]);
const MAX_PRIORITY = 1000;
const SPEC_FIELDS = ["tier", "priority", "subject", "ingress", "egress"];

export function compileClusterPolicy(policy: ClusterNetworkPolicy, settings: ClusterSettings): Compilation {
  const draft = new Draft("ClusterNetworkPolicy", policy);
  const whole = draft.refuse("policy not enforced");
  const fields = open({ path: "spec", value: policy.spec ?? {} }, SPEC_FIELDS, whole);
  const tier = fields && tierOf(fields, whole);
  const subject = fields && subjectOf({ path: "spec.subject", value: fields["subject"] }, whole);
  if (fields === undefined || tier === undefined || subject === undefined) return draft.done([]);
  const ingress = directionOf(fields, "ingress", { draft, settings });
  const egress = directionOf(fields, "egress", { draft, settings });
  return draft.done([
    {
      key: policyKey(draft.id),
      id: draft.id,
      ...tier,
      subject,
      ...(ingress === undefined ? {} : { ingress }),
      ...(egress === undefined ? {} : { egress }),
    },
  ]);
}

function tierOf(
  fields: Fields,
  refuse: Refuse,
): { readonly tier: Tier; readonly priority: number } | undefined {
  const tier = TIERS.get(fields["tier"]);
  const { priority } = fields;
  if (tier === undefined)
    return refuse("spec.tier", `${shown(fields["tier"])} is neither Admin nor Baseline.`);
  if (typeof priority === "number" && Number.isInteger(priority) && priority >= 0 && priority <= MAX_PRIORITY)
    return { tier, priority };
  return refuse("spec.priority", `${shown(priority)} is not a number from 0 to ${MAX_PRIORITY}.`);
}

function subjectOf(part: Part, refuse: Refuse): Subject | undefined {
  const fields = open(part, ["namespaces", "pods"], refuse);
  const requirements = fields && selectedOf(fields, part.path, refuse);
  return requirements && { of: "pods", selector: selectorOf(requirements) };
}

function directionOf(fields: Fields, way: Way, context: Context): Direction | undefined {
  const rules = (partsAt(fields, "spec", way) ?? []).map((it) => ruleOfPart(it, way, context));
  return rules.length === 0
    ? undefined
    : { isDefaultDeny: false, rules: rules.filter((it) => it !== undefined) };
}

const ACTIONS: ReadonlyMap<unknown, Rule["action"]> = new Map([
  ["Accept", "allow"],
  ["Deny", "deny"],
  ["Pass", "pass"],
]);

function ruleOfPart(part: Part, way: Way, context: Context): Rule | undefined {
  const value = part.value as { readonly action?: unknown } | null | undefined;
  const action = ACTIONS.get(value?.action);
  if (action !== undefined) return ruleWith(action, part, way, context);
  const reason = `${shown(value?.action)} is not Accept, Deny or Pass.`;
  context.draft.refuse("denies more")(`${part.path}.action`, reason);
  return { action: "deny", peers: "any", ports: "any", origin: part.path };
}

function ruleWith(
  action: Rule["action"],
  part: Part,
  way: Way,
  { draft, settings }: Context,
): Rule | undefined {
  const list = way === "ingress" ? "from" : "to";
  const isDenying = action !== "allow";
  const refuse = draft.forRule(action);
  const fields = open(part, ["name", "action", list, "protocols"], refuse);
  const parts = fields && (partsAt(fields, part.path, list) ?? []);
  if (parts?.length === 0) refuse(`${part.path}.${list}`, "At least one peer is needed.");
  const read = (it: Part): readonly Peer[] | undefined =>
    clusterPeers(it, way, { isDenying, refuse, settings });
  return ruleOf(action, part.path, {
    peers: parts?.length === 0 ? undefined : parts && readAll(parts, isDenying, read)?.flat(),
    ports: fields && clusterPorts(fields, part.path, isDenying, refuse),
  });
}
