import { FLAGS } from "#shared/flags.ts";
import { readNamedFile } from "#shared/files.ts";
import { printText } from "@fairlead/base/print.ts";
import { Command } from "@commander-js/extra-typings";
import { parseWhole } from "@fairlead/base/program/flags.ts";
import { renderData, type ResultOutput } from "@fairlead/fleet/cli/output.ts";
import { approveOnHub, renderApproval } from "@fairlead/fleet/cli/placement/approve.ts";
import { diffOnHub, renderDiff } from "@fairlead/fleet/cli/placement/diff.ts";
import { explainOnHub } from "@fairlead/fleet/cli/placement/explain.ts";
import { historyOnHub, renderHistory } from "@fairlead/fleet/cli/placement/history.ts";
import { renderExplain } from "@fairlead/fleet/cli/placement/render-explain.ts";
import { renderRollback, rollbackOnHub } from "@fairlead/fleet/cli/placement/rollback.ts";
import { followRunOnHub, renderRun, type RunReport, runOnHub } from "@fairlead/fleet/cli/placement/run.ts";
import { renderStatus, statusOnHub } from "@fairlead/fleet/cli/placement/status.ts";
import { clockOfServer } from "@fairlead/kube/client/server-clock.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { KUBECONFIG_FLAG } from "#shared/contexts.ts";
import {
  HUB_CONTEXT_FLAG,
  HUB_KUBECONFIG_FLAG,
  HUB_READER_FLAG,
  type HubContext,
  type HubFlags,
  onHub,
} from "#shared/on-hub.ts";
import { resultOption } from "#shared/output.ts";
import { Screen } from "#shared/screen.ts";

const NAMESPACE_FLAG = [
  FLAGS.namespace,
  "namespace of a ResourcePlacement; default: a ClusterResourcePlacement is meant",
] as const;
const FILE_FLAG = [
  FLAGS.file,
  "manifest of the placement as it is to be, which is not applied; - for standard input",
] as const;

type HubFlag = typeof HUB_READER_FLAG | typeof HUB_CONTEXT_FLAG;

/** Placements: where they are, why, what a change would move, and back. */
export function command(): Command {
  const placement = new Command("placement").description(
    "show, explain and roll back placements of resources on clusters",
  );
  const add = (name: string, [context, help]: HubFlag = HUB_READER_FLAG) =>
    placement
      .command(name)
      .option(...NAMESPACE_FLAG)
      .option(...KUBECONFIG_FLAG)
      .option(context, help)
      .option(...HUB_KUBECONFIG_FLAG)
      .addOption(resultOption());
  add("status")
    .description("show how far a placement is on each cluster, and what failed or drifted")
    .argument("<name>", "the placement")
    .option(
      "--details",
      "show every object that failed, drifted or differs, with all that its Work says of it",
    )
    .option("--cluster <name>", "the only cluster to show the details of")
    .action((name, { namespace, details = false, cluster, ...flags }) =>
      askHub("placement status", flags, async (hub, { signal }) => {
        const question = { name, namespace, cluster, details: details || cluster !== undefined };
        const result = await statusOnHub(hub, question, signal);
        return [result, renderStatus(result)];
      }),
    );
  add("explain")
    .description(
      "show why clusters are picked or not, plugin by plugin, and what a change of the policy would move",
    )
    .argument("[name]", "the placement; default: the one of --file")
    .option(...FILE_FLAG)
    .option("--cluster <name>", "the only cluster to show, with the word of each plugin")
    .action((name, { namespace, file, cluster, ...flags }) =>
      askHub("placement explain", flags, async (hub, { deps, signal }) => {
        const question = { name, namespace, file: await manifestOf(file), cluster };
        const result = await explainOnHub(hub, question, deps.clock, signal);
        return [result, renderExplain(result)];
      }),
    );
  add("diff")
    .description("show what differs between the latest snapshot and the hub, or between two snapshots")
    .argument("<name>", "the placement")
    .option("--from <index>", "index of a resource snapshot; default: the latest")
    .option("--to <index>", "index of a resource snapshot; default: what is selected on the hub now")
    .option(...FILE_FLAG)
    .action((name, { namespace, from, to, file, ...flags }) =>
      askHub("placement diff", flags, async (hub, { signal }) => {
        const indexes = { from: indexOf("--from", from), to: indexOf("--to", to) };
        const question = { name, namespace, ...indexes, file: await manifestOf(file) };
        const result = await diffOnHub(hub, question, signal);
        return [result, renderDiff(result)];
      }),
    );
  add("history")
    .description("list the resource snapshots of a placement, and the clusters that have them")
    .argument("<name>", "the placement")
    .action((name, { namespace, ...flags }) =>
      askHub("placement history", flags, async (hub, { deps, signal }) => {
        const result = await historyOnHub(hub, { name, namespace }, signal);
        return [result, renderHistory(result, deps.clock.now())];
      }),
    );
  add("rollback", HUB_CONTEXT_FLAG)
    .description("write the objects of an older resource snapshot on the hub again; a rollout follows")
    .argument("<name>", "the placement")
    .option("--to <index>", "index of the resource snapshot; default: the one before the latest")
    .option("--prune", "delete objects that are selected now and were not in the snapshot")
    .option(FLAGS.dryRun, "only show what would be written")
    .action((name, { namespace, to, prune = false, dryRun = false, ...flags }) =>
      askHub("placement rollback", flags, async (hub, { signal }) => {
        const question = { name, namespace, to: indexOf("--to", to), prune, dryRun };
        const result = await rollbackOnHub(hub, question, signal);
        if (result.changes.some((it) => it.outcome === "failed")) process.exitCode = 1;
        return [result, renderRollback(result)];
      }),
    );
  add("run")
    .description("show how far a staged update run is, stage by stage and cluster by cluster")
    .argument("<run>", "the ClusterStagedUpdateRun; with --namespace, the StagedUpdateRun")
    .option(FLAGS.watch, "show it again each time it changes, until it is over")
    .action((name, { namespace, watch = false, ...flags }) =>
      askHub("placement run", flags, async (hub, { deps, signal }) => {
        const of = { name, namespace };
        const clock = clockOfServer(hub, deps.clock);
        const text = (it: RunReport): Answer => [it, renderRun(it, clock.now())];
        if (!watch) return text(await runOnHub(hub, of, signal));
        const screen = new Screen();
        const show = (it: RunReport): void => screen.show(printed(text(it), flags.output));
        await followRunOnHub(hub, of, show, { deps, signal });
        return undefined;
      }),
    );
  add("approve", HUB_CONTEXT_FLAG)
    .description("approve a stage of a staged update run, also before the run has reached it")
    .argument("<run>", "the ClusterStagedUpdateRun; with --namespace, the StagedUpdateRun")
    .argument("<stage>", "the stage")
    .option("--before", "the approval before the stage; default: the one after it")
    .action((name, stage, { namespace, before = false, ...flags }) =>
      askHub("placement approve", flags, async (hub, { deps, signal }) => {
        const timing = before ? "before" : "after";
        const question = { name, namespace, stage, timing, nowMs: deps.clock.now() } as const;
        const result = await approveOnHub(hub, question, signal);
        return [result, renderApproval(result)];
      }),
    );
  return placement;
}

/** Asks the hub, and prints the answer, if there is one: the data, or the text for people. */
function askHub(
  name: string,
  flags: HubFlags & { readonly output: ResultOutput },
  ask: (hub: KubeClient, at: Pick<HubContext, "deps" | "signal">) => Promise<Answer | undefined>,
): Promise<void> {
  return onHub(name, flags, async ({ hub, deps, signal }) => {
    const answer = await ask(hub, { deps, signal });
    if (answer !== undefined) printText(printed(answer, flags.output));
  });
}

type Answer = readonly [data: object, text: string];

function printed([data, text]: Answer, output: ResultOutput): string {
  return output === "text" ? text : renderData(data, output);
}

async function manifestOf(file: string | undefined): Promise<{ name: string; text: string } | undefined> {
  if (file === undefined) return undefined;
  return { name: file, text: await readNamedFile("manifest", file) };
}

function indexOf(flag: string, text: string | undefined): number | undefined {
  return text === undefined ? undefined : parseWhole(flag, text, { min: 0, max: 1_000_000_000 });
}
