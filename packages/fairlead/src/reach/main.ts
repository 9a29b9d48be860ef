import { Command } from "@commander-js/extra-typings";
import { reachHub } from "@fairlead/fleet/cli/fleet/checks/reach.ts";
import { runForPeople } from "@fairlead/base/program/people.ts";

/** Only parsed, never extended: its options are its own affair. */
type Program = Pick<Command, "parseAsync">;

/** What a pod runs that finds out whether its cluster reaches the hub. */
export function command(): Program {
  return new Command("reach")
    .description(
      "say whether a hub answers from here, by a certificate of the authorities in FAIRLEAD_HUB_CA",
    )
    .requiredOption("--server <url>", "the hub")
    .option("--timeout <seconds>", "how long it may take, 1 to 60", "15")
    .action((flags) =>
      runForPeople("reach", async ({ signal }) => {
        const ca = process.env["FAIRLEAD_HUB_CA"];
        const said = await reachHub(
          { server: flags.server, ca: ca === "" ? undefined : ca, timeoutMs: Number(flags.timeout) * 1000 },
          signal,
        );
        process.stdout.write(`${said}\n`);
      }),
    );
}
