import { Command, Option } from "@commander-js/extra-typings";
import { collect } from "@fairlead/base/program/flags.ts";
import { APPLY_MODES, ATTACH_MODES } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/mesh.ts";
import { MESH_CHECKS } from "@fairlead/fleet/cli/mesh/checks.ts";
import { FLAGS } from "#shared/flags.ts";
import { KUBECONFIG_FLAG } from "#shared/contexts.ts";
import { HUB_CONTEXT_FLAG, HUB_KUBECONFIG_FLAG } from "#shared/on-hub.ts";
import { listOption, resultOption } from "#shared/output.ts";
import { CIDR_MATCH_FLAG, globalNamespaceOption, localClusterOption } from "#shared/profile-settings.ts";

/** Hides the option types of the command, which its callers do not use. */
type Program = Pick<Command, "parseAsync">;

const NAME = ["<name>", "the profile's name"] as const;

/** Networks of members: declared, looked at, and applied when the user says so. */
export function command(): Program {
  const mesh = new Command("mesh").description("connect members by ClusterMeshProfiles, and disconnect them");
  addCreate(mesh);
  addApply(mesh);
  addReaders(mesh);
  addDelete(mesh);
  addWait(mesh);
  return mesh;
}

function addCreate(mesh: Command): void {
  mesh
    .command("create")
    .description("create a profile or change one; clusters change when it is applied")
    .argument(...NAME)
    .option(...KUBECONFIG_FLAG)
    .option(...HUB_CONTEXT_FLAG)
    .option(...HUB_KUBECONFIG_FLAG)
    .option("--member-selector <text>", 'labels of the members, such as "env=prod,tier=web"; "" selects none')
    .addOption(
      new Option("--network <mode>", "network between the clusters; default: flat").choices([
        "flat",
        "parallel",
      ]),
    )
    .addOption(new Option("--apply <mode>", "when changes take effect; default: Manual").choices(APPLY_MODES))
    .addOption(
      new Option("--attach <pods>", "pods with fleet addresses in a parallel network").choices(ATTACH_MODES),
    )
    .option("--version <version>", "version of fairlead node that members install")
    .addOption(globalNamespaceOption())
    .addOption(localClusterOption())
    .option(...CIDR_MATCH_FLAG)
    .addOption(resultOption())
    .action(async (name, flags) => (await import("./run.ts")).create(name, flags));
}

function addApply(mesh: Command): void {
  mesh
    .command("apply")
    .description("connect the members that a profile selects, and disconnect the others")
    .argument(...NAME)
    .option(...KUBECONFIG_FLAG)
    .option(...HUB_CONTEXT_FLAG)
    .option(...HUB_KUBECONFIG_FLAG)
    .option("--what-if", "print every object that would change, and change nothing")
    .option(FLAGS.dryRun, "the same as --what-if")
    .option("--plan <name>", "apply only if the plan is the one that --what-if printed")
    .option("--rollback", "restore the members and settings before the last plan")
    .option("--batch <count>", "members that come or go at once, 1 to 255; default: all")
    .option("--probe <contexts>", "kubeconfig contexts of clusters between which packets are tried first")
    .option(FLAGS.image, "image of the pods of --probe; default: that of Fairlead in each cluster")
    .addOption(
      new Option("--skip-check <check>", "check whose failure does not stop the command (repeatable)")
        .argParser(collect)
        .default(undefined, MESH_CHECKS.join(", ")),
    )
    .option(FLAGS.noWait, "do not wait until the members are connected")
    .option(FLAGS.timeout, "time limit for the members of each step, 1 to 3600", "900")
    .addOption(resultOption())
    .action(async (name, flags) => (await import("./run.ts")).apply(name, flags));
}

function addReaders(mesh: Command): void {
  mesh
    .command("list")
    .description("list the profiles")
    .option(...KUBECONFIG_FLAG)
    .option(...HUB_CONTEXT_FLAG)
    .option(...HUB_KUBECONFIG_FLAG)
    .addOption(listOption())
    .action(async (flags) => (await import("./run.ts")).list(flags));
  mesh
    .command("show")
    .description("show one profile")
    .argument(...NAME)
    .option(...KUBECONFIG_FLAG)
    .option(...HUB_CONTEXT_FLAG)
    .option(...HUB_KUBECONFIG_FLAG)
    .addOption(resultOption())
    .action(async (name, flags) => (await import("./run.ts")).show(name, flags));
  mesh
    .command("list-members")
    .description("list the members of a profile, and those that it selects")
    .argument(...NAME)
    .option(...KUBECONFIG_FLAG)
    .option(...HUB_CONTEXT_FLAG)
    .option(...HUB_KUBECONFIG_FLAG)
    .option("--selector <text>", "list only members with these labels")
    .addOption(listOption())
    .action(async (name, flags) => (await import("./run.ts")).listMembers(name, flags));
  mesh
    .command("status")
    .description("show how the members of a profile are connected; exit code 3 if one is not")
    .argument(...NAME)
    .option(...KUBECONFIG_FLAG)
    .option(...HUB_CONTEXT_FLAG)
    .option(...HUB_KUBECONFIG_FLAG)
    .addOption(resultOption())
    .action(async (name, flags) => (await import("./run.ts")).status(name, flags));
}

function addDelete(mesh: Command): void {
  mesh
    .command("delete")
    .description("delete a profile without members")
    .argument(...NAME)
    .option(...KUBECONFIG_FLAG)
    .option(...HUB_CONTEXT_FLAG)
    .option(...HUB_KUBECONFIG_FLAG)
    .option("--disconnect", "disconnect its members first")
    .option(FLAGS.timeout, "time limit for the members, 1 to 3600", "900")
    .addOption(resultOption())
    .action(async (name, flags) => (await import("./run.ts")).remove(name, flags));
}

function addWait(mesh: Command): void {
  mesh
    .command("wait")
    .description("wait until the members of a profile are connected, or it has none")
    .argument(...NAME)
    .option(...KUBECONFIG_FLAG)
    .option(...HUB_CONTEXT_FLAG)
    .option(...HUB_KUBECONFIG_FLAG)
    .option(FLAGS.timeout, "time limit, 1 to 3600", "900")
    .addOption(resultOption())
    .action(async (name, flags) => (await import("./run.ts")).wait(name, flags));
}
