import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { isVersion, NODE_AGENTS_CONDITION } from "#api/fairlead.dev/node-agents.ts";
import type { ClusterMeshProfile } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import type { Condition } from "@fairlead/kube/api/meta/types.ts";
import { findCondition, type NewCondition } from "@fairlead/kube/objects/conditions.ts";

/** Whether the members run the version of `fairlead node` that their profile names. Pure. */
export function planNodeAgents(
  { spec: { version } }: ClusterMeshProfile,
  members: readonly MemberCluster[],
): NewCondition[] {
  if (version === undefined) return [];
  const type = "NodeAgentsInstalled";
  if (!isVersion(version))
    return [{ type, status: "False", reason: "InvalidVersion", message: "spec.version is not a version" }];
  const told = members.map((it) => ({ name: it.metadata.name, condition: reportOf(it) }));
  const lacking = told.filter(({ condition }) => !isInstalled(condition, version));
  if (lacking.length === 0)
    return [{ type, status: "True", reason: "Installed", message: `${version} in ${told.length} members` }];
  const some = lacking
    .slice(0, MOST)
    .map(({ name, condition }) => `${name}: ${(condition?.message ?? NOT_TOLD).slice(0, MOST_TEXT)}`);
  const rest = lacking.length > MOST ? [`and ${lacking.length - MOST} other members`] : [];
  // "Installing" ends by itself, so that another reason counts more.
  const reasons = lacking.map(({ condition }) => reasonOf(condition, version));
  const reason = reasons.find((it) => it !== "Installing") ?? "Installing";
  return [{ type, status: "False", reason, message: [...some, ...rest].join("; ") }];
}

const MOST = 10;
/** Unit: characters. */
const MOST_TEXT = 500;
const NOT_TOLD =
  "its agent does not install fairlead node; run fairlead join with --node-agents again, or set nodes.install of the chart fairlead-member";

function reportOf({ status }: MemberCluster): Condition | undefined {
  return (status?.agentStatus ?? [])
    .map((it) => findCondition(it.conditions, NODE_AGENTS_CONDITION))
    .find((it) => it !== undefined);
}

function isInstalled(condition: Condition | undefined, version: string): boolean {
  return condition?.status === "True" && condition.message.startsWith(`${version} `);
}

/** A member that has not heard of a new version still reports the former one as installed. */
function reasonOf(condition: Condition | undefined, version: string): string {
  if (condition === undefined) return "NotEnabled";
  return condition.status === "True" && !isInstalled(condition, version) ? "Installing" : condition.reason;
}
