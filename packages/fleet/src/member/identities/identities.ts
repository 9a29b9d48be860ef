import { MEMBER_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { MANAGED_BY, MANAGED_BY_LABEL, SOURCE_CLUSTER_LABEL } from "#api/fairlead.dev/names.ts";
import {
  IDENTITY_DEMANDS,
  IDENTITY_SLICES,
  type IdentitySlice,
  type IdentityWants,
} from "#api/fairlead.dev/v1alpha1/identities.ts";
import type { AddressBlock } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { FLEET_SYSTEM_NAMESPACE, mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { defined } from "@fairlead/base/defined.ts";
import { sameJson } from "@fairlead/base/json.ts";
import type { Namespace, Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { type ObjectKey, objectKey, splitKey } from "@fairlead/kube/api/meta/key.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { watching, watchingChanges } from "@fairlead/kube/controller/source.ts";
import { applyIfChanged } from "@fairlead/kube/objects/apply.ts";
import type { Change, Controller, Informer, ReconcileResult } from "@fairlead/kube/types.ts";
import { ageSince, type IdentityAge } from "#domain/identity-age.ts";
import { labelsOfPod } from "#domain/identity-slice.ts";
import { readWants, type WantsReader } from "#domain/identity-wants.ts";
import { changedPods, isInTransition, isReleased, type MeshInformers } from "../fleet-addresses.ts";
import { membershipOf, type Session } from "../session.ts";
import { PolicyDemand } from "./demand.ts";
import { groupOfSlice } from "./groups.ts";
import { isAnonymousNamespace, publishAddresses } from "./addresses.ts";
import { ADDRESSES_KEY, IdentityMailbox, namespaceKey, NODES_KEY, podsKey, publishedKey } from "./mailbox.ts";
import { Pods } from "./pods.ts";
import { PolicyConditions } from "./policy-conditions.ts";
import { publishNamespace, publishNodes, publishPods, type Publisher } from "./publish.ts";
import { IdentitySource, type Scope, selectorOf } from "./source.ts";

interface Parts {
  readonly session: Session;
  readonly mesh: MeshInformers;
}

/** What is needed here and in other clusters, and so what is read. */
const DEMAND = objectKey(undefined, "demand");
/** Forgets what others said when the hub has been silent for too long. */
const AGE = objectKey(undefined, "age");
/** Of keys: "copy/<name>" is a slice of another member. */
const COPY = "copy";
/** Of keys: "condition/<name>" is the condition of a policy. */
const CONDITION = "condition";

/**
 * What this cluster needs to know of the pods of others goes to its mailbox, and what others need to know of its pods; what others
 * published is copied to `fleet-system`, where nodes read it. While the hub is away, that stays as it is.
 */
export function createIdentities({ session, mesh }: Parts): {
  readonly controller: Controller;
  readonly onSilence: (isSilent: boolean) => void;
} {
  const { cluster, deps, fleet, here, hub, local } = session;
  const conditions = new PolicyConditions(session, (name) => enqueue(objectKey(CONDITION, name)));
  const policies = new PolicyDemand({ session, mesh, conditions }, () => enqueue(DEMAND));
  const enqueue = (key: ObjectKey): void => controller.enqueue(key);
  const copyKey = (name: string): ObjectKey => objectKey(COPY, name);
  const mailbox = new IdentityMailbox(session, {
    onSlice: ({ before, after }) => {
      for (const it of [before, after]) if (it !== undefined) enqueue(publishedKey(it));
      // Two groups may have written a pod at the same time: one of them has to give it up.
      for (const it of after === undefined ? [] : mailbox.sharing(after)) enqueue(publishedKey(it));
    },
    onDemand: () => enqueue(DEMAND),
    onSynced: () => publishAll(),
  });
  /** Of the group of its labels, and of that in which it is published. */
  const keysOfPod = (pod: Pod): ObjectKey[] => [
    podsKey(pods.groupOf(pod)),
    ...mailbox.holding(pod.metadata).map((it) => podsKey(it.group)),
    ...(wanted.reader.addresses() && isAnonymousNamespace(session, pod.metadata.namespace ?? "")
      ? [ADDRESSES_KEY]
      : []),
  ];
  const pods = new Pods(
    local,
    {
      onChange: (changed) => {
        for (const it of changed) for (const key of keysOfPod(it)) enqueue(key);
      },
      // What is published of pods that are gone, too.
      onSynced: () => publishAll(),
    },
    deps,
  );
  const source = new IdentitySource(session, {
    onChange: (name) => enqueue(copyKey(name)),
    onSynced: () => copyAll(),
  });
  let wanted: { readonly wants: IdentityWants | undefined; readonly reader: WantsReader } = {
    wants: undefined,
    reader: readWants(undefined),
  };
  let needed = readWants(undefined);
  let silentSinceMs: number | undefined;
  const ageOfHub = (): IdentityAge => ageSince(silentSinceMs, deps.clock.monotonic());

  function copyAll(): void {
    for (const name of [...source.names(), ...namesIn(mesh.identities)]) enqueue(copyKey(name));
  }

  function publishAll(): void {
    for (const it of [DEMAND, NODES_KEY, ADDRESSES_KEY]) enqueue(it);
    for (const it of mailbox.slices()) enqueue(publishedKey(it));
    for (const it of here.namespaces.store.list()) enqueue(namespaceKey(it.metadata.name));
    for (const it of pods.groups()) enqueue(podsKey(it));
  }

  function publishIn(namespace: string): void {
    enqueue(namespaceKey(namespace));
    enqueue(ADDRESSES_KEY);
    for (const { spec } of mailbox.slices())
      if (spec.type === "Pods" && spec.namespace === namespace) enqueue(podsKey(groupOfSlice(spec)));
    for (const it of pods.groups()) if (splitKey(it).namespace === namespace) enqueue(podsKey(it));
  }

  /** Without the hub's word nothing changes. */
  async function follow(signal: AbortSignal): Promise<void> {
    const membership = membershipOf(session);
    if (membership === "none" || (membership === "join" && !fleet.isModern)) return;
    // The hub empties the mailbox of a member that leaves.
    if (membership === "leave") return source.follow(undefined);
    await mailbox.follow(true);
    const [network] = mesh.networks.store.list();
    await policies.follow(network);
    const demand = policies.wants;
    if (demand === undefined) return;
    needed = readWants(demand);
    await source.follow(scopeOf(session, demand));
    if (!mailbox.isKnown) return;
    await applyIfChanged(hub, IDENTITY_DEMANDS, {
      current: mailbox.demand,
      desired: { metadata: { namespace: mailboxOf(cluster), name: cluster }, spec: demand },
      fieldManager: MEMBER_MANAGER,
      signal,
    });
    const wants = mailbox.demand?.status?.wanted;
    if (sameJson(wants, wanted.wants)) return;
    wanted = { wants, reader: readWants(wants) };
    await pods.follow(!wanted.reader.isEmpty);
    publishAll();
  }

  async function publish(key: ObjectKey, signal: AbortSignal): Promise<void> {
    if (membershipOf(session) !== "join" || !mailbox.isKnown || wanted.wants === undefined) return;
    const parts: Publisher = { session, mailbox, pods, wanted: wanted.reader };
    const { namespace: kind, name } = splitKey(key);
    if (key === NODES_KEY) return publishNodes(parts, signal);
    if (kind === "namespace") return publishNamespace(parts, name, signal);
    // Which pods exist is not known yet: nothing is removed.
    if (!wanted.reader.isEmpty && !pods.isKnown) return;
    if (key === ADDRESSES_KEY) return publishAddresses(parts, signal);
    return publishPods(parts, objectKey(undefined, name), signal);
  }

  async function copy(name: string, signal: AbortSignal): Promise<void> {
    if (membershipOf(session) === "none" || !source.isKnown) return;
    const at = objectKey(FLEET_SYSTEM_NAMESPACE, name);
    const current = mesh.identities.store.get(at);
    const shown = source.find(name);
    if (shown !== undefined && isNeeded(shown) && !ageOfHub().isForgotten) {
      const written = await applyIfChanged(local, IDENTITY_SLICES, {
        current,
        desired: {
          metadata: {
            namespace: FLEET_SYSTEM_NAMESPACE,
            name,
            labels: { [MANAGED_BY_LABEL]: MANAGED_BY, [SOURCE_CLUSTER_LABEL]: shown.spec.cluster },
          },
          spec: shown.spec,
        },
        fieldManager: MEMBER_MANAGER,
        events: session.events,
        returns: "metadata",
        signal,
      });
      if (written !== current) session.stopwatch.copied(shown, current === undefined);
    } else if (current !== undefined) await local.delete(IDENTITY_SLICES, at, { signal });
  }

  /** Labels of namespaces are taken as they come. */
  function isNeeded({ spec }: IdentitySlice): boolean {
    const { type, namespace = "", labels = {}, pods: all = [] } = spec;
    if (type === "Nodes") return needed.nodes;
    if (type === "Addresses") return needed.addresses(spec.cluster);
    if (type === "Namespace") return needed.namespace(namespace, labels);
    return all.some((it) => needed.pods(namespace, undefined, labelsOfPod(spec, it)));
  }

  function age(): ReconcileResult {
    const { forgottenInMs } = ageOfHub();
    if (forgottenInMs === undefined) copyAll();
    return defined({ requeueAfterMs: forgottenInMs });
  }

  const controller = createController(
    {
      name: "member-identities",
      async reconcile(key, signal) {
        if (key === DEMAND) return follow(signal);
        if (key === AGE) return age();
        const { namespace: kind, name } = splitKey(key);
        if (kind === CONDITION) return conditions.write(name, signal);
        return kind === COPY ? copy(name, signal) : publish(key, signal);
      },
      concurrency: 8,
      sources: [
        watching(session.mailbox.internalMembers, () => [DEMAND]),
        watching(fleet.reports, () => [DEMAND]),
        watching(mesh.identities, ({ key }) => [copyKey(splitKey(key).name)]),
        watchingChanges(mesh.networks, () => {
          publishAll();
          return [];
        }),
        watchingChanges(mesh.blocks, (change) => {
          if (isInTransition(change.before) !== isInTransition(change.after)) enqueue(DEMAND);
          if (change.key === objectKey(FLEET_SYSTEM_NAMESPACE, cluster)) publishAll();
          if (isAddressChanged(change)) for (const it of [DEMAND, ADDRESSES_KEY]) enqueue(it);
          return pods.withUids(changedPods(change)).flatMap(keysOfPod);
        }),
        ...(session.ranges === undefined
          ? []
          : [watchingChanges(session.ranges.nodes, () => [NODES_KEY, ADDRESSES_KEY])]),
        watchingChanges(here.namespaces, (change) => {
          if (isOfInterest(change)) publishIn(change.key);
          return [DEMAND];
        }),
      ],
    },
    deps,
  );
  return {
    controller: {
      name: controller.name,
      start: (signal) => controller.start(signal),
      enqueue,
      idle: (signal) => controller.idle(signal),
      async [Symbol.asyncDispose]() {
        await controller[Symbol.asyncDispose]();
        for (const it of [mailbox, pods, source, policies]) await it[Symbol.asyncDispose]();
      },
    },
    onSilence(isSilent) {
      silentSinceMs = isSilent ? deps.clock.monotonic() : undefined;
      enqueue(AGE);
    },
  };
}

/** Labels, and whether others may know of it. */
function isOfInterest({ before, after }: Change<Namespace>): boolean {
  const of = (it: Namespace | undefined): unknown => [it?.metadata.labels, it?.metadata.annotations];
  return (before === undefined) !== (after === undefined) || !sameJson(of(before), of(after));
}

/** Whether nodes or members have other fleet addresses. */
function isAddressChanged({ before, after }: Change<AddressBlock>): boolean {
  return !sameJson(before?.spec, after?.spec) || isReleasedNow(before) !== isReleasedNow(after);
}

function isReleasedNow(block: AddressBlock | undefined): boolean {
  return block !== undefined && isReleased(block);
}

/** The part of the view that this cluster needs. */
function scopeOf({ cluster, mailbox }: Session, demand: IdentityWants): Scope | undefined {
  const labelSelector = selectorOf(demand, cluster);
  const namespace = mailbox.internalMembers.store.get(objectKey(mailboxOf(cluster), cluster))?.spec.view;
  return labelSelector === undefined || namespace === undefined ? undefined : { namespace, labelSelector };
}

function namesIn({ store }: Informer<IdentitySlice>): string[] {
  return [...store.list()].map((it) => it.metadata.name);
}

/** What goes to the hub: while it was away it failed, and waits long by now. */
export function identityKeys(): ObjectKey[] {
  return [DEMAND];
}
