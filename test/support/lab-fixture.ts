/** A whole lab for a test, started by the CLI as users do, with a separate name and state folder. */

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { ObjectMeta } from "@fairlead/kube/api/meta/types.ts";
import { exec, type ExecOptions, type ExecResult } from "@fairlead/base/exec.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import type { ClusterConfig } from "@fairlead/kube/config/config.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { labLayout } from "@fairlead/lab/layout.ts";
import { requireState } from "@fairlead/lab/state.ts";
import type { LabCluster } from "@fairlead/lab/topology.ts";
import { listNetns } from "@fairlead/os/netns/netns.ts";
import { pidsByNetns } from "@fairlead/os/netns/processes.ts";
import { type Answer, type ParsedTry, parseTry, requestLoop } from "../../scripts/demo/requests.ts";
import { findKubectl } from "@fairlead/base/program/kubectl.ts";
import { execInPod } from "./exec-in-pod.ts";
import { applyObjects } from "./lab-actions.ts";
import { type LabPrograms, launcherOf } from "./lab-programs.ts";
import { PodLogs } from "./pod-logs.ts";

export const checkout = fileURLToPath(new URL("../..", import.meta.url));

/** The folder in which labs of a test have theirs: short, because sockets lie below it (unix(7): 108 bytes). */
export function makeStateRoot(): string {
  return mkdtempSync("/run/fairlead-test-");
}

/** Runs the CLI of this checkout; by default a code other than 0 is an error. */
export function runFairlead(
  stateRoot: string,
  args: readonly string[],
  options: ExecOptions = {},
): Promise<ExecResult> {
  return exec(`${checkout}bin/fairlead`, args, {
    timeoutMs: 100_000,
    ...options,
    addEnv: { FAIRLEAD_STATE: stateRoot, ...options.addEnv },
  });
}

export interface LabShape {
  readonly name: string;
  readonly members?: number;
  readonly nodes?: number;
  /** Default: a new one. */
  readonly stateRoot?: string;
  /** More flags of `lab up`. */
  readonly flags?: readonly string[];
}

export interface TestLab extends AsyncDisposable, LabPrograms {
  readonly name: string;
  readonly stateRoot: string;
  cluster(name: string): LabCluster;
  /** A client of that cluster as administrator; made when first asked for. */
  client(name: string): Promise<KubeClient>;
  /** `fairlead lab VERB … --name NAME`. */
  lab(verb: string, args?: readonly string[], options?: ExecOptions): Promise<ExecResult>;
  kubectl(cluster: string, args: readonly string[], options?: ExecOptions): Promise<ExecResult>;
  /** Applies objects. */
  apply(cluster: string, ...objects: readonly object[]): Promise<void>;
  /** What a pod printed; the last lines of it, or all. */
  logOf(cluster: string, pod: Pick<ObjectMeta, "namespace" | "name">, lines?: number): Promise<string>;
  /** Runs a shell script in a pod and returns what it printed. */
  inPod(cluster: string, pod: string, script: string): Promise<string>;
  /** Requests from a pod, one after another; undefined stands for one that failed. */
  ask(cluster: string, pod: string, how: Asking): Promise<readonly (Answer | undefined)[]>;
}

export interface Asking {
  readonly url: string;
  readonly count: number;
}

export function upArgs({ name, members = 2, nodes = 1, flags = [] }: LabShape): readonly string[] {
  const base = ["lab", "up", "--name", name, "--members", String(members), "--nodes", String(nodes)];
  // Of the project of vitest that runs tests of flat networks on a parallel one, too.
  const topology = process.env["LAB_TOPOLOGY"];
  return [...base, ...(topology === undefined ? [] : ["--topology", topology]), ...flags];
}

export async function startLab(shape: LabShape): Promise<TestLab> {
  const { name, stateRoot = makeStateRoot() } = shape;
  const layout = labLayout(stateRoot, name);
  const podLogs = new PodLogs(layout);
  const configs = new Map<string, Promise<ClusterConfig>>();
  const clients = new Map<string, Promise<KubeClient>>();
  const dispose = async (): Promise<void> => {
    for (const client of clients.values()) await (await client)[Symbol.asyncDispose]();
    await runFairlead(stateRoot, ["lab", "down", "--name", name]);
    // The last lab takes the folder with it.
    if (shape.stateRoot === undefined) rmSync(stateRoot, { recursive: true, force: true });
  };
  try {
    await runFairlead(stateRoot, upArgs(shape));
  } catch (error) {
    await dispose();
    throw error;
  }
  const { topology } = requireState(layout, name);
  const program = findKubectl(`${checkout}node_modules/.tools`);
  const kubectl: TestLab["kubectl"] = (cluster, args, options = {}) =>
    exec(program, ["--kubeconfig", layout.kubeconfig, "--context", cluster, ...args], {
      timeoutMs: 60_000,
      ...options,
    });
  const config = (cluster: string): Promise<ClusterConfig> => {
    const read = configs.get(cluster) ?? loadKubeconfig(layout.kubeconfig, { context: cluster });
    configs.set(cluster, read);
    return read;
  };
  const inPod = async (cluster: string, pod: string, script: string): Promise<string> => {
    const [namespace = "", podName = ""] = pod.split("/");
    return execInPod(await config(cluster), { namespace, name: podName }, ["sh", "-c", script]);
  };
  const client: TestLab["client"] = (cluster) => {
    const made = clients.get(cluster) ?? config(cluster).then((it) => connect(it, systemDeps(silentLogger)));
    clients.set(cluster, made);
    return made;
  };
  return {
    name,
    stateRoot,
    layout,
    topology,
    launcher: launcherOf({ layout }, "hub/apiserver"),
    kubectl,
    inPod,
    client,
    cluster: (wanted) => found(topology.clusters.find((it) => it.name === wanted)),
    async logOf(cluster, pod, lines) {
      return podLogs.read(await client(cluster), cluster, { pod, lines });
    },
    lab: (verb, args = [], options = {}) =>
      runFairlead(stateRoot, ["lab", verb, "--name", name, ...args], options),
    async apply(cluster, ...objects) {
      await applyObjects(await client(cluster), objects);
    },
    async ask(cluster, pod, { url, count }) {
      return parseTries(await inPod(cluster, pod, requestLoop(url, count, 0))).map((it) => it.answer);
    },
    [Symbol.asyncDispose]: dispose,
  };
}

/** What a request loop printed. */
export function parseTries(text: string): readonly ParsedTry[] {
  return text
    .split("\n")
    .map((line) => parseTry(line))
    .filter((it) => it !== undefined);
}

/** The value, which has to be there. */
export function found<T>(value: T | undefined): T {
  if (value === undefined) throw new Error("what the test looks for is not there");
  return value;
}

/** Ids of the application processes in the pods of a cluster, each with its start time, sorted. */
export async function podProcesses(lab: TestLab, cluster: string): Promise<readonly string[]> {
  const nodes = lab.cluster(cluster).nodes.map((it) => lab.layout.node(it.name));
  const namespaces = (await Promise.all(nodes.map((it) => listNetns(it)))).flat();
  const pids = [...(await pidsByNetns(namespaces)).values()].flat();
  return pids
    .flatMap((pid) => {
      try {
        const isApplication = readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("lab-echo");
        return isApplication ? [`${pid}`] : [];
      } catch {
        return [];
      }
    })
    .toSorted();
}
