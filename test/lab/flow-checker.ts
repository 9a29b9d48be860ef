/**
 * Watches the backend of every new flow of a lab while things break: none goes to an endpoint more than a second after
 * its importer received the withdrawal, none to what has been dead for longer than configured, and none fails that could
 * have been served.
 */

import { expect } from "vitest";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import {
  MCS_SERVICE_IMPORTS,
  type ServiceImport,
} from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import { parseAddress } from "@fairlead/base/netaddr/address.ts";
import { containsAddress, parsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import { PARALLEL_PREFIXES } from "@fairlead/lab/topology.ts";
import { systemClock } from "@fairlead/base/clock.ts";
import { PROXY_TABLE, setName } from "@fairlead/fleet/dataplane/service-proxy/names.ts";
import { VIRTUAL_IP_LAYOUT } from "@fairlead/fleet/dataplane/virtual-ips/table.ts";
import { nodeNetns } from "@fairlead/lab/places.ts";
import { createExecNft } from "@fairlead/os/nft/exec.ts";
import { inNetns } from "@fairlead/os/netns/netns.ts";
import { eventuallyOne, until } from "../support/waiting.ts";
import { type Flow, judge, type Limits, type Mark, tally } from "./flow-judge.ts";
import { FlowRecorder } from "./flow-recorder.ts";
import { fleetNetnsOf } from "./parallel-lab.ts";
import { found, type TestLab } from "../support/lab-fixture.ts";
import { flowScript, nodePod } from "../support/lab-manifests.ts";

interface Named {
  readonly namespace: string;
  readonly name: string;
}

export interface Checked {
  /** Where pods make flows: all of them importers. */
  readonly members: readonly string[];
  readonly service: Named;
  /** Exporters without flows: their own endpoints are recorded too. */
  readonly others?: readonly string[];
  /** Default: each flow has its own port. */
  readonly ports?: Ports;
  /** Other limits than those of a lab in which one thing breaks at a time. */
  readonly limits?: Partial<Limits>;
}

/** A flow gives up after this. Unit: milliseconds. */
const FLOW_MS = 2000;

/**
 * Whether every flow has its own port, or every second flow leaves the port to the kernel. conntrack remembers a closed
 * connection for two minutes, and sends a new connection with the same addresses and ports to the previous
 * endpoint, whatever became of it (tcp_packet in the kernel's nf_conntrack_proto_tcp.c). The kernel's own choice returns
 * to a port after some 3,000 flows.
 */
type Ports = "own" | "both";

export class FlowChecker implements AsyncDisposable {
  readonly #lab: TestLab;
  readonly #of: Checked;
  readonly #recorder: FlowRecorder;
  /** Where the Service is, by importer. */
  readonly #addresses = new Map<string, string>();
  readonly #marks: Mark[] = [];
  readonly #limits: Limits;

  private constructor(lab: TestLab, of: Checked, recorder: FlowRecorder) {
    this.#lab = lab;
    this.#of = of;
    this.#recorder = recorder;
    // The hub hears nothing for a lease, and an endpoint has to leave one question unanswered (1.5 s, one a second).
    this.#limits = {
      flowMs: FLOW_MS,
      withdrawnMs: 1000,
      deadMs: lab.topology.spec.leaseSeconds * 1000 + 5000,
      remadeMs: 500,
      ownLagMs: 0,
      announcedMs: 0,
      ...of.limits,
    };
  }

  /** The service has to be imported by all of them; `from` has to hold namespaces in which pods may be made. */
  static async start(lab: TestLab, of: Checked): Promise<FlowChecker> {
    const { namespace, name } = of.service;
    const recorder = await FlowRecorder.start(lab, [...of.members, ...(of.others ?? [])], of.service);
    const checker = new FlowChecker(lab, of, recorder);
    for (const member of of.members) {
      const imported = await eventuallyOne(
        await lab.client(member),
        MCS_SERVICE_IMPORTS,
        objectKey(namespace, name),
        (it) => addressIn(lab, it) !== undefined,
      );
      const address = found(addressIn(lab, imported));
      checker.#addresses.set(member, address);
      const script = flowScript(`http://${address}/`, of.ports ?? "own");
      await lab.apply(member, nodePod({ namespace, name: podOf(of.service) }, script));
    }
    await checker.untilFlows(() => true);
    return checker;
  }

  /** Endpoints to which the proxy of an importer's first node sends new flows. Logged to explain violations. */
  async endpointsOf(importer: string): Promise<readonly string[]> {
    const { layout, topology } = this.#lab;
    const node = found(this.#lab.cluster(importer).nodes[0]);
    const [netns, table] =
      topology.spec.topology === "flat"
        ? ([layout.netnsOf(nodeNetns(node)), PROXY_TABLE] as const)
        : ([fleetNetnsOf(this.#lab, node.name), VIRTUAL_IP_LAYOUT.table] as const);
    const { command, args } = inNetns(netns, "nsenter");
    const nft = createExecNft({ prefix: [command, ...args.slice(0, -1)] });
    const map = await nft.readMap(table, setName("endpoints", "4"), AbortSignal.timeout(10_000));
    const address = found(this.#addresses.get(importer));
    const endpoints = [...map]
      .filter(([key]) => key.includes(` . ${address} . tcp . `))
      .map(([, to]) => to.split(" ")[0] ?? "");
    const unique = [...new Set(endpoints)].toSorted();
    this.#recorder.noteTable(importer, unique);
    return unique;
  }

  /** How long flows may reach a dead endpoint whose death could not be reported. Unit: milliseconds. */
  get deadMs(): number {
    return this.#limits.deadMs;
  }

  /** Says what the test does to a cluster, from now on. @returns Says that it ended. */
  mark(kind: Mark["kind"], cluster: string): () => void {
    const at = this.#marks.push({ kind, cluster, fromMs: systemClock.now(), untilMs: undefined }) - 1;
    return () => {
      this.#marks[at] = { ...found(this.#marks[at]), untilMs: systemClock.now() };
    };
  }

  async flowsSince(sinceMs: number): Promise<readonly Flow[]> {
    const all = await Promise.all(this.#of.members.map((it) => this.#flowsOf(it)));
    return all.flat().filter((it) => it.startedAtMs >= sinceMs);
  }

  /** @param last - The number of lines: frequent reads must not load the node. Default: all. */
  async #flowsOf(from: string, last?: number): Promise<readonly Flow[]> {
    const { service } = this.#of;
    const pod = { namespace: service.namespace, name: podOf(service) };
    const log = await this.#lab.logOf(from, pod, last);
    const toFleetAddress = ({ cluster, pod: server, address }: Answered): string =>
      this.#recorder.fleetAddressOf(cluster, service.namespace, server) ?? address;
    return log.split("\n").flatMap((line) => parseFlow(from, line, toFleetAddress) ?? []);
  }

  /** Waits until the last twenty flows of each importer that began since now are as wanted. */
  async untilFlows(isEnough: (last: readonly Flow[], from: string) => boolean, count = 20): Promise<void> {
    const sinceMs = systemClock.now();
    for (const member of this.#of.members)
      await until(
        `flows in ${member}`,
        async () => (await this.#flowsOf(member, count)).filter((it) => it.startedAtMs >= sinceMs),
        (last) => last.length === count && isEnough(last, member),
      );
  }

  /** Waits until each importer uses all of these clusters and no others, and none of its flows fails. */
  async untilAnsweredBy(clusters: readonly string[]): Promise<void> {
    const wanted = clusters.toSorted().join();
    await this.untilFlows(
      (last) => [...new Set(last.map((it) => it.to?.cluster ?? "none"))].toSorted().join() === wanted,
      40,
    );
  }

  /** Fails with the flows that were not as they have to be. */
  async expectSound(sinceMs: number): Promise<void> {
    const { imported, view, own } = this.#recorder;
    const flows = await this.flowsSince(sinceMs);
    expect(new Set(flows.map((it) => it.from))).toEqual(new Set(this.#of.members));
    const violations = judge({ flows, imported, view, own, marks: this.#marks }, this.#limits);
    const shown = violations.slice(0, 20).map(({ what, flow, why }) => ({
      what,
      from: flow.from,
      port: flow.port,
      afterMs: flow.startedAtMs - sinceMs,
      to: flow.to,
      why,
      said: this.#recorder.saidOf(flow.to?.address ?? "", flow.from, {
        fromMs: flow.startedAtMs - REPORTED_MS,
        untilMs: flow.startedAtMs + 1000,
      }),
    }));
    expect({ count: violations.length, shown }).toEqual({ count: 0, shown: [] });
  }

  /** How many flows there were of each kind. */
  async tally(sinceMs: number): Promise<Readonly<Record<string, number>>> {
    const { imported, view, own } = this.#recorder;
    const flows = await this.flowsSince(sinceMs);
    return tally({ flows, imported, view, own, marks: this.#marks }, this.#limits);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#recorder[Symbol.asyncDispose]();
  }
}

/** In a parallel network, an import has an address of its own cluster until its member has got fleet addresses. */
function addressIn({ topology }: TestLab, { spec }: ServiceImport): string | undefined {
  const isFlat = topology.spec.topology === "flat";
  const prefix = parsePrefix(isFlat ? "0.0.0.0/0" : PARALLEL_PREFIXES.v4);
  return spec?.ips?.find((it) => it.includes(".") && containsAddress(prefix, parseAddress(it)));
}

/** A flow is shown with the endpoint's changes in this time before it. Unit: milliseconds. */
const REPORTED_MS = 120_000;

function podOf({ name }: Named): string {
  return `flows-${name}`;
}

/** A server, as it names itself: where its node translates its fleet address, with its own one. */
interface Answered {
  readonly cluster: string;
  readonly pod: string;
  readonly address: string;
}

function parseFlow(from: string, line: string, addressOf: (server: Answered) => string): Flow | undefined {
  const match = /^(\d{13}) (.*)$/.exec(line.trim());
  if (match === null) return undefined;
  const [, time, said = ""] = match;
  return {
    from,
    startedAtMs: Number(time),
    ...parseAnswer(said, addressOf),
  };
}

/** As flow-client.ts has it. */
function parseTriedMs(said: string): number {
  return Number(/ after ([\d.]+) s: /.exec(said)?.[1] ?? 0) * 1000;
}

function parseAnswer(
  text: string,
  addressOf: (server: Answered) => string,
): Pick<Flow, "to" | "port" | "error" | "triedMs"> {
  // An answer that was cut off is not one.
  if (!text.startsWith("{") || !text.endsWith("}"))
    return {
      to: undefined,
      port: Number(/; from port (\d+)/.exec(text)?.[1] ?? 0),
      error: text,
      triedMs: parseTriedMs(text),
    };
  const { cluster, pod, serverAddress, clientPort } = JSON.parse(text) as {
    cluster: string;
    pod: string;
    serverAddress: string;
    clientPort: number;
  };
  return { to: { cluster, address: addressOf({ cluster, pod, address: serverAddress }) }, port: clientPort };
}
