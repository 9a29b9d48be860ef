import { Command } from "@commander-js/extra-typings";
import { untilAborted } from "@fairlead/base/abortable.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { LOG_LEVEL_FLAG, READY_FD_FLAG, runProgram } from "@fairlead/base/program/program.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import { createUpgrader } from "./upgrader.ts";

/** Hides the option types of the command, which its callers do not use. */
type Program = Pick<Command, "parseAsync">;

/** Upgrades the clusters of a lab as update runs of its hub ask. */
export function command(): Program {
  return new Command("lab-upgrader")
    .description("upgrade the clusters of a lab as update runs ask")
    .requiredOption("--kubeconfig <file>", "kubeconfig of the hub")
    .requiredOption("--lab <folder>", "folder of the lab")
    .option(...LOG_LEVEL_FLAG)
    .option(...READY_FD_FLAG)
    .action((flags) =>
      runProgram("lab-upgrader", flags, async ({ signal, log, ready }) => {
        const deps = systemDeps(log);
        const config = await loadKubeconfig(flags.kubeconfig, { clock: deps.clock });
        await using hub = connect(config, { ...deps, userAgent: "fairlead-lab-upgrader" });
        await using upgrader = createUpgrader(hub, flags.lab, deps);
        await upgrader.start(signal);
        ready();
        await untilAborted(signal);
      }),
    );
}
