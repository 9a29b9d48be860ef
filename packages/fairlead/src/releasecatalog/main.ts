import { Command } from "@commander-js/extra-typings";
import { FLAGS } from "#shared/flags.ts";
import { KUBECONFIG_FLAG } from "#shared/contexts.ts";
import { HUB_CONTEXT_FLAG, HUB_KUBECONFIG_FLAG } from "#shared/on-hub.ts";
import { listOption, resultOption } from "#shared/output.ts";

/** Hides the option types of the command, which its callers do not use. */
type Program = Pick<Command, "parseAsync">;

const NAME = ["<name>", "the catalog's name"] as const;

/** Lists of versions that update runs and AutoUpgradeProfiles go by. */
export function command(): Program {
  const catalogs = new Command("releasecatalog").description(
    "keep the versions that clusters can be upgraded to",
  );
  const add = (name: string) =>
    catalogs
      .command(name)
      .option(...KUBECONFIG_FLAG)
      .option(...HUB_CONTEXT_FLAG)
      .option(...HUB_KUBECONFIG_FLAG);
  add("import")
    .description("make a catalog of lists of versions, or replace the versions of one")
    .argument(...NAME)
    .option(
      "--kubernetes-versions <file>",
      "versions of Kubernetes: lines, JSON or YAML; - for standard input",
    )
    .option("--repository <name>", "or the tags of this image, such as registry.k8s.io/kube-apiserver")
    .option("--node-images <file>", "node images, FAMILY-VERSION: lines, JSON or YAML")
    .option("--region <name>", "region of the members that it is for; default: all")
    .option("--minor-versions <count>", "newest minor versions to keep, 1 to 100", "4")
    .option("--previews", "keep previews, which runs and profiles do not install", false)
    .option(FLAGS.dryRun, "print the catalog, and write nothing", false)
    .addOption(resultOption())
    .action(async (name, flags) => (await import("./run.ts")).importCatalog(name, flags));
  add("list")
    .description("list the catalogs")
    .addOption(listOption())
    .action(async (flags) => (await import("./run.ts")).list(flags));
  return catalogs;
}
