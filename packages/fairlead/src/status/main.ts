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
import type { ListOutput } from "@fairlead/fleet/cli/output.ts";
import { renderPaths } from "@fairlead/fleet/cli/fleet/render-paths.ts";
import { arePathsHealthy, type ClusterPath, summarizePaths } from "@fairlead/fleet/cli/fleet/paths.ts";
import { checkReachable } from "@fairlead/fleet/cli/fleet/clusters.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { clockOfServer } from "@fairlead/kube/client/server-clock.ts";
import { FleetError, hasCode } from "@fairlead/base/errors.ts";
import { KUBECONFIG_FLAG, loadContext } from "#shared/contexts.ts";
import { FLAGS } from "#shared/flags.ts";
import { HUB_KUBECONFIG_FLAG, HUB_READER_FLAG } from "#shared/on-hub.ts";
import { listOption } from "#shared/output.ts";
import { Screen } from "#shared/screen.ts";
import { runForPeople } from "@fairlead/base/program/people.ts";

/** Hides the option types of the command, which its callers do not use. */
type Program = Pick<Command, "parseAsync">;

/** The code to end with where something is not healthy: it differs from that of a command that failed. */
const UNHEALTHY = 3;

interface Look {
  readonly text: string;
  readonly isHealthy: boolean;
  /** Differs where more than time has passed. */
  readonly key: string;
}

function lookAtFleet(status: FleetStatus, output: ListOutput, nowMs: number): Look {
  const text = renderStatus(status, output, nowMs);
  return { text, isHealthy: isFleetHealthy(status), key: changeKey(status) };
}

function lookAtPaths(paths: readonly ClusterPath[], output: ListOutput, nowMs: number): Look {
  const text = renderPaths(paths, output, nowMs);
  return { text, isHealthy: arePathsHealthy(paths), key: changeKey(paths) };
}

/** The clusters of a fleet, their exports and imports, conflicts, and the last report of each. */
export function command(): Program {
  return new Command("status")
    .description(
      "show the hub, clusters and services of a fleet; exit code 3 if the hub, a member or a link between members is not healthy",
    )
    .option(...KUBECONFIG_FLAG)
    .option(...HUB_READER_FLAG)
    .option(...HUB_KUBECONFIG_FLAG)
    .option(FLAGS.namespace, "show only services of this namespace")
    .option("--paths", "show the tunnels between members of parallel networks; exit code 3 if one has none")
    .option(FLAGS.watch, "show it again each time it changes, until it is interrupted")
    .addOption(listOption())
    .action((flags) =>
      runForPeople("status", async ({ deps, signal }) => {
        const { namespace, output, paths: isPaths = false, watch: isWatch = false } = flags;
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
        const look = (seen: FleetSnapshot, program: HubProgram): Look => {
          if (isPaths) return lookAtPaths(summarizePaths(seen, now()), output, now());
          const all = { hub: program, links: findCutLinks(seen, now()), ...summarizeFleet(seen) };
          return lookAtFleet(namespace === undefined ? all : inNamespace(all, namespace), output, now());
        };
        // The tunnels are reported by members.
        const unknown: HubProgram = { state: "Unknown" };
        const program = isPaths && !isWatch ? unknown : await findHubProgram(hub, deps, signal);
        if (isWatch) {
          const screen = new Screen();
          let shown: string | undefined;
          const show = (seen: FleetSnapshot, current: HubProgram): void => {
            const { key, text } = look(seen, current);
            if (key !== shown) screen.show(text);
            shown = key;
          };
          await followFleet(hub, { program, checkHub }, show, { deps, signal });
          return;
        }
        const { text, isHealthy } = look(snapshot, program);
        printText(text);
        if (!isHealthy) process.exitCode = UNHEALTHY;
      }),
    );
}
