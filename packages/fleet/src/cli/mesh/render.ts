import { joinLines, oneLine } from "@fairlead/base/print.ts";
import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import type { ClusterMeshProfile } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { formatMemberSelector } from "#domain/member-selector.ts";
import { isManual, selectorOf } from "#domain/mesh-members.ts";
import type { ObjectChange } from "#domain/mesh-objects.ts";
import type { MeshPlan } from "#domain/mesh-plan.ts";
import { defined } from "@fairlead/base/defined.ts";
import { byNaturalText } from "@fairlead/base/text.ts";
import { findCondition } from "@fairlead/kube/objects/conditions.ts";
import { type ListOutput, renderData, type ResultOutput } from "../output.ts";
import { type Column, renderAge, renderTable } from "../table.ts";

/** What the commands of `fairlead mesh` print. Columns and fields of plans have the names of Azure's CLI. */

interface WhatIfRow {
  readonly action: string;
  readonly clusterResourceId: string;
  readonly eTag: string;
  readonly meshMembershipState: string;
  readonly name: string;
  readonly errorMessage?: string;
}

function whatIfRows(plan: MeshPlan, members: readonly MemberCluster[]): WhatIfRow[] {
  const versions = new Map(members.map((it) => [it.metadata.name, it.metadata.resourceVersion]));
  return plan.rows.map(({ action, member, state, error }) => ({
    action,
    clusterResourceId: `memberclusters/${member}`,
    eTag: versions.get(member) ?? "-",
    meshMembershipState: state,
    name: member,
    ...defined({ errorMessage: error }),
  }));
}

const WHAT_IF: readonly Column<WhatIfRow>[] = [
  { head: "ACTION", cell: (it) => it.action },
  { head: "CLUSTERRESOURCEID", cell: (it) => it.clusterResourceId },
  { head: "ETAG", cell: (it) => it.eTag },
  { head: "MESHMEMBERSHIPSTATE", cell: (it) => it.meshMembershipState },
  { head: "NAME", cell: (it) => it.name },
];
const ERROR_MESSAGE: Column<WhatIfRow> = { head: "ERRORMESSAGE", cell: (it) => it.errorMessage ?? "-" };

const CHANGES: readonly Column<ObjectChange>[] = [
  { head: "CHANGE", cell: (it) => it.action },
  { head: "WHERE", cell: (it) => (it.isOnHub ? "hub" : it.cluster) },
  { head: "KIND", cell: (it) => it.kind },
  {
    head: "OBJECT",
    cell: ({ namespace, name }) => (namespace === undefined ? name : `${namespace}/${name}`),
  },
];

export function renderPlan(plan: MeshPlan, members: readonly MemberCluster[], output: ResultOutput): string {
  const rows = whatIfRows(plan, members);
  if (output !== "text") return renderData({ ...plan, rows }, output);
  const columns = rows.some((it) => it.errorMessage !== undefined) ? [...WHAT_IF, ERROR_MESSAGE] : WHAT_IF;
  const parts = [rows.length === 0 ? "The profile selects no members." : renderTable(columns, rows)];
  if (plan.settings.length > 0)
    parts.push(oneLine(`Settings that change for all members: ${plan.settings.join(", ")}`));
  const hints = plan.settings.flatMap((it) => HINTS[it] ?? []);
  if (hints.length > 0) hints.push(LISTED);
  parts.push(...hints);
  if (plan.changes.length > 0) parts.push(renderTable(CHANGES, plan.changes));
  if (plan.problems.length > 0)
    parts.push(`The plan cannot be applied:\n${joinLines(plan.problems.map((it) => `  ${it}`))}`);
  else if (plan.changes.length === 0) parts.push("Nothing changes.");
  else parts.push(`Plan ${plan.target.operation}: ${plan.changes.length} objects change.`);
  return parts.join("\n\n");
}

const LISTED =
  '"fairlead policy what-if" lists these Services and pods, as the members whose contexts you name have them.';

/** The Services and pods that gain or lose by a setting. */
const HINTS: Readonly<Record<string, string>> = {
  defaultGlobalNamespace:
    "defaultGlobalNamespace decides about namespaces without the annotation clustermesh.cilium.io/global: with false, their Services and pods are not shared any more; with true, they are.",
  policyDefaultLocalCluster:
    "policyDefaultLocalCluster decides about peers of network policies that name no cluster: with true, pods of other clusters lose access that such rules give them; with false, they gain it.",
  policyCIDRMatchMode:
    "policyCIDRMatchMode decides about CIDRs in Cilium's kinds of policies: they match nodes and pods of the network only if it lists them; pods and nodes that it no longer lists lose access that such rules give them.",
};

export interface ProfileRow {
  readonly name: string;
  readonly state: string;
  readonly members: number;
  readonly mode: string;
  readonly apply: string;
  readonly memberSelector: string;
  readonly lastAppliedMemberSelector?: string;
  readonly drift?: string;
  readonly version?: string;
  readonly error?: string;
}

export function rowOf({ metadata, spec, status }: ClusterMeshProfile): ProfileRow {
  const drift = findCondition(status?.conditions, "Drift");
  return {
    name: metadata.name,
    state: status?.state ?? "NotConnected",
    members: status?.members ?? 0,
    mode: spec.network.mode,
    apply: spec.apply ?? "Continuous",
    memberSelector: formatMemberSelector(spec.memberSelector),
    ...defined({
      lastAppliedMemberSelector: status?.lastAppliedMemberSelector,
      drift: drift?.status === "True" ? drift.message : undefined,
      version: spec.version,
      error: status?.lastOperationError,
    }),
  };
}

const PROFILES: readonly Column<ProfileRow>[] = [
  { head: "NAME", cell: (it) => it.name },
  { head: "STATE", cell: (it) => it.state },
  { head: "MEMBERS", cell: (it) => String(it.members) },
  { head: "MODE", cell: (it) => it.mode },
  { head: "APPLY", cell: (it) => it.apply },
  { head: "DRIFT", cell: (it) => (it.drift === undefined ? "None" : "Detected") },
  { head: "SELECTOR", cell: (it) => orDash(it.memberSelector) },
];
const WIDE: readonly Column<ProfileRow>[] = [
  { head: "LAST APPLIED", cell: (it) => orDash(it.lastAppliedMemberSelector) },
  { head: "VERSION", cell: (it) => orDash(it.version) },
  { head: "ERROR", cell: (it) => orDash(it.error) },
];

export function renderProfiles(profiles: readonly ClusterMeshProfile[], output: ListOutput): string {
  const rows = profiles.map(rowOf).toSorted((a, b) => byNaturalText(a.name, b.name));
  if (output === "json" || output === "yaml") return renderData({ profiles: rows }, output);
  if (output === "name") return joinLines(rows.map((it) => `clustermeshprofile.fairlead.dev/${it.name}`));
  if (rows.length === 0)
    return 'The fleet has no ClusterMeshProfile. Run "fairlead mesh create NAME" to make one.';
  return renderTable(output === "wide" ? [...PROFILES, ...WIDE] : PROFILES, rows);
}

export function renderProfile(profile: ClusterMeshProfile, output: ResultOutput): string {
  const row = rowOf(profile);
  if (output !== "text")
    return renderData({ ...row, memberStates: profile.status?.memberStates ?? [] }, output);
  const lines: readonly (readonly [string, string | undefined])[] = [
    ["Name", row.name],
    ["State", row.state],
    ["Members", String(row.members)],
    ["Mode", row.mode],
    ["Apply", row.apply],
    ["Selector", orDash(row.memberSelector)],
    ["Last applied", row.lastAppliedMemberSelector],
    ["Drift", row.drift ?? "None"],
    ["Version", row.version],
    ["Error", row.error],
  ];
  return joinLines(
    lines.flatMap(([head, text]) => (text === undefined ? [] : [`${`${head}:`.padEnd(15)}${text}`])),
  );
}

export interface MemberRow {
  readonly name: string;
  readonly state: string;
  readonly lastUpdatedAt?: string;
  readonly error?: string;
}

/** Those of a manual profile that are selected, too, whether it was applied to them or not. */
export function memberRows(profile: ClusterMeshProfile, members: readonly MemberCluster[]): MemberRow[] {
  const rows = new Map<string, MemberRow>((profile.status?.memberStates ?? []).map((it) => [it.name, it]));
  const matches = selectorOf(profile);
  if (isManual(profile) && typeof matches !== "string")
    for (const { metadata } of members.filter((it) => matches(it.metadata.labels)))
      if (!rows.has(metadata.name)) rows.set(metadata.name, { name: metadata.name, state: "NotConnected" });
  return [...rows.values()].toSorted((a, b) => byNaturalText(a.name, b.name));
}

export function renderMembers(rows: readonly MemberRow[], output: ListOutput, nowMs: number): string {
  if (output === "json" || output === "yaml") return renderData({ members: rows }, output);
  if (output === "name")
    return joinLines(rows.map((it) => `membercluster.cluster.kubernetes-fleet.io/${it.name}`));
  if (rows.length === 0) return "The profile has no members, and selects none.";
  const columns: readonly Column<MemberRow>[] = [
    { head: "NAME", cell: (it) => it.name },
    { head: "STATE", cell: (it) => it.state },
    {
      head: "SINCE",
      cell: (it) => (it.lastUpdatedAt === undefined ? "-" : renderAge(nowMs - Date.parse(it.lastUpdatedAt))),
    },
    { head: "ERROR", cell: (it) => orDash(it.error) },
  ];
  return renderTable(columns, rows);
}

function orDash(text: string | undefined): string {
  return text === undefined || text === "" ? "-" : text;
}
