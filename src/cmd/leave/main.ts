import { Command } from "@commander-js/extra-typings";
import { leaveFleet } from "#cli/fleet/leave.ts";
import { FleetError } from "#base/errors.ts";
import { loadKubeconfig } from "#kube/kubeconfig.ts";
import { parseWhole } from "../numbers.ts";
import { runForPeople, sayReport } from "../people.ts";

/** Only parsed, never extended: its options are its own affair. */
type Program = Pick<Command<[string]>, "parseAsync">;

/** Takes a member out of its fleet. */
export function command(): Program {
  return new Command("leave")
    .description("take a member out of its fleet; objects of users stay as they are")
    .argument("<name>", "the member's name")
    .requiredOption("--hub-kubeconfig <file>", "an administrator of the hub")
    .option("--hub-context <name>", "context in it; default: its current one")
    .option("--member-kubeconfig <file>", "an administrator of the member")
    .option("--member-context <name>", "context in it; default: its current one")
    .option("--force", "the member is gone for good: do without its agents", false)
    .option("--timeout <seconds>", "how long hub and agents may take, 1 to 3600", "60")
    .action((name, flags) =>
      runForPeople("leave", async ({ deps, signal }) => {
        const { hubContext, memberContext, memberKubeconfig, force } = flags;
        if (memberKubeconfig === undefined && !force)
          throw new FleetError(
            "OPTION_INVALID",
            "give --member-kubeconfig, or --force for a member that is gone",
          );
        const hub = await loadKubeconfig(
          flags.hubKubeconfig,
          hubContext === undefined ? {} : { context: hubContext },
        );
        const member =
          memberKubeconfig === undefined
            ? undefined
            : await loadKubeconfig(
                memberKubeconfig,
                memberContext === undefined ? {} : { context: memberContext },
              );
        const timeoutMs = parseWhole("--timeout", flags.timeout, { min: 1, max: 3600 }) * 1000;
        await leaveFleet({ name, hub, member, force, timeoutMs }, { ...deps, progress: sayReport }, signal);
      }),
    );
}
