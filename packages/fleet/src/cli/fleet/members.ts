import { joinLines } from "@fairlead/base/print.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { byNaturalText } from "@fairlead/base/text.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import {
  MEMBER_CLUSTERS,
  MEMBER_NAME_LABEL,
  type MemberCluster,
} from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { REGION_LABELS, UPDATE_GROUP_LABEL } from "#api/fairlead.dev/v1alpha1/updates.ts";
import { KUBERNETES_PROPERTY } from "#domain/cluster-facts.ts";
import { isLabelValue, isQualifiedName, shown } from "#domain/formats.ts";
import { type ListOutput, renderData, type ResultOutput } from "../output.ts";
import { type Column, renderAge, renderTable } from "../table.ts";
import { findMember } from "./clusters.ts";

/** MemberClusters as `fairlead member list|show|update` has them. */

/** A label with its new value; null removes it. */
export type LabelChange = Readonly<Record<string, string | null>>;

/**
 * Parses "key=value", and "key-", which removes a label, as kubectl has it.
 *
 * @throws {FleetError} `OPTION_INVALID` with the text that cannot be read.
 */
export function parseLabelChange(flag: string, texts: readonly string[]): LabelChange {
  const change: Record<string, string | null> = Object.create(null) as Record<string, string | null>;
  for (const text of texts.flatMap((it) => it.split(",")).filter((it) => it !== "")) {
    const at = text.indexOf("=");
    const isRemoval = at === -1 && text.endsWith("-");
    const key = isRemoval ? text.slice(0, -1) : text.slice(0, Math.max(0, at));
    const value = text.slice(at + 1);
    if (!isQualifiedName(key) || (!isRemoval && !isLabelValue(value)))
      throw new FleetError(
        "OPTION_INVALID",
        `${flag}: ${shown(text)} is neither a label KEY=VALUE, nor KEY- to remove one`,
      );
    if (key === MEMBER_NAME_LABEL)
      throw new FleetError("OPTION_INVALID", `${flag}: the hub writes label ${MEMBER_NAME_LABEL}`);
    if (Object.hasOwn(change, key))
      throw new FleetError("OPTION_INVALID", `${flag}: label ${key} is given twice`);
    change[key] = isRemoval ? null : value;
  }
  return { ...change };
}

/** @param group - The update group; an empty one removes the member from its group. */
export function updateGroupChange(flag: string, group: string | undefined): LabelChange {
  if (group === undefined) return {};
  if (!isLabelValue(group))
    throw new FleetError("OPTION_INVALID", `${flag}: ${shown(group)} is not the value of a label`);
  return { [UPDATE_GROUP_LABEL]: group === "" ? null : group };
}

/** Writes labels of a member, where that changes one. */
export async function labelMember(
  hub: KubeClient,
  { name, labels }: { readonly name: string; readonly labels: LabelChange },
  signal: AbortSignal,
): Promise<{ readonly member: MemberCluster; readonly changed: boolean }> {
  const member = await findMember(hub, name, signal);
  const before = member.metadata.labels ?? {};
  const changed = Object.entries(labels).some(([key, value]) => (before[key] ?? null) !== value);
  if (!changed) return { member, changed };
  const patch = { metadata: { labels } };
  return {
    member: await hub.mergePatch(MEMBER_CLUSTERS, objectKey(undefined, name), patch, { signal }),
    changed,
  };
}

const conditionOf = ({ status }: MemberCluster, type: string): string =>
  status?.conditions?.find((it) => it.type === type)?.status ?? "Unknown";

const labelOf = ({ metadata: { labels = {} } }: MemberCluster, ...keys: readonly string[]): string =>
  keys.map((it) => labels[it]).find((it) => it !== undefined) ?? "-";

const columns = (nowMs: number): readonly Column<MemberCluster>[] => [
  { head: "NAME", cell: (it) => it.metadata.name },
  { head: "JOINED", cell: (it) => conditionOf(it, "Joined") },
  { head: "HEALTHY", cell: (it) => conditionOf(it, "Healthy") },
  { head: "UPDATE GROUP", cell: (it) => labelOf(it, UPDATE_GROUP_LABEL) },
  { head: "REGION", cell: (it) => labelOf(it, ...REGION_LABELS) },
  { head: "KUBERNETES", cell: (it) => it.status?.properties?.[KUBERNETES_PROPERTY]?.value ?? "-" },
  {
    head: "AGE",
    cell: ({ metadata: { creationTimestamp: at } }) =>
      at === undefined ? "-" : renderAge(nowMs - Date.parse(at)),
  },
];

const LABELS: Column<MemberCluster> = { head: "LABELS", cell: (it) => labelText(it) || "-" };

function labelText({ metadata: { labels = {} } }: MemberCluster): string {
  return Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .toSorted(byNaturalText)
    .join(",");
}

export function renderMembers(members: readonly MemberCluster[], output: ListOutput, nowMs: number): string {
  const sorted = members.toSorted((a, b) => byNaturalText(a.metadata.name, b.metadata.name));
  if (output === "name") return joinLines(sorted.map((it) => it.metadata.name));
  if (output === "json" || output === "yaml") return renderData(sorted, output);
  if (sorted.length === 0) return 'no members; "fairlead join NAME" adds one';
  return renderTable(output === "wide" ? [...columns(nowMs), LABELS] : columns(nowMs), sorted);
}

/** A line for each column, label, property and condition that is not true. */
export function renderMember(member: MemberCluster, output: ResultOutput, nowMs: number): string {
  if (output !== "text") return renderData(member, output);
  const { status = {}, metadata, spec } = member;
  const lines = (head: string, entries: readonly string[]): string[] =>
    entries.length === 0 ? [] : [`${head}:`, ...entries.map((it) => `  ${it}`)];
  const properties = Object.entries(status.properties ?? {})
    .map(
      ([key, { value }]) => `${key}: ${value.length > LONGEST_VALUE ? `${value.length} characters` : value}`,
    )
    .toSorted(byNaturalText);
  const taints = (spec.taints ?? []).map(({ key, value = "", effect }) => `${key}=${value}:${effect}`);
  const wrong = (status.conditions ?? []).filter((it) => it.status !== "True");
  return joinLines([
    ...columns(nowMs).map(({ head, cell }) => `${head.toLowerCase()}: ${cell(member)}`),
    `identity: ${spec.identity.kind} ${spec.identity.name}`,
    ...lines(
      "labels",
      labelText({ ...member, metadata })
        .split(",")
        .filter((it) => it !== ""),
    ),
    ...lines("taints", taints),
    ...lines("properties", properties),
    ...lines(
      "conditions that are not true",
      wrong.map((it) => `${it.type} is ${it.status}: ${it.reason}: ${it.message}`),
    ),
  ]);
}

/** Longer values, such as certificates, are in the object. Unit: characters. */
const LONGEST_VALUE = 100;
