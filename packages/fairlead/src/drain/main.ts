import { Command } from "@commander-js/extra-typings";
import { drainCluster } from "@fairlead/fleet/cli/fleet/drain.ts";
import { renderDrain } from "@fairlead/fleet/cli/fleet/render-drain.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { KUBECONFIG_FLAG, loadContext } from "#shared/contexts.ts";
import { parseWhole } from "@fairlead/base/program/flags.ts";
import { resultOption } from "#shared/output.ts";
import { runForPeople, sayStep } from "@fairlead/base/program/people.ts";

/** Only parsed, never extended: its options are its own affair. */
type Program = Pick<Command<[string]>, "parseAsync">;

/** Keeps new flows away from a member, for as long as its maintenance takes. */
export function command(): Program {
  return new Command("drain")
    .description("send new requests to other clusters; connections that stand go on")
    .argument("<name>", "the member's name")
    .option(...KUBECONFIG_FLAG)
    .option("--hub-context <name>", "an administrator of the hub; default: the current context")
    .option("--hub-kubeconfig <file>", "where the hub's context is; default: as --kubeconfig")
    .option("--hard", "stop services too that no other cluster can serve", false)
    .option("--undo", "let requests go to the cluster again", false)
    .option("--no-wait", "do not wait until the other clusters have carried it out")
    .option("--timeout <seconds>", "how long that may take, 1 to 3600", "60")
    .addOption(resultOption())
    .action((name, flags) =>
      runForPeople("drain", async ({ deps, signal }) => {
        const { hubContext, hard, undo, wait } = flags;
        if (hard && undo) throw new FleetError("OPTION_INVALID", "give --hard or --undo, not both");
        const timeoutMs = parseWhole("--timeout", flags.timeout, { min: 1, max: 3600 }) * 1000;
        const named = { file: flags.hubKubeconfig, context: hubContext };
        const hub = await loadContext(named, flags.kubeconfig, process.env);
        const mode = undo ? undefined : hard ? "Hard" : "Soft";
        const result = await drainCluster(
          { name, hub, mode, waitForImporters: wait, timeoutMs },
          { ...deps, progress: sayStep },
          signal,
        );
        console.log(renderDrain(result, flags.output));
      }),
    );
}
