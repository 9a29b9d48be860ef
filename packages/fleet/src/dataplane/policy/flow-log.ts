import type { Enforced, Flow, Traffic, Verdict } from "#policy/enforced.ts";
import type { PolicyId, Transport, Way } from "#policy/model.ts";
import { FLOW_REASONS, flowEnd, type FlowRecord, formatFlow } from "#domain/flow-record.ts";
import { delay } from "@fairlead/base/clock.ts";
import { defined } from "@fairlead/base/defined.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import type { CounterMetric } from "@fairlead/base/metrics.ts";
import { type IpAddress, tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import { type Pod, PODS } from "@fairlead/kube/api/core/v1/types.ts";
import type { EventRecorder } from "@fairlead/kube/events/events.ts";
import type { NftCounter } from "@fairlead/os/nft/driver.ts";
import { splitParts } from "@fairlead/os/nft/element.ts";

type Kind = FlowRecord["verdict"];
type Counters = readonly ReadonlyMap<string, NftCounter>[];

export interface FlowLogOptions {
  readonly deps: RuntimeDeps;
  /** Makes a recorder: denied and allowed connections have budgets of their own. */
  readonly eventsOf: () => EventRecorder;
  readonly enforced: Enforced;
  /** Packets that were denied or allowed lately, by elements of the sets of flows, in each namespace. */
  readonly read: (kind: Kind, signal: AbortSignal) => Promise<Counters>;
  /** "cluster/namespace/name" of a known pod. */
  readonly nameOf: (address: IpAddress) => string | undefined;
  /** A pod of the own cluster. */
  readonly podOf: (address: IpAddress) => Pod | undefined;
  /** Whether it is a pod of this node whose allowed connections are logged. */
  readonly isLogged: (pod: Pod) => boolean;
}

/** How often the kernel is read. The kernel forgets a flow after a minute without packets. Unit: milliseconds. */
const READ_MS = 5000;

/** How many flows of a kind one reading reports. Their packets are all counted. */
const MAX_REPORTED = 50;

const TRANSPORTS: Readonly<Record<string, Transport>> = { tcp: "TCP", udp: "UDP", sctp: "SCTP" };

/**
 * Reports connections that policies deny, and those that they allow for pods whose namespace asks for it: a line of the log, an Event on the
 * pod whose policies decide, and a metric. Bounded: the kernel keeps a flow once and so many of them, and the recorder writes so many Events
 * about a pod.
 */
export class FlowLog {
  readonly #options: FlowLogOptions;
  readonly #kinds: readonly KindLog[];

  constructor(options: FlowLogOptions) {
    const { metrics } = options.deps;
    const labels = ["direction"];
    this.#options = options;
    this.#kinds = [
      {
        kind: "denied",
        events: options.eventsOf(),
        before: [],
        packets: metrics.counter({
          name: "fairlead_policy_denied_packets_total",
          help: "Packets of new connections that network policies denied, by the end whose policies did.",
          labels,
        }),
      },
      {
        kind: "allowed",
        events: options.eventsOf(),
        before: [],
        packets: metrics.counter({
          name: "fairlead_policy_allowed_packets_total",
          help: "Packets of new connections of pods whose namespace has fairlead.dev/flow-log: all that network policies allowed, by the end whose policies did.",
          labels,
        }),
      },
    ];
  }

  /** Until `signal` aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { deps } = this.#options;
    while (!signal.aborted) {
      try {
        await delay(deps.clock, READ_MS, signal);
        await this.report(signal);
      } catch (error) {
        if (!signal.aborted) deps.log.warn("logged flows could not be read", { error: messageOf(error) });
      }
    }
  }

  async report(signal: AbortSignal): Promise<void> {
    for (const it of this.#kinds) await this.#reportKind(it, signal);
  }

  async #reportKind(log: KindLog, signal: AbortSignal): Promise<void> {
    const all = await this.#options.read(log.kind, signal);
    const records = all.flatMap((counters, at) =>
      [...counters].flatMap(([element, { packets }]) => {
        const known = log.before[at]?.get(element)?.packets ?? 0;
        // The kernel forgot it in between.
        const fresh = packets < known ? packets : packets - known;
        return fresh === 0 ? [] : this.#recordsOf(log.kind, element).map((record) => ({ record, fresh }));
      }),
    );
    for (const { record, fresh } of records) log.packets.add({ direction: record.direction }, fresh);
    for (const { record } of records.slice(0, MAX_REPORTED)) this.#write(log, record);
    log.before = all;
  }

  #write({ kind, events }: KindLog, record: FlowRecord): void {
    const { deps, podOf } = this.#options;
    deps.log.info(`policies ${kind} a connection`, { ...record });
    const end = tryParseAddress((record.direction === "ingress" ? record.to : record.from).address);
    const pod = end === undefined ? undefined : podOf(end);
    const type = kind === "denied" ? "Warning" : "Normal";
    if (pod !== undefined)
      events.record(PODS, pod, { type, reason: FLOW_REASONS[kind], message: formatFlow(record) });
  }

  /** What is denied, one end denies; what is allowed is a record for each end that asks for it. */
  #recordsOf(kind: Kind, element: string): readonly FlowRecord[] {
    const { enforced, nameOf } = this.#options;
    const [from = "", to = "", protocol = "", port = ""] = splitParts(element);
    const [source, destination] = [tryParseAddress(from), tryParseAddress(to)];
    const transport = TRANSPORTS[protocol];
    if (source === undefined || destination === undefined || transport === undefined) return [];
    const traffic: Traffic = { kind: "transport", protocol: transport, port: Number(port) };
    const flow = { source, destination, traffic };
    const ways = kind === "denied" ? [denyingEnd(enforced, flow)] : this.#loggedEnds(flow);
    return ways.map((direction) => ({
      verdict: kind,
      direction,
      protocol: transport,
      from: flowEnd(from, nameOf(source)),
      to: flowEnd(to, nameOf(destination)),
      port: Number(port),
      ...decisionOf(enforced.verdict(flow, direction), kind),
    }));
  }

  #loggedEnds({ source, destination }: Flow): readonly Way[] {
    const { podOf, isLogged } = this.#options;
    const asks = (address: IpAddress): boolean => {
      const pod = podOf(address);
      return pod !== undefined && isLogged(pod);
    };
    return [
      ...(asks(source) ? (["egress"] as const) : []),
      ...(asks(destination) ? (["ingress"] as const) : []),
    ];
  }
}

interface KindLog {
  readonly kind: Kind;
  readonly events: EventRecorder;
  readonly packets: CounterMetric;
  /** Packets that are counted already, by namespace and element. */
  before: Counters;
}

function denyingEnd(enforced: Enforced, flow: Flow): Way {
  return enforced.verdict(flow, "egress").isAllowed ? "ingress" : "egress";
}

/** By now policies may say something else. */
function decisionOf(
  { isAllowed, rule, deniedBy = [] }: Verdict,
  kind: Kind,
): Pick<FlowRecord, "policies" | "rule"> {
  if (isAllowed !== (kind === "allowed")) return { policies: [] };
  if (rule === undefined) return { policies: deniedBy.map(policyName) };
  return { policies: [policyName(rule.policy)], ...defined({ rule: rule.origin }) };
}

function policyName({ kind, namespace, name }: PolicyId): string {
  return `${kind} ${namespace === undefined ? name : `${namespace}/${name}`}`;
}
