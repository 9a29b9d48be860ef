import { readFile } from "node:fs/promises";
import { Command } from "@commander-js/extra-typings";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { runForPeople } from "@fairlead/base/program/people.ts";
import { checkReachable } from "@fairlead/fleet/cli/fleet/clusters.ts";
import { renderData, type ResultOutput } from "@fairlead/fleet/cli/output.ts";
import { diffOf, policiesOf, renderDiff, withPodsOf } from "@fairlead/fleet/cli/policy/diff.ts";
import { addressesOf, endOf, trafficOf } from "@fairlead/fleet/cli/policy/ends.ts";
import { explain, renderExplanation } from "@fairlead/fleet/cli/policy/explain.ts";
import { lint, renderLint } from "@fairlead/fleet/cli/policy/lint.ts";
import { type DeniedLine, deniedLines, followDenied } from "@fairlead/fleet/cli/policy/log.ts";
import { parseManifests } from "@fairlead/fleet/cli/policy/manifests.ts";
import { readCluster } from "@fairlead/fleet/cli/policy/read.ts";
import { type ClusterObjects, ClusterView } from "@fairlead/fleet/cli/policy/view.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { KUBECONFIG_FLAG, loadContext } from "#shared/contexts.ts";
import { resultOption } from "#shared/output.ts";

const CONTEXT_FLAG = [
  "--context <name>",
  "kubeconfig context of the member; default: the current context",
] as const;
const CONTEXTS_FLAG = [
  "--contexts <names>",
  "contexts of the members to read, separated by commas; default: the current context",
] as const;

/** Network policies: why a flow is allowed or denied, what a manifest changes, and what is probably not meant. */
export function command(): Command {
  const policy = new Command("policy").description("explain, compare and check network policies");
  policy
    .command("explain")
    .description("show which rules allow or deny a flow at both of its ends, and what would change it")
    .argument("<from>", "NAMESPACE/POD, CLUSTER/NAMESPACE/POD or an address")
    .argument("<to>", "NAMESPACE/POD, CLUSTER/NAMESPACE/POD or an address")
    .argument("<port>", "such as 80, 53/udp or ping")
    .option(...KUBECONFIG_FLAG)
    .option(...CONTEXTS_FLAG)
    .addOption(resultOption())
    .action((from, to, port, flags) =>
      runForPeople("policy explain", async ({ deps, signal }) => {
        const views = (await readAll(flags, deps, signal)).map((it) => new ClusterView(it));
        const ends = [endOf(from, views), endOf(to, views)] as const;
        const [, destination] = addressesOf(...ends);
        const result = explain(views, ...ends, trafficOf(port, destination));
        print(result, renderExplanation(result), flags.output);
      }),
    );
  policy
    .command("diff")
    .description("show which pods gain or lose access by policies, before these are applied")
    .requiredOption("-f, --file <file>", "manifests of policies; - for standard input")
    .option("--delete", "show what deleting these policies changes", false)
    .option(...KUBECONFIG_FLAG)
    .option(...CONTEXT_FLAG)
    .option(
      "--peer-contexts <names>",
      "contexts of other members whose pods are compared, too, separated by commas",
    )
    .addOption(resultOption())
    .action((flags) =>
      runForPeople("policy diff", async ({ deps, signal }) => {
        const text = await readFile(flags.file === "-" ? "/dev/stdin" : flags.file, "utf8");
        const changed = policiesOf(parseManifests(text, flags.file));
        const [before] = await readAll({ ...flags, contexts: flags.context }, deps, signal);
        if (before === undefined) return;
        const { peerContexts: contexts } = flags;
        const others = contexts === undefined ? [] : await readAll({ ...flags, contexts }, deps, signal);
        const result = diffOf(withPodsOf(before, others), changed, flags.delete);
        print(result, renderDiff(result), flags.output);
      }),
    );
  policy
    .command("lint")
    .description(
      "find fields that are not enforced, selectors without pods, and rules that another cluster does not answer",
    )
    .option(...KUBECONFIG_FLAG)
    .option(...CONTEXTS_FLAG)
    .addOption(resultOption())
    .action((flags) =>
      runForPeople("policy lint", async ({ deps, signal }) => {
        const views = (await readAll(flags, deps, signal)).map((it) => new ClusterView(it));
        const findings = lint(views);
        print({ findings }, renderLint(findings), flags.output);
      }),
    );
  policy
    .command("log")
    .description("print connections that policies denied, as JSON lines")
    .option("-f, --follow", "print new ones as they are reported")
    .option(...KUBECONFIG_FLAG)
    .option(...CONTEXT_FLAG)
    .action(({ follow, kubeconfig, context }) =>
      runForPeople("policy log", async ({ deps, signal }) => {
        const config = await loadContext({ file: undefined, context }, kubeconfig, process.env);
        await using client = connect(config, deps);
        await checkReachable(client, { who: "the cluster", config }, deps, signal);
        const write = (line: DeniedLine): void => void process.stdout.write(`${JSON.stringify(line)}\n`);
        if (follow === true) await followDenied(client, deps, write, signal);
        else for (const it of await deniedLines(client, signal)) write(it);
      }),
    );
  return policy;
}

function print(result: object, text: string, output: ResultOutput): void {
  process.stdout.write(`${output === "text" ? text : renderData(result, output)}\n`);
}

interface Flags {
  readonly kubeconfig?: string | undefined;
  readonly contexts?: string | undefined;
}

function readAll(
  { kubeconfig, contexts }: Flags,
  deps: RuntimeDeps,
  signal: AbortSignal,
): Promise<readonly ClusterObjects[]> {
  const names = contexts === undefined ? [undefined] : contexts.split(",").map((it) => it.trim());
  return Promise.all(
    names.map(async (context) => {
      const config = await loadContext({ file: undefined, context }, kubeconfig, process.env);
      await using client = connect(config, deps);
      const who =
        context === undefined
          ? "the cluster of the current context"
          : `the cluster of the context ${context}`;
      await checkReachable(client, { who, config }, deps, signal);
      return await readCluster(client, who, signal);
    }),
  );
}
