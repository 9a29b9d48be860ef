import { Command } from "@commander-js/extra-typings";
import { cordonCluster, describeCordon } from "@fairlead/fleet/cli/fleet/cordon.ts";
import { KUBECONFIG_FLAG } from "#shared/contexts.ts";
import { HUB_CONTEXT_FLAG, HUB_KUBECONFIG_FLAG, onHub } from "#shared/on-hub.ts";
import { printResult, resultOption } from "#shared/output.ts";

/** Hides the option types of the commands, which their callers do not use. */
type Program = Pick<Command<[string]>, "parseAsync">;

/** Keeps placements from picking a member. */
export function command(): Program {
  return withFlags("cordon", true, "keep placements from picking a cluster; what is placed there stays");
}

/** The way back. */
export function uncordon(): Program {
  return withFlags("uncordon", false, "let placements pick a cordoned cluster again");
}

function withFlags(word: string, cordoned: boolean, description: string): Program {
  return new Command(word)
    .description(description)
    .argument("<name>", "the member's name")
    .option(...KUBECONFIG_FLAG)
    .option(...HUB_CONTEXT_FLAG)
    .option(...HUB_KUBECONFIG_FLAG)
    .addOption(resultOption())
    .action((name, flags) =>
      onHub(word, flags, async ({ hub, deps, signal }) => {
        const result = await cordonCluster(hub, { name, cordoned }, signal);
        deps.progress(describeCordon(result));
        printResult(result, flags.output);
      }),
    );
}
