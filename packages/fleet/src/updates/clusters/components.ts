import { defined } from "@fairlead/base/defined.ts";
import { VERSION } from "@fairlead/base/version.ts";
import type {
  ClusterUpgradeStatus,
  ComponentsPin,
  MemberUpdateStatus,
  UpgradeTarget,
} from "#api/fairlead.dev/v1alpha1/updates.ts";
import { componentsVersionOf, isPinInForce } from "#domain/components.ts";
import { isSupported } from "#domain/kubernetes-support.ts";
import { releasesIn, type UpdateMember } from "./fleet.ts";
import type { Decision } from "./members.ts";
import { supportOf } from "./support-rules.ts";
import { minorsBetween, parseVersion } from "./versions.ts";
import type { ClusterState, Walk } from "./walk.ts";

/** Upgrades of type Components: our own programs in a member, in place of Kubernetes. Pure. */

type Operation = NonNullable<ClusterState["operation"]>;

/** What is observed of a cluster, with the version that its programs are to have, and how far their rollout is. */
export function withComponents(
  observed: ClusterUpgradeStatus,
  member: UpdateMember,
  pin: ComponentsPin | undefined,
  asked: string | undefined,
): ClusterState {
  const { operation: ofEngine, ...cluster } = observed;
  const { profile } = member;
  const inForce = pin !== undefined && isPinInForce(pin, profile) ? pin : undefined;
  const rollout = inForce === undefined ? undefined : rolloutOf(member, inForce);
  const operation = operationOf(asked, ofEngine, rollout);
  return { ...cluster, ...defined({ components: componentsVersionOf(profile, inForce), operation }) };
}

/** How far the rollout of the version is that a member is pinned to. */
export function rolloutOf(
  { nodeAgents }: UpdateMember,
  { operation: id, version, stopped }: ComponentsPin,
): Operation {
  if (nodeAgents?.installed === version) return { id, state: "Succeeded" };
  const message = nodeAgents?.message ?? "the member reports no node agents";
  const isOver = stopped === true || FINAL.has(nodeAgents?.reason ?? "");
  return { id, state: isOver ? "Failed" : "Running", message };
}

/** What does not change by itself. */
const FINAL: ReadonlySet<string> = new Set(["InstalledOtherwise", "InvalidVersion", "NotPermitted"]);

/**
 * Of the upgrades of a cluster, by its engine and of its programs: the one that is asked about, or the one that is in
 * progress.
 */
function operationOf(
  asked: string | undefined,
  ofEngine: Operation | undefined,
  ofPrograms: Operation | undefined,
): Operation | undefined {
  const all = [ofEngine, ofPrograms];
  return (
    all.find((it) => asked !== undefined && it?.id === asked) ??
    all.find((it) => it?.state === "Running") ??
    ofEngine
  );
}

/** Agents that do not start on a node after this time have failed; those that are still being installed have not. Unit: milliseconds. */
const DEADLINE_MS = 600_000;

/** Whether the rollout of a member does not get further. */
export function isStuck(walk: Walk, { name, target, status }: MemberUpdateStatus): boolean {
  const reason = walk.facts.members.get(name)?.nodeAgents?.reason;
  if (target?.type !== "Components" || reason !== "NodesNotReady") return false;
  const untilMs = Date.parse(status.startTime ?? "") + DEADLINE_MS;
  if (walk.facts.nowMs >= untilMs) return true;
  walk.again(untilMs);
  return false;
}

/** The version that a member goes back to if the upgrade of its programs fails. */
export function previousComponents(
  { facts }: Walk,
  { name, target }: MemberUpdateStatus,
  { components }: ClusterState,
): UpgradeTarget | undefined {
  const componentsVersion = components ?? facts.members.get(name)?.nodeAgents?.installed;
  const isOfPrograms = target?.type === "Components" && componentsVersion !== undefined;
  return isOfPrograms ? { type: "Components", componentsVersion } : undefined;
}

/** What a member does not have of the version that it was upgraded to. */
export function missingComponents({ facts }: Walk, { name, target }: MemberUpdateStatus): string | undefined {
  const wanted = target?.componentsVersion;
  const { installed = "unknown" } = facts.members.get(name)?.nodeAgents ?? {};
  return wanted === undefined || installed === wanted ? undefined : `fairlead node has version ${installed}`;
}

/** @returns Undefined if the version may be rolled out. */
export function decideComponents(
  walk: Walk,
  member: UpdateMember,
  observed: ClusterState,
  wanted: string,
): Decision | undefined {
  const { name, profile, nodeAgents } = member;
  if (profile === undefined)
    return { is: "skip", message: "the member belongs to no ClusterMeshProfile, which its programs are of" };
  if (nodeAgents === undefined) return failed("NotInstalled", NOT_INSTALLED);
  if (FINAL.has(nodeAgents.reason)) return failed(nodeAgents.reason, nodeAgents.message);
  if (nodeAgents.reason === "Removing") return { is: "wait", message: nodeAgents.message };
  if (nodeAgents.installed === wanted && observed.components === wanted)
    return { is: "skip", message: `fairlead node of ${name} has version ${wanted} already` };
  return unsupported(walk, member, observed, wanted) ?? skewed(walk, member, wanted);
}

const NOT_INSTALLED =
  "the member's agent has not installed fairlead node: set spec.version of the profile, and run fairlead join with --node-agents, or set nodes.install of the chart fairlead-member";

/** The version is asked whether it supports the cluster, before it is rolled out. */
function unsupported(
  { facts }: Walk,
  { name, region }: UpdateMember,
  { kubernetesVersion, nodes = [] }: ClusterState,
  wanted: string,
): Decision | undefined {
  const support = supportOf(wanted, releasesIn(facts.catalogs, region).components, facts.hub);
  if (support === undefined)
    return failed(
      "ReleaseUnknown",
      `${facts.hub === undefined ? `fairlead ${VERSION}` : `the hub, version ${facts.hub.version},`} does not know which versions of Kubernetes fairlead node ${wanted} supports: upgrade the hub first, or add the version to spec.components of a ReleaseCatalog`,
    );
  if (kubernetesVersion === undefined)
    return { is: "wait", message: "the version of the cluster is not known yet" };
  const { from, to } = support.kubernetes;
  const parts = [
    { what: `the API server of ${name}`, version: kubernetesVersion },
    ...nodes.map((it) => ({ what: `node ${it.name} of ${name}`, version: it.kubernetesVersion })),
  ];
  // A kubelet that has not reported yet has no version.
  const found = parts.find((it) => it.version !== "" && !isSupported(it.version, support.kubernetes));
  if (found === undefined) return undefined;
  return failed(
    "NotSupported",
    `fairlead node ${wanted} supports Kubernetes ${from} to ${to}; ${found.what} has ${found.version}: upgrade the cluster first, or choose another version`,
  );
}

/** Programs of members of one profile work together if they are one minor version apart at most. */
function skewed({ facts }: Walk, { profile }: UpdateMember, wanted: string): Decision | undefined {
  const to = parseVersion(wanted);
  for (const it of facts.members.values()) {
    if (it.profile?.name !== profile?.name) continue;
    for (const { program, version } of it.programs) {
      const from = parseVersion(version);
      if (from === undefined || to === undefined || Math.abs(minorsBetween(from, to)) <= 1) continue;
      return failed(
        "VersionSkipsMinor",
        `fairlead ${program} of ${it.name}, in the same profile, has version ${version}, more than one minor version from ${wanted}: upgrade it one minor version at a time`,
      );
    }
  }
  return undefined;
}

function failed(code: string, message: string): Decision {
  return { is: "fail", code, message };
}
