import { defined } from "@fairlead/base/defined.ts";

/** A connection that policies denied or allowed, as the text of an Event, which people and programs read. */

/** Without names: not a known pod. */
export interface FlowEnd {
  readonly address: string;
  readonly cluster?: string;
  readonly namespace?: string;
  readonly pod?: string;
}

export interface FlowRecord {
  readonly verdict: "denied" | "allowed";
  /** The end whose policies decided: that of the server (ingress) or of the client (egress). */
  readonly direction: "ingress" | "egress";
  readonly protocol: string;
  readonly from: FlowEnd;
  readonly to: FlowEnd;
  readonly port: number;
  /** "Kind namespace/name": of the rule, or else those that deny by default; empty: no policy selects that end. */
  readonly policies: readonly string[];
  /** The rule that decided, such as "spec.ingress[0]"; absent: no rule matches. */
  readonly rule?: string;
}

/** Reasons of the Events. */
export const FLOW_REASONS = { denied: "PolicyDenied", allowed: "PolicyAllowed" } as const;

const NO_RULE = "default";
/** In place of a rule: no policy denied it. An end is not a pod that its node knows, and whether a policy selects it is not known. */
export const UNKNOWN_POD = "unknown-pod-of-this-node";
/** How many policies a record names. */
const MAX_POLICIES = 3;

/** @param pod - "cluster/namespace/name"; undefined: not a known pod. */
export function flowEnd(address: string, pod: string | undefined): FlowEnd {
  const [cluster, namespace, name] = pod?.split("/") ?? [];
  return { address, ...defined({ cluster, namespace, pod: name }) };
}

export function formatFlow(record: FlowRecord): string {
  const { verdict, direction, protocol, from, to, port, policies, rule = NO_RULE } = record;
  const word = verdict === "denied" ? "Denied" : "Allowed";
  const of = policies.length === 0 ? "" : ` of ${policies.slice(0, MAX_POLICIES).join(", ")}`;
  return `${word} ${direction} ${protocol} from ${endText(from)} to ${endText(to)} port ${port} by ${rule}${of}`;
}

function endText({ address, cluster, namespace, pod }: FlowEnd): string {
  return `${pod === undefined ? "-" : [cluster, namespace, pod].join("/")} [${address}]`;
}

/** Events of one reason that are alike are combined by the recorder, which puts text in front. */
const FORMAT =
  /(Denied|Allowed) (ingress|egress) (\w+) from (\S+) \[([0-9a-f.:]+)\] to (\S+) \[([0-9a-f.:]+)\] port (\d+) by (\S+)(?: of (.+))?$/;

/** Undefined: not such a text. */
export function parseFlow(text: string): FlowRecord | undefined {
  const found = FORMAT.exec(text.slice(0, 2000));
  if (found === null) return undefined;
  const [, word, direction, protocol = "", fromPod, from = "", toPod, to = "", port, rule, policies] = found;
  const end = (pod: string | undefined, address: string): FlowEnd =>
    flowEnd(address, pod === "-" ? undefined : pod);
  return {
    verdict: word === "Denied" ? "denied" : "allowed",
    direction: direction === "ingress" ? "ingress" : "egress",
    protocol,
    from: end(fromPod, from),
    to: end(toPod, to),
    port: Number(port),
    policies: policies?.split(", ") ?? [],
    ...defined({ rule: rule === NO_RULE ? undefined : rule }),
  };
}
