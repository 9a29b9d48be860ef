import { defined } from "@fairlead/base/defined.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { type ObjectKey, objectKey, splitKey } from "@fairlead/kube/api/meta/key.ts";
import { resource } from "@fairlead/kube/api/meta/resource.ts";
import type { Condition, KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { findCondition } from "@fairlead/kube/objects/conditions.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { HUB_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import type { ClusterUpgradeStatus, UpgradeNode } from "#api/fairlead.dev/v1alpha1/updates.ts";
import { isAtTarget } from "../clusters/target.ts";
import { compareVersions, parseVersion } from "../clusters/versions.ts";
import { NO_WAY_BACK } from "./rollback.ts";
import {
  type ClusterUpgrader,
  OPERATION_ANNOTATION,
  STOPPED_ANNOTATION,
  STOPPED_MESSAGE,
  type UpgradeOperation,
} from "./upgrader.ts";

/** Kinds of Cluster API, cut to the fields that are read or written. */
interface MachineDeploymentTopology {
  name: string;
  metadata?: { annotations?: Record<string, string>; labels?: Record<string, string> };
}
export interface CapiCluster extends KubeObject {
  spec?: {
    paused?: boolean;
    topology?: { version: string; workers?: { machineDeployments?: MachineDeploymentTopology[] } };
  };
  status?: { conditions?: Condition[] };
}
export interface Machine extends KubeObject {
  spec: { clusterName: string; version?: string };
  status?: {
    phase?: string;
    failureMessage?: string;
    nodeRef?: { name: string };
    nodeInfo?: { kubeletVersion?: string };
  };
}

export const CAPI_CLUSTERS = resource<CapiCluster>("cluster.x-k8s.io/v1beta1", "Cluster", "clusters");
export const MACHINES = resource<Machine>("cluster.x-k8s.io/v1beta1", "Machine", "machines");
export const CLUSTER_NAME_LABEL = "cluster.x-k8s.io/cluster-name";
export const CONTROL_PLANE_LABEL = "cluster.x-k8s.io/control-plane";
/** Keeps a MachineDeployment of a topology in its version. */
export const DEFER_UPGRADE = "topology.cluster.x-k8s.io/defer-upgrade";

/** Upgrades a cluster that Cluster API makes from a ClusterClass, on its management cluster. */
export class ClusterApiUpgrader implements ClusterUpgrader {
  readonly #client: KubeClient;
  readonly #key: ObjectKey;

  /** @param cluster - "namespace/name". */
  constructor(client: KubeClient, cluster: string) {
    const [namespace = "", name = ""] = cluster.split("/");
    this.#client = client;
    this.#key = objectKey(namespace, name);
  }

  async observe(operation: UpgradeOperation | undefined, signal: AbortSignal): Promise<ClusterUpgradeStatus> {
    const cluster = await this.#client.get(CAPI_CLUSTERS, this.#key, { signal });
    const { namespace = "", name } = splitKey(this.#key);
    const labelSelector = `${CLUSTER_NAME_LABEL}=${name}`;
    const { items: machines } = await this.#client.list(MACHINES, { namespace, labelSelector, signal });
    const versions = describe(machines);
    if (operation === undefined || operationOf(cluster) !== operation.id) return versions;
    return { ...versions, operation: { id: operation.id, ...stateOf(cluster, machines, operation) } };
  }

  async start(operation: UpgradeOperation, signal: AbortSignal): Promise<void> {
    if (operation.rollback === true) throw new FleetError("PRECONDITION_FAILED", NO_WAY_BACK.ClusterAPI);
    const cluster = await this.#client.get(CAPI_CLUSTERS, this.#key, { signal });
    if (operationOf(cluster) === operation.id) return;
    const topology = cluster.spec?.topology;
    const { type, kubernetesVersion } = operation.target;
    if (topology === undefined)
      throw new FleetError(
        "PRECONDITION_FAILED",
        `Cluster ${this.#key} has no spec.topology: only clusters of a ClusterClass are upgraded`,
      );
    if (kubernetesVersion === undefined)
      throw new FleetError("PRECONDITION_FAILED", "Cluster API has no version of node images to change");
    const deployments = topology.workers?.machineDeployments?.map((it) =>
      deferred(it, type === "ControlPlaneOnly"),
    );
    const patch = {
      metadata: {
        // The list of workers is replaced as a whole.
        resourceVersion: cluster.metadata.resourceVersion,
        annotations: { [OPERATION_ANNOTATION]: operation.id, [STOPPED_ANNOTATION]: null },
      },
      spec: { topology: { version: `v${kubernetesVersion}`, ...workersOf(deployments) } },
    };
    await this.#client.mergePatch(CAPI_CLUSTERS, this.#key, patch, { fieldManager: HUB_MANAGER, signal });
  }

  /** No other MachineDeployment is begun. To pause the Cluster would end the repair of its Machines as well. */
  async stop(operation: UpgradeOperation, signal: AbortSignal): Promise<void> {
    const cluster = await this.#client.get(CAPI_CLUSTERS, this.#key, { signal });
    if (operationOf(cluster) !== operation.id || isStopped(cluster)) return;
    const deployments = cluster.spec?.topology?.workers?.machineDeployments?.map((it) => deferred(it, true));
    const patch = {
      metadata: {
        resourceVersion: cluster.metadata.resourceVersion,
        annotations: { [STOPPED_ANNOTATION]: "true" },
      },
      spec: { topology: workersOf(deployments) },
    };
    await this.#client.mergePatch(CAPI_CLUSTERS, this.#key, patch, { fieldManager: HUB_MANAGER, signal });
  }

  rollbackProblem(): Promise<string> {
    return Promise.resolve(NO_WAY_BACK.ClusterAPI);
  }
}

function workersOf(machineDeployments: readonly MachineDeploymentTopology[] | undefined): object {
  return machineDeployments === undefined ? {} : { workers: { machineDeployments } };
}

function isStopped({ metadata }: KubeObject): boolean {
  return metadata.annotations?.[STOPPED_ANNOTATION] !== undefined;
}

function operationOf({ metadata }: KubeObject): string | undefined {
  return metadata.annotations?.[OPERATION_ANNOTATION];
}

function deferred(it: MachineDeploymentTopology, isDeferred: boolean): MachineDeploymentTopology {
  const { [DEFER_UPGRADE]: before, ...others } = it.metadata?.annotations ?? {};
  if (isDeferred === (before !== undefined)) return it;
  const annotations = isDeferred ? { ...others, [DEFER_UPGRADE]: "" } : others;
  return { ...it, metadata: { ...it.metadata, annotations } };
}

function describe(machines: readonly Machine[]): ClusterUpgradeStatus {
  const controlPlane = machines.filter((it) => it.metadata.labels?.[CONTROL_PLANE_LABEL] !== undefined);
  const versions = controlPlane.flatMap((it) => parseVersion(it.spec.version) ?? []);
  const lowest = versions.toSorted(compareVersions)[0];
  const found = controlPlane
    .map((it) => it.spec.version)
    .find((it) => {
      const version = parseVersion(it);
      return version !== undefined && lowest !== undefined && compareVersions(version, lowest) === 0;
    });
  return {
    ...defined({ kubernetesVersion: found?.replace(/^v/, "") }),
    nodes: machines.map(describeMachine),
  };
}

function describeMachine({ metadata, spec, status }: Machine): UpgradeNode {
  const version = status?.nodeInfo?.kubeletVersion ?? spec.version ?? "";
  return {
    name: status?.nodeRef?.name ?? metadata.name,
    kubernetesVersion: version.replace(/^v/, ""),
    ready: status?.phase === "Running",
  };
}

type State = Omit<NonNullable<ClusterUpgradeStatus["operation"]>, "id">;

function stateOf(cluster: CapiCluster, machines: readonly Machine[], operation: UpgradeOperation): State {
  const failed = machines.find((it) => it.status?.phase === "Failed");
  if (failed === undefined) {
    if (isOver(cluster, machines, operation)) return { state: "Succeeded" };
    return isStopped(cluster)
      ? { state: "Failed", message: STOPPED_MESSAGE }
      : { state: "Running", ...progressOf(cluster) };
  }
  const reason = failed.status?.failureMessage ?? "its phase is Failed";
  return { state: "Failed", message: `Machine ${failed.metadata.name}: ${reason}` };
}

function isOver(cluster: CapiCluster, machines: readonly Machine[], { target }: UpgradeOperation): boolean {
  const topology = findCondition(cluster.status?.conditions, "TopologyReconciled");
  // With deferred workers the topology is not reconciled as a whole.
  const isReconciled = target.type === "ControlPlaneOnly" || (topology?.status ?? "True") === "True";
  const isRunning = machines.length > 0 && machines.every((it) => it.status?.phase === "Running");
  return isReconciled && isRunning && isAtTarget(describe(machines), target);
}

function progressOf({ spec, status }: CapiCluster): Pick<State, "message"> {
  if (spec?.paused === true) return { message: "the Cluster is paused" };
  const message = findCondition(status?.conditions, "TopologyReconciled")?.message ?? "";
  return message === "" ? {} : { message };
}
