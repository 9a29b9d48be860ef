import { Command } from "@commander-js/extra-typings";
import { FleetError } from "@fairlead/base/errors.ts";
import { runForPeople } from "@fairlead/base/program/people.ts";
import { probeTargets } from "@fairlead/fleet/cli/verify/agent/probe.ts";
import { serveProbes } from "@fairlead/fleet/cli/verify/agent/serve.ts";
import { DONE, type ProbePlan } from "@fairlead/fleet/cli/verify/probes.ts";
import { loadLibC } from "@fairlead/os/libc/libc.ts";

/** Hides the option types of the command, which its callers do not use. */
type Program = Pick<Command, "parseAsync">;

/** The programs in the pods of `fairlead verify`. */
export function command(): Program {
  const pod = new Command("verify-pod").description("serve or carry out the probes of fairlead verify");
  pod
    .command("serve")
    .description("answer the probes of other clusters")
    .requiredOption("--cluster <name>", "name to answer with")
    .action(({ cluster }) => runForPeople("verify-pod", ({ signal }) => serveProbes(cluster, signal)));
  pod
    .command("probe")
    .description("carry out probes and print a line of JSON for each")
    .requiredOption("--plan <json>", "what to probe")
    .action((flags) =>
      runForPeople("verify-pod", async ({ deps, signal }) => {
        const plan = parsePlan(flags.plan);
        const report = (finding: object): void => console.log(JSON.stringify(finding));
        await probeTargets(plan, report, { ...deps, libc: await loadLibC() }, signal);
        console.log(DONE);
      }),
    );
  return pod;
}

/** Written by the same version of this program. */
function parsePlan(text: string): ProbePlan {
  try {
    return JSON.parse(text) as ProbePlan;
  } catch (cause) {
    throw new FleetError("OPTION_INVALID", "--plan must be JSON", { cause });
  }
}
