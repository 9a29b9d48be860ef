import { HUB_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import {
  INTERNAL_MEMBER_CLUSTERS,
  MEMBER_AGENT_TYPE,
  type InternalMemberCluster,
  MEMBER_CLUSTER_FINALIZER,
  MEMBER_CLUSTERS,
  type MemberCluster,
  type SuspectCluster,
} from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import type { Lease } from "@fairlead/kube/api/coordination/v1/types.ts";
import { RESOURCE_QUOTAS } from "@fairlead/kube/api/core/v1/quota.ts";
import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { areRangesFreed } from "#domain/accepted-ranges.ts";
import { drainedMembers, isDrainChanged } from "#domain/drain.ts";
import { planLabels } from "#domain/member-labels.ts";
import { FORCE_LEAVE_ANNOTATION } from "#api/fairlead.dev/names.ts";
import { type ObjectKey, keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { clusterOfMailbox, isViewNamespace, mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { ROLE_BINDINGS, ROLES } from "@fairlead/kube/api/rbac/v1/types.ts";
import { hasCode, messageOf } from "@fairlead/base/errors.ts";
import type { IpAddress } from "@fairlead/base/netaddr/address.ts";
import { byText } from "@fairlead/base/text.ts";
import { applyIfChanged } from "@fairlead/kube/objects/apply.ts";
import {
  findCondition,
  isConditionTrue,
  setCondition,
  timestamp,
} from "@fairlead/kube/objects/conditions.ts";
import type { EventRecorder } from "@fairlead/kube/events/events.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { addFinalizer, isDeleting, removeFinalizer } from "@fairlead/kube/objects/finalizers.ts";
import { clockOfServer } from "@fairlead/kube/client/server-clock.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import type { Applied, Change, Controller, KubeClient, ReconcileResult } from "@fairlead/kube/types.ts";
import { type HubInformers } from "../informers.ts";
import { changedMembers, isClaimChanged, isVersionChanged } from "../memberships.ts";
import { isIsolated, networkOf } from "../view.ts";
import { acceptReported } from "./accept-reported.ts";
import { eventOfApply, eventOfInternalMember, type MembershipEvent } from "./events.ts";
import { emptyMailbox } from "./empty-mailbox.ts";
import { watchingOperations, watchingOperationsOf, withdrawOperation } from "./operations.ts";
import { settlePin } from "./pins.ts";
import type { LeaseTracker } from "./leases.ts";
import { ObservedLeases } from "./observed-leases.ts";
import {
  haveAgentsLeft,
  notReadyToJoin,
  planConditions,
  planNamespace,
  planInternalMember,
  planQuota,
  planRole,
  planRoleBinding,
  withReportedConditions,
} from "./plan.ts";
import { lostIn, witnessesOf } from "./witnesses.ts";
import { reportedStatus } from "./reported-status.ts";
import { reportStay } from "./stay.ts";
import { provideView, readerOf, removeFromViews, viewFor } from "./view.ts";
import { ViewWaits } from "../view-filled.ts";

export interface MembershipOptions {
  /** How long a member's lease lives without renewal. Unit: seconds. */
  readonly leaseSeconds: number;
  /** How long a leaving member may take to withdraw before the hub does without it. Unit: seconds. */
  readonly forceDeleteSeconds: number;
  /** Addresses of the hub's API server, which no member has. */
  readonly servers: readonly IpAddress[];
}

interface Parts {
  readonly client: KubeClient;
  readonly events: EventRecorder;
  readonly informers: HubInformers;
  readonly leases: LeaseTracker;
  readonly options: MembershipOptions;
  readonly deps: RuntimeDeps;
}

/** MemberCluster to mailbox, permissions, InternalMemberCluster and conditions; leases to suspects. */
export function createMembership(parts: Parts): Controller {
  const { informers, deps } = parts;
  const membership = new Membership(parts);
  const ofMailbox = (namespace: string | undefined): ObjectKey[] => {
    const cluster = clusterOfMailbox(namespace);
    return cluster === undefined ? [] : [objectKey(undefined, cluster)];
  };
  const ofChange = (change: Change<KubeObject>): ObjectKey[] => ofMailbox(namespaceOf(change));
  const everyone = (): ObjectKey[] => [...informers.members.store.list()].map(keyOf);
  const isStillReading = (key: ObjectKey): boolean =>
    isIsolated(informers.members.store.get(key)) &&
    informers.internalMembers.store.get(objectKey(mailboxOf(key), key))?.spec.view !== undefined;
  const ofCopy = (change: Change<KubeObject>): ObjectKey[] => [
    ...ofChange(change).filter(isStillReading),
    ...membership.views.waitingFor(change),
  ];
  const controller = createController(
    {
      name: "membercluster",
      reconcile: (key, signal) => membership.reconcile(key, signal),
      sources: [
        watching(informers.members, (change) => {
          if (change.before === undefined) membership.inherit(change.after);
          const isOfAll =
            isDrainChanged(change.before, change.after) ||
            areRangesFreed(change.before, change.after) ||
            (isClaimChanged(change) && informers.memberships.isFull());
          return isOfAll ? everyone() : [change.key];
        }),
        watching(informers.namespaces, ({ key }) => (isViewNamespace(key) ? everyone() : ofMailbox(key))),
        watching(informers.quotas, ofChange),
        watching(informers.roles, (change) => (isOfView(change) ? everyone() : ofChange(change))),
        watching(informers.roleBindings, (change) =>
          isOfView(change) ? readerOf(change) : ofChange(change),
        ),
        watching(informers.internalMembers, ofChange),
        watching(informers.leases, (change) => [
          ...(membership.isRenewal(change) ? [] : ofChange(change)),
          ...membership.suspectsIn(change),
        ]),
        watching(informers.reports, ofChange),
        watching(informers.profiles, (change) => {
          if (isVersionChanged(change)) return everyone();
          const members = changedMembers(change);
          return members === "all" ? everyone() : members.map((it) => objectKey(undefined, it));
        }),
        watchingOperations(informers),
        watchingOperationsOf(informers),
        // Its network is written once the member has addresses there.
        watching(informers.blocks, ({ before, after }) =>
          [before, after].flatMap((it) => (it === undefined ? [] : [objectKey(undefined, it.spec.cluster)])),
        ),
        // A member that is to be isolated stops reading the view once its mailbox is filled; others begin once the view is.
        watching(informers.importedServices, ofCopy),
        watching(informers.sliceImports, ofCopy),
      ],
    },
    deps,
  );
  membership.onSuspectsChange = () => {
    for (const key of everyone()) controller.enqueue(key);
  };
  return controller;
}

function namespaceOf({ before, after }: Change<KubeObject>): string | undefined {
  return (after ?? before)?.metadata.namespace;
}
function isOfView(change: Change<KubeObject>): boolean {
  return isViewNamespace(namespaceOf(change));
}

class Membership {
  readonly #parts: Parts;
  readonly #leases: ObservedLeases;
  /** Suspect members, and since when the hub says so. */
  readonly #suspects = new Map<string, SuspectCluster>();
  readonly views = new ViewWaits();
  onSuspectsChange: () => void = () => {};

  constructor(parts: Parts) {
    this.#parts = parts;
    const { client, informers, options, deps, leases: tracker } = parts;
    const leaseMs = options.leaseSeconds * 1000;
    const { leases } = informers;
    this.#leases = new ObservedLeases({ client, leases, tracker, leaseMs, clock: deps.clock });
  }

  /** Takes over the suspects of the previous leader. */
  inherit(member: MemberCluster | undefined): void {
    const lost = member?.status?.conditions?.find((it) => it.type === "Healthy");
    if (member === undefined || lost?.status !== "False") return;
    const cluster = member.metadata.name;
    this.#parts.leases.inherit(cluster);
    this.#suspects.set(cluster, { cluster, since: lost.lastTransitionTime });
  }

  /** Whether a member that was alive still is. Its Lease is renewed all the time; the wait for its end is under way. */
  isRenewal({ before, after }: Change<Lease>): boolean {
    const cluster = clusterOfMailbox(after?.metadata.namespace);
    if (before === undefined || cluster === undefined || this.#suspects.has(cluster)) return false;
    return this.#leases.isAlive(cluster);
  }

  /** Suspects of which a member says something else than before. */
  suspectsIn(change: Change<Lease>): ObjectKey[] {
    return lostIn(change).flatMap((it) => (this.#suspects.has(it) ? [objectKey(undefined, it)] : []));
  }

  async reconcile(key: ObjectKey, signal: AbortSignal): Promise<ReconcileResult | void> {
    const { client, informers } = this.#parts;
    const member = informers.members.store.get(key);
    if (member === undefined) {
      this.#leases.forget(key);
      this.views.note(key, undefined);
      this.#setSuspect(key, false);
      await removeFromViews(this.#parts, key, signal);
      return;
    }
    if (isDeleting(member)) return this.#leave(member, signal);
    await addFinalizer(client, MEMBER_CLUSTERS, member, { finalizer: MEMBER_CLUSTER_FINALIZER, signal });
    await this.#label(member, signal);
    await acceptReported(this.#parts, member, signal);
    try {
      await this.#provide(member, signal);
    } catch (error) {
      if (hasCode(error, "API_FORBIDDEN", "API_INVALID", "API_BAD_REQUEST"))
        await this.#reportNotReady(member, messageOf(error), signal);
      throw error;
    }
    return this.#report(member, signal);
  }

  async #reportNotReady(member: MemberCluster, why: string, signal: AbortSignal): Promise<void> {
    const { client, deps } = this.#parts;
    const before = member.status?.conditions ?? [];
    const conditions = setCondition(before, notReadyToJoin(member, why), deps.clock);
    if (conditions === before) return;
    const options = { subresource: "status" as const, fieldManager: HUB_MANAGER, signal };
    await client.mergePatch(MEMBER_CLUSTERS, keyOf(member), { status: { conditions } }, options);
  }

  /** By which placements and overrides select clusters. */
  async #label(member: MemberCluster, signal: AbortSignal): Promise<void> {
    const labels = planLabels(member, this.#internalMemberOf(member)?.status?.properties);
    if (labels === undefined) return;
    const patch = { metadata: { labels } };
    await this.#parts.client.mergePatch(MEMBER_CLUSTERS, keyOf(member), patch, {
      fieldManager: HUB_MANAGER,
      signal,
    });
  }

  async #provide(member: MemberCluster, signal: AbortSignal): Promise<void> {
    const { client, informers, events } = this.#parts;
    const by = { fieldManager: HUB_MANAGER, events, signal };
    const name = member.metadata.name;
    const mailbox = mailboxOf(name);
    const namespace = informers.namespaces.store.get(objectKey(undefined, mailbox));
    const apply = async <T extends KubeObject>(
      of: Resource<T>,
      current: T | undefined,
      desired: Applied<T>,
    ): Promise<void> => {
      const applied = await applyIfChanged(client, of, { current, desired, ...by });
      this.#recordEvent(member, eventOfApply(of, current, applied));
    };
    await apply(NAMESPACES, namespace, planNamespace(member));
    const role = informers.roles.store.get(objectKey(mailbox, `fleet-role-${name}`));
    await apply(ROLES, role, planRole(member));
    const binding = informers.roleBindings.store.get(objectKey(mailbox, `fleet-rolebinding-${name}`));
    await apply(ROLE_BINDINGS, binding, planRoleBinding(member));
    await this.#limit(member, signal);
    await provideView(this.#parts, member, signal);
    await this.#writeInternalMember(member, "Join", signal);
    await settlePin(this.#parts, member, signal);
    await withdrawOperation(this.#parts, name, signal);
  }

  /** Creates it only if it is absent: later changes by users stay. */
  async #limit(member: MemberCluster, signal: AbortSignal): Promise<void> {
    const { client, informers } = this.#parts;
    const wanted = planQuota(member);
    if (informers.quotas.store.get(keyOf(wanted)) !== undefined) return;
    try {
      await client.create(RESOURCE_QUOTAS, wanted, { fieldManager: HUB_MANAGER, signal });
    } catch (error) {
      if (!hasCode(error, "API_ALREADY_EXISTS")) throw error;
    }
  }

  async #writeInternalMember(
    member: MemberCluster,
    state: "Join" | "Leave",
    signal: AbortSignal,
  ): Promise<void> {
    const { client, informers, options } = this.#parts;
    const suspects = [...this.#suspects.values()].toSorted((a, b) => byText(a.cluster, b.cluster));
    const current = this.#internalMemberOf(member);
    const { view, lacking } = viewFor(informers, member, current);
    this.views.note(keyOf(member), lacking);
    const drained = drainedMembers(informers.members.store.byIndex("drained", ""));
    const applied = await applyIfChanged(client, INTERNAL_MEMBER_CLUSTERS, {
      current,
      desired: planInternalMember(member, {
        state,
        leaseSeconds: options.leaseSeconds,
        suspects,
        drained,
        view,
        network: networkOf(informers, member, current),
      }),
      fieldManager: HUB_MANAGER,
      events: this.#parts.events,
      signal,
    });
    this.#recordEvent(member, eventOfInternalMember(current, applied));
  }

  #recordEvent(member: MemberCluster, event: MembershipEvent | undefined): void {
    if (event !== undefined) this.#parts.events.record(MEMBER_CLUSTERS, member, event);
  }

  #internalMemberOf(member: MemberCluster): InternalMemberCluster | undefined {
    const name = member.metadata.name;
    return this.#parts.informers.internalMembers.store.get(objectKey(mailboxOf(name), name));
  }

  async #report(member: MemberCluster, signal: AbortSignal): Promise<ReconcileResult> {
    const { client, deps, informers, options } = this.#parts;
    const name = member.metadata.name;
    const { liveness, againInMs } = await this.#leases.judge(name, signal);
    this.#setSuspect(name, liveness === "suspect");
    const reported = this.#internalMemberOf(member)?.status ?? {};
    const { agentStatus: agents = [] } = reported;
    let conditions = withReportedConditions(member.status?.conditions ?? [], reported.conditions);
    const seen = {
      agents,
      liveness,
      leaseSeconds: options.leaseSeconds,
      ...(liveness === "suspect"
        ? { witnesses: witnessesOf(name, informers.leases.store.list(), this.#suspects) }
        : {}),
    };
    for (const next of planConditions(member, seen)) conditions = setCondition(conditions, next, deps.clock);
    const wasJoined = isConditionTrue(member.status?.conditions, "Joined");
    if (!wasJoined && isConditionTrue(conditions, "Joined"))
      deps.log.info("a member joined", { member: name });
    await applyIfChanged(client, MEMBER_CLUSTERS, {
      current: member,
      desired: {
        metadata: { name },
        status: { conditions, agentStatus: [...agents], ...reportedStatus(reported) },
      },
      fieldManager: HUB_MANAGER,
      subresource: "status",
      signal,
    });
    return againInMs === undefined ? {} : { requeueAfterMs: Math.max(1, Math.ceil(againInMs)) };
  }

  #setSuspect(cluster: string, isSuspect: boolean): void {
    if (this.#suspects.has(cluster) === isSuspect) return;
    const { clock, log } = this.#parts.deps;
    if (isSuspect) {
      this.#suspects.set(cluster, { cluster, since: timestamp(clock.now()) });
      log.warn("a member stopped renewing its lease", { member: cluster });
    } else {
      this.#suspects.delete(cluster);
      log.info("a member renews its lease again", { member: cluster });
    }
    this.onSuspectsChange();
  }

  /** The agents withdraw first; then the mailbox goes with all that is in it. */
  async #leave(member: MemberCluster, signal: AbortSignal): Promise<ReconcileResult | void> {
    const { client, informers, deps } = this.#parts;
    const cluster = member.metadata.name;
    const internalMember = this.#internalMemberOf(member);
    const waitMs = this.#waitForAgents(member, internalMember);
    if (internalMember !== undefined && waitMs > 0) {
      await this.#writeInternalMember(member, "Leave", signal);
      await reportStay(this.#parts, member, internalMember, signal);
      return { requeueAfterMs: waitMs };
    }
    this.#setSuspect(cluster, false);
    this.#leases.forget(cluster);
    this.#reportPlaced(member, internalMember);
    await removeFromViews(this.#parts, cluster, signal);
    await emptyMailbox({ client, informers, mailbox: mailboxOf(cluster) }, signal);
    await client.delete(NAMESPACES, objectKey(undefined, mailboxOf(cluster)), { signal });
    await removeFinalizer(client, MEMBER_CLUSTERS, member, { finalizer: MEMBER_CLUSTER_FINALIZER, signal });
    deps.log.info("a member left", { member: cluster });
  }

  /** Says what became of placed objects, in the words of the member. */
  #reportPlaced(member: MemberCluster, internalMember: InternalMemberCluster | undefined): void {
    const agent = internalMember?.status?.agentStatus?.find((it) => it.type === MEMBER_AGENT_TYPE);
    const left = findCondition(agent?.conditions, "Joined");
    if (agent === undefined) return;
    const event: MembershipEvent =
      left?.status === "False"
        ? { type: "Normal", reason: "MemberClusterLeft", message: left.message.slice(0, 1000) }
        : {
            type: "Warning",
            reason: "MemberClusterRemoved",
            message: "removed without its agent: what is placed there stays",
          };
    this.#recordEvent(member, event);
  }

  /** @returns How much longer to wait for the agents. Unit: milliseconds. 0 if there is nothing to wait for. */
  #waitForAgents(member: MemberCluster, internalMember: InternalMemberCluster | undefined): number {
    const { client, deps, options } = this.#parts;
    if (haveAgentsLeft(internalMember?.status?.agentStatus ?? [])) return 0;
    if (member.metadata.annotations?.[FORCE_LEAVE_ANNOTATION] === "true") return 0;
    const since = Date.parse(member.metadata.deletionTimestamp ?? "");
    // The API server wrote it: by its clock, not by this machine's.
    const nowMs = clockOfServer(client, deps.clock).now();
    return Math.max(0, since + options.forceDeleteSeconds * 1000 - nowMs);
  }
}
