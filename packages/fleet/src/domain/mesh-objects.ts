import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { derivedServiceName, globalSliceName, mailboxName } from "#api/fairlead.dev/cluster-names.ts";
import { ISOLATION_ANNOTATION, VIEW_NAMESPACE } from "#api/fairlead.dev/names.ts";
import { NODE_AGENTS } from "#api/fairlead.dev/node-agents.ts";
import type { ClusterMeshProfile } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { FLEET_SYSTEM_NAMESPACE, mailboxOf, viewNamespaceOf } from "#api/networking.fleet.azure.com/names.ts";
import { byText } from "@fairlead/base/text.ts";
import { isManual, type Selected, selectMembers, settingsOf } from "./mesh-members.ts";

/** The objects on the hub and on members that depend on the members of profiles. Pure. */

/** What is known of a fleet. */
export interface MeshFleet {
  readonly profiles: readonly ClusterMeshProfile[];
  readonly members: readonly MemberCluster[];
  /** Namespaces of each member that reports them: into these it imports. */
  readonly namespaces: ReadonlyMap<string, ReadonlySet<string>>;
  readonly exports: readonly MeshExport[];
  /** Views that exist: they stay until their profile is deleted. */
  readonly views: ReadonlySet<string>;
  /** AddressBlocks and VirtualIPs of views: they are kept for a day after their last use. */
  readonly kept?: readonly KeptAddresses[];
}

export interface KeptAddresses {
  readonly kind: "AddressBlock" | "VirtualIP";
  readonly view: string;
  readonly name: string;
}

/** A service that a member exports to all others. */
export interface MeshExport {
  readonly cluster: string;
  readonly namespace: string;
  readonly name: string;
  /** Names of its EndpointSliceExports. */
  readonly slices: readonly string[];
  /** Whether its Service is global, so that endpoints of other global ones are put next to its own. */
  readonly isGlobal?: boolean;
  readonly isHeadless?: boolean;
}

/** "hub", or the name of a member, then kind, namespace and name. */
export interface MeshObject {
  readonly cluster: string;
  readonly isOnHub: boolean;
  readonly kind: string;
  readonly namespace?: string;
  /** Ends in "*" where its nodes decide about the rest. */
  readonly name: string;
}

/** Objects, and texts by which it is seen whether their contents changed. */
export type MeshObjects = ReadonlyMap<string, { readonly object: MeshObject; readonly content: string }>;

export function meshObjects(fleet: MeshFleet): MeshObjects {
  const objects = new Map<string, { object: MeshObject; content: string }>();
  const add: Add = (cluster, [kind, namespace, name], content) => {
    const object = {
      cluster: cluster ?? "hub",
      isOnHub: cluster === undefined,
      kind,
      ...(namespace === undefined ? {} : { namespace }),
      name,
    };
    objects.set(keyOfObject(object), { object, content: JSON.stringify(content) });
  };
  const selected = selectMembers(fleet.profiles, fleet.members);
  for (const profile of fleet.profiles) addProfile(add, profile);
  for (const it of fleet.kept ?? []) add(undefined, [it.kind, it.view, it.name], "kept");
  for (const it of selected) addNetwork(add, it, fleet.kept ?? []);
  const profileOf = new Map(
    selected.flatMap((it) =>
      [...it.members, ...it.leaving].map((one) => [one.metadata.name, it.profile] as const),
    ),
  );
  for (const member of fleet.members) addMember(add, member, profileOf.get(member.metadata.name));
  const viewOf = (cluster: string): string => viewNamespaceOf(profileOf.get(cluster)?.metadata.name);
  const views = new Set([...fleet.views, ...fleet.members.map((it) => viewOf(it.metadata.name))]);
  for (const view of views) {
    add(undefined, ["Namespace", undefined, view], "");
    add(undefined, ["Role", view, "fleet-view-reader"], "");
  }
  addServices(add, fleet, viewOf);
  const parallel = selected.filter(
    (it) => it.profile.spec.network.mode === "parallel" && it.problem === undefined,
  );
  addVirtualIPs(add, fleet, new Set(parallel.map((it) => viewNamespaceOf(it.profile.metadata.name))), viewOf);
  return objects;
}

type Add = (
  member: string | undefined,
  object: readonly [kind: string, namespace: string | undefined, name: string],
  content: unknown,
) => void;

export function keyOfObject({ cluster, isOnHub, kind, namespace = "", name }: MeshObject): string {
  return `${isOnHub ? "" : cluster} ${kind} ${namespace}/${name}`;
}

function addProfile(add: Add, { metadata, spec }: ClusterMeshProfile): void {
  if (spec.apply === "Manual") add(undefined, ["ClusterMeshProfile", undefined, metadata.name], spec.applied);
}

function addNetwork(add: Add, { profile, members, problem }: Selected, kept: readonly KeptAddresses[]): void {
  if (problem !== undefined || members.length === 0) return;
  const { name } = profile.metadata;
  const view = viewNamespaceOf(name);
  const terms = settingsOf(profile.spec);
  const isParallel = profile.spec.network.mode === "parallel";
  const names = members.map((it) => it.metadata.name);
  add(undefined, ["MeshNetwork", view, name], terms);
  for (const member of members.filter(readsView)) {
    const own = member.metadata.name;
    add(own, ["MeshNetwork", FLEET_SYSTEM_NAMESPACE, name], terms);
    if (terms.version !== undefined)
      add(own, ["DaemonSet", FLEET_SYSTEM_NAMESPACE, NODE_AGENTS], terms.version);
    if (!isParallel) continue;
    add(undefined, ["AddressBlock", view, own], "");
    add(undefined, ["Gateway", view, `${own}-*`], "");
    add(undefined, ["Gateway", mailboxOf(own), `${own}-*`], "");
    add(own, ["AddressBlock", FLEET_SYSTEM_NAMESPACE, "node.*"], "");
    for (const it of kept.filter((one) => one.kind === "AddressBlock" && one.view === view))
      add(own, ["AddressBlock", FLEET_SYSTEM_NAMESPACE, it.name], "kept");
    for (const other of names) {
      add(own, ["AddressBlock", FLEET_SYSTEM_NAMESPACE, other], "");
      add(own, ["Gateway", FLEET_SYSTEM_NAMESPACE, `${other}-*`], "");
    }
  }
}

function addMember(add: Add, member: MemberCluster, profile: ClusterMeshProfile | undefined): void {
  const { name } = member.metadata;
  const view = viewNamespaceOf(profile?.metadata.name);
  const network = profile === undefined ? "" : `${profile.metadata.name} ${profile.spec.network.mode}`;
  add(undefined, ["InternalMemberCluster", mailboxOf(name), name], [view, network]);
  if (!readsView(member)) return;
  add(undefined, ["NamespaceReport", mailboxOf(name), name], view);
  add(undefined, ["RoleBinding", view, `fleet-view-reader-${name}`], "");
  if (view !== VIEW_NAMESPACE)
    add(undefined, ["RoleBinding", VIEW_NAMESPACE, `fleet-routes-reader-${name}`], "");
}

function readsView({ metadata: { annotations } }: MemberCluster): boolean {
  return annotations?.[ISOLATION_ANNOTATION] !== "strict";
}

function addServices(
  add: Add,
  { members, namespaces, exports }: MeshFleet,
  viewOf: (cluster: string) => string,
): void {
  const importers = Map.groupBy(
    members.filter(readsView).map((it) => it.metadata.name),
    viewOf,
  );
  const services = Map.groupBy(exports, (it) => `${viewOf(it.cluster)}/${it.namespace}/${it.name}`);
  for (const [first, ...others] of services.values()) {
    if (first === undefined) continue;
    const { namespace, name, cluster } = first;
    const view = viewOf(cluster);
    const clusters = [first, ...others].map((it) => it.cluster).toSorted(byText);
    const slices = [first, ...others].flatMap((it) => it.slices);
    add(undefined, ["ImportedService", view, mailboxName(namespace, name)], clusters);
    for (const it of slices) add(undefined, ["EndpointSliceImport", view, it], "");
    const inView = importers.get(view) ?? [];
    for (const importer of inView.filter((it) => namespaces.get(it)?.has(namespace) === true)) {
      add(importer, ["ServiceImport", namespace, name], clusters);
      add(importer, ["Service", namespace, derivedServiceName(namespace, name)], "");
      for (const it of slices) add(importer, ["EndpointSlice", namespace, it], "");
      for (const it of globalSlices([first, ...others], importer))
        add(importer, ["EndpointSlice", namespace, it], "");
    }
  }
}

/** Services of parallel networks have virtual addresses there. */
function addVirtualIPs(
  add: Add,
  { exports }: MeshFleet,
  views: ReadonlySet<string>,
  viewOf: (cluster: string) => string,
): void {
  for (const { cluster, namespace, name, isHeadless } of exports)
    if (isHeadless !== true && views.has(viewOf(cluster)))
      add(undefined, ["VirtualIP", viewOf(cluster), mailboxName(namespace, name)], "");
}

/** Slices of other clusters next to those of a global Service. */
function globalSlices(shared: readonly MeshExport[], importer: string): string[] {
  const global = shared.filter((it) => it.isGlobal === true);
  if (!global.some((it) => it.cluster === importer)) return [];
  return global.filter((it) => it.cluster !== importer).flatMap((it) => it.slices.map(globalSliceName));
}

export type MeshAction = "create" | "update" | "delete";

export interface ObjectChange extends MeshObject {
  readonly action: MeshAction;
}

/** What becomes of objects; on the hub first, then by member. */
export function changedObjects(before: MeshObjects, after: MeshObjects): ObjectChange[] {
  const keys = [...new Set([...before.keys(), ...after.keys()])];
  return keys
    .flatMap((key): ObjectChange[] => {
      const [was, is] = [before.get(key), after.get(key)];
      if (was === undefined) return is === undefined ? [] : [{ action: "create", ...is.object }];
      if (is === undefined) return [{ action: "delete", ...was.object }];
      return was.content === is.content ? [] : [{ action: "update", ...is.object }];
    })
    .toSorted((a, b) => Number(b.isOnHub) - Number(a.isOnHub) || byText(keyOfObject(a), keyOfObject(b)));
}

/** Returns the fleet with a profile that was applied to these members with these settings. */
export function withApplied(
  fleet: MeshFleet,
  name: string,
  applied: ClusterMeshProfile["spec"]["applied"],
): MeshFleet {
  return {
    ...fleet,
    profiles: fleet.profiles.map((it) => {
      if (it.metadata.name !== name || !isManual(it)) return it;
      const { applied: _before, ...spec } = it.spec;
      return { ...it, spec: { ...spec, ...(applied === undefined ? {} : { applied }) } };
    }),
  };
}
