import { printText } from "@fairlead/base/print.ts";
import { Command, Option } from "@commander-js/extra-typings";
import { getRun } from "@fairlead/fleet/cli/updates/actions.ts";
import { approveGate, findGate, listGates, obstacleAfter } from "@fairlead/fleet/cli/updates/gates.ts";
import { GATE_STATES } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/updates.ts";
import { renderData } from "@fairlead/fleet/cli/output.ts";
import { renderGates } from "@fairlead/fleet/cli/updates/render.ts";
import { KUBECONFIG_FLAG } from "#shared/contexts.ts";
import { HUB_CONTEXT_FLAG, HUB_KUBECONFIG_FLAG, onHub } from "#shared/on-hub.ts";
import { listOption, printResult, resultOption } from "#shared/output.ts";

/** Hides the option types of the command, which its callers do not use. */
type Program = Pick<Command, "parseAsync">;

/** What update runs wait for. */
export function command(): Program {
  const gates = new Command("gate").description("list, show and approve what update runs wait for");
  gates
    .command("list")
    .description("list the gates that runs have reached")
    .option("--run <name>", "list only the gates of this run")
    .addOption(new Option("--state <state>", "list only gates in this state").choices(GATE_STATES))
    .option(...KUBECONFIG_FLAG)
    .option(...HUB_CONTEXT_FLAG)
    .option(...HUB_KUBECONFIG_FLAG)
    .addOption(listOption())
    .action((flags) =>
      onHub("gate list", flags, async ({ hub, signal }) => {
        const reached = await listGates(hub, flags.run, signal);
        // A name that is wrong is not a run that has reached no gate.
        if (reached.length === 0 && flags.run !== undefined) await getRun(hub, flags.run, signal);
        const { state } = flags;
        const found = state === undefined ? reached : reached.filter((it) => it.spec.state === state);
        printText(renderGates(found, flags.output));
      }),
    );
  gates
    .command("show")
    .description("show a gate")
    .argument("<name>", "the gate's name, or the beginning of it")
    .option(...KUBECONFIG_FLAG)
    .option(...HUB_CONTEXT_FLAG)
    .option(...HUB_KUBECONFIG_FLAG)
    .addOption(resultOption())
    .action((name, flags) =>
      onHub("gate show", flags, async ({ hub, signal }) => {
        const gate = await findGate(hub, name, signal);
        printText(flags.output === "text" ? renderGates([gate], "text") : renderData(gate, flags.output));
      }),
    );
  gates
    .command("approve")
    .description("approve a gate, so that its run continues")
    .argument("<name>", "the gate's name, or the beginning of it")
    .option(...KUBECONFIG_FLAG)
    .option(...HUB_CONTEXT_FLAG)
    .option(...HUB_KUBECONFIG_FLAG)
    .addOption(resultOption())
    .action((name, flags) =>
      onHub("gate approve", flags, async ({ hub, deps, signal }) => {
        const gate = await approveGate(hub, name, signal);
        const obstacle = await obstacleAfter(hub, gate, signal);
        const { displayName } = gate.spec;
        deps.progress(
          `approved ${JSON.stringify(displayName)}${obstacle === undefined ? "" : `; ${obstacle}`}`,
        );
        printResult(gate, flags.output);
      }),
    );
  return gates;
}
