import { FLAGS } from "#shared/flags.ts";
import { readNamedFile } from "#shared/files.ts";
import { printNote, printText } from "@fairlead/base/print.ts";
import { Command, Option } from "@commander-js/extra-typings";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { runForPeople } from "@fairlead/base/program/people.ts";
import { checkReachable } from "@fairlead/fleet/cli/fleet/clusters.ts";
import { renderData, type ResultOutput } from "@fairlead/fleet/cli/output.ts";
import { diffOf, policiesOf, renderDiff, withPodsOf } from "@fairlead/fleet/cli/policy/diff.ts";
import { addressesOf, endOf, trafficOf } from "@fairlead/fleet/cli/policy/ends.ts";
import { explain, renderExplanation } from "@fairlead/fleet/cli/policy/explain.ts";
import { lint, renderLint } from "@fairlead/fleet/cli/policy/lint.ts";
import {
  flowLines,
  type FlowLine,
  followFlows,
  logsAllowed,
  renderFlow,
} from "@fairlead/fleet/cli/policy/log.ts";
import { parseManifests } from "@fairlead/fleet/cli/policy/manifests.ts";
import { readCluster } from "@fairlead/fleet/cli/policy/read.ts";
import { type ClusterObjects, ClusterView } from "@fairlead/fleet/cli/policy/view.ts";
import { renderWhatIf, whatIf } from "@fairlead/fleet/cli/policy/what-if.ts";
import { FLOW_LOG_ALL, FLOW_LOG_ANNOTATION } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { KUBECONFIG_FLAG, loadContext } from "#shared/contexts.ts";
import { logOption, resultOption } from "#shared/output.ts";
import {
  CIDR_MATCH_FLAG,
  globalNamespaceOption,
  localClusterOption,
  readProfileSettings,
} from "#shared/profile-settings.ts";

const CONTEXT_FLAG = [
  FLAGS.context,
  "kubeconfig context of the member; default: the current context",
] as const;
const CONTEXTS_FLAG = [
  FLAGS.contexts,
  "contexts of the members to read, separated by commas; default: the current context",
] as const;

/** What kubectl has, in place of `--contexts`. */
function contextOption() {
  return new Option(FLAGS.context, "context of the member to read, if it is one").conflicts("contexts");
}

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
    .addOption(contextOption())
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
    .requiredOption(FLAGS.file, "manifests of policies; - for standard input")
    .option("--delete", "show what deleting these policies changes", false)
    .option(...KUBECONFIG_FLAG)
    .option(...CONTEXT_FLAG)
    .option(
      "--peer-contexts <names>",
      "contexts of other members whose pods are compared, too, separated by commas",
    )
    .addOption(
      new Option(
        FLAGS.contexts,
        "contexts separated by commas: that of the member, and those of other members whose pods are compared, too",
      ).conflicts(["context", "peerContexts"]),
    )
    .addOption(resultOption())
    .action((flags) =>
      runForPeople("policy diff", async ({ deps, signal }) => {
        const text = await readNamedFile("manifest", flags.file);
        const changed = policiesOf(parseManifests(text, flags.file));
        const { kubeconfig, peerContexts = "" } = flags;
        const [context = flags.context, ...more] = flags.contexts?.split(",") ?? [];
        const peers = [...more, ...peerContexts.split(",")].filter((it) => it !== "");
        const [before] = await readAll({ kubeconfig, context }, deps, signal);
        if (before === undefined) return;
        const contexts = peers.join();
        const others = contexts === "" ? [] : await readAll({ kubeconfig, contexts }, deps, signal);
        const result = diffOf(withPodsOf(before, others), changed, flags.delete);
        print(result, renderDiff(result), flags.output);
      }),
    );
  policy
    .command("what-if")
    .description("show which pods and global Services gain or lose if settings of the profile change")
    .addOption(globalNamespaceOption())
    .addOption(localClusterOption())
    .option(...CIDR_MATCH_FLAG)
    .option(...KUBECONFIG_FLAG)
    .option(...CONTEXTS_FLAG)
    .addOption(contextOption())
    .addOption(resultOption())
    .action((flags) =>
      runForPeople("policy what-if", async ({ deps, signal }) => {
        const terms = readProfileSettings(flags);
        if (Object.keys(terms).length === 0)
          throw new FleetError(
            "OPTION_INVALID",
            "no setting changes: pass --default-global-namespace, --policy-default-local-cluster or --policy-cidr-match-mode",
          );
        const result = whatIf(await readAll(flags, deps, signal), terms);
        print(result, renderWhatIf(result), flags.output);
      }),
    );
  policy
    .command("lint")
    .description(
      "find fields that are not enforced, selectors without pods, rules that another cluster does not answer, and rules that the network plugin keeps from holding",
    )
    .option(...KUBECONFIG_FLAG)
    .option(...CONTEXTS_FLAG)
    .addOption(contextOption())
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
    .description("print connections that policies denied or allowed, one in each line")
    .option(FLAGS.follow, "print new ones as they are reported")
    .option(FLAGS.namespace, "only connections of pods in this namespace, at either end")
    .option("--pod <pod>", "only those of this pod: NAME, NAMESPACE/NAME or CLUSTER/NAMESPACE/NAME")
    .addOption(new Option("--denied", "denied connections; the default").conflicts("all"))
    .option("--all", "allowed connections, too, of namespaces with the annotation fairlead.dev/flow-log: all")
    .option(...KUBECONFIG_FLAG)
    .option(...CONTEXTS_FLAG)
    .addOption(contextOption())
    .addOption(logOption())
    .action(({ follow, namespace, pod, all, output, ...flags }) =>
      runForPeople("policy log", async ({ deps, signal }) => {
        await using stack = new AsyncDisposableStack();
        const members = await connectAll(flags, { deps, stack }, signal);
        const clients = members.map((it) => it.client);
        if (all === true) await hintAtAnnotation(members, signal);
        const verdicts = all === true ? (["denied", "allowed"] as const) : (["denied"] as const);
        const filter = { verdicts, namespace, pod };
        const onLine = (line: FlowLine): void => printText(renderFlow(line, output));
        if (follow === true) await followFlows({ clients, filter, deps, onLine }, signal);
        else for (const it of await flowLines({ clients, filter, deps }, signal)) onLine(it);
      }),
    );
  return policy;
}

function print(result: object, text: string, output: ResultOutput): void {
  printText(output === "text" ? text : renderData(result, output));
}

interface Flags {
  readonly kubeconfig?: string | undefined;
  readonly contexts?: string | undefined;
  readonly context?: string | undefined;
}

/** A cluster, with its name for people. */
interface Member {
  readonly client: KubeClient;
  readonly who: string;
  /** Of the context. */
  readonly name: string;
}

function connectAll(
  { kubeconfig, context: one, contexts = one }: Flags,
  { deps, stack }: { readonly deps: RuntimeDeps; readonly stack: AsyncDisposableStack },
  signal: AbortSignal,
): Promise<readonly Member[]> {
  const names = contexts === undefined ? [undefined] : contexts.split(",").map((it) => it.trim());
  return Promise.all(
    names.map(async (context) => {
      const config = await loadContext({ file: undefined, context }, kubeconfig, process.env);
      const client = stack.use(connect(config, deps));
      const who =
        context === undefined
          ? "the cluster of the current context"
          : `the cluster of the context ${context}`;
      await checkReachable(client, { who, config }, deps, signal);
      return { client, who, name: config.name };
    }),
  );
}

async function readAll(
  flags: Flags,
  deps: RuntimeDeps,
  signal: AbortSignal,
): Promise<readonly ClusterObjects[]> {
  await using stack = new AsyncDisposableStack();
  const members = await connectAll(flags, { deps, stack }, signal);
  return await Promise.all(members.map(({ client, name }) => readCluster(client, name, signal)));
}

async function hintAtAnnotation(members: readonly Member[], signal: AbortSignal): Promise<void> {
  for (const { client, who } of members)
    if (!(await logsAllowed(client, signal)))
      printNote(
        `in ${who}, allowed connections are not logged: no namespace has the annotation ${FLOW_LOG_ANNOTATION}: ${FLOW_LOG_ALL}`,
      );
}
