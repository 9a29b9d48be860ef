import type { Enforced, Flow, Traffic } from "#policy/enforced.ts";
import type { Transport } from "#policy/model.ts";
import { type DeniedFlow, formatDeniedFlow, POLICY_DENIED } from "#domain/denied-flow.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { delay } from "@fairlead/base/clock.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import type { CounterMetric } from "@fairlead/base/metrics.ts";
import { type IpAddress, tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import { type Pod, PODS } from "@fairlead/kube/api/core/v1/types.ts";
import type { EventRecorder } from "@fairlead/kube/events/events.ts";
import type { NftCounter } from "@fairlead/os/nft/driver.ts";
import { splitParts } from "@fairlead/os/nft/element.ts";

export interface FlowLogOptions {
  readonly deps: RuntimeDeps;
  readonly events: EventRecorder;
  readonly enforced: Enforced;
  /** Packets that were denied lately, by elements of the sets of denied flows, in each namespace. */
  readonly read: (signal: AbortSignal) => Promise<readonly ReadonlyMap<string, NftCounter>[]>;
  /** "cluster/namespace/name" of a known pod. */
  readonly nameOf: (address: IpAddress) => string | undefined;
  /** A pod of the own cluster. */
  readonly podOf: (address: IpAddress) => Pod | undefined;
}

/** How often the kernel is read. The kernel forgets a denied flow after a minute without packets. Unit: milliseconds. */
const READ_MS = 5000;

/** How many flows one reading reports. Their packets are all counted. */
const MAX_REPORTED = 50;

const TRANSPORTS: Readonly<Record<string, Transport>> = { tcp: "TCP", udp: "UDP", sctp: "SCTP" };

/**
 * Reports connections that policies deny: an Event on the pod whose policies deny it, and a metric. Bounded: the kernel keeps a flow once and
 * so many of them, and the recorder writes so many Events about a pod.
 */
export class FlowLog {
  readonly #options: FlowLogOptions;
  readonly #denied: CounterMetric;
  /** Packets that are counted already, by namespace and element. */
  #before: readonly ReadonlyMap<string, NftCounter>[] = [];

  constructor(options: FlowLogOptions) {
    this.#options = options;
    this.#denied = options.deps.metrics.counter({
      name: "fairlead_policy_denied_packets_total",
      help: "Packets of new connections that network policies denied, by the end whose policies did.",
      labels: ["direction"],
    });
  }

  /** Until `signal` aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { deps } = this.#options;
    while (!signal.aborted) {
      try {
        await delay(deps.clock, READ_MS, signal);
        await this.report(signal);
      } catch (error) {
        if (!signal.aborted) deps.log.warn("denied flows could not be read", { error: messageOf(error) });
      }
    }
  }

  async report(signal: AbortSignal): Promise<void> {
    const all = await this.#options.read(signal);
    let reported = 0;
    for (const [at, counters] of all.entries()) {
      const before = this.#before[at];
      for (const [element, { packets }] of counters) {
        const known = before?.get(element)?.packets ?? 0;
        // The kernel forgot it in between.
        const fresh = packets < known ? packets : packets - known;
        if (fresh === 0) continue;
        const flow = this.#flowOf(element);
        if (flow === undefined) continue;
        this.#denied.add({ direction: flow.way }, fresh);
        if (reported++ < MAX_REPORTED) this.#record(flow);
      }
    }
    this.#before = all;
  }

  #record(flow: DeniedFlow): void {
    const { deps, events, podOf } = this.#options;
    deps.log.info("policies denied a connection", { ...flow });
    const end = tryParseAddress((flow.way === "ingress" ? flow.to : flow.from).address);
    const pod = end === undefined ? undefined : podOf(end);
    if (pod !== undefined)
      events.record(PODS, pod, { type: "Warning", reason: POLICY_DENIED, message: formatDeniedFlow(flow) });
  }

  #flowOf(element: string): DeniedFlow | undefined {
    const { enforced, nameOf } = this.#options;
    const [from = "", to = "", protocol = "", port = ""] = splitParts(element);
    const [source, destination] = [tryParseAddress(from), tryParseAddress(to)];
    const transport = TRANSPORTS[protocol];
    if (source === undefined || destination === undefined || transport === undefined) return undefined;
    const traffic: Traffic = { kind: "transport", protocol: transport, port: Number(port) };
    const denial = denialOf(enforced, { source, destination, traffic });
    const endOf = (address: IpAddress, text: string) => {
      const pod = nameOf(address);
      return pod === undefined ? { address: text } : { address: text, pod };
    };
    return {
      ...denial,
      protocol: transport,
      from: endOf(source, from),
      to: endOf(destination, to),
      port: Number(port),
    };
  }
}

/** By now policies may allow it. */
function denialOf(enforced: Enforced, flow: Flow): Pick<DeniedFlow, "way" | "policy"> {
  const way = enforced.verdict(flow, "egress").isAllowed ? "ingress" : "egress";
  const { isAllowed, rule } = enforced.verdict(flow, way);
  if (isAllowed || rule === undefined) return { way };
  const { kind, namespace, name } = rule.policy;
  return { way, policy: `${kind} ${namespace === undefined ? name : `${namespace}/${name}`}` };
}
