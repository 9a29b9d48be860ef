import { Command } from "@commander-js/extra-typings";
import type { ResultOutput } from "@fairlead/fleet/cli/output.ts";
import { cordonCluster, describeCordon } from "@fairlead/fleet/cli/fleet/cordon.ts";
import { KUBECONFIG_FLAG } from "#shared/contexts.ts";
import { HUB_CONTEXT_FLAG, HUB_KUBECONFIG_FLAG, type HubFlags, onHub } from "#shared/on-hub.ts";
import { printResult, resultOption } from "#shared/output.ts";

/** Hides the option types of the commands, which their callers do not use. */
type Program = Pick<Command<[string]>, "parseAsync">;

/** Keeps placements from picking a member. */
export function command(): Program {
  return flagsOf("cordon", "keep placements from picking a cluster; what is placed there stays")
    .option("--undo", "let placements pick it again, as fairlead uncordon does", false)
    .action((name, flags) => carryOut("cordon", { ...flags, name, cordoned: !flags.undo }));
}

/** The way back. */
export function uncordon(): Program {
  return flagsOf("uncordon", "let placements pick a cordoned cluster again").action((name, flags) =>
    carryOut("uncordon", { ...flags, name, cordoned: false }),
  );
}

function flagsOf(word: string, description: string) {
  return new Command(word)
    .description(description)
    .argument("<name>", "the member's name")
    .option(...KUBECONFIG_FLAG)
    .option(...HUB_CONTEXT_FLAG)
    .option(...HUB_KUBECONFIG_FLAG)
    .addOption(resultOption());
}

interface Cordon extends HubFlags {
  readonly name: string;
  readonly cordoned: boolean;
  readonly output: ResultOutput;
}

function carryOut(word: string, { name, cordoned, output, ...flags }: Cordon): Promise<void> {
  return onHub(word, flags, async ({ hub, deps, signal }) => {
    const result = await cordonCluster(hub, { name, cordoned }, signal);
    deps.progress(describeCordon(result));
    printResult(result, output);
  });
}
