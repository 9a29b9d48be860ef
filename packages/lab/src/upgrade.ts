/** Upgrades a cluster of a lab while it serves: the API server in place, each node by a new one. */

import { rmSync } from "node:fs";
import type { Clock } from "@fairlead/base/clock.ts";
import { isObject } from "@fairlead/base/json.ts";
import { type RuntimeDeps, systemDeps } from "@fairlead/base/deps.ts";
import { FleetError, hasCode, messageOf } from "@fairlead/base/errors.ts";
import { NODES, type Node } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { waitFor } from "@fairlead/kube/informer/wait.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { deleteNetns } from "@fairlead/os/netns/netns.ts";
import { buildNetwork } from "./build.ts";
import { ensureClusterCredentials } from "./certificates.ts";
import { drainNode, uncordonDrained } from "./drain-node.ts";
import { killNode, type Lab } from "./faults.ts";
import { nodeNetns } from "./places.ts";
import { type LabProgram, planPrograms } from "./programs.ts";
import { endProcesses, forgetProcess, runningPid } from "./processes.ts";
import { type LabState, requireState } from "./state.ts";
import type { LabCluster, LabNode, LabRelease } from "./topology.ts";
import { unmountBelow } from "./teardown.ts";
import { connectCluster, type Report, startMissing } from "./up.ts";

export interface UpgradeOptions {
  readonly cluster: string;
  readonly release: LabRelease;
  readonly parts: "all" | "control-plane" | "nodes";
  /** How long the pods of one node may take to leave it. Unit: milliseconds. */
  readonly drainMs: number;
}

/**
 * Changes what is on disk of a lab, in which others may change other clusters.
 *
 * @param follow - What is done with the result before others may change it.
 */
export type ChangeState = (
  change: (state: LabState) => LabState,
  follow?: (state: LabState) => Promise<void>,
) => Promise<LabState>;

/** A new node has a minute to be ready: it has nothing to fetch. Unit: milliseconds. */
const NODE_READY_MS = 60_000;
/** The time in which a program ends by itself. Unit: milliseconds. */
const GRACE_MS = 10_000;

/**
 * Brings a cluster to a release. An upgrade that was interrupted continues where it was; one that has nothing to do changes nothing.
 * One that fails leaves no node cordoned, by this or by an interrupted one.
 *
 * @throws {FleetError} `LAB_INVALID` if nodes would be newer than their API server, or the API server does not start: then the former one serves again.
 * `ABORTED` if it was stopped.
 */
export async function upgradeCluster(
  lab: Lab,
  options: UpgradeOptions,
  steps: UpgradeSteps,
  signal: AbortSignal,
): Promise<void> {
  const upgrade = new Upgrade(lab, options, { ...steps, signal });
  const { cluster, parts } = options;
  try {
    if (parts !== "nodes") await upgrade.controlPlane();
    if (parts !== "control-plane") await upgrade.nodes();
    else await endUpgrade(lab, cluster, signal);
  } catch (error) {
    if (signal.aborted || hasCode(error, "OPTION_INVALID")) throw error;
    await endUpgrade(lab, cluster, signal).catch((why: unknown) =>
      steps.report(
        `cannot end the upgrade of ${cluster}, the next one does: nodes may stay cordoned until then: ${messageOf(why)}`,
      ),
    );
    throw error;
  }
}

/**
 * The cluster serves as it is, whatever an upgrade was doing when it was interrupted: its API server runs, and nodes that the upgrade
 * cordoned take pods again.
 */
export async function endUpgrade(lab: Lab, cluster: string, signal: AbortSignal): Promise<void> {
  const { layout, context } = lab;
  const { topology } = requireState(layout, lab.state.topology.spec.name);
  await startMissing(topology, layout, context, { report: () => {}, signal, only: isApiServerOf(cluster) });
  await using client = await connectCluster({ name: cluster }, layout, context.log);
  await uncordonDrained(client, { signal });
}

function isApiServerOf(cluster: string): (program: LabProgram) => boolean {
  return (it) => it.cluster === cluster && it.stage === "apiserver";
}

export interface UpgradeSteps {
  readonly report: Report;
  readonly changeState: ChangeState;
  /** Ends the upgrade where the cluster serves as it is: before an API server is restarted, and before a node is empty. */
  readonly stop?: AbortSignal;
}
interface Steps extends UpgradeSteps {
  readonly signal: AbortSignal;
}

class Upgrade {
  readonly #lab: Lab;
  readonly #options: UpgradeOptions;
  readonly #steps: Steps;
  #state: LabState;

  constructor(lab: Lab, options: UpgradeOptions, steps: Steps) {
    this.#lab = lab;
    this.#options = options;
    this.#steps = steps;
    this.#state = lab.state;
  }

  get #cluster(): LabCluster {
    const { clusters } = this.#state.topology;
    const found = clusters.find((it) => it.name === this.#options.cluster);
    if (found !== undefined) return found;
    const names = clusters.map((it) => it.name).join(", ");
    throw new FleetError(
      "OPTION_INVALID",
      `no cluster ${this.#options.cluster} in this lab; it has ${names}`,
    );
  }

  get #clock(): Clock {
    return this.#lab.context.clock;
  }

  get #deps(): RuntimeDeps {
    return systemDeps(this.#lab.context.log);
  }

  async #write(change: Partial<LabCluster>): Promise<void> {
    const { name } = this.#cluster;
    this.#state = await this.#steps.changeState((state) => {
      const { topology } = state;
      const clusters = topology.clusters.map((it) => (it.name === name ? { ...it, ...change } : it));
      return { ...state, topology: { ...topology, clusters } };
    });
  }

  async controlPlane(): Promise<void> {
    const { release, name, nodes } = this.#cluster;
    const wanted = this.#options.release;
    if (release === wanted) {
      // An interrupted upgrade may have ended it, or left it as it was.
      await this.#start(isApiServerOf(name));
      if (!(await this.#isServed(wanted))) await this.#restartApiServer(wanted);
      return;
    }
    const newer = nodes.find((it) => it.release > wanted);
    if (newer !== undefined && this.#options.parts === "control-plane")
      throw new FleetError(
        "LAB_INVALID",
        `cannot run the API server of ${name} with ${wanted}: ${newer.name} has ${newer.release}, and nodes may not be newer than their API server`,
      );
    this.#throwIfStopped();
    this.#steps.report(`API server of ${name}: ${release} to ${wanted}`);
    try {
      await this.#restartApiServer(wanted);
    } catch (error) {
      if (this.#steps.signal.aborted) throw error;
      await this.#restartApiServer(release);
      throw new FleetError(
        "LAB_INVALID",
        `cannot upgrade the API server of ${name} to ${wanted}; ${release} serves again: ${messageOf(error)}`,
        { cause: error },
      );
    }
  }

  async #restartApiServer(release: LabRelease): Promise<void> {
    const isApiServer = isApiServerOf(this.#cluster.name);
    await this.#write({ release });
    await this.#end(isApiServer);
    await this.#start(isApiServer);
  }

  async #isServed(release: LabRelease): Promise<boolean> {
    const { layout, context } = this.#lab;
    const { signal } = this.#steps;
    await using client = await connectCluster(this.#cluster, layout, context.log);
    const answer = await client.request("GET", "/version", undefined, { signal });
    return isObject(answer) && String(answer["gitVersion"]).startsWith(`v${release}.`);
  }

  async nodes(): Promise<void> {
    const { layout, context } = this.#lab;
    const { signal } = this.#steps;
    // An interrupted upgrade may have left what was on the node that it removed.
    if (this.#cluster.spare !== undefined) await this.#clear(this.#cluster.spare);
    await using client = await connectCluster(this.#cluster, layout, context.log);
    const next = this.#cluster.nodes.find((it) => it.release !== this.#options.release);
    // An interrupted upgrade to another release may have begun to drain another one.
    await uncordonDrained(client, { except: next?.name, signal });
    for (;;) {
      const { nodes, spare, name, release: served } = this.#cluster;
      const { release } = this.#options;
      const old = nodes.find((it) => it.release !== release);
      if (old === undefined) return;
      this.#throwIfStopped();
      if (release > served)
        throw new FleetError(
          "LAB_INVALID",
          `cannot upgrade the nodes of ${name} to ${release}: its API server has ${served}, and nodes may not be newer; upgrade it first`,
        );
      // Without a spare place, an interrupted upgrade has already filled it.
      const isReplaced = spare === undefined && nodes.some((it) => it.release === release);
      if (spare === undefined && !isReplaced)
        throw new FleetError(
          "LAB_INVALID",
          `cannot upgrade the nodes of ${name}: the lab has no room for one more node`,
        );
      await this.#replace(client, old, spare);
    }
  }

  /** First the new node, so that the pods of the old one have a place. */
  async #replace(client: KubeClient, old: LabNode, spare: LabNode | undefined): Promise<void> {
    const { layout } = this.#lab;
    const { report, signal } = this.#steps;
    const { release } = this.#options;
    if (spare !== undefined) {
      report(`${spare.name} with ${release}`);
      await this.#write({ nodes: [...this.#cluster.nodes, { ...spare, release }], spare: undefined });
    }
    await this.#buildNetwork();
    await ensureClusterCredentials(this.#cluster, this.#state.topology.spec, layout);
    await this.#start((it) => it.cluster === this.#cluster.name && it.stage !== "apiserver");
    for (const node of this.#cluster.nodes)
      if (node.release === release) await this.#untilReady(client, node);
    report(`${old.name} is drained`);
    await this.#drain(client, old);
    report(`${old.name} is removed`);
    // A kubelet that runs registers its node again.
    await this.#end((it) => it.node === old.name);
    await client.delete(NODES, objectKey(undefined, old.name), { signal });
    await this.#remove(old);
  }

  /** One that is stopped leaves the node to its pods. */
  async #drain(client: KubeClient, { name }: LabNode): Promise<void> {
    const { signal, stop } = this.#steps;
    const either = AbortSignal.any(stop === undefined ? [signal] : [signal, stop]);
    try {
      await drainNode(client, name, { timeoutMs: this.#options.drainMs, deps: this.#deps, signal: either });
    } catch (error) {
      if (!signal.aborted) this.#throwIfStopped();
      throw error;
    }
  }

  #throwIfStopped(): void {
    if (this.#steps.stop?.aborted === true) throw new FleetError("ABORTED", "the upgrade was stopped");
  }

  async #untilReady(client: KubeClient, { name, release }: LabNode): Promise<void> {
    const isReady = (node: Node | undefined): boolean =>
      node?.status?.conditions?.some((it) => it.type === "Ready" && it.status === "True") === true &&
      node.status.nodeInfo?.["kubeletVersion"]?.startsWith(`v${release}.`) === true;
    await waitFor(
      client,
      {
        of: NODES,
        key: objectKey(undefined, name),
        timeoutMs: NODE_READY_MS,
        until: isReady,
        message: () => `cannot replace nodes: ${name} is not ready within ${NODE_READY_MS / 1000} s`,
      },
      this.#deps,
      this.#steps.signal,
    );
  }

  /** Of all clusters: two at once would both create what neither has found. */
  async #buildNetwork(): Promise<void> {
    this.#state = await this.#steps.changeState(
      (state) => state,
      ({ topology }) => buildNetwork(topology, this.#lab.layout, this.#steps.signal),
    );
  }

  /** Routes leave the node before its namespace goes. */
  async #remove(old: LabNode): Promise<void> {
    const nodes = this.#cluster.nodes.filter((it) => it.name !== old.name);
    await this.#write({ nodes, spare: old });
    await this.#buildNetwork();
    await this.#clear(old);
  }

  /** Removes what is on a node that is not part of the cluster any more: processes, namespace, mounts and files. */
  async #clear(node: LabNode): Promise<void> {
    const { layout } = this.#lab;
    const { signal } = this.#steps;
    await killNode(this.#lab, node, [], signal);
    await deleteNetns(layout.netnsOf(nodeNetns(node)), signal);
    await unmountBelow(layout.node(node.name), signal);
    rmSync(layout.node(node.name), { recursive: true, force: true });
  }

  async #end(only: (program: LabProgram) => boolean): Promise<void> {
    const { layout } = this.#lab;
    const programs = planPrograms(this.#state.topology, layout).filter(only);
    const pids = programs.map((it) => runningPid(layout, it.name)).filter((it) => it !== undefined);
    // Forgotten first: while it ends it does not count as one that serves, also if this upgrade is interrupted.
    for (const it of programs) forgetProcess(layout, it.name);
    await endProcesses(pids, GRACE_MS, this.#clock, this.#steps.signal);
  }

  async #start(only: (program: LabProgram) => boolean): Promise<void> {
    const { layout, context } = this.#lab;
    const { signal } = this.#steps;
    await startMissing(this.#state.topology, layout, context, { report: () => {}, signal, only });
  }
}
