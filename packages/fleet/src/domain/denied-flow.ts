/** A connection that a policy denied, as the text of an Event, which people and programs read. */

export interface FlowEnd {
  readonly address: string;
  /** "cluster/namespace/name"; absent: not a known pod. */
  readonly pod?: string;
}

export interface DeniedFlow {
  /** The end whose policies denied it: that of the server (ingress) or of the client (egress). */
  readonly way: "ingress" | "egress";
  readonly protocol: string;
  readonly from: FlowEnd;
  readonly to: FlowEnd;
  readonly port: number;
  /** "Kind namespace/name" of the rule that denies it; absent: no rule allows it. */
  readonly policy?: string;
}

/** Reason of the Events. */
export const POLICY_DENIED = "PolicyDenied";

const NO_RULE = "no rule allows it";

export function formatDeniedFlow({ way, protocol, from, to, port, policy }: DeniedFlow): string {
  const endText = ({ address, pod }: FlowEnd): string => `${pod ?? "-"} [${address}]`;
  return `Denied ${way} ${protocol} from ${endText(from)} to ${endText(to)} port ${port}: ${policy ?? NO_RULE}`;
}

/** Events of one reason that are alike are combined by the recorder, which puts text in front. */
const FORMAT =
  /Denied (ingress|egress) (\w+) from (\S+) \[([0-9a-f.:]+)\] to (\S+) \[([0-9a-f.:]+)\] port (\d+): (.+)$/;

/** Undefined: not such a text. */
export function parseDeniedFlow(text: string): DeniedFlow | undefined {
  const found = FORMAT.exec(text.slice(0, 2000));
  if (found === null) return undefined;
  const [, way, protocol = "", fromPod = "", from = "", toPod = "", to = "", port, policy = ""] = found;
  const end = (pod: string, address: string): FlowEnd => (pod === "-" ? { address } : { address, pod });
  return {
    way: way === "ingress" ? "ingress" : "egress",
    protocol,
    from: end(fromPod, from),
    to: end(toPod, to),
    port: Number(port),
    ...(policy === NO_RULE ? {} : { policy }),
  };
}
