import { Command } from "@commander-js/extra-typings";
import { parseOutput, renderStatus } from "#cli/fleet/render-status.ts";
import { readFleet, summarizeFleet } from "#cli/fleet/status.ts";
import { checkReachable } from "#cli/fleet/clusters.ts";
import { connect } from "#kube/client.ts";
import { loadKubeconfig } from "#kube/kubeconfig.ts";
import { FleetError, hasCode } from "#base/errors.ts";
import { runForPeople } from "../people.ts";

/** Only parsed, never extended: its options are its own affair. */
type Program = Pick<Command, "parseAsync">;

/** The clusters of a fleet, what they export and import, conflicts, and when each was heard of last. */
export function command(): Program {
  return new Command("status")
    .description("show the clusters and services of a fleet")
    .option("--hub-kubeconfig <file>", "the hub; default: the file that KUBECONFIG names")
    .option("--hub-context <name>", "context in it; default: its current one")
    .option("-o, --output <format>", "table, wide, json, yaml or name", "table")
    .action((flags) =>
      runForPeople("status", async ({ deps, signal }) => {
        const output = parseOutput(flags.output);
        const path = flags.hubKubeconfig ?? process.env["KUBECONFIG"];
        if (path === undefined || path === "")
          throw new FleetError("OPTION_INVALID", "give --hub-kubeconfig FILE, or set KUBECONFIG");
        if (flags.hubKubeconfig === undefined && path.includes(":"))
          throw new FleetError(
            "OPTION_INVALID",
            `KUBECONFIG names several files (${path}): say with --hub-kubeconfig FILE which one knows the hub`,
          );
        const context = flags.hubContext;
        const config = await loadKubeconfig(path, context === undefined ? {} : { context });
        await using hub = connect(config, deps);
        await checkReachable(hub, { who: "the hub", config }, deps, signal);
        const snapshot = await readFleet(hub, signal).catch((error: unknown) => {
          if (!hasCode(error, "API_NOT_FOUND")) throw error;
          throw new FleetError(
            "OPTION_INVALID",
            `${config.server} is no hub: name another context with --hub-context`,
            {
              cause: error,
            },
          );
        });
        console.log(renderStatus(summarizeFleet(snapshot), output, deps.clock.now()));
      }),
    );
}
