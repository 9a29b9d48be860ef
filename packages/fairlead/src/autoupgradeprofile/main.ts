import { Command, Option } from "@commander-js/extra-typings";
import { UPGRADE_CHANNELS } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/updates.ts";
import { KUBECONFIG_FLAG } from "#shared/contexts.ts";
import { HUB_CONTEXT_FLAG, HUB_KUBECONFIG_FLAG } from "#shared/on-hub.ts";
import { listOption, resultOption } from "#shared/output.ts";

/** Hides the option types of the command, which its callers do not use. */
type Program = Pick<Command, "parseAsync">;

const NAME = ["<name>", "the profile's name"] as const;

/** Profiles of which the hub makes update runs when ReleaseCatalogs list new versions. */
export function command(): Program {
  const profiles = new Command("autoupgradeprofile").description(
    "make update runs when ReleaseCatalogs list new versions",
  );
  const add = (name: string) =>
    profiles
      .command(name)
      .option(...KUBECONFIG_FLAG)
      .option(...HUB_CONTEXT_FLAG)
      .option(...HUB_KUBECONFIG_FLAG);
  add("create")
    .description("create a profile, or change what the flags say of one")
    .argument(...NAME)
    .addOption(
      new Option("--channel <name>", "which versions it follows; needed for a new one").choices(
        UPGRADE_CHANNELS,
      ),
    )
    .option("--update-strategy-name <name>", "UpdateStrategy of its runs; default: one after another")
    .addOption(
      new Option("--node-image-selection <type>", "node images; default: Latest").choices([
        "Latest",
        "Consistent",
      ]),
    )
    .option("--target-kubernetes-version <version>", "minor version of channel TargetKubernetesVersion")
    .option("--long-term-support", "take patches of long-term support, too")
    .option("--disabled", "make no runs")
    .option("--no-disabled", "make runs again")
    .addOption(resultOption())
    .action(async (name, flags) => (await import("./run.ts")).create(name, flags));
  add("list")
    .description("list the profiles; wide: with what became of the last trigger")
    .addOption(listOption())
    .action(async (flags) => (await import("./run.ts")).list(flags));
  add("show")
    .description("show a profile, and what became of its last trigger")
    .argument(...NAME)
    .addOption(resultOption())
    .action(async (name, flags) => (await import("./run.ts")).show(name, flags));
  add("delete")
    .description("delete a profile; its runs stay")
    .argument(...NAME)
    .addOption(resultOption())
    .action(async (name, flags) => (await import("./run.ts")).remove(name, flags));
  add("generate-update-run")
    .description("create the run that a profile would make now, without starting it")
    .argument(...NAME)
    .requiredOption("--run <name>", "name of the run")
    .addOption(resultOption())
    .action(async (name, flags) => (await import("./run.ts")).generate(name, flags));
  return profiles;
}
