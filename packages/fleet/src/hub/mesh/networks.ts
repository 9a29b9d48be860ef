import {
  FLEET_RESOURCE_LABEL,
  type InternalMemberCluster,
} from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import type { AddressBlock, ClusterMeshProfile, Gateway } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import type { ImportedService } from "#api/fairlead.dev/v1alpha1/types.ts";
import { VIEW_NAMESPACE } from "#api/fairlead.dev/names.ts";
import {
  clusterOfMailbox,
  isViewNamespace,
  mailboxOf,
  VIEW_PREFIX,
  viewNamespaceOf,
} from "#api/networking.fleet.azure.com/names.ts";
import { gatewayNames, reachedClusters } from "#domain/gateway.ts";
import { type Selected, selectMembers } from "#domain/mesh-members.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { HubInformers } from "../informers.ts";
import { isIsolated, reportOf } from "../view.ts";
import { type AddressesPlan, planAddresses } from "./plan-addresses.ts";
import { planEpoch } from "./plan-epoch.ts";
import { type Pair, pairsWithoutPath, unreachedFrom } from "./plan-paths.ts";
import { type Contact, isSilent, planStates, type StatesPlan } from "./plan-states.ts";
import type { Progress } from "./plan-transition.ts";
import { planVirtualIPs, type VirtualIPsPlan } from "./plan-virtual-ips.ts";

export interface Planned {
  readonly view: string;
  readonly states: StatesPlan;
  readonly selected: Selected;
  readonly addresses: AddressesPlan;
  /** Members of a parallel network that have no path to each other. */
  readonly unconnected: readonly Pair[];
  readonly virtualIPs: VirtualIPsPlan;
  readonly epoch: ReturnType<typeof planEpoch>;
}

/** The networks as things are: those of profiles, and what is left of former ones. */
export function planNetworks(
  informers: HubInformers,
  nowMs: number,
): { readonly profiles: readonly Planned[]; readonly former: readonly Planned[] } {
  const nodesOf = (cluster: string): number | undefined => nodeBlocksOf(informers, cluster);
  const progressOf = (cluster: string): Progress | "gone" => {
    const member = informers.members.store.get(objectKey(undefined, cluster));
    return isSilent(member) ? "gone" : reportOf(informers, cluster)?.spec.fleetAddresses;
  };
  const plan = (selected: Selected): Planned => {
    const { profile, problem } = selected;
    const { name } = profile.metadata;
    const view = viewNamespaceOf(name);
    const shown = [...informers.blocks.store.list()].filter((it) => it.metadata.namespace === view);
    const blocks = [...shown, ...rememberedBlocks(name, shown, informers.internalMembers.store.list())];
    const shownNetwork = informers.networks.store.get(objectKey(view, name))?.spec;
    const network = shownNetwork?.mode === "parallel" ? shownNetwork : undefined;
    const usable = problem === undefined ? profile : asFlat(profile);
    const unconnected = usable.spec.network.mode === "parallel" ? unconnectedIn(informers, selected) : [];
    const addresses = planAddresses({
      ...selected,
      profile: usable,
      network,
      blocks,
      nodesOf,
      progressOf,
      unconnected,
      nowMs,
    });
    const virtualIPs = planVirtualIPs({
      plan: addresses.plan,
      services: servicesIn(informers, view, selected),
      existing: [...informers.virtualIPs.store.byIndex("in", view)],
      nowMs,
    });
    const [fault] = [...addresses.faults, ...virtualIPs.faults];
    return {
      view,
      selected,
      addresses,
      unconnected,
      virtualIPs,
      states: planStates({
        selected,
        contactOf: contacts(informers, view, { blocks: addresses.blocks, unconnected }),
        former: (users.get(name) ?? []).filter((it) => informers.memberships.of(it)?.metadata.name !== name),
        problem: fault?.message,
        unconnected,
        nowMs,
      }),
      epoch: planEpoch({
        profile,
        known: network?.keyEpoch,
        gateways: shownBy(informers, selected),
        nowMs,
      }),
    };
  };
  const users = usersOf(informers);
  const selected = selectMembers(informers.profiles.store.list(), informers.members.store.list());
  return { profiles: selected.map(plan), former: formerProfiles(informers).map(plan) };
}

/** Members by the profiles whose networks they are in, as the hub has them do, or as they still do. */
function usersOf({ internalMembers, reports }: HubInformers): ReadonlyMap<string, readonly string[]> {
  const users = [...internalMembers.store.list()].flatMap(({ metadata, spec, status }) => {
    const cluster = clusterOfMailbox(metadata.namespace) ?? metadata.name;
    const { view = "" } = reports.store.get(objectKey(mailboxOf(cluster), cluster))?.spec ?? {};
    const read = view.startsWith(VIEW_PREFIX) ? [view.slice(VIEW_PREFIX.length)] : [];
    const isThere = status !== undefined && spec.state === "Join";
    const profiles = isThere
      ? new Set([...read, ...(spec.network === undefined ? [] : [spec.network.profile])])
      : [];
    return [...profiles].map((profile) => ({ profile, cluster }));
  });
  return new Map(
    [...Map.groupBy(users, (it) => it.profile)].map(([profile, all]) => [
      profile,
      all.map((it) => it.cluster),
    ]),
  );
}

function contacts(
  informers: HubInformers,
  view: string,
  { blocks, unconnected }: Pick<AddressesPlan, "blocks"> & Pick<Planned, "unconnected">,
): (cluster: string) => Contact | undefined {
  const blockOf = new Map(blocks.map((it) => [it.cluster, it]));
  return (cluster) => {
    const report = reportOf(informers, cluster);
    const key = objectKey(mailboxOf(cluster), cluster);
    const internalMember = informers.internalMembers.store.get(key);
    if (report === undefined || internalMember === undefined) return undefined;
    const isCopied = isIsolated(informers.members.store.get(objectKey(undefined, cluster)));
    return {
      profile: internalMember.spec.network?.profile,
      isReading: isCopied || report.spec.view === view,
      hasBlock: blockOf.has(cluster),
      isChanging: blockOf.get(cluster)?.transition !== undefined,
      fleetAddresses: report.spec.fleetAddresses,
      unreached: unreachedFrom(cluster, unconnected),
    };
  };
}

/** Views of profiles that do not exist any more: the addresses in them are kept from others for a while. */
function formerProfiles({ namespaces, profiles }: HubInformers): Selected[] {
  const kept = new Set([...profiles.store.list()].map((it) => viewNamespaceOf(it.metadata.name)));
  return [...namespaces.store.list()].flatMap(({ metadata: { name, labels } }) => {
    const isOurs = isViewNamespace(name) && labels?.[FLEET_RESOURCE_LABEL] === "true";
    if (!isOurs || name === VIEW_NAMESPACE || kept.has(name)) return [];
    const profile: ClusterMeshProfile = {
      metadata: { name: name.slice(VIEW_PREFIX.length) },
      spec: { memberSelector: {}, network: { mode: "flat" } },
    };
    return [{ profile, members: [], leaving: [], elsewhere: [], beyond: [], absent: [], problem: undefined }];
  });
}

function asFlat(profile: ClusterMeshProfile): ClusterMeshProfile {
  return { ...profile, spec: { ...profile.spec, network: { mode: "flat" } } };
}

/**
 * Blocks that are not in the view, because a user deleted them or the whole view: the InternalMemberClusters name them, too, so
 * that members keep their addresses.
 */
export function rememberedBlocks(
  profile: string,
  shown: readonly AddressBlock[],
  internalMembers: Iterable<InternalMemberCluster>,
): AddressBlock[] {
  const known = new Set(shown.map((it) => it.spec.cluster));
  return [...internalMembers].flatMap(({ metadata: { name }, spec: { network } }) => {
    const { ipv4 = [], ipv6 = [] } = network ?? {};
    const isOurs = network?.profile === profile && !known.has(name) && ipv4.length > 0 && ipv6.length > 0;
    return isOurs ? [{ metadata: { name }, spec: { profile, cluster: name, ipv4, ipv6 } }] : [];
  });
}

/** The services that its members import, or may. */
function servicesIn(
  { importedServices }: HubInformers,
  view: string,
  { members }: Selected,
): Iterable<ImportedService> {
  const namespaces = [view, ...members.map((it) => mailboxOf(it.metadata.name))];
  return Iterator.from(namespaces).flatMap((it) => importedServices.store.byIndex("in", it));
}

/** Members whose agents do not answer are not waited for. */
function unconnectedIn({ gateways }: HubInformers, { members }: Selected): readonly Pair[] {
  const present = members.filter((it) => !isSilent(it)).map((it) => it.metadata.name);
  return pairsWithoutPath(present, (cluster) => {
    const own = gatewayNames(cluster).map((it) => gateways.store.get(objectKey(mailboxOf(cluster), it)));
    return new Set(own.flatMap((it) => [...reachedClusters(it)]));
  });
}

/** Gateways of its members that others see. */
function shownBy({ gateways }: HubInformers, { profile, members }: Selected): Gateway["spec"][] {
  const view = viewNamespaceOf(profile.metadata.name);
  return members.flatMap(({ metadata }) =>
    gatewayNames(metadata.name).flatMap((it) => gateways.store.get(objectKey(view, it))?.spec ?? []),
  );
}

/** Undefined for members that take no part, not yet, or whose agents are older than parallel networks. */
function nodeBlocksOf(informers: HubInformers, cluster: string): number | undefined {
  const member = informers.members.store.get(objectKey(undefined, cluster));
  const report = reportOf(informers, cluster);
  // Its ranges come with the first report of its agent: before that, it is unknown which addresses it cannot have.
  const isKnown = (member?.status?.agentStatus?.length ?? 0) > 0;
  if (report === undefined || !isKnown || isIsolated(member)) return undefined;
  return report.spec.nodeBlocks;
}
