import { Command, Option } from "@commander-js/extra-typings";
import { collect } from "@fairlead/base/program/flags.ts";
import {
  NODE_IMAGE_SELECTIONS,
  UPDATE_STATES,
  UPGRADE_TYPES,
} from "@fairlead/fleet/api/fairlead.dev/v1alpha1/updates.ts";
import { FLAGS } from "#shared/flags.ts";
import { KUBECONFIG_FLAG } from "#shared/contexts.ts";
import { HUB_CONTEXT_FLAG, HUB_KUBECONFIG_FLAG } from "#shared/on-hub.ts";
import { listOption, resultOption } from "#shared/output.ts";

/** Hides the option types of the command, which its callers do not use. */
type Program = Pick<Command, "parseAsync">;

const NAME = ["<name>", "the run's name"] as const;

/** Upgrades of clusters: planned, started, followed. */
export function command(): Program {
  const runs = new Command("updaterun").description(
    "upgrade clusters stage by stage, and follow the upgrade",
  );
  const add = adderTo(runs);
  addMakers(add);
  addActions(add);
  addReaders(add);
  addEnds(add);
  return runs;
}

const adderTo = (runs: Command) => (name: string) =>
  runs
    .command(name)
    .option(...KUBECONFIG_FLAG)
    .option(...HUB_CONTEXT_FLAG)
    .option(...HUB_KUBECONFIG_FLAG);
type Add = ReturnType<typeof adderTo>;

const typeOption = () =>
  new Option(
    "--upgrade-type <type>",
    "what is upgraded; default: Full, or Components with --components-version",
  ).choices(UPGRADE_TYPES);
const imagesOption = () =>
  new Option("--node-image-selection <type>", "node images; default: Latest").choices(NODE_IMAGE_SELECTIONS);
const VERSION = ["--kubernetes-version <version>", "version of Kubernetes, such as 1.34.1"] as const;
const COMPONENTS = ["--components-version <version>", "version of fairlead node, such as 0.2.0"] as const;
const IMAGES = [
  "--node-image-version <version>",
  "node image for --node-image-selection Custom, one for each family (repeatable)",
] as const;
const STRATEGY = [
  "--update-strategy-name <name>",
  "UpdateStrategy to copy; default: all members, one after another",
] as const;
const STAGES = ["--stages <file>", "YAML or JSON file with the stages; - for standard input"] as const;

function addMakers(add: Add): void {
  const addDescribed = (name: string) =>
    add(name)
      .addOption(typeOption())
      .option(...VERSION)
      .option(...COMPONENTS)
      .addOption(imagesOption())
      .option(...IMAGES, collect)
      .option(...STRATEGY)
      .option(...STAGES);
  addDescribed("plan")
    .description(
      "show which member is upgraded in which order, which are in no group, and why one would wait",
    )
    .argument("[name]", "a run that exists; absent: the run that the flags describe")
    .addOption(resultOption())
    .action(async (name, flags) => (await import("./run.ts")).plan(name, flags));
  addDescribed("create")
    .description("create a run; members are not changed before it is started")
    .argument(...NAME)
    .option("--from-profile <name>", "AutoUpgradeProfile to make the run of, in place of the flags above")
    .option("--start", "start it, too")
    .addOption(resultOption())
    .action(async (name, flags) => (await import("./run.ts")).create(name, flags));
}

function addActions(add: Add): void {
  const words = [
    ["start", "start a run, or one that is Stopped or Failed again"],
    ["resume", "continue a run that is Stopped or Failed, with the members that failed"],
    ["stop", "stop a run; members that are being upgraded finish"],
  ] as const;
  for (const [word, description] of words)
    add(word)
      .description(description)
      .argument(...NAME)
      .addOption(resultOption())
      .action(async (name, flags) => (await import("./run.ts")).act(word, name, flags));
  add("skip")
    .description("skip members, groups, stages or waits of a run that have not begun")
    .argument(...NAME)
    .addOption(
      new Option(
        "--target, --targets <type:name...>",
        "Member:NAME, Group:NAME, Stage:NAME or AfterStageWait:STAGE (repeatable)",
      ).makeOptionMandatory(),
    )
    .addOption(resultOption())
    .action(async (name, flags) => (await import("./run.ts")).skip(name, flags));
}

function addReaders(add: Add): void {
  add("list")
    .description("list the runs")
    .addOption(listOption())
    .action(async (flags) => (await import("./run.ts")).list(flags));
  add("status")
    .alias("show")
    .description("show a run as a tree; exit code 3 if it ended with failures")
    .argument(...NAME)
    .option(FLAGS.watch, "show it again each time it changes, until it has ended")
    .addOption(resultOption())
    .action(async (name, flags) => (await import("./run.ts")).status(name, flags));
}

function addEnds(add: Add): void {
  add("wait")
    .description("wait until a run has ended, or has a state; exit code 3 if it ended with failures")
    .argument(...NAME)
    .addOption(
      new Option("--for <state>", "state to wait for; default: that it has ended").choices(UPDATE_STATES),
    )
    .option(FLAGS.timeout, "time limit, 1 to 604800", "3600")
    .addOption(resultOption())
    .action(async (name, flags) => (await import("./run.ts")).wait(name, flags));
  add("delete")
    .description("delete a run that is not in progress")
    .argument(...NAME)
    .addOption(resultOption())
    .action(async (name, flags) => (await import("./run.ts")).remove(name, flags));
}
