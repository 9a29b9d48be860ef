import type { AddressFamily } from "@fairlead/base/netaddr/address.ts";
import type { NewCondition } from "@fairlead/kube/objects/conditions.ts";
import { HOST_DEVICE } from "./names.ts";

/**
 * Judges the node's route to fleet addresses by echo requests from the node, and from pods without an interface in `fleet`:
 * network plugins and service proxies may have rules that break it. Pure.
 */

/** Where a request was sent from. */
export interface Origin {
  /** "namespace/name" of a pod; undefined: the node itself. */
  readonly pod: string | undefined;
}

export interface Echo {
  readonly from: Origin;
  readonly family: AddressFamily;
  /** This node's own fleet address. */
  readonly to: string;
  /** It was seen in `fleet`. */
  readonly hasArrived: boolean;
  readonly isAnswered: boolean;
}

/** Of the node, read after a failure. */
export interface HostFacts {
  /** The device that packets to fleet addresses leave by; undefined: none, or not known. */
  readonly routeDevice: ReadonlyMap<AddressFamily, string | undefined>;
  /** The strictest of `net.ipv4.conf.{all,fl-host}.rp_filter`. */
  readonly rpFilter: number | undefined;
}

export const HOST_ROUTED = "HostRouted";

/** How many failures a message lists. */
const MAX_LISTED = 4;

export function hasFailed(echoes: readonly Echo[]): boolean {
  return failuresOf(echoes).length > 0;
}

/**
 * The condition of the node's AddressBlock. A policy may keep one pod from sending, so that pods fail only where none is answered.
 *
 * @param facts - Undefined: nothing failed.
 */
export function judgeHost(echoes: readonly Echo[], facts: HostFacts | undefined): NewCondition {
  const failures = failuresOf(echoes);
  const [first] = failures;
  if (first === undefined || facts === undefined) {
    const hasPod = echoes.some((it) => it.from.pod !== undefined);
    return {
      type: HOST_ROUTED,
      status: "True",
      reason: "Answered",
      message: `${hasPod ? "The node, and pods without an interface of their own," : "The node"} can reach fleet addresses.`,
    };
  }
  const texts = failures.slice(0, MAX_LISTED).map((it) => describe(it, facts));
  const more = failures.length > MAX_LISTED ? [`${failures.length - MAX_LISTED} more fail.`] : [];
  return {
    type: HOST_ROUTED,
    status: "False",
    reason: reasonOf(first, facts),
    message: [...texts, ...more].join(" "),
  };
}

function failuresOf(echoes: readonly Echo[]): readonly Echo[] {
  return echoes.filter(({ from, family, isAnswered }) => {
    if (isAnswered) return false;
    const isOther = (it: Echo): boolean => it.from.pod !== undefined && it.family === family;
    return from.pod === undefined || !echoes.some((it) => isOther(it) && it.isAnswered);
  });
}

const STRICT = 1;

function reasonOf(echo: Echo, facts: HostFacts): string {
  if (echo.hasArrived) return "AnswersLost";
  return isElsewhere(echo, facts) ? "RouteShadowed" : "RequestsLost";
}

function isElsewhere({ from, family }: Echo, { routeDevice }: HostFacts): boolean {
  const device = routeDevice.get(family);
  return from.pod === undefined && device !== undefined && device !== HOST_DEVICE;
}

function describe(echo: Echo, facts: HostFacts): string {
  const { from, to, family, hasArrived } = echo;
  const who = from.pod === undefined ? "the node" : `the pod ${from.pod}`;
  const what = `An echo request over ${family} from ${who} to ${to}`;
  if (hasArrived)
    return `${what} arrives in the namespace fleet, but its answer is lost: ${answerRemedy(family, facts)}`;
  if (isElsewhere(echo, facts))
    return `${what} leaves by the device ${facts.routeDevice.get(family)}: a policy rule hides the route to ${HOST_DEVICE}; see "ip rule" and "ip route get ${to}".`;
  if (from.pod === undefined)
    return `${what} is lost: have the firewall of the node accept packets that leave by ${HOST_DEVICE}.`;
  return `${what} is lost: have the network plugin and the firewall of the node forward packets of pods to ${HOST_DEVICE}, or attach the pod with the label fairlead.dev/attach=true.`;
}

function answerRemedy(family: AddressFamily, { rpFilter }: HostFacts): string {
  const firewall = `have the firewall of the node accept packets that come from ${HOST_DEVICE}`;
  return family === "IPv4" && rpFilter === STRICT
    ? `${firewall}, or set net.ipv4.conf.all.rp_filter and net.ipv4.conf.${HOST_DEVICE}.rp_filter to 2 (now 1, strict).`
    : `${firewall}.`;
}
