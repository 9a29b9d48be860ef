import { Command, Option } from "@commander-js/extra-typings";
import { FleetError } from "@fairlead/base/errors.ts";
import { printText } from "@fairlead/base/print.ts";
import {
  PLACED_ON_LEAVE,
  type PlacedOnLeave,
} from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { leaveFleet } from "@fairlead/fleet/cli/fleet/leave.ts";
import { planLeave, renderLeavePlan } from "@fairlead/fleet/cli/fleet/leave-plan.ts";
import type { Report } from "@fairlead/fleet/cli/fleet/steps.ts";
import { KUBECONFIG_FLAG, loadContext, type Named, refuseSameDefault } from "#shared/contexts.ts";
import { FLAGS } from "#shared/flags.ts";
import { HUB_CONTEXT_FLAG, HUB_KUBECONFIG_FLAG } from "#shared/on-hub.ts";
import { parseWhole } from "@fairlead/base/program/flags.ts";
import { printResult, resultOption } from "#shared/output.ts";
import { runForPeople } from "@fairlead/base/program/people.ts";
import { sayReport } from "#shared/reports.ts";

/** Hides the option types of the command, which its callers do not use. */
type Program = Pick<Command<[string]>, "parseAsync">;

const PLACED = ["keep", "delete", "orphan"] as const;

/** Takes a member out of its fleet. */
export function command(): Program {
  return new Command("leave")
    .description("remove a member from its fleet; users' objects are kept")
    .argument("<name>", "the member's name")
    .option(...KUBECONFIG_FLAG)
    .option(...HUB_CONTEXT_FLAG)
    .option(
      FLAGS.memberContext,
      "kubeconfig context with administrator access to the member; default: the current context",
    )
    .option(...HUB_KUBECONFIG_FLAG)
    .option(FLAGS.memberKubeconfig, "kubeconfig file of the member; default: --kubeconfig")
    .option(
      "--delete-exports",
      "also delete the ServiceExports and MultiClusterServices of the member",
      false,
    )
    .addOption(
      new Option(
        "--placed <choice>",
        "what becomes of placed objects: they stay, the member deletes them, or they stay without AppliedWorks; " +
          "default: spec.deleteOptions.placed of the MemberCluster, or keep",
      ).choices(PLACED),
    )
    .option(
      "--force",
      "do not wait for agents; without --member-context and --member-kubeconfig: the member no longer exists; " +
        "if the hub does not answer: clean up the member only",
      false,
    )
    .option(
      FLAGS.dryRun,
      "print what the fleet would lose, and what would become of placed objects, without leaving",
      false,
    )
    .option("--hub-gone", "the hub and its context no longer exist: clean up the member only", false)
    .option(FLAGS.timeout, "time limit for the hub and the agents, 1 to 3600", "60")
    .addOption(resultOption())
    .action((name, flags) =>
      runForPeople("leave", async ({ deps, signal }) => {
        const { force, deleteExports, hubGone } = flags;
        const placed = parsePlaced(flags);
        const hubNamed = { file: flags.hubKubeconfig, context: flags.hubContext };
        const memberNamed = { file: flags.memberKubeconfig, context: flags.memberContext };
        const isGone = force && !isNamed(memberNamed);
        if (hubGone && isNamed(hubNamed))
          throw new FleetError(
            "OPTION_INVALID",
            "--hub-gone and the context of the hub cannot be used together",
          );
        if (hubGone && !isNamed(memberNamed))
          throw new FleetError("OPTION_INVALID", "--hub-gone requires --member-context");
        if (!isGone && !hubGone) refuseSameDefault(hubNamed, memberNamed);
        const hub = hubGone ? undefined : await loadContext(hubNamed, flags.kubeconfig, process.env);
        const member = isGone ? undefined : await loadContext(memberNamed, flags.kubeconfig, process.env);
        const timeoutMs = parseWhole("--timeout", flags.timeout, { min: 1, max: 3600 }) * 1000;
        const options = { name, hub, member, force, deleteExports, placed, timeoutMs };
        if (flags.dryRun) {
          printText(renderLeavePlan(await planLeave(options, deps, signal), flags.output));
          return;
        }
        const steps: Report[] = [];
        const progress = (report: Report): void => {
          steps.push(report);
          sayReport(report);
        };
        try {
          await leaveFleet(options, { ...deps, progress }, signal);
        } finally {
          // Also after a failure: the exit code shows whether all steps were done.
          printResult({ steps }, flags.output);
        }
      }),
    );
}

function parsePlaced({
  placed,
  force,
  hubGone,
}: {
  readonly placed?: (typeof PLACED)[number] | undefined;
  readonly force: boolean;
  readonly hubGone: boolean;
}): PlacedOnLeave | undefined {
  if ((force || hubGone) && placed !== undefined && placed !== "keep")
    throw new FleetError(
      "OPTION_INVALID",
      `--placed ${placed} is carried out by the member's agent, which --force and --hub-gone do not wait for`,
    );
  return PLACED_ON_LEAVE.find((it) => it.toLowerCase() === placed);
}

function isNamed({ file, context }: Named): boolean {
  return file !== undefined || context !== undefined;
}
