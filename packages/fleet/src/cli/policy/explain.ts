import { joinLines } from "@fairlead/base/print.ts";
import type { Flow, Traffic, Verdict } from "#policy/enforced.ts";
import type { CompiledPolicy, Way } from "#policy/model.ts";
import { addressesOf, type End, trafficText } from "./ends.ts";
import { type ClusterView, nameOf, podName } from "./view.ts";

/** Why a flow is allowed or denied, at both ends. Pure. */

export interface Explanation {
  readonly from: string;
  readonly to: string;
  readonly traffic: string;
  /** `Unknown`: no cluster that was read has the pod, so that its policies are not known. */
  readonly verdict: "Allowed" | "Denied" | "Unknown";
  readonly egress: EndExplanation;
  readonly ingress: EndExplanation;
}

export interface EndExplanation {
  readonly verdict: "Allowed" | "Denied" | "Unknown";
  /** A sentence without its full stop. */
  readonly reason: string;
  /** The rule that decided, such as `NetworkPolicy shop/web spec.ingress[0]`. */
  readonly rule?: string;
  readonly remedy?: string;
}

export function explain(views: readonly ClusterView[], from: End, to: End, traffic: Traffic): Explanation {
  const egress = endVerdict(views, { from, to, traffic }, "egress");
  const ingress = endVerdict(views, { from, to, traffic }, "ingress");
  const both = new Set([egress.verdict, ingress.verdict]);
  const verdict = both.has("Denied") ? "Denied" : both.has("Unknown") ? "Unknown" : "Allowed";
  return { from: from.text, to: to.text, traffic: trafficText(traffic), verdict, egress, ingress };
}

interface Question {
  readonly from: End;
  readonly to: End;
  readonly traffic: Traffic;
}

function endVerdict(
  views: readonly ClusterView[],
  { from, to, traffic }: Question,
  way: Way,
): EndExplanation {
  const [end, other] = way === "egress" ? [from, to] : [to, from];
  const { pod } = end;
  if (pod === undefined) return ofUnknown(views, end);
  const view = views.find((it) => it.of.cluster === pod.cluster);
  if (view === undefined)
    return {
      verdict: "Unknown",
      reason: `the policies of ${pod.cluster} were not read`,
      remedy: `add the context of ${pod.cluster} to --contexts`,
    };
  const [source, destination] = addressesOf(asKnown(view, from), asKnown(view, to));
  const flow: Flow = { source, destination, traffic };
  const explained = reasonOf(view.enforced.verdict(flow, way), view.deciding(pod, way), end, way);
  if (other.pod === undefined || view.find(other.pod) !== undefined) return explained;
  return {
    ...explained,
    reason: `${explained.reason}; ${pod.cluster} does not know ${podName(other.pod)} by its labels`,
  };
}

/** Nodes drop packets of an address of their podCIDRs that is not that of a pod, while there are policies: it may be that of a new pod. */
function ofUnknown(views: readonly ClusterView[], { addresses }: End): EndExplanation {
  for (const view of views)
    for (const address of addresses) {
      const node = view.guardOf(address);
      if (node !== undefined)
        return {
          verdict: "Denied",
          rule: "unknown pod of this node",
          reason: `the Node ${node} of ${view.of.cluster} has the address in its spec.podCIDRs, and no such pod is known, so that which policies select it is not known either`,
          remedy: "wait until the API server has the address in the status of its pod",
        };
    }
  return { verdict: "Allowed", reason: "the address is not that of a known pod" };
}

/** A cluster may know a pod by other addresses than its own cluster does: in a parallel network by its fleet addresses. */
function asKnown(view: ClusterView, end: End): End {
  const known = end.pod && view.find(end.pod);
  if (known === undefined || end.addresses.every((it) => known.addresses.includes(it))) return end;
  return { ...end, addresses: known.addresses };
}

function reasonOf(
  verdict: Verdict,
  deciding: readonly CompiledPolicy[],
  { text }: End,
  way: Way,
): EndExplanation {
  const names = [...new Set(deciding.map((it) => nameOf(it.id)))].join(", ");
  if (verdict.rule !== undefined) {
    const name = nameOf(verdict.rule.policy);
    const rule = `${name} ${verdict.rule.origin}`;
    return verdict.isAllowed
      ? {
          verdict: "Allowed",
          rule,
          reason: "the rule allows it",
          remedy: `to deny it, change this rule of ${name}`,
        }
      : {
          verdict: "Denied",
          rule,
          reason: "the rule denies it",
          remedy: `to allow it, change this rule of ${name}`,
        };
  }
  if (!verdict.isAllowed)
    return {
      verdict: "Denied",
      reason: `no rule allows it, and these policies deny by default: ${names}`,
      remedy: `to allow it, add a rule for it to the ${way} of one of them`,
    };
  return {
    verdict: "Allowed",
    reason: deciding.length === 0 ? "no policy selects the pod" : `no rule of ${names} denies it`,
    remedy: `to deny it, select ${text} in a policy with ${way}`,
  };
}

export function renderExplanation(it: Explanation): string {
  return joinLines([
    `${it.verdict}: ${it.traffic} from ${it.from} to ${it.to}`,
    ...renderEnd("egress", it.from, it.egress),
    ...renderEnd("ingress", it.to, it.ingress),
  ]);
}

function renderEnd(
  way: Way,
  text: string,
  { verdict, reason, rule, remedy }: EndExplanation,
): readonly string[] {
  return [
    `  ${way} of ${text}: ${verdict}`,
    ...(rule === undefined ? [] : [`    ${rule}`]),
    `    ${reason}`,
    ...(remedy === undefined ? [] : [`    ${remedy}`]),
  ];
}
