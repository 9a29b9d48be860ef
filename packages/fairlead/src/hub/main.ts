import { Command, Option } from "@commander-js/extra-typings";
import { FleetError } from "@fairlead/base/errors.ts";
import { LEASES_OF } from "@fairlead/fleet/api/fairlead.dev/leases.ts";
import { HUB_DEFAULTS } from "@fairlead/fleet/hub/hub.ts";
import { CLOCK_OFFSET_FLAG } from "@fairlead/base/program/clock-offset.ts";
import { FLAGS } from "#shared/flags.ts";
import { LEADER_FLAG } from "#shared/leader.ts";
import { CONCURRENCY_FLAG, MAX_CONCURRENT_FLAG } from "#shared/manager.ts";
import { resultOption } from "#shared/output.ts";
import { collect, parseWhole } from "@fairlead/base/program/flags.ts";
import { LOG_LEVEL_FLAG, READY_FD_FLAG, runProgram } from "@fairlead/base/program/program.ts";
import {
  ADVERTISE_FLAG,
  BIND_FLAG,
  DATA_FLAG,
  EMBEDDED_FLAG,
  PORT_FLAG,
  SAN_FLAG,
} from "./embedded-flags.ts";
import {
  ALLOWED_APIS_FLAG,
  COLLECTION_FLAG,
  CONFIG_MAP_ENVELOPES_FLAG,
  MIN_INTERVAL_FLAG,
  SKIPPED_APIS_FLAG,
  SKIPPED_NAMESPACES_FLAG,
  selectingOf,
  WORKLOAD_FLAG,
} from "./placement-flags.ts";
import { runHub } from "./run.ts";
import {
  RFC2136_KEY_FLAG,
  RFC2136_SERVER_FLAG,
  trafficManagerOf,
  TRAFFIC_OWNER_FLAG,
  TRAFFIC_PRIVATE_FLAG,
  TRAFFIC_PROVIDER_FLAG,
  TRAFFIC_TTL_FLAG,
  TRAFFIC_ZONE_FLAG,
} from "./traffic.ts";

import {
  WEBHOOK_CLIENT_CA_FLAG,
  WEBHOOK_FLAG,
  WEBHOOK_SERVICE_FLAG,
  WEBHOOK_URL_FLAG,
  webhookOf,
} from "./webhook-flags.ts";

/** Hides the option types of the command, which its callers do not use. */
type Program = Pick<Command, "parseAsync">;

/** Runs the controllers of the hub. Several replicas may run; one is active. */
export function command(): Program {
  const hub = new Command("hub")
    .description("run the controllers of a fleet's hub")
    .option(FLAGS.kubeconfig, "kubeconfig of the hub; default: the cluster of this pod")
    .option(...EMBEDDED_FLAG)
    .option(...DATA_FLAG)
    .option(...PORT_FLAG)
    .option(...BIND_FLAG)
    .option(...ADVERTISE_FLAG)
    .option(SAN_FLAG[0], SAN_FLAG[1], collect)
    .option(
      "--member-lease-seconds <seconds>",
      "silence of a member after which importers probe its endpoints, 2 to 3600",
      String(HUB_DEFAULTS.leaseSeconds),
    )
    .option(
      "--force-delete-seconds <seconds>",
      "time limit for a leaving member to withdraw, 0 to 86400",
      String(HUB_DEFAULTS.forceDeleteSeconds),
    )
    .option(...TRAFFIC_PROVIDER_FLAG)
    .option(...TRAFFIC_ZONE_FLAG)
    .option(...TRAFFIC_TTL_FLAG)
    .option(...TRAFFIC_OWNER_FLAG)
    .option(...TRAFFIC_PRIVATE_FLAG)
    .option(...RFC2136_SERVER_FLAG)
    .option(...RFC2136_KEY_FLAG)
    .option("--no-placement", "do not place resources on members; another program may do it")
    .option(...MIN_INTERVAL_FLAG)
    .option(...COLLECTION_FLAG)
    .option(...SKIPPED_APIS_FLAG)
    .option(...ALLOWED_APIS_FLAG)
    .option(...SKIPPED_NAMESPACES_FLAG)
    .option(...WORKLOAD_FLAG)
    .option(...CONFIG_MAP_ENVELOPES_FLAG)
    .option(...WEBHOOK_FLAG)
    .option(...WEBHOOK_SERVICE_FLAG)
    .option(...WEBHOOK_URL_FLAG)
    .option(...WEBHOOK_CLIENT_CA_FLAG)
    .option("--metrics <address:port>", "address of /metrics, /healthz and /readyz")
    .option(CONCURRENCY_FLAG[0], CONCURRENCY_FLAG[1], collect)
    .option(...MAX_CONCURRENT_FLAG)
    .addOption(new Option(CLOCK_OFFSET_FLAG).hideHelp())
    .option(...LEADER_FLAG)
    .option(...LOG_LEVEL_FLAG)
    .option(...READY_FD_FLAG)
    .action((flags) =>
      runProgram("hub", flags, async (context) => {
        const run = {
          concurrency: flags.concurrency,
          maxConcurrentReconciles: flags.maxConcurrentReconciles,
          clockOffset: flags.clockOffset,
          // With thousands of objects, collecting garbage early costs more than all other work.
          memory: "as needed" as const,
          leases: LEASES_OF.hub,
          servers: flags.metrics === undefined ? [] : [{ address: flags.metrics, flag: "--metrics" }],
          webhook: await webhookOf(flags),
          hub: {
            leaseSeconds: parseWhole("--member-lease-seconds", flags.memberLeaseSeconds, {
              min: 2,
              max: 3600,
            }),
            forceDeleteSeconds: parseWhole("--force-delete-seconds", flags.forceDeleteSeconds, {
              min: 0,
              max: 86_400,
            }),
            placement: flags.placement,
            selecting: selectingOf(flags),
            configMapEnvelopes: flags.configmapEnvelopes === true,
            trafficManager: trafficManagerOf(flags),
          },
        };
        if (flags.embedded === true) {
          // A hub on a cluster does not load the API server.
          const { runEmbeddedHub } = await import("./embedded.ts");
          return runEmbeddedHub(context, flags, run);
        }
        if (flags.data !== undefined)
          throw new FleetError(
            "OPTION_INVALID",
            "--data is for --embedded: a hub on a cluster keeps nothing",
          );
        return runHub(context, { ...run, kubeconfig: flags.kubeconfig, isElected: flags.leaderElect });
      }),
    );
  addMove(hub);
  return hub;
}

/** Its own flags are those of the program. */
function addMove(hub: Command): void {
  hub
    .command("move")
    .description("move a fleet from one hub to another, or back; its members follow by themselves")
    .requiredOption("--from <file>", "kubeconfig of the hub that has the fleet, with all rights")
    .requiredOption("--to <file>", "kubeconfig of the hub that gets it, with all rights")
    .option("--from-context <name>", "context of --from; default: its current context")
    .option("--to-context <name>", "context of --to; default: its current context")
    .option(
      "--hub-server <url>",
      "URL by which members reach the hub that gets the fleet; default: the one in its context",
    )
    .option("--hub-ca-file <file>", "CA certificates of that hub, PEM; default: those in its context")
    .option("--back", "return to the hub of --from, however far the move is")
    .option(FLAGS.dryRun, "check both hubs and print what would be done, without doing it")
    .option(FLAGS.timeout, "time limit for the members to follow, 1 to 3600", "120")
    .addOption(resultOption())
    .action(async (flags) => (await import("./move.ts")).move(flags));
}
