import { parseWhole } from "@fairlead/base/program/flags.ts";
import { Command, Option } from "@commander-js/extra-typings";
import { LAB_RELEASES } from "@fairlead/lab/topology.ts";
import { startAll } from "@fairlead/base/lifecycle.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import { composeNode } from "./compose.ts";
import { untilAborted } from "@fairlead/base/abortable.ts";
import { LOG_LEVEL_FLAG, READY_FD_FLAG, runProgram } from "@fairlead/base/program/program.ts";

/** Hides the option types of the command, which its callers do not use. */
type Program = Pick<Command, "parseAsync">;

/** A node of a lab: kubelet and service proxy, in the network namespace in which it is started. */
export function command(): Program {
  return new Command("lab-node")
    .description("run the pods that are bound to a node, in the network namespace in which it is started")
    .requiredOption("--kubeconfig <file>", "kubeconfig of the cluster")
    .requiredOption("--node-name <name>", "name of the Node object")
    .requiredOption("--data-dir <folder>", "folder of the node's persistent state")
    .requiredOption(
      "--node-ip <addresses>",
      "addresses of the node, one per family, the primary one first",
      list,
    )
    .requiredOption("--pod-cidr <prefixes>", "pod address ranges of the node, in the same order", list)
    .option(
      "--cluster-cidr <prefixes>",
      "addresses of all pods of the cluster; default: those of --pod-cidr",
      list,
    )
    .requiredOption("--cluster-dns <addresses>", "DNS servers of pods", list)
    .option("--cluster-domain <domain>", "domain of the cluster's own names", "cluster.local")
    .option("--cluster <name>", "name of the cluster, which built-in images get as CLUSTER_NAME")
    .requiredOption("--client-ca <file>", "CA of the clients of the kubelet's server")
    .requiredOption("--serving-cert <file>", "certificate of the kubelet's server")
    .requiredOption("--serving-key <file>", "its private key")
    .option("--port <number>", "port of the kubelet's server", "10250")
    .option("--zone <name>", "the node's topology.kubernetes.io/zone")
    .addOption(
      new Option("--kubernetes-version <minor>", "release of Kubernetes that the kubelet reports")
        .choices(LAB_RELEASES)
        .default(LAB_RELEASES[0]),
    )
    .option("--lease-seconds <seconds>", "silence after which the node counts as dead", "40")
    .option(...LOG_LEVEL_FLAG)
    .option(...READY_FD_FLAG)
    .action((flags) =>
      runProgram("lab-node", flags, async ({ signal, log, ready }) => {
        const deps = systemDeps(log);
        const config = await loadKubeconfig(flags.kubeconfig, { clock: deps.clock });
        await using client = connect(config, { ...deps, userAgent: "kubelet/fairlead" });
        const numbers = {
          port: parseWhole("--port", flags.port, { min: 1, max: 65_535 }),
          leaseSeconds: parseWhole("--lease-seconds", flags.leaseSeconds, { min: 1, max: 65_535 }),
        };
        const components = composeNode({ ...flags, ...numbers }, { client, deps, environment: process.env });
        await using _running = await startAll(components, signal);
        ready();
        await untilAborted(signal);
      }),
    );
}

function list(text: string): readonly string[] {
  return text.split(",").filter((it) => it !== "");
}
