import { Command } from "@commander-js/extra-typings";
import { joinCluster } from "#cli/fleet/join.ts";
import { loadKubeconfig } from "#kube/kubeconfig.ts";
import { parseWhole } from "../numbers.ts";
import { runForPeople, sayStep } from "../people.ts";

/** Only parsed, never extended: its options are its own affair. */
type Program = Pick<Command<[string]>, "parseAsync">;

/** Makes a cluster a member of a fleet. */
export function command(): Program {
  return new Command("join")
    .description("make a cluster a member of a fleet")
    .argument("<name>", "the member's name, which becomes its cluster id")
    .requiredOption("--hub-kubeconfig <file>", "an administrator of the hub")
    .option("--hub-context <name>", "context in it; default: its current one")
    .requiredOption("--member-kubeconfig <file>", "an administrator of the cluster that joins")
    .option("--member-context <name>", "context in it; default: its current one")
    .option("--hub-server <url>", "the hub as the member reaches it; default: as in --hub-kubeconfig")
    .option("--heartbeat-seconds <seconds>", "how often the member's agents report, 1 to 600", "60")
    .option("--no-wait", "do not wait until the member's agents say that they joined")
    .option("--timeout <seconds>", "how long hub and agents may take, 1 to 3600", "60")
    .action((name, flags) =>
      runForPeople("join", async ({ deps, signal }) => {
        const { hubContext, memberContext, hubServer } = flags;
        const hub = await loadKubeconfig(
          flags.hubKubeconfig,
          hubContext === undefined ? {} : { context: hubContext },
        );
        const member = await loadKubeconfig(
          flags.memberKubeconfig,
          memberContext === undefined ? {} : { context: memberContext },
        );
        await joinCluster(
          {
            name,
            hub,
            member,
            ...(hubServer === undefined ? {} : { hubServer }),
            heartbeatSeconds: parseWhole("--heartbeat-seconds", flags.heartbeatSeconds, { min: 1, max: 600 }),
            waitForAgents: flags.wait,
            timeoutMs: parseWhole("--timeout", flags.timeout, { min: 1, max: 3600 }) * 1000,
          },
          { ...deps, progress: sayStep },
          signal,
        );
      }),
    );
}
