import { Command } from "@commander-js/extra-typings";
import { FleetError } from "@fairlead/base/errors.ts";
import { leaveFleet } from "@fairlead/fleet/cli/fleet/leave.ts";
import type { Report } from "@fairlead/fleet/cli/fleet/steps.ts";
import { KUBECONFIG_FLAG, loadContext, type Named, refuseSameDefault } from "#shared/contexts.ts";
import { parseWhole } from "@fairlead/base/program/flags.ts";
import { printResult, resultOption } from "#shared/output.ts";
import { runForPeople } from "@fairlead/base/program/people.ts";
import { sayReport } from "#shared/reports.ts";

/** Only parsed, never extended: its options are its own affair. */
type Program = Pick<Command<[string]>, "parseAsync">;

/** Takes a member out of its fleet. */
export function command(): Program {
  return new Command("leave")
    .description("take a member out of its fleet; objects of users stay as they are")
    .argument("<name>", "the member's name")
    .option(...KUBECONFIG_FLAG)
    .option("--hub-context <name>", "an administrator of the hub; default: the current context")
    .option("--member-context <name>", "an administrator of the member; default: the current context")
    .option("--hub-kubeconfig <file>", "where the hub's context is; default: as --kubeconfig")
    .option("--member-kubeconfig <file>", "where the member's context is; default: as --kubeconfig")
    .option("--delete-exports", "delete the member's ServiceExports and MultiClusterServices too", false)
    .option(
      "--force",
      "do without agents that do not answer; without --member-context and --member-kubeconfig: the member is gone for good; " +
        "with a hub that does not answer: take back the member's side alone",
      false,
    )
    .option(
      "--hub-gone",
      "the hub is gone for good, and its context with it: take back the member's side alone",
      false,
    )
    .option("--timeout <seconds>", "how long hub and agents may take, 1 to 3600", "60")
    .addOption(resultOption())
    .action((name, flags) =>
      runForPeople("leave", async ({ deps, signal }) => {
        const { force, deleteExports, hubGone } = flags;
        const hubNamed = { file: flags.hubKubeconfig, context: flags.hubContext };
        const memberNamed = { file: flags.memberKubeconfig, context: flags.memberContext };
        const isGone = force && !isNamed(memberNamed);
        if (hubGone && isNamed(hubNamed))
          throw new FleetError("OPTION_INVALID", "give --hub-gone or the hub's context, not both");
        if (hubGone && !isNamed(memberNamed))
          throw new FleetError("OPTION_INVALID", "--hub-gone needs the member: --member-context");
        if (!isGone && !hubGone) refuseSameDefault(hubNamed, memberNamed);
        const hub = hubGone ? undefined : await loadContext(hubNamed, flags.kubeconfig, process.env);
        const member = isGone ? undefined : await loadContext(memberNamed, flags.kubeconfig, process.env);
        const timeoutMs = parseWhole("--timeout", flags.timeout, { min: 1, max: 3600 }) * 1000;
        const steps: Report[] = [];
        const progress = (report: Report): void => {
          steps.push(report);
          sayReport(report);
        };
        try {
          await leaveFleet(
            { name, hub, member, force, deleteExports, timeoutMs },
            { ...deps, progress },
            signal,
          );
        } finally {
          // As far as it came: the exit code says whether that was to the end.
          printResult({ steps }, flags.output);
        }
      }),
    );
}

function isNamed({ file, context }: Named): boolean {
  return file !== undefined || context !== undefined;
}
