import { defined } from "@fairlead/base/defined.ts";
import { resource } from "@fairlead/kube/api/meta/resource.ts";
import type { Condition, KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { findCondition } from "@fairlead/kube/objects/conditions.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import type { ClusterUpgradeStatus, UpgradeNode, UpgradeTarget } from "#api/fairlead.dev/v1alpha1/updates.ts";
import { compareVersions, isSameVersion, parseVersion } from "../clusters/versions.ts";

/** Machines of Cluster API, cut to the fields that are read: v1beta1 and v1beta2 differ in where conditions and failures are. */
export interface Machine extends KubeObject {
  spec: { clusterName: string; version?: string };
  status?: {
    phase?: string;
    nodeRef?: { name: string };
    nodeInfo?: { kubeletVersion?: string };
    conditions?: Condition[];
    /** In v1beta1. */
    failureMessage?: string;
    /** In v1beta1: what v1beta2 has as conditions. */
    v1beta2?: { conditions?: Condition[] };
    /** In v1beta2: what providers of the contract of v1beta1 report. */
    deprecated?: { v1beta1?: { failureMessage?: string } };
  };
}

const GROUP = "cluster.x-k8s.io";
export const MACHINES = resource<Machine>(`${GROUP}/v1beta2`, "Machine", "machines");
export const MACHINES_V1BETA1 = resource<Machine>(`${GROUP}/v1beta1`, "Machine", "machines");
export const CLUSTER_NAME_LABEL = `${GROUP}/cluster-name`;
export const CONTROL_PLANE_LABEL = `${GROUP}/control-plane`;

/** Whether all of them run, and none is being replaced. */
export function areRunning(machines: readonly Machine[]): boolean {
  return machines.length > 0 && machines.every((it) => it.status?.phase === "Running" && !isDeleting(it));
}

export function describe(machines: readonly Machine[]): ClusterUpgradeStatus {
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

/** Why an upgrade does not end by itself: a Machine has failed, and nothing replaces it. */
export function failureOf(machines: readonly Machine[], target: UpgradeTarget): string | undefined {
  for (const machine of machines) {
    const reason = isDeleting(machine) ? undefined : failureOfMachine(machine, target);
    if (reason !== undefined) return `Machine ${machine.metadata.name}: ${reason}`;
  }
  return undefined;
}

function failureOfMachine({ spec, status = {} }: Machine, target: UpgradeTarget): string | undefined {
  const message = status.failureMessage ?? status.deprecated?.v1beta1?.failureMessage;
  if (message !== undefined) return message;
  if (status.phase === "Failed") return "its phase is Failed";
  // Machines of the version before are not repaired, since the upgrade replaces them.
  const wanted = target.kubernetesVersion;
  return wanted !== undefined && isSameVersion(spec.version, wanted) ? whyStuck(status) : undefined;
}

/**
 * Since v1beta2 no Machine has the phase Failed: one that its MachineHealthCheck finds unhealthy is replaced, as often as its owner may.
 * Source: kubernetes-sigs/cluster-api, controlplane/kubeadm, remediation.go.
 */
function whyStuck(status: Machine["status"] & object): string | undefined {
  const conditions = status.v1beta2?.conditions ?? status.conditions;
  const remediation = findCondition(conditions, "OwnerRemediated");
  if (remediation?.status !== "False" || remediation.reason !== "CannotBeRemediated") return undefined;
  const unhealthy = findCondition(conditions, "HealthCheckSucceeded")?.message ?? "";
  return [unhealthy, remediation.message].filter((it) => it !== "").join("; ");
}
