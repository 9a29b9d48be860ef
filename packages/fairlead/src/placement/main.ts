import { readFile } from "node:fs/promises";
import { Command } from "@commander-js/extra-typings";
import { runForPeople } from "@fairlead/base/program/people.ts";
import { checkReachable } from "@fairlead/fleet/cli/fleet/clusters.ts";
import { renderData } from "@fairlead/fleet/cli/output.ts";
import { explainOnHub } from "@fairlead/fleet/cli/placement/explain.ts";
import { renderExplain } from "@fairlead/fleet/cli/placement/render-explain.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { KUBECONFIG_FLAG, loadContext } from "#shared/contexts.ts";
import { resultOption } from "#shared/output.ts";

/** Placements: why they have the clusters that they have, and what a change would move. */
export function command(): Command {
  const placement = new Command("placement").description("explain placements of resources on clusters");
  placement
    .command("explain")
    .description(
      "show why clusters are picked or not, plugin by plugin, and what a change of the policy would move",
    )
    .argument("[name]", "the placement; default: the one of --file")
    .option(
      "-n, --namespace <name>",
      "namespace of a ResourcePlacement; default: a ClusterResourcePlacement is meant",
    )
    .option(
      "-f, --file <file>",
      "manifest of the placement as it is to be, which is not applied; - for standard input",
    )
    .option("--cluster <name>", "the only cluster to show, with the word of each plugin")
    .option(...KUBECONFIG_FLAG)
    .option("--hub-context <name>", "kubeconfig context of the hub; default: the current context")
    .addOption(resultOption())
    .action((name, { namespace, file, cluster, hubContext: context, kubeconfig, output }) =>
      runForPeople("placement explain", async ({ deps, signal }) => {
        const config = await loadContext({ file: undefined, context }, kubeconfig, process.env);
        await using hub = connect(config, deps);
        await checkReachable(hub, { who: "the hub", config }, deps, signal);
        const text = file === undefined ? "" : await readFile(file === "-" ? "/dev/stdin" : file, "utf8");
        const manifest = file === undefined ? undefined : { name: file, text };
        const question = { name, namespace, file: manifest, cluster };
        const result = await explainOnHub(hub, question, deps.clock, signal);
        const rendered = output === "text" ? renderExplain(result) : renderData(result, output);
        process.stdout.write(`${rendered}\n`);
      }),
    );
  return placement;
}
