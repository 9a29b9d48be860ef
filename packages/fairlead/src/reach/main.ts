import { printText } from "@fairlead/base/print.ts";
import { Command } from "@commander-js/extra-typings";
import { reachHub } from "@fairlead/fleet/cli/fleet/checks/reach.ts";
import { runForPeople } from "@fairlead/base/program/people.ts";

/** Hides the option types of the command, which its callers do not use. */
type Program = Pick<Command, "parseAsync">;

/** Runs in a pod of a member, and checks whether the hub is reachable from there. */
export function command(): Program {
  return new Command("reach")
    .description("check that the hub is reachable and its certificate is signed by a CA in FAIRLEAD_HUB_CA")
    .requiredOption("--server <url>", "URL of the hub")
    .option("--timeout <seconds>", "time limit, 1 to 60", "15")
    .action((flags) =>
      runForPeople("reach", async ({ signal }) => {
        const ca = process.env["FAIRLEAD_HUB_CA"];
        const said = await reachHub(
          { server: flags.server, ca: ca === "" ? undefined : ca, timeoutMs: Number(flags.timeout) * 1000 },
          signal,
        );
        printText(said);
      }),
    );
}
