import { printText } from "@fairlead/base/print.ts";
import { Command } from "@commander-js/extra-typings";
import { renderStatus } from "@fairlead/fleet/cli/fleet/render-status.ts";
import { changeKey, followFleet } from "@fairlead/fleet/cli/fleet/follow-fleet.ts";
import { findHubProgram, type HubProgram } from "@fairlead/fleet/cli/fleet/hub-program.ts";
import {
  findCutLinks,
  type FleetSnapshot,
  type FleetStatus,
  inNamespace,
  isFleetHealthy,
  readFleet,
  summarizeFleet,
} from "@fairlead/fleet/cli/fleet/status.ts";
import { renderPaths } from "@fairlead/fleet/cli/fleet/render-paths.ts";
import { arePathsHealthy, summarizePaths } from "@fairlead/fleet/cli/fleet/paths.ts";
import { checkReachable } from "@fairlead/fleet/cli/fleet/clusters.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { clockOfServer } from "@fairlead/kube/client/server-clock.ts";
import { FleetError, hasCode } from "@fairlead/base/errors.ts";
import { KUBECONFIG_FLAG, loadContext } from "#shared/contexts.ts";
import { listOption } from "#shared/output.ts";
import { Screen } from "#shared/screen.ts";
import { runForPeople } from "@fairlead/base/program/people.ts";

/** Hides the option types of the command, which its callers do not use. */
type Program = Pick<Command, "parseAsync">;

/** The code to end with where something is not healthy: it differs from that of a command that failed. */
const UNHEALTHY = 3;

/** The clusters of a fleet, their exports and imports, conflicts, and the last report of each. */
export function command(): Program {
  return new Command("status")
    .description(
      "show the hub, clusters and services of a fleet; exit code 3 if the hub, a member or a link between members is not healthy",
    )
    .option(...KUBECONFIG_FLAG)
    .option(
      "--hub-context <name>",
      "kubeconfig context with read access to the hub; default: the current context",
    )
    .option("--hub-kubeconfig <file>", "kubeconfig file of the hub; default: --kubeconfig")
    .option("-n, --namespace <name>", "show only services of this namespace")
    .option("--paths", "show the tunnels between members of parallel networks; exit code 3 if one has none")
    .option("-w, --watch", "show it again each time it changes, until it is interrupted")
    .addOption(listOption())
    .action((flags) =>
      runForPeople("status", async ({ deps, signal }) => {
        const { namespace, output, paths: isPaths = false, watch: isWatch = false } = flags;
        if (isPaths && isWatch)
          throw new FleetError("OPTION_INVALID", "--paths and --watch cannot be used together");
        const named = { file: flags.hubKubeconfig, context: flags.hubContext };
        const config = await loadContext(named, flags.kubeconfig, process.env);
        await using hub = connect(config, deps);
        const checkHub = async (): Promise<void> => {
          await checkReachable(hub, { who: "the hub", config }, deps, signal);
        };
        await checkHub();
        const snapshot = await readFleet(hub, signal).catch((error: unknown) => {
          if (!hasCode(error, "API_NOT_FOUND")) throw error;
          throw new FleetError(
            "OPTION_INVALID",
            `${config.server} is not a hub; pass another --hub-context`,
            {
              cause: error,
            },
          );
        });
        const now = (): number => clockOfServer(hub, deps.clock).now();
        if (isPaths) {
          const paths = summarizePaths(snapshot, now());
          printText(renderPaths(paths, output, now()));
          if (!arePathsHealthy(paths)) process.exitCode = UNHEALTHY;
          return;
        }
        const statusOf = (seen: FleetSnapshot, program: HubProgram): FleetStatus => {
          const all = { hub: program, links: findCutLinks(seen, now()), ...summarizeFleet(seen) };
          return namespace === undefined ? all : inNamespace(all, namespace);
        };
        const program = await findHubProgram(hub, deps, signal);
        if (isWatch) {
          const screen = new Screen();
          let shown: string | undefined;
          const show = (seen: FleetSnapshot, current: HubProgram): void => {
            const status = statusOf(seen, current);
            const key = changeKey(status);
            if (key !== shown) screen.show(renderStatus(status, output, now()));
            shown = key;
          };
          await followFleet(hub, { program, checkHub }, show, { deps, signal });
          return;
        }
        const status = statusOf(snapshot, program);
        printText(renderStatus(status, output, now()));
        if (!isFleetHealthy(status)) process.exitCode = UNHEALTHY;
      }),
    );
}
