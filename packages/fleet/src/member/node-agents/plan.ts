import { isVersion, NODE_AGENTS_CONDITION } from "#api/fairlead.dev/node-agents.ts";
import {
  imageOf,
  isOwn,
  isRemoval,
  lackingOf,
  versionOf,
  type WantedAgents,
} from "#domain/node-daemon-set.ts";
import { whyNotRunning } from "#domain/pods.ts";
import type { DaemonSet } from "@fairlead/kube/api/apps/v1/types.ts";
import type { Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf } from "@fairlead/kube/api/meta/key.ts";
import type { NewCondition } from "@fairlead/kube/objects/conditions.ts";

/** What a member does with the DaemonSet of its node agents, and what it reports of them. Pure. */

/** The member's own part of the decision, which the hub has no say in. */
export interface AgentsInstall {
  /** Of images, without a tag. */
  readonly repository: string;
  /** Whether all that reach a node's addresses may read the metrics of its agent. */
  readonly exposesMetrics: boolean;
}

export interface AgentsView extends AgentsInstall {
  /** Whether the cluster is in a parallel network, as its nodes know it. */
  readonly isInNetwork: boolean;
  /** That the network's profile names. Undefined: what is installed stays. */
  readonly version: string | undefined;
  /** All that run node agents, in `fleet-system`. */
  readonly daemonSets: readonly DaemonSet[];
}

export type AgentsPlan =
  | { readonly step: "nothing"; readonly condition?: NewCondition }
  | { readonly step: "apply"; readonly wanted: WantedAgents }
  | { readonly step: "delete" };

export function planAgents({ isInNetwork, version, daemonSets, ...install }: AgentsView): AgentsPlan {
  const { repository, exposesMetrics } = install;
  const own = daemonSets.find((it) => isOwn(it));
  if (!isInNetwork) {
    if (own === undefined) return { step: "nothing" };
    // The order matters: only the agents can remove what they made on the nodes.
    const isRemoved = isRemoval(own) && lackingOf(own) === undefined;
    return isRemoved
      ? { step: "delete" }
      : { step: "apply", wanted: { image: imageOf(own), isRemoving: true } };
  }
  const wanted = version ?? (own === undefined ? undefined : versionOf(own));
  if (wanted === undefined) return { step: "nothing" };
  const foreign = daemonSets.find((it) => !isOwn(it));
  const problem = !isVersion(wanted)
    ? failed(
        "InvalidVersion",
        `spec.version of the profile, ${JSON.stringify(wanted.slice(0, 64))}, is not a version`,
      )
    : foreign === undefined
      ? undefined
      : failed("InstalledOtherwise", describeForeign(foreign, wanted));
  if (problem !== undefined) return { step: "nothing", condition: problem };
  return { step: "apply", wanted: { image: `${repository}:${wanted}`, isRemoving: false, exposesMetrics } };
}

function describeForeign(daemonSet: DaemonSet, version: string): string {
  const { labels } = daemonSet.metadata;
  const by =
    labels?.["app.kubernetes.io/managed-by"] === "Helm"
      ? `Helm release ${labels["app.kubernetes.io/instance"] ?? ""}`
      : "a user";
  return `DaemonSet ${keyOf(daemonSet)} of ${by} runs ${imageOf(daemonSet)}: ${version} is not installed in addition, and it is not changed; delete it, or leave spec.version of the profile out`;
}

/** What is reported while a DaemonSet has to be as `wanted`. `pods` are those that are not ready. */
export function describeAgents(
  daemonSet: DaemonSet | undefined,
  wanted: WantedAgents,
  pods: readonly Pod[],
): NewCondition {
  const { image, isRemoving } = wanted;
  const version = image.slice(image.lastIndexOf(":") + 1);
  const nodes = daemonSet?.status?.desiredNumberScheduled ?? 0;
  const lacking = isSent(daemonSet, wanted) ? lackingOf(daemonSet) : "the DaemonSet is being written";
  if (lacking === undefined && !isRemoving) {
    const message = `${version} on ${nodes} nodes`;
    return { type: NODE_AGENTS_CONDITION, status: "True", reason: "Installed", message };
  }
  const what = isRemoving ? `removing the network from ${nodes} nodes` : `installing ${version}`;
  const problems = pods.flatMap((it) => problemOf(it) ?? []).slice(0, MOST_PROBLEMS);
  const message = [`${what}: ${lacking ?? "done"}`, ...problems].join("; ");
  const progress = isRemoving ? "Removing" : "Installing";
  return failed(problems.length > 0 ? "NodesNotReady" : progress, message.slice(0, MOST_TEXT));
}

/** The report while the copies of the member's own program have yet to run the version that the node agents run. */
export function describeOwn(
  { image }: WantedAgents,
  lacking: string,
  problems: readonly string[],
): NewCondition {
  const version = image.slice(image.lastIndexOf(":") + 1);
  const shown = problems.slice(0, MOST_PROBLEMS).map((it) => it.slice(0, MOST_CAUSE));
  const message = [`installing ${version}: fairlead member: ${lacking}`, ...shown].join("; ");
  return failed(problems.length > 0 ? "NodesNotReady" : "Installing", message.slice(0, MOST_TEXT));
}

function isSent(
  daemonSet: DaemonSet | undefined,
  { image, isRemoving }: WantedAgents,
): daemonSet is DaemonSet {
  return daemonSet !== undefined && imageOf(daemonSet) === image && isRemoval(daemonSet) === isRemoving;
}

export function failed(reason: string, message: string): NewCondition {
  return { type: NODE_AGENTS_CONDITION, status: "False", reason, message };
}

const MOST_PROBLEMS = 5;
/** Unit: characters. */
const MOST_TEXT = 2000;
const MOST_CAUSE = 300;

const STARTING = new Set(["ContainerCreating", "PodInitializing"]);

/** Why a pod of the agents does not run, with its node; undefined while it starts. */
function problemOf(pod: Pod): string | undefined {
  const node = pod.spec?.nodeName ?? "";
  if (node === "") return `${pod.metadata.name}: ${whyNotRunning(pod).slice(0, MOST_CAUSE)}`;
  const [container] = pod.status?.containerStatuses ?? [];
  const isStarting = container === undefined || STARTING.has(container.state?.waiting?.reason ?? "");
  return isStarting ? undefined : `${node}: ${whyNotRunning(pod).slice(0, MOST_CAUSE)}`;
}
