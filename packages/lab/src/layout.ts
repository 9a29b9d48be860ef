/** Where a lab keeps its things: one folder, from which everything that it made can be found again. */

import { join } from "node:path";

export interface LabLayout {
  /** The folder of the lab; also the value of `FAIRLEAD_LAB` in the environment of each of its processes. */
  readonly root: string;
  /** Spec and address plan. */
  readonly stateFile: string;
  /** Held while `up` or `down` works. */
  readonly lockFile: string;
  /** One kubeconfig with a context for each cluster, as administrator. */
  readonly kubeconfig: string;
  readonly logs: string;
  /** Network namespaces: a file each. */
  readonly netns: string;
  readonly processes: string;
  netnsOf(name: string): string;
  logOf(program: string): string;
  processFile(program: string): string;
  /** The delay of a link, for its wire. */
  delayFile(link: string): string;
  /** Folder of one cluster: certificates, kubeconfigs, the API server's journal. */
  cluster(name: string): string;
  /** Folder of one node: pods, their logs and volumes. */
  node(name: string): string;
}

export function labLayout(stateRoot: string, name: string): LabLayout {
  const root = join(stateRoot, name);
  const logs = join(root, "logs");
  const netns = join(root, "netns");
  const processes = join(root, "processes");
  return {
    root,
    stateFile: join(root, "lab.json"),
    lockFile: join(stateRoot, `${name}.lock`),
    kubeconfig: join(root, "kubeconfig"),
    logs,
    netns,
    processes,
    netnsOf: (namespace) => join(netns, namespace),
    logOf: (program) => join(logs, `${program.replaceAll("/", "-")}.log`),
    processFile: (program) => join(processes, `${program.replaceAll("/", "-")}.json`),
    delayFile: (link) => join(root, "links", `${link}.delay`),
    cluster: (cluster) => join(root, "clusters", cluster),
    node: (node) => join(root, "nodes", node),
  };
}
