import { printText } from "@fairlead/base/print.ts";
import { Command } from "@commander-js/extra-typings";
import { drainCluster } from "@fairlead/fleet/cli/fleet/drain.ts";
import { renderDrain } from "@fairlead/fleet/cli/fleet/render-drain.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { KUBECONFIG_FLAG, loadContext } from "#shared/contexts.ts";
import { FLAGS } from "#shared/flags.ts";
import { HUB_CONTEXT_FLAG, HUB_KUBECONFIG_FLAG } from "#shared/on-hub.ts";
import { parseWhole } from "@fairlead/base/program/flags.ts";
import { resultOption } from "#shared/output.ts";
import { runForPeople, sayStep } from "@fairlead/base/program/people.ts";

/** Hides the option types of the command, which its callers do not use. */
type Program = Pick<Command<[string]>, "parseAsync">;

/** Sends new flows to other members, for the maintenance of one. */
export function command(): Program {
  return new Command("drain")
    .description("send new requests to other clusters; established connections are not affected")
    .argument("<name>", "the member's name")
    .option(...KUBECONFIG_FLAG)
    .option(...HUB_CONTEXT_FLAG)
    .option(...HUB_KUBECONFIG_FLAG)
    .option("--hard", "also stop services that no other cluster can serve", false)
    .option(
      "--placements",
      "also cordon the cluster and evict every placement from it, as far as disruption budgets allow; with --undo: uncordon it",
      false,
    )
    .option("--undo", "end the drain", false)
    .option(
      FLAGS.dryRun,
      "print which services no other cluster can serve, and what would be evicted, without draining it",
      false,
    )
    .option(FLAGS.noWait, "do not wait until the other clusters have applied it, and placements are removed")
    .option(FLAGS.timeout, "time limit for the other clusters, and for placements, 1 to 3600", "60")
    .addOption(resultOption())
    .action((name, flags) =>
      runForPeople("drain", async ({ deps, signal }) => {
        const { hubContext, hard, undo, wait, placements, dryRun } = flags;
        if (hard && undo) throw new FleetError("OPTION_INVALID", "--hard and --undo cannot be used together");
        const timeoutMs = parseWhole("--timeout", flags.timeout, { min: 1, max: 3600 }) * 1000;
        const named = { file: flags.hubKubeconfig, context: hubContext };
        const hub = await loadContext(named, flags.kubeconfig, process.env);
        const mode = undo ? undefined : hard ? "Hard" : "Soft";
        const result = await drainCluster(
          { name, hub, mode, placements, dryRun, wait, timeoutMs },
          { ...deps, progress: sayStep },
          signal,
        );
        if (wait && !dryRun && result.placements?.some((it) => it.outcome !== "Removed") === true)
          process.exitCode = 1;
        printText(renderDrain(result, flags.output));
      }),
    );
}
