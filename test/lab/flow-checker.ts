/**
 * Watches the backend of every new flow of a lab while things break: none goes to an endpoint more than a second after
 * its importer received the withdrawal, none to what has been dead for longer than configured, and none fails that could
 * have been served.
 */

import { expect } from "vitest";
import { objectKey } from "#api/meta/key.ts";
import { MCS_SERVICE_IMPORTS } from "#api/multicluster.x-k8s.io/v1beta1/types.ts";
import { systemClock } from "#base/clock.ts";
import { eventuallyOne } from "../fleet/fleet.ts";
import { type Flow, judge, type Limits, type Mark } from "./flow-judge.ts";
import { FlowRecorder } from "./flow-recorder.ts";
import { found, type TestLab, until } from "./lab-fixture.ts";
import { shellPod } from "./lab-manifests.ts";

interface Named {
  readonly namespace: string;
  readonly name: string;
}

export interface Checked {
  /** Where pods make flows: all of them importers. */
  readonly members: readonly string[];
  readonly service: Named;
}

/** A flow gives up after this. Unit: milliseconds. */
const FLOW_MS = 2000;

/**
 * Flows of a pod by itself, so that nothing that breaks is needed to make them. Each is a connection of its own, from a
 * port that no other had: conntrack remembers a closed connection for two minutes, and sends one that begins anew with
 * the same addresses and ports to the endpoint of before, whatever became of it (tcp_packet in the kernel's
 * nf_conntrack_proto_tcp.c). The kernel's own choice comes back to a port after some 3,000 flows.
 */
const flowScript = (to: string): string =>
  `p=1024; while :; do p=$((p < 65535 ? p + 1 : 1024)); t=$(date +%s%3N); a=$(curl -s -m ${FLOW_MS / 1000} --local-port $p -w '${SAID_OF_FAILURE}' -H 'Accept: application/json' ${to}); echo "$t $a"; sleep 0.03; done`;

const SAID_OF_FAILURE = "%{onerror}curl exit %{exitcode} after %{time_total} s: %{errormsg}";

const POD = "flows";

export class FlowChecker implements AsyncDisposable {
  readonly #lab: TestLab;
  readonly #of: Checked;
  readonly #recorder: FlowRecorder;
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
    };
  }

  /** The service has to be imported by all of them; `from` has to hold namespaces in which pods may be made. */
  static async start(lab: TestLab, of: Checked): Promise<FlowChecker> {
    const { namespace, name } = of.service;
    const recorder = await FlowRecorder.start(lab, of.members, of.service);
    for (const member of of.members) {
      const imported = await eventuallyOne(
        await lab.client(member),
        MCS_SERVICE_IMPORTS,
        objectKey(namespace, name),
        (it) => (it.spec?.ips?.length ?? 0) > 0,
      );
      const address = found(imported.spec?.ips?.find((it) => it.includes(".")));
      await lab.apply(member, shellPod({ namespace, name: POD }, flowScript(`http://${address}/`)));
    }
    const checker = new FlowChecker(lab, of, recorder);
    await checker.untilFlows(() => true);
    return checker;
  }

  /** How long flows may go to what is dead and could not say so. Unit: milliseconds. */
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

  /** @param last - So many lines: whoever asks often must not keep the node from its work. Default: all. */
  async #flowsOf(from: string, last = -1): Promise<readonly Flow[]> {
    const args = ["-n", this.#of.service.namespace, "logs", POD, `--tail=${last}`];
    const { stdout } = await this.#lab.kubectl(from, args);
    return stdout.split("\n").flatMap((line) => parseFlow(from, line) ?? []);
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
      afterMs: flow.startedAtMs - sinceMs,
      to: flow.to,
      why,
    }));
    expect({ count: violations.length, shown }).toEqual({ count: 0, shown: [] });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#recorder[Symbol.asyncDispose]();
  }
}

function parseFlow(from: string, line: string): Flow | undefined {
  const match = /^(\d{13}) (.*)$/.exec(line.trim());
  if (match === null) return undefined;
  const [, time, said = ""] = match;
  return {
    from,
    startedAtMs: Number(time),
    to: parseBackend(said),
    ...(said.startsWith("{") ? {} : { error: said, triedMs: parseTriedMs(said) }),
  };
}

/** As `SAID_OF_FAILURE` has it. */
function parseTriedMs(said: string): number {
  return Number(/ after ([\d.]+) s: /.exec(said)?.[1] ?? 0) * 1000;
}

function parseBackend(text: string): Flow["to"] {
  if (!text.startsWith("{")) return undefined;
  const { cluster, serverAddress } = JSON.parse(text) as { cluster: string; serverAddress: string };
  return { cluster, address: serverAddress };
}
