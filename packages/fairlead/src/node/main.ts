import { join } from "node:path";
import { hostname } from "node:os";
import { Command } from "@commander-js/extra-typings";
import { untilAborted } from "@fairlead/base/abortable.ts";
import { LOG_LEVEL_FLAG, READY_FD_FLAG, runProgram } from "@fairlead/base/program/program.ts";
import { MEMBER_CRDS } from "@fairlead/fleet/api/crds.ts";
import { NODE_MANAGER } from "@fairlead/fleet/api/fairlead.dev/field-managers.ts";
import { createNodeAgent } from "@fairlead/fleet/dataplane/node/agent.ts";
import { createCriClient, findCriSocket } from "@fairlead/os/cri/client.ts";
import type { PodRuntime } from "@fairlead/os/cri/runtime.ts";
import { awaitCrds } from "@fairlead/kube/definitions/crds.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { serveMetrics } from "@fairlead/base/program/metrics-server.ts";
import { clusterConfig } from "#shared/cluster-config.ts";
import { createManagerParts } from "#shared/manager.ts";

/** Hides the option types of the command, which its callers do not use. */
type Program = Pick<Command, "parseAsync">;

const REMEDY = 'run "fairlead join", which installs them';

function openRuntime(socket: string | undefined): PodRuntime {
  return createCriClient({ socket: socket ?? findCriSocket() });
}

/** The agent of one node: tunnels, fleet addresses of pods, and what other clusters may reach. */
export function command(): Program {
  return new Command("node")
    .description(
      "run the agent of a node in a parallel network, in the network namespace of the node; packets flow while it is down",
    )
    .option("--kubeconfig <file>", "kubeconfig of the cluster; default: the cluster of this pod")
    .option("--node-name <name>", "name of the Node object; default: the host name")
    .option(
      "--state-dir <folder>",
      "folder of keys, state and the network namespace fleet",
      "/var/lib/fairlead",
    )
    .option("--cri-socket <file>", "socket of the container runtime; default: that of containerd or CRI-O")
    .option("--metrics <address:port>", "address of /metrics, /healthz and /readyz")
    .option(...LOG_LEVEL_FLAG)
    .option(...READY_FD_FLAG)
    .action((flags) =>
      runProgram("node", flags, async ({ signal, log, ready }) => {
        const { deps, metrics, health } = createManagerParts(log, {});
        await using stack = new AsyncDisposableStack();
        const config = await clusterConfig(flags.kubeconfig, deps);
        const client = stack.use(connect(config, { ...deps, userAgent: "fairlead-node" }));
        if (flags.metrics !== undefined)
          stack.use(await serveMetrics({ metrics, address: flags.metrics, checks: health }));
        const agent = stack.use(
          createNodeAgent({
            client,
            nodeName: flags.nodeName ?? hostname(),
            stateDir: flags.stateDir,
            fleetNetns: join(flags.stateDir, "fleet"),
            runtime: stack.use(openRuntime(flags.criSocket)),
            deps,
          }),
        );
        // In a cluster that has not joined, it serves all the same: it waits for the CRDs.
        ready();
        await awaitCrds(
          client,
          { crds: MEMBER_CRDS, fieldManager: NODE_MANAGER, remedy: REMEDY },
          deps,
          signal,
        );
        await agent.start(signal);
        await untilAborted(signal);
      }),
    );
}
