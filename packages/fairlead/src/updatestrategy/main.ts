import { Command } from "@commander-js/extra-typings";
import { KUBECONFIG_FLAG } from "#shared/contexts.ts";
import { HUB_CONTEXT_FLAG, HUB_KUBECONFIG_FLAG } from "#shared/on-hub.ts";
import { listOption, resultOption } from "#shared/output.ts";

/** Hides the option types of the command, which its callers do not use. */
type Program = Pick<Command, "parseAsync">;

const NAME = ["<name>", "the strategy's name"] as const;

/** Stages and groups that update runs copy. */
export function command(): Program {
  const strategies = new Command("updatestrategy").description(
    "keep stages and groups that update runs and AutoUpgradeProfiles use by name",
  );
  const add = (name: string) =>
    strategies
      .command(name)
      .option(...KUBECONFIG_FLAG)
      .option(...HUB_CONTEXT_FLAG)
      .option(...HUB_KUBECONFIG_FLAG);
  add("create")
    .description("create a strategy, or replace the stages of one; runs that exist keep theirs")
    .argument(...NAME)
    .requiredOption("--stages <file>", "YAML or JSON file with the stages; - for standard input")
    .addOption(resultOption())
    .action(async (name, flags) => (await import("./run.ts")).create(name, flags));
  add("list")
    .description("list the strategies")
    .addOption(listOption())
    .action(async (flags) => (await import("./run.ts")).list(flags));
  add("show")
    .description("show the stages of a strategy")
    .argument(...NAME)
    .addOption(resultOption())
    .action(async (name, flags) => (await import("./run.ts")).show(name, flags));
  add("delete")
    .description("delete a strategy that no AutoUpgradeProfile uses")
    .argument(...NAME)
    .addOption(resultOption())
    .action(async (name, flags) => (await import("./run.ts")).remove(name, flags));
  return strategies;
}
