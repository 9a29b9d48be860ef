import { Command } from "@commander-js/extra-typings";
import { createMetrics } from "#base/metrics.ts";
import { HUB_DEFAULTS, startHub } from "#controllers/hub/hub.ts";
import { connect } from "#kube/client.ts";
import { systemDeps } from "#kube/deps.ts";
import { clusterConfig } from "../cluster-config.ts";
import { LEADER_FLAG, runElected } from "../leader.ts";
import { serveMetrics } from "../metrics-server.ts";
import { parseWhole } from "../numbers.ts";
import { LOG_LEVEL_FLAG, READY_FD_FLAG, runProgram, untilAborted } from "../program.ts";
import { trafficManagerOf, TRAFFIC_PROVIDER_FLAG, TRAFFIC_TTL_FLAG, TRAFFIC_ZONE_FLAG } from "./traffic.ts";

/** Only parsed, never extended: its options are its own affair. */
type Program = Pick<Command, "parseAsync">;

/** Everything that runs beside the hub's API server. Several copies may run; one acts. */
export function command(): Program {
  return new Command("hub")
    .description("run the controllers of a fleet's hub")
    .option("--kubeconfig <file>", "the hub's API server; default: that of the pod's cluster")
    .option(
      "--member-lease-seconds <seconds>",
      "how long a member may stay silent before importers check on its endpoints, 2 to 3600",
      String(HUB_DEFAULTS.leaseSeconds),
    )
    .option(
      "--force-delete-seconds <seconds>",
      "how long a leaving member may take to withdraw, 0 to 86400",
      String(HUB_DEFAULTS.forceDeleteSeconds),
    )
    .option(...TRAFFIC_PROVIDER_FLAG)
    .option(...TRAFFIC_ZONE_FLAG)
    .option(...TRAFFIC_TTL_FLAG)
    .option("--metrics <address:port>", "where to serve /metrics, /healthz and /readyz")
    .option(...LEADER_FLAG)
    .option(...LOG_LEVEL_FLAG)
    .option(...READY_FD_FLAG)
    .action((flags) =>
      runProgram("hub", flags, async ({ signal, log, ready }) => {
        const options = {
          leaseSeconds: parseWhole("--member-lease-seconds", flags.memberLeaseSeconds, { min: 2, max: 3600 }),
          forceDeleteSeconds: parseWhole("--force-delete-seconds", flags.forceDeleteSeconds, {
            min: 0,
            max: 86_400,
          }),
          trafficManager: trafficManagerOf(flags),
        };
        const metrics = createMetrics();
        const deps = systemDeps(log, metrics);
        await using stack = new AsyncDisposableStack();
        const config = await clusterConfig(flags.kubeconfig, deps);
        const client = stack.use(connect(config, { ...deps, userAgent: "fairlead-hub" }));
        let isUp = false;
        if (flags.metrics !== undefined)
          stack.use(await serveMetrics({ metrics, address: flags.metrics, isReady: () => isUp }));
        await runElected(
          { client, name: "fairlead-hub", isElected: flags.leaderElect, deps },
          signal,
          async (leading) => {
            await using _hub = await startHub(client, options, deps, leading);
            isUp = true;
            ready();
            await untilAborted(leading);
          },
        );
      }),
    );
}
