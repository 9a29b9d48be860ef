import { FleetError, hasCode } from "@fairlead/base/errors.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { JOBS } from "@fairlead/kube/api/batch/v1/types.ts";
import type { Node } from "@fairlead/kube/api/core/v1/types.ts";
import { type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { applyIfChanged } from "@fairlead/kube/objects/apply.ts";
import type { Controller, Informer } from "@fairlead/kube/types.ts";
import { MEMBER_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import {
  CLUSTER_UPGRADES,
  type ClusterUpgrade,
  type ClusterUpgradeStatus,
} from "#api/fairlead.dev/v1alpha1/updates.ts";
import { FLEET_SYSTEM_NAMESPACE, mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { localUpgrader } from "#updates/engines/local.ts";
import {
  EXTERNAL_ENGINE,
  type ReadCluster,
  STOPPED_MESSAGE,
  UPGRADE_LABEL,
  type UpgradeOperation,
} from "#updates/engines/upgrader.ts";
import type { Ranges } from "../membership/ranges.ts";
import { isLegacyHub, isMembershipChanged, membershipOf, type Session } from "../session.ts";
import { measure, readCluster } from "./cluster.ts";
import { type Asking, ClientSight } from "./client-sight.ts";

/** While an upgrade is in progress the version of the API server, which no watch reports, is read so often. Unit: milliseconds. */
const LOOK_MS = 30_000;
/** The same for measurements, while the hub wants them. */
const MEASURE_MS = 10_000;

/** The one object that it is about. */
export function upgradeKey({ cluster }: Pick<Session, "cluster">): ObjectKey {
  return objectKey(mailboxOf(cluster), cluster);
}

/** Carries out what the hub's ClusterUpgrade asks for, by an engine in this cluster, and reports how the cluster is. */
export function createUpgrades(session: Session, { nodes }: Ranges, asking: Asking): Controller {
  const { local, hub, deps } = session;
  const namespace = mailboxOf(session.cluster);
  const key = upgradeKey(session);
  // Hubs of older versions do not have the kind.
  const options = { namespace, fieldManager: MEMBER_MANAGER, isOptional: () => true };
  const upgrades = createInformer(hub, CLUSTER_UPGRADES, options, deps);
  const jobs = createInformer(
    local,
    JOBS,
    { namespace: FLEET_SYSTEM_NAMESPACE, labelSelector: UPGRADE_LABEL, isOptional: () => true },
    deps,
  );
  const stop = new AbortController();
  const sight = new ClientSight(session, asking);
  const onChanges = [upgrades, jobs].map((it: Informer<KubeObject>) =>
    it.subscribe(() => controller.enqueue(key)),
  );
  const always = (): ObjectKey[] => [key];
  const controller = createController(
    {
      name: "member-upgrades",
      reconcile: async (_key, signal) => {
        // A legacy hub refuses it.
        if (isLegacyHub(session)) return {};
        upgrades.start(stop.signal);
        const upgrade = upgrades.store.get(key);
        const isWanted = upgrade !== undefined && !isDeleting(upgrade) && membershipOf(session) === "join";
        sight.want(isWanted ? upgrade.spec : { engine: "" });
        if (!isWanted) return {};
        // Not before: members that are not upgraded this way may not read Jobs.
        if (upgrade.spec.operation !== undefined && upgrade.spec.engine.startsWith("Job:"))
          jobs.start(stop.signal);
        const act = upgrade.spec.engine === EXTERNAL_ENGINE ? lookOn : carryOut;
        const read: ReadCluster = (at) => readState(session, { nodes, sight, upgrade }, at);
        const state = await act(session, read, upgrade, signal);
        if (upgrade.spec.measure === true || upgrade.spec.probes !== undefined)
          return { requeueAfterMs: MEASURE_MS };
        return state === "Running" ? { requeueAfterMs: LOOK_MS } : {};
      },
      concurrency: 1,
      sources: [
        watching(nodes, always),
        watching(session.mailbox.internalMembers, (change) => (isMembershipChanged(change) ? [key] : [])),
      ],
    },
    deps,
  );
  return {
    name: controller.name,
    start: (signal) => controller.start(signal),
    enqueue: (it) => controller.enqueue(it),
    idle: (signal) => controller.idle(signal),
    async [Symbol.asyncDispose]() {
      stop.abort();
      for (const it of onChanges) it[Symbol.dispose]();
      await controller[Symbol.asyncDispose]();
      await sight[Symbol.asyncDispose]();
      await upgrades[Symbol.asyncDispose]();
      await jobs[Symbol.asyncDispose]();
    },
  };
}

async function readState(
  { local, here }: Session,
  {
    nodes,
    sight,
    upgrade: { spec },
  }: {
    readonly nodes: Informer<Node>;
    readonly sight: ClientSight;
    readonly upgrade: ClusterUpgrade;
  },
  signal: AbortSignal,
): Promise<Omit<ClusterUpgradeStatus, "operation">> {
  const cluster = { ...(await readCluster(local, nodes.store.list(), signal)), ...sight.flows };
  if (spec.measure !== true) return cluster;
  const measured = measure(cluster.nodes ?? [], here.slices.store.list());
  return { ...cluster, measurements: { ...measured, ...sight.measurements } };
}

type OperationState = NonNullable<ClusterUpgradeStatus["operation"]>["state"];

/** Of an upgrade that another program carries out and reports. */
async function lookOn(
  session: Session,
  read: ReadCluster,
  upgrade: ClusterUpgrade,
  signal: AbortSignal,
): Promise<OperationState | undefined> {
  await report(session, upgrade, await read(signal), signal);
  return upgrade.status?.operation?.state;
}

async function carryOut(
  session: Session,
  read: ReadCluster,
  upgrade: ClusterUpgrade,
  signal: AbortSignal,
): Promise<OperationState | undefined> {
  const { engine, operation } = upgrade.spec;
  const before = upgrade.status?.operation;
  // What has ended stays so: Jobs are deleted some time after their end.
  const hasEnded = operation !== undefined && before?.id === operation.id && before.state !== "Running";
  if (hasEnded || operation === undefined) {
    await report(
      session,
      upgrade,
      { ...(await read(signal)), ...(before === undefined ? {} : { operation: before }) },
      signal,
    );
    return before?.state;
  }
  const status = await attempt(operation, read, signal, async () => {
    const upgrader = localUpgrader(engine, session.local, read, session.upgradeImage);
    const observed = await upgrader.observe(operation, signal);
    if (observed.operation === undefined && (operation.stop === true || operation.withdrawn === true))
      return { ...observed, operation: { id: operation.id, state: "Failed", message: STOPPED_MESSAGE } };
    if (observed.operation !== undefined && operation.stop !== true) return observed;
    await (operation.stop === true ? upgrader.stop(operation, signal) : upgrader.start(operation, signal));
    return upgrader.observe(operation, signal);
  });
  await report(session, upgrade, status, signal);
  return status.operation?.state;
}

/** What cannot be done however often it is tried is a failed operation. */
async function attempt(
  { id }: UpgradeOperation,
  read: (signal: AbortSignal) => Promise<ClusterUpgradeStatus>,
  signal: AbortSignal,
  act: () => Promise<ClusterUpgradeStatus>,
): Promise<ClusterUpgradeStatus> {
  try {
    return await act();
  } catch (error) {
    const isFinal = hasCode(error, "PRECONDITION_FAILED", "API_FORBIDDEN", "API_INVALID");
    if (!isFinal || !(error instanceof FleetError)) throw error;
    return { ...(await read(signal)), operation: { id, state: "Failed", message: error.message } };
  }
}

async function report(
  { hub }: Session,
  upgrade: ClusterUpgrade,
  status: ClusterUpgradeStatus,
  signal: AbortSignal,
): Promise<void> {
  const { operation: _operation, ...rest } = upgrade.status ?? {};
  if (sameJson(status, upgrade.spec.engine === EXTERNAL_ENGINE ? rest : upgrade.status)) return;
  const { namespace = "", name } = upgrade.metadata;
  await applyIfChanged(hub, CLUSTER_UPGRADES, {
    current: upgrade,
    desired: { metadata: { namespace, name }, status },
    fieldManager: MEMBER_MANAGER,
    subresource: "status",
    signal,
  });
}
