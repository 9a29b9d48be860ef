import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { isVersion, NODE_AGENTS_CONDITION } from "#api/fairlead.dev/node-agents.ts";
import type { ClusterMeshProfile } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import type { ComponentsPin } from "#api/fairlead.dev/v1alpha1/updates.ts";
import { componentsVersionOf } from "#domain/components.ts";
import { byNaturalText } from "@fairlead/base/text.ts";
import type { Condition } from "@fairlead/kube/api/meta/types.ts";
import { findCondition, type NewCondition } from "@fairlead/kube/objects/conditions.ts";

/** The version that an update run gave a member. */
export type PinOf = (member: string) => ComponentsPin | undefined;

/** Whether the members run the versions of `fairlead node` that their profile, or an update run, gives them. Pure. */
export function planNodeAgents(
  { metadata, spec: { version } }: ClusterMeshProfile,
  members: readonly MemberCluster[],
  pinOf: PinOf = () => undefined,
): NewCondition[] {
  const type = "NodeAgentsInstalled";
  if (version !== undefined && !isVersion(version))
    return [{ type, status: "False", reason: "InvalidVersion", message: "spec.version is not a version" }];
  const asked = members.flatMap((it) => {
    const { name } = it.metadata;
    const wanted = componentsVersionOf({ name: metadata.name, version }, pinOf(name));
    return wanted === undefined ? [] : [{ name, wanted, condition: reportOf(it) }];
  });
  if (asked.length === 0) return [];
  const lacking = asked.filter(({ condition, wanted }) => !isInstalled(condition, wanted));
  if (lacking.length === 0) return [installed(asked, version)];
  const some = lacking
    .slice(0, MOST)
    .map(({ name, condition }) => `${name}: ${(condition?.message ?? NOT_REPORTED).slice(0, MOST_TEXT)}`);
  const rest = lacking.length > MOST ? [`and ${lacking.length - MOST} other members`] : [];
  // "Installing" ends by itself, so that another reason counts more.
  const reasons = lacking.map(({ condition, wanted }) => reasonOf(condition, wanted));
  const reason = reasons.find((it) => it !== "Installing") ?? "Installing";
  return [{ type, status: "False", reason, message: [...some, ...rest].join("; ") }];
}

/** With members whose version an update run decides, the message says so: the profile does not follow by itself. */
function installed(asked: readonly { readonly wanted: string }[], version: string | undefined): NewCondition {
  const counts = Map.groupBy(asked, (it) => it.wanted);
  const texts = [...counts]
    .toSorted(([a], [b]) => byNaturalText(a, b))
    .map(([wanted, all]) => `${wanted} in ${all.length} members`);
  const isPinned = [...counts.keys()].some((it) => it !== version);
  const by = isPinned ? [`update runs upgraded members; spec.version is ${version ?? "not set"}`] : [];
  return {
    type: "NodeAgentsInstalled",
    status: "True",
    reason: "Installed",
    message: [texts.slice(0, MOST).join(", "), ...by].join("; "),
  };
}

const MOST = 10;
/** Unit: characters. */
const MOST_TEXT = 500;
const NOT_REPORTED =
  "its agent does not install fairlead node; run fairlead join with --node-agents again, or set nodes.install of the chart fairlead-member";

function reportOf({ status }: MemberCluster): Condition | undefined {
  return (status?.agentStatus ?? [])
    .map((it) => findCondition(it.conditions, NODE_AGENTS_CONDITION))
    .find((it) => it !== undefined);
}

function isInstalled(condition: Condition | undefined, version: string): boolean {
  return condition?.status === "True" && condition.message.startsWith(`${version} `);
}

/** A member that has not received a new version still reports the former one as installed. */
function reasonOf(condition: Condition | undefined, version: string): string {
  if (condition === undefined) return "NotEnabled";
  return condition.status === "True" && !isInstalled(condition, version) ? "Installing" : condition.reason;
}
