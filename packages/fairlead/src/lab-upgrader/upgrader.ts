import { basename, dirname } from "node:path";
import { defined } from "@fairlead/base/defined.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { FleetError, messageOf } from "@fairlead/base/errors.ts";
import {
  CLUSTER_UPGRADES,
  type ClusterUpgrade,
  type ClusterUpgradeStatus,
  type UpgradeTarget,
  type UpgradeType,
} from "@fairlead/fleet/api/fairlead.dev/v1alpha1/updates.ts";
import { EXTERNAL_ENGINE, STOPPED_MESSAGE } from "@fairlead/fleet/updates/engines/upgrader.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { applyIfChanged } from "@fairlead/kube/objects/apply.ts";
import type { Controller, KubeClient } from "@fairlead/kube/types.ts";
import { lockLab, requireState, writeState } from "@fairlead/lab/state.ts";
import { LAB_RELEASES, type LabRelease } from "@fairlead/lab/topology.ts";
import { type ChangeState, endUpgrade, upgradeCluster, type UpgradeOptions } from "@fairlead/lab/upgrade.ts";
import { openLab } from "#lab/context.ts";

type Operation = NonNullable<ClusterUpgradeStatus["operation"]>;

const FIELD_MANAGER = "fairlead-lab-upgrader";
/** Labs are small, and so are their clusters. Unit: milliseconds. */
const DRAIN_MS = 600_000;
/** Clusters that are upgraded at the same time. */
const CONCURRENCY = 8;

/** Carries out the operations of ClusterUpgrades whose engine is "External", on the lab in `folder`. */
export function createUpgrader(hub: KubeClient, folder: string, deps: RuntimeDeps): Controller {
  const upgrades = createInformer(hub, CLUSTER_UPGRADES, { fieldManager: FIELD_MANAGER }, deps);
  const report = async (
    upgrade: ClusterUpgrade,
    operation: Operation,
    signal: AbortSignal,
    read: { readonly resourceVersion?: string } = {},
  ): Promise<void> => {
    const { namespace = "", name } = upgrade.metadata;
    await applyIfChanged(hub, CLUSTER_UPGRADES, {
      current: upgrade,
      desired: { metadata: { namespace, name, ...read }, status: { operation } },
      fieldManager: FIELD_MANAGER,
      subresource: "status",
      signal,
    });
  };
  const controller = createController(
    {
      name: "lab-upgrader",
      reconcile: async (key, signal) => {
        const upgrade = upgrades.store.get(key);
        const operation = upgrade?.spec.operation;
        if (upgrade?.spec.engine !== EXTERNAL_ENGINE || operation === undefined) return;
        const { id, target } = operation;
        const before = upgrade.status?.operation;
        if (before?.id === id && before.state !== "Running") return;
        // No pass carries it out: two for one key never run at the same time. A process that is gone may have begun it.
        if (operation.stop === true) {
          await leaveUpgrade(folder, upgrade.metadata.name, signal);
          return report(upgrade, { id, state: "Failed", message: STOPPED_MESSAGE }, signal);
        }
        // Taken as it was read: a conflict if the hub withdraws it in the same moment.
        const { resourceVersion } = upgrade.metadata;
        await report(upgrade, { id, state: "Running" }, signal, defined({ resourceVersion }));
        const stop = new AbortController();
        const look = (): void => {
          if (isToStop(id, upgrades.store.get(key))) stop.abort();
        };
        using _watch = upgrades.subscribe(look);
        look();
        const options = optionsOf(upgrade.metadata.name, target);
        const outcome = await carryOut(folder, options, { deps, signal, stop: stop.signal });
        // Against the newest one: the member reports its nodes at the same time.
        await report(upgrades.store.get(key) ?? upgrade, { id, ...outcome }, signal);
      },
      concurrency: CONCURRENCY,
      sources: [watching(upgrades, ({ key }) => [key])],
    },
    deps,
  );
  return {
    name: controller.name,
    start: async (signal) => {
      upgrades.start(signal);
      await controller.start(signal);
    },
    enqueue: (it) => controller.enqueue(it),
    idle: (signal) => controller.idle(signal),
    async [Symbol.asyncDispose]() {
      await controller[Symbol.asyncDispose]();
      await upgrades[Symbol.asyncDispose]();
    },
  };
}

/** Whether the hub wants an operation ended: it says so, or wants another one in its place, such as a rollback. */
function isToStop(id: string, upgrade: ClusterUpgrade | undefined): boolean {
  const wanted = upgrade?.spec.operation;
  return wanted !== undefined && (wanted.id !== id || wanted.stop === true);
}

/** Tried again while the cluster does not answer. */
async function leaveUpgrade(folder: string, cluster: string, signal: AbortSignal): Promise<void> {
  try {
    await endUpgrade(openLab(basename(folder), dirname(folder)), cluster, signal);
  } catch (error) {
    // Without the cluster nothing is left to do.
    if (signal.aborted || !(error instanceof FleetError) || error.retriable) throw error;
  }
}

/** What does not succeed has failed: the run decides about another attempt. */
async function carryOut(
  folder: string,
  options: UpgradeOptions | FleetError,
  {
    deps,
    signal,
    stop,
  }: { readonly deps: RuntimeDeps; readonly signal: AbortSignal; readonly stop: AbortSignal },
): Promise<Omit<Operation, "id">> {
  const { clock, log } = deps;
  const [root, name] = [dirname(folder), basename(folder)];
  try {
    if (options instanceof FleetError) throw options;
    const lab = openLab(name, root);
    const changeState: ChangeState = async (change, follow) => {
      using _lock = await lockLab(root, name, { clock, signal });
      const state = change(requireState(lab.layout, name));
      writeState(lab.layout, state);
      await follow?.(state);
      return state;
    };
    const report = (step: string): void => log.info("upgrading", { cluster: options.cluster, step });
    await upgradeCluster(lab, options, { report, changeState, stop }, signal);
    return { state: "Succeeded" };
  } catch (error) {
    if (signal.aborted) throw error;
    return { state: "Failed", message: messageOf(error) };
  }
}

const PARTS: Readonly<Partial<Record<UpgradeType, UpgradeOptions["parts"]>>> = {
  Full: "all",
  ControlPlaneOnly: "control-plane",
  NodeImageOnly: "nodes",
};

function optionsOf(cluster: string, target: UpgradeTarget): UpgradeOptions | FleetError {
  const { type, kubernetesVersion = "", nodeImages = [] } = target;
  // Node images of a lab are those of a release: "lab-1.36.0".
  const version = type === "NodeImageOnly" ? (nodeImages[0] ?? "").replace(/^lab-/, "") : kubernetesVersion;
  const release: LabRelease | undefined = LAB_RELEASES.find(
    (it) => version === it || version.startsWith(`${it}.`),
  );
  if (release === undefined)
    return new FleetError(
      "OPTION_INVALID",
      `a lab has the releases ${LAB_RELEASES.join(" and ")} of Kubernetes, not ${JSON.stringify(version)}`,
    );
  const parts = PARTS[type];
  if (parts !== undefined) return { cluster, release, parts, drainMs: DRAIN_MS };
  return new FleetError("OPTION_INVALID", `upgrades of type ${type} are not made by an engine`);
}
