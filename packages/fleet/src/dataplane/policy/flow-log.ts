import type { Enforced, Flow, Traffic, Verdict } from "#policy/enforced.ts";
import type { PolicyId, Transport, Way } from "#policy/model.ts";
import { FLOW_REASONS, flowEnd, type FlowRecord, formatFlow, UNKNOWN_POD } from "#domain/flow-record.ts";
import { delay } from "@fairlead/base/clock.ts";
import { defined } from "@fairlead/base/defined.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import type { CounterMetric } from "@fairlead/base/metrics.ts";
import { type IpAddress, tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import { type Node, NODES, type Pod, PODS } from "@fairlead/kube/api/core/v1/types.ts";
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
  readonly node: () => Node | undefined;
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
 * pod whose policies decide, and a metric. Bounded: the kernel keeps a flow once and so many of them of a source, and the recorder writes so many Events
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
    for (const it of fairly(records.map(({ record }) => record)).slice(0, MAX_REPORTED)) this.#write(log, it);
    log.before = all;
  }

  #write({ kind, events }: KindLog, record: FlowRecord): void {
    const { deps, podOf } = this.#options;
    deps.log.info(`policies ${kind} a connection`, { ...record });
    const text = {
      type: kind === "denied" ? "Warning" : "Normal",
      reason: FLOW_REASONS[kind],
      message: formatFlow(record),
    } as const;
    const ends = record.direction === "ingress" ? [record.to, record.from] : [record.from, record.to];
    const [end, other] = ends.map((it) => {
      const address = tryParseAddress(it.address);
      return address === undefined ? undefined : podOf(address);
    });
    const pod = end ?? (record.rule === UNKNOWN_POD ? other : undefined);
    const node = record.rule === UNKNOWN_POD ? this.#options.node() : undefined;
    if (pod !== undefined) events.record(PODS, pod, text);
    else if (node !== undefined) events.record(NODES, node, text);
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
    const ways = kind === "denied" ? [this.#denyingEnd(flow)] : this.#loggedEnds(flow);
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

  #denyingEnd(flow: Flow): Way {
    const { enforced, podOf } = this.#options;
    if (!enforced.verdict(flow, "egress").isAllowed) return "egress";
    const isIngress = !enforced.verdict(flow, "ingress").isAllowed || podOf(flow.destination) === undefined;
    return isIngress || podOf(flow.source) !== undefined ? "ingress" : "egress";
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

/** The first one of each source, then the second ones. */
function fairly(records: readonly FlowRecord[]): readonly FlowRecord[] {
  const counts = new Map<string, number>();
  const ranked = records.map((record) => {
    const rank = counts.get(record.from.address) ?? 0;
    counts.set(record.from.address, rank + 1);
    return { record, rank };
  });
  return ranked.toSorted((a, b) => a.rank - b.rank).map(({ record }) => record);
}

/** What no policy denies is dropped because of an unknown pod. By now policies may say something else. */
function decisionOf(
  { isAllowed, rule, deniedBy = [] }: Verdict,
  kind: Kind,
): Pick<FlowRecord, "policies" | "rule"> {
  if (isAllowed && kind === "denied") return { policies: [], rule: UNKNOWN_POD };
  if (isAllowed !== (kind === "allowed")) return { policies: [] };
  if (rule === undefined) return { policies: deniedBy.map(policyName) };
  return { policies: [policyName(rule.policy)], ...defined({ rule: rule.origin }) };
}

function policyName({ kind, namespace, name }: PolicyId): string {
  return `${kind} ${namespace === undefined ? name : `${namespace}/${name}`}`;
}
