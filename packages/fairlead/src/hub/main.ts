import { Command, Option } from "@commander-js/extra-typings";
import { LEASES_OF } from "@fairlead/fleet/api/fairlead.dev/leases.ts";
import { HUB_DEFAULTS } from "@fairlead/fleet/hub/hub.ts";
import { CLOCK_OFFSET_FLAG } from "@fairlead/base/program/clock-offset.ts";
import { LEADER_FLAG } from "#shared/leader.ts";
import { CONCURRENCY_FLAG, MAX_CONCURRENT_FLAG } from "#shared/manager.ts";
import { collect, parseWhole } from "@fairlead/base/program/flags.ts";
import { LOG_LEVEL_FLAG, READY_FD_FLAG, runProgram } from "@fairlead/base/program/program.ts";
import { runHub } from "./run.ts";
import {
  RFC2136_KEY_FLAG,
  RFC2136_SERVER_FLAG,
  trafficManagerOf,
  TRAFFIC_OWNER_FLAG,
  TRAFFIC_PROVIDER_FLAG,
  TRAFFIC_TTL_FLAG,
  TRAFFIC_ZONE_FLAG,
} from "./traffic.ts";

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
    .option(...TRAFFIC_OWNER_FLAG)
    .option(...RFC2136_SERVER_FLAG)
    .option(...RFC2136_KEY_FLAG)
    .option("--metrics <address:port>", "where to serve /metrics, /healthz and /readyz")
    .option(CONCURRENCY_FLAG[0], CONCURRENCY_FLAG[1], collect)
    .option(...MAX_CONCURRENT_FLAG)
    .addOption(new Option(CLOCK_OFFSET_FLAG).hideHelp())
    .option(...LEADER_FLAG)
    .option(...LOG_LEVEL_FLAG)
    .option(...READY_FD_FLAG)
    .action((flags) =>
      runProgram("hub", flags, (context) =>
        runHub(context, {
          ...flags,
          isElected: flags.leaderElect,
          leases: LEASES_OF.hub,
          servers: flags.metrics === undefined ? [] : [{ address: flags.metrics, flag: "--metrics" }],
          hub: {
            leaseSeconds: parseWhole("--member-lease-seconds", flags.memberLeaseSeconds, {
              min: 2,
              max: 3600,
            }),
            forceDeleteSeconds: parseWhole("--force-delete-seconds", flags.forceDeleteSeconds, {
              min: 0,
              max: 86_400,
            }),
            trafficManager: trafficManagerOf(flags),
          },
        }),
      ),
    );
}
