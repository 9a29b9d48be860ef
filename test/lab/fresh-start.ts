/** What a fleet has come to, told so that two histories can be compared. */

import { expect } from "vitest";
import {
  INTERNAL_MEMBER_CLUSTERS,
  MEMBER_CLUSTERS,
} from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import { NAMESPACES, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { ENDPOINT_SLICES } from "@fairlead/kube/api/discovery/v1/types.ts";
import { CUT_OFF_ANNOTATION, TRAFFIC_ANNOTATIONS } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import { IMPORTED_SERVICES, NAMESPACE_REPORTS } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/types.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import {
  MCS_SERVICE_EXPORTS,
  MCS_SERVICE_IMPORTS,
  MCS_SOURCE_CLUSTER_LABEL,
} from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import {
  ENDPOINT_SLICE_EXPORTS,
  ENDPOINT_SLICE_IMPORTS,
  FLEET_SERVICE_IMPORTS,
  INTERNAL_SERVICE_EXPORTS,
  INTERNAL_SERVICE_IMPORTS,
  MULTI_CLUSTER_SERVICES,
} from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { FLEET_SERVICE_EXPORTS } from "@fairlead/fleet/api/networking.fleet.azure.com/v1beta1/types.ts";
import { eventually, until } from "../support/waiting.ts";
import { die, revive } from "./fault-tools.ts";
import type { TestLab } from "../support/lab-fixture.ts";
import { annotate } from "../support/lab-actions.ts";

const ON_HUB: readonly Resource[] = [
  MEMBER_CLUSTERS,
  NAMESPACES,
  INTERNAL_MEMBER_CLUSTERS,
  NAMESPACE_REPORTS,
  INTERNAL_SERVICE_EXPORTS,
  INTERNAL_SERVICE_IMPORTS,
  ENDPOINT_SLICE_EXPORTS,
  ENDPOINT_SLICE_IMPORTS,
  IMPORTED_SERVICES,
  FLEET_SERVICE_IMPORTS,
];
const ON_MEMBER: readonly Resource[] = [
  FLEET_SERVICE_EXPORTS,
  MCS_SERVICE_EXPORTS,
  FLEET_SERVICE_IMPORTS,
  MCS_SERVICE_IMPORTS,
  MULTI_CLUSTER_SERVICES,
  SERVICES,
  ENDPOINT_SLICES,
];

/** What differs between two lives of the same: times, versions, identities. */
const TRANSIENT =
  /^(uid|resourceVersion|generation|observedGeneration|managedFields|since|exportedSince)$|Time(stamp)?$|Heartbeat$/;

/** Everything that the fleet's programs have written, by object. */
async function fleetState(lab: TestLab, members: readonly string[]): Promise<ReadonlyMap<string, string>> {
  const places = [["hub", ON_HUB] as const, ...members.map((it) => [it, ON_MEMBER] as const)];
  const entries = places.flatMap(([cluster, kinds]) =>
    kinds.map(async (of) => {
      const { items } = await (await lab.client(cluster)).list(of);
      return items.map((it) => [`${cluster} ${of.kind} ${nameOf(it)}`, lasting(it)] as const);
    }),
  );
  return new Map((await Promise.all(entries)).flat().toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

const nameOf = ({ metadata }: KubeObject): string => `${metadata.namespace ?? ""}/${metadata.name}`;

function lasting(object: KubeObject): string {
  const keep = (key: string, value: unknown): unknown => (TRANSIENT.test(key) ? undefined : sorted(value));
  return JSON.stringify(object, keep, 1);
}

/** Keys in order; conditions by type, because a rewritten condition moves to the end. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value) && value.every((it) => typeof (it as { type?: unknown })?.type === "string"))
    return value.toSorted((a: { type: string }, b: { type: string }) => a.type.localeCompare(b.type));
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

export interface Exported {
  readonly members: readonly string[];
  readonly exporters: readonly string[];
  readonly service: { readonly namespace: string; readonly name: string };
}

/**
 * Kills all of the fleet's programs, starts them with empty memory, and compares what the fleet is then with what it was
 * before: nothing may differ.
 */
export async function expectFreshStart(lab: TestLab, of: Exported): Promise<void> {
  await settle(lab, of, 2);
  const before = await fleetState(lab, of.members);
  await die(lab, "hub/hub", ...of.members.map((it) => `${it}/member`));
  await revive(lab);
  await settle(lab, of, 3);
  const after = await fleetState(lab, of.members);
  expect(differing(after, before)).toEqual(differing(before, after));
}

function differing(
  of: ReadonlyMap<string, string>,
  from: ReadonlyMap<string, string>,
): Record<string, string> {
  return Object.fromEntries([...of].filter(([key, value]) => from.get(key) !== value));
}

/** A change of each exporter that went all the way, and back: everything that was due before it was done before it. */
async function settle(
  lab: TestLab,
  { members, exporters, service }: Exported,
  weight: number,
): Promise<void> {
  for (const wanted of [String(weight), undefined]) {
    const annotation = { [TRAFFIC_ANNOTATIONS.weight]: wanted ?? null };
    for (const exporter of exporters)
      await annotate(await lab.client(exporter), MCS_SERVICE_EXPORTS, service, annotation);
    for (const member of members) await untilWeighed(lab, member, { exporters, wanted });
  }
  await until(
    "the hub trusts all members",
    async () => (await (await lab.client("hub")).list(INTERNAL_MEMBER_CLUSTERS)).items,
    (items) => items.every((it) => (it.spec.suspects ?? []).length === 0),
  );
  // Written when a lease is renewed: a member that is killed before that starts as if the path were still cut.
  await until(
    "no member reports a data path as cut",
    async () => (await (await lab.client("hub")).list(LEASES)).items,
    (items) => items.every((it) => it.metadata.annotations?.[CUT_OFF_ANNOTATION] === undefined),
  );
}

async function untilWeighed(
  lab: TestLab,
  member: string,
  { exporters, wanted }: { readonly exporters: readonly string[]; readonly wanted: string | undefined },
): Promise<void> {
  await eventually(await lab.client(member), ENDPOINT_SLICES, (slices) =>
    exporters.every((exporter) => {
      const imported = slices.filter((it) => it.metadata.labels?.[MCS_SOURCE_CLUSTER_LABEL] === exporter);
      return (
        imported.length > 0 &&
        imported.every((it) => it.metadata.annotations?.[TRAFFIC_ANNOTATIONS.weight] === wanted)
      );
    }),
  );
}
