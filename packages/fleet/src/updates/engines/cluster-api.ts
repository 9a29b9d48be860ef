import { defined } from "@fairlead/base/defined.ts";
import { FleetError, hasCode } from "@fairlead/base/errors.ts";
import { type ObjectKey, objectKey, splitKey } from "@fairlead/kube/api/meta/key.ts";
import { type Resource, resource } from "@fairlead/kube/api/meta/resource.ts";
import type { Condition, KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { findCondition } from "@fairlead/kube/objects/conditions.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { HUB_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import type { ClusterUpgradeStatus } from "#api/fairlead.dev/v1alpha1/updates.ts";
import { isAtTarget } from "../clusters/target.ts";
import {
  areRunning,
  CLUSTER_NAME_LABEL,
  describe,
  failureOf,
  type Machine,
  MACHINES,
  MACHINES_V1BETA1,
} from "./cluster-api-machines.ts";
import { NO_WAY_BACK } from "./rollback.ts";
import {
  type ClusterUpgrader,
  OPERATION_ANNOTATION,
  STOPPED_ANNOTATION,
  STOPPED_MESSAGE,
  type UpgradeOperation,
} from "./upgrader.ts";

/** Kinds of Cluster API, cut to the fields that are read or written, which v1beta1 and v1beta2 have in the same places. */
interface WorkersTopology {
  name: string;
  metadata?: { annotations?: Record<string, string>; labels?: Record<string, string> };
}
interface Workers {
  machineDeployments?: WorkersTopology[];
  machinePools?: WorkersTopology[];
}
export interface CapiCluster extends KubeObject {
  spec?: { paused?: boolean; topology?: { version: string; workers?: Workers } };
  status?: { conditions?: Condition[] };
}

const clusters = (version: string): Resource<CapiCluster> =>
  resource(`cluster.x-k8s.io/${version}`, "Cluster", "clusters");
/** v1beta2 is served since Cluster API 1.11, v1beta1 until 1.15. */
const VERSIONS = {
  v1beta1: { clusters: clusters("v1beta1"), machines: MACHINES_V1BETA1 },
  v1beta2: { clusters: clusters("v1beta2"), machines: MACHINES },
} as const;
export const CAPI_CLUSTERS = VERSIONS.v1beta2.clusters;
export const CAPI_CLUSTERS_V1BETA1 = VERSIONS.v1beta1.clusters;
/** Keeps a MachineDeployment or MachinePool of a topology in its version. */
export const DEFER_UPGRADE = "topology.cluster.x-k8s.io/defer-upgrade";

const MAX_TRIES = 5;

interface Change {
  readonly annotations: Readonly<Record<string, string | null>>;
  readonly topology: object;
}

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
    const { cluster, as } = await this.#read(signal);
    const { namespace = "", name } = splitKey(this.#key);
    const labelSelector = `${CLUSTER_NAME_LABEL}=${name}`;
    const { items: machines } = await this.#client.list(as.machines, { namespace, labelSelector, signal });
    const versions = describe(machines);
    if (operation === undefined || operationOf(cluster) !== operation.id) return versions;
    return { ...versions, operation: { id: operation.id, ...stateOf(cluster, machines, operation) } };
  }

  async start(operation: UpgradeOperation, signal: AbortSignal): Promise<void> {
    if (operation.rollback === true) throw new FleetError("PRECONDITION_FAILED", NO_WAY_BACK.ClusterAPI);
    const { type, kubernetesVersion } = operation.target;
    await this.#change((cluster) => {
      if (operationOf(cluster) === operation.id) return undefined;
      const topology = cluster.spec?.topology;
      if (topology === undefined)
        throw new FleetError(
          "PRECONDITION_FAILED",
          `Cluster ${this.#key} has no spec.topology: only clusters of a ClusterClass are upgraded`,
        );
      if (kubernetesVersion === undefined)
        throw new FleetError("PRECONDITION_FAILED", "Cluster API has no version of node images to change");
      return {
        annotations: { [OPERATION_ANNOTATION]: operation.id, [STOPPED_ANNOTATION]: null },
        topology: {
          version: `v${kubernetesVersion}`,
          ...deferred(topology.workers, type === "ControlPlaneOnly"),
        },
      };
    }, signal);
  }

  /** No other MachineDeployment or MachinePool is begun. To pause the Cluster would end the repair of its Machines as well. */
  async stop(operation: UpgradeOperation, signal: AbortSignal): Promise<void> {
    await this.#change((cluster) => {
      if (operationOf(cluster) !== operation.id || isStopped(cluster)) return undefined;
      const annotations = { [STOPPED_ANNOTATION]: "true" };
      return { annotations, topology: deferred(cluster.spec?.topology?.workers, true) };
    }, signal);
  }

  rollbackProblem(): Promise<string> {
    return Promise.resolve(NO_WAY_BACK.ClusterAPI);
  }

  /** The lists of workers are replaced as a whole, so by nothing but what was read; controllers write the status all the time. */
  async #change(decide: (cluster: CapiCluster) => Change | undefined, signal: AbortSignal): Promise<void> {
    for (let tries = 1; ; tries += 1) {
      const { cluster, as } = await this.#read(signal);
      const change = decide(cluster);
      if (change === undefined) return;
      const { annotations, topology } = change;
      const { resourceVersion } = cluster.metadata;
      const patch = { metadata: { resourceVersion, annotations }, spec: { topology } };
      try {
        await this.#client.mergePatch(as.clusters, this.#key, patch, { fieldManager: HUB_MANAGER, signal });
        return;
      } catch (error) {
        if (tries === MAX_TRIES || !hasCode(error, "API_CONFLICT")) throw error;
      }
    }
  }

  /** In the newest version that is served. */
  async #read(
    signal: AbortSignal,
  ): Promise<{ readonly cluster: CapiCluster; readonly as: (typeof VERSIONS)[keyof typeof VERSIONS] }> {
    const { v1beta1, v1beta2 } = VERSIONS;
    const cluster = await this.#client.find(v1beta2.clusters, this.#key, { signal });
    if (cluster !== undefined) return { cluster, as: v1beta2 };
    return { cluster: await this.#client.get(v1beta1.clusters, this.#key, { signal }), as: v1beta1 };
  }
}

function isStopped({ metadata }: KubeObject): boolean {
  return metadata.annotations?.[STOPPED_ANNOTATION] !== undefined;
}

function operationOf({ metadata }: KubeObject): string | undefined {
  return metadata.annotations?.[OPERATION_ANNOTATION];
}

/** Cluster API refuses empty `workers`. */
function deferred(workers: Workers | undefined, isDeferred: boolean): { readonly workers?: Workers } {
  if (workers === undefined) return {};
  const all = (list: WorkersTopology[] | undefined): WorkersTopology[] | undefined =>
    list?.map((it) => deferredOne(it, isDeferred));
  const { machineDeployments, machinePools } = workers;
  return {
    workers: defined({ machineDeployments: all(machineDeployments), machinePools: all(machinePools) }),
  };
}

function deferredOne(it: WorkersTopology, isDeferred: boolean): WorkersTopology {
  const { [DEFER_UPGRADE]: before, ...others } = it.metadata?.annotations ?? {};
  if (isDeferred === (before !== undefined)) return it;
  const annotations = isDeferred ? { ...others, [DEFER_UPGRADE]: "" } : others;
  return { ...it, metadata: { ...it.metadata, annotations } };
}

type State = Omit<NonNullable<ClusterUpgradeStatus["operation"]>, "id">;

function stateOf(cluster: CapiCluster, machines: readonly Machine[], operation: UpgradeOperation): State {
  const failure = failureOf(machines, operation.target);
  if (failure !== undefined) return { state: "Failed", message: failure };
  if (isOver(cluster, machines, operation)) return { state: "Succeeded" };
  return isStopped(cluster)
    ? { state: "Failed", message: STOPPED_MESSAGE }
    : { state: "Running", ...progressOf(cluster) };
}

function isOver(cluster: CapiCluster, machines: readonly Machine[], { target }: UpgradeOperation): boolean {
  const topology = findCondition(cluster.status?.conditions, "TopologyReconciled");
  // With deferred workers the topology is not reconciled as a whole.
  const isReconciled = target.type === "ControlPlaneOnly" || (topology?.status ?? "True") === "True";
  return isReconciled && areRunning(machines) && isAtTarget(describe(machines), target);
}

function progressOf({ spec, status }: CapiCluster): Pick<State, "message"> {
  if (spec?.paused === true) return { message: "the Cluster is paused" };
  const message = findCondition(status?.conditions, "TopologyReconciled")?.message ?? "";
  return message === "" ? {} : { message };
}
