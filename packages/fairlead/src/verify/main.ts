import { Command, Option } from "@commander-js/extra-typings";
import { VERIFY_OUTPUTS } from "@fairlead/fleet/cli/verify/report.ts";
import { PROBES } from "@fairlead/fleet/cli/verify/probes.ts";
import { KUBECONFIG_FLAG } from "#shared/contexts.ts";
import { FLAGS } from "#shared/flags.ts";
import { HUB_KUBECONFIG_FLAG, HUB_READER_FLAG } from "#shared/on-hub.ts";
import { collect } from "@fairlead/base/program/flags.ts";

/** Hides the option types of the command, which its callers do not use. */
type Program = Pick<Command, "parseAsync">;

/** End-to-end checks from every cluster of a fleet to every other. */
export function command(): Program {
  return new Command("verify")
    .description(
      "check the network from every cluster of the fleet to every other, by pods that it creates and removes; exit code 3 if a check fails",
    )
    .option(...KUBECONFIG_FLAG)
    .option(...HUB_READER_FLAG)
    .option(...HUB_KUBECONFIG_FLAG)
    .option(
      "--member-contexts <names>",
      "contexts of the clusters to check, separated by commas, with the right to create namespaces; default: those with the names of the hub's members",
    )
    .option("--check <name>", `check to carry out (repeatable): ${PROBES.join(", ")}; default: all`, collect)
    .option(FLAGS.image, "image of the pods; default: the image of Fairlead in each cluster")
    .option("--zone <domain>", "the cluster-set zone", "clusterset.local")
    .option(FLAGS.timeout, "time limit of each step, 10 to 3600", "180")
    .option("--settle <seconds>", "how long a check is repeated until it passes, 0 to 300", "10")
    .addOption(new Option(FLAGS.output, "output format").choices(VERIFY_OUTPUTS).default(VERIFY_OUTPUTS[0]))
    .action(async (flags) => (await import("./run.ts")).run(flags));
}
