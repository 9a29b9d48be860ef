import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { hostname } from "node:os";
import { Command } from "@commander-js/extra-typings";
import { untilAborted } from "@fairlead/base/abortable.ts";
import { type Clock, delay } from "@fairlead/base/clock.ts";
import { defined } from "@fairlead/base/defined.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import type { HealthRegistry } from "@fairlead/base/health.ts";
import type { Logger } from "@fairlead/base/log.ts";
import { parseWhole } from "@fairlead/base/program/flags.ts";
import { LOG_LEVEL_FLAG, READY_FD_FLAG, runProgram } from "@fairlead/base/program/program.ts";
import { MEMBER_CRDS } from "@fairlead/fleet/api/crds.ts";
import { NODE_MANAGER } from "@fairlead/fleet/api/fairlead.dev/field-managers.ts";
import { createNodeAgent, type NodeAgentComponent } from "@fairlead/fleet/dataplane/node/agent.ts";
import { createCriClient, findCriSocket } from "@fairlead/os/cri/client.ts";
import type { PodRuntime } from "@fairlead/os/cri/runtime.ts";
import { awaitCrds } from "@fairlead/kube/definitions/crds.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { serveMetrics } from "@fairlead/base/program/metrics-server.ts";
import { FLAGS } from "#shared/flags.ts";
import { clusterConfig } from "#shared/cluster-config.ts";
import { createManagerParts } from "#shared/manager.ts";

/** Hides the option types of the command, which its callers do not use. */
type Program = Pick<Command, "parseAsync">;

/** Between attempts to remove. Unit: milliseconds. */
const RETRY_MS = 2000;

const REMEDY = 'run "fairlead join", which installs them';

function openRuntime(socket: string | undefined): PodRuntime {
  return createCriClient({ socket: socket ?? findCriSocket() });
}

/** Undefined, with a warning, where it cannot be a cgroup. */
function cgroupIn(folder: string | undefined, log: Logger): string | undefined {
  if (folder === undefined || existsSync(join(folder, "..", "cgroup.procs"))) return folder;
  log.warn(
    "tunnels of wireguard-go end with the container of this program: this is not a cgroup of version 2",
    {
      folder: dirname(folder),
    },
  );
  return undefined;
}

/** Tries until it succeeds: the container runtime may be away. */
async function remove(
  agent: NodeAgentComponent,
  { log, health, clock, signal }: { log: Logger; health: HealthRegistry; clock: Clock; signal: AbortSignal },
): Promise<void> {
  let problem: string | undefined = "the node's part of the network is not removed yet";
  health.register({ name: "removed", kind: "ready", problem: () => problem });
  while (problem !== undefined) {
    try {
      await agent.remove(signal);
      problem = undefined;
    } catch (error) {
      signal.throwIfAborted();
      problem = messageOf(error);
      log.warn("cannot remove the node's part of the network; trying again", { error: problem });
      await delay(clock, RETRY_MS, signal);
    }
  }
}

/** The agent of one node: tunnels, fleet addresses of pods, and what other clusters may reach. */
export function command(): Program {
  return new Command("node")
    .description(
      "run the agent of a node in a parallel network, in the network namespace of the node; packets flow while it is down",
    )
    .option(FLAGS.kubeconfig, "kubeconfig of the cluster; default: the cluster of this pod")
    .option("--node-name <name>", "name of the Node object; default: the host name")
    .option(
      "--state-dir <folder>",
      "folder of keys, state and the network namespace fleet",
      "/var/lib/fairlead",
    )
    .option(
      "--cri-socket <file>",
      "socket of the container runtime; default: that of cri-dockerd, K3s, k0s, CRI-O or containerd",
    )
    .option(
      "--wireguard-cgroup <folder>",
      "cgroup (version 2) in which wireguard-go outlives the container of this program; default: none",
    )
    .option(
      "--min-dns-ttl <seconds>",
      "shortest time for which policies about DNS names let the addresses of an answer pass, 0 to 86400",
      "10",
    )
    .option("--remove", "remove this node's part of the network, and be ready when it is gone")
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
            ...defined({ cgroup: cgroupIn(flags.wireguardCgroup, log) }),
            minDnsTtl: parseWhole("--min-dns-ttl", flags.minDnsTtl, { min: 0, max: 86_400 }),
            deps,
          }),
        );
        if (flags.remove === true) {
          await remove(agent, { log, health, clock: deps.clock, signal });
          ready();
          return await untilAborted(signal);
        }
        await agent.restore(signal);
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
