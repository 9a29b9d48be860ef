import { defined } from "@fairlead/base/defined.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { resource } from "@fairlead/kube/api/meta/resource.ts";
import type { Condition, KubeObject, LabelSelector } from "@fairlead/kube/api/meta/types.ts";
import { applyIfChanged } from "@fairlead/kube/objects/apply.ts";
import { findCondition } from "@fairlead/kube/objects/conditions.ts";
import type { Applied, KubeClient } from "@fairlead/kube/types.ts";
import { MEMBER_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import type { ClusterUpgradeStatus } from "#api/fairlead.dev/v1alpha1/updates.ts";
import { isAtTarget } from "../clusters/target.ts";
import { parseVersion } from "../clusters/versions.ts";
import { NO_WAY_BACK } from "./rollback.ts";
import {
  type ClusterUpgrader,
  OPERATION_ANNOTATION,
  type ReadCluster,
  STOPPED_ANNOTATION,
  STOPPED_MESSAGE,
  type UpgradeOperation,
} from "./upgrader.ts";

/** Of k3s' system-upgrade-controller, cut to the fields that are read or written. */
export interface Plan extends KubeObject {
  spec: {
    version?: string;
    concurrency?: number;
    cordon?: boolean;
    nodeSelector?: LabelSelector;
    serviceAccountName?: string;
    prepare?: { image: string; args?: string[] };
    upgrade: { image: string };
  };
  status?: { conditions?: Condition[]; applying?: string[]; latestVersion?: string };
}

export const PLANS = resource<Plan>("upgrade.cattle.io/v1", "Plan", "plans");
/** Where the controller runs, and its ServiceAccount. */
export const PLANS_NAMESPACE = "system-upgrade";
/** By the beginning of the build that a version has: "1.34.1+rke2r1". */
const DEFAULT_IMAGES = { rke2: "rancher/rke2-upgrade", k3s: "rancher/k3s-upgrade" } as const;
/** Nodes have this label by their kubelets. */
const NO_NODE = { key: "kubernetes.io/hostname", operator: "DoesNotExist" as const };
const CONTROL_PLANE_ROLE = "node-role.kubernetes.io/control-plane";

/** The Plans of a cluster: nodes of the control plane first, which the Plan of the others waits for. */
export const PLAN_NAMES = { controlPlane: "fairlead-control-plane", nodes: "fairlead-nodes" } as const;

/**
 * The image of an upgrade, without a tag. It runs with all rights on all nodes, so that the member names it, and the hub does not: a
 * hub that asks for another is refused.
 */
export interface PlanImages {
  /** What the hub asks for; "": nothing. */
  readonly asked: string;
  /** What the member has. Undefined: Rancher's, by the target version. */
  readonly own: string | undefined;
}

/** Upgrades k3s and RKE2 by Plans of their system-upgrade-controller. */
export class PlanUpgrader implements ClusterUpgrader {
  readonly #client: KubeClient;
  readonly #images: PlanImages;
  readonly #read: ReadCluster;

  constructor(client: KubeClient, images: PlanImages, read: ReadCluster) {
    this.#client = client;
    this.#images = images;
    this.#read = read;
  }

  async observe(operation: UpgradeOperation | undefined, signal: AbortSignal): Promise<ClusterUpgradeStatus> {
    const plans = operation === undefined ? [] : await this.#plansOf(operation, signal);
    const cluster = await this.#read(signal);
    if (operation === undefined || plans.length < namesOf(operation).length) return cluster;
    return { ...cluster, operation: { id: operation.id, ...stateOf(plans, cluster, operation) } };
  }

  async start(operation: UpgradeOperation, signal: AbortSignal): Promise<void> {
    if (operation.rollback === true)
      throw new FleetError("PRECONDITION_FAILED", NO_WAY_BACK.SystemUpgradeController);
    for (const name of namesOf(operation)) {
      const key = objectKey(PLANS_NAMESPACE, name);
      const found = await this.#client.find(PLANS, key, { signal });
      const isOfOther = found !== undefined && operationOf(found) !== operation.id;
      // The controller keeps conditions until the version changes: an earlier failure would be this one's.
      if (isOfOther) await this.#client.delete(PLANS, key, { uid: found.metadata.uid ?? "", signal });
      const current = isOfOther ? undefined : found;
      await this.#write(operation, { name, current, stops: false }, signal);
    }
  }

  /** No other node is begun; the controller has no way to stop those that it has begun. */
  async stop(operation: UpgradeOperation, signal: AbortSignal): Promise<void> {
    for (const current of await this.#plansOf(operation, signal))
      await this.#write(operation, { name: current.metadata.name, current, stops: true }, signal);
  }

  rollbackProblem(): Promise<string> {
    return Promise.resolve(NO_WAY_BACK.SystemUpgradeController);
  }

  async #write(
    operation: UpgradeOperation,
    of: { readonly name: string; readonly current: Plan | undefined; readonly stops: boolean },
    signal: AbortSignal,
  ): Promise<void> {
    const { name, current, stops } = of;
    const version = versionOf(operation);
    const image = imageOf(this.#images, version);
    const desired = planFor(name, { id: operation.id, version, image, stops });
    await applyIfChanged(this.#client, PLANS, { current, desired, fieldManager: MEMBER_MANAGER, signal });
  }

  /** Those that were made for an operation. */
  async #plansOf(operation: UpgradeOperation, signal: AbortSignal): Promise<Plan[]> {
    const found = await Promise.all(
      namesOf(operation).map((it) => this.#client.find(PLANS, objectKey(PLANS_NAMESPACE, it), { signal })),
    );
    return found.filter((it) => it !== undefined && operationOf(it) === operation.id) as Plan[];
  }
}

function operationOf({ metadata }: Plan): string | undefined {
  return metadata.annotations?.[OPERATION_ANNOTATION];
}

function namesOf({ target }: UpgradeOperation): readonly string[] {
  const { controlPlane, nodes } = PLAN_NAMES;
  return target.type === "ControlPlaneOnly" ? [controlPlane] : [controlPlane, nodes];
}

/** @throws {FleetError} `PRECONDITION_FAILED` for what Plans cannot do. */
function versionOf({ target: { type, kubernetesVersion = "" } }: UpgradeOperation): string {
  if (type === "NodeImageOnly")
    throw new FleetError("PRECONDITION_FAILED", "the system-upgrade-controller does not change node images");
  if ((parseVersion(kubernetesVersion)?.build ?? "") === "")
    throw new FleetError(
      "PRECONDITION_FAILED",
      `the system-upgrade-controller needs a version with its build, such as ${kubernetesVersion}+k3s1`,
    );
  return `v${kubernetesVersion}`;
}

/** @throws {FleetError} `PRECONDITION_FAILED` if the hub asks for another image than that of the member. */
function imageOf({ asked, own }: PlanImages, version: string): string {
  const image = own ?? (version.includes("+rke2") ? DEFAULT_IMAGES.rke2 : DEFAULT_IMAGES.k3s);
  if (asked === "" || asked === image) return image;
  throw new FleetError(
    "PRECONDITION_FAILED",
    `annotation fairlead.dev/upgrader asks for image ${JSON.stringify(asked)}, and this member upgrades with ${image}: remove the image from the annotation, or set upgrades.image of the member's chart (fairlead member --upgrade-image)`,
  );
}

function stateOf(
  plans: readonly Plan[],
  cluster: ClusterUpgradeStatus,
  { target }: UpgradeOperation,
): { state: "Running" | "Succeeded" | "Failed"; message?: string } {
  const ends = plans.map((it) => findCondition(it.status?.conditions, "Complete"));
  const failed = ends.find((it) => it?.status === "False" && it.reason === "JobFailed");
  if (failed !== undefined) return { state: "Failed", message: failed.message };
  // Controllers of older versions have no such condition.
  const isOver = ends.every((it) => it === undefined || it.status === "True");
  if (isOver && isAtTarget(cluster, target)) return { state: "Succeeded" };
  const applying = plans.flatMap((it) => it.status?.applying ?? []);
  if (applying.length === 0 && plans.some(isStopped)) return { state: "Failed", message: STOPPED_MESSAGE };
  const message = applying.length === 0 ? problemOf(plans) : `upgrading ${applying.join(", ")}`;
  return { state: "Running", ...defined({ message }) };
}

/** Why the controller does nothing about a Plan, such as one that it does not take for valid. */
function problemOf(plans: readonly Plan[]): string | undefined {
  return plans
    .flatMap(({ metadata, status }) =>
      (status?.conditions ?? []).map((it) => ({ ...it, plan: metadata.name })),
    )
    .filter((it) => it.status === "False" && (it.message ?? "") !== "")
    .map((it) => `Plan ${it.plan}: ${it.message}`)[0];
}

function isStopped({ metadata }: Plan): boolean {
  return metadata.annotations?.[STOPPED_ANNOTATION] === "true";
}

interface PlanOf {
  readonly stops: boolean;
  readonly id: string;
  readonly version: string;
  readonly image: string;
}

function planFor(name: string, { id, version, image, stops }: PlanOf): Applied<Plan> {
  const isControlPlane = name === PLAN_NAMES.controlPlane;
  const selector = isControlPlane
    ? { key: CONTROL_PLANE_ROLE, operator: "In" as const, values: ["true"] }
    : { key: CONTROL_PLANE_ROLE, operator: "DoesNotExist" as const };
  return {
    metadata: {
      namespace: PLANS_NAMESPACE,
      name,
      annotations: { [OPERATION_ANNOTATION]: id, ...(stops ? { [STOPPED_ANNOTATION]: "true" } : {}) },
    },
    spec: {
      version,
      concurrency: 1,
      cordon: true,
      serviceAccountName: "system-upgrade",
      nodeSelector: { matchExpressions: stops ? [selector, NO_NODE] : [selector] },
      ...(isControlPlane ? {} : { prepare: { image, args: ["prepare", PLAN_NAMES.controlPlane] } }),
      upgrade: { image },
    },
  };
}
