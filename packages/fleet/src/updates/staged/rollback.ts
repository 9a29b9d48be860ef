import { firstUid } from "#domain/first-uid.ts";
import { BEFORE_UPDATE_RUN_ANNOTATION } from "#api/fairlead.dev/names.ts";
import type { ResourceBinding } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import type {
  ClusterUpdatingStatus,
  StagedUpdateRun,
  StageUpdatingStatus,
} from "#api/placement.kubernetes-fleet.io/v1beta1/staged.ts";
import { isObject } from "@fairlead/base/json.ts";
import { isAt, type Version, versionFor } from "./binding.ts";
import { mark, statusOf } from "./conditions.ts";
import type { Pass } from "./pass.ts";

/** What a cluster has before a run changes it, as it is remembered on its binding; null if nothing. */
export function previousOf(run: StagedUpdateRun, { spec }: ResourceBinding): string | null {
  const {
    resourceSnapshotName,
    resourceOverrideSnapshots = [],
    clusterResourceOverrideSnapshots = [],
  } = spec;
  if (spec.state !== "Bound" || resourceSnapshotName === "") return null;
  const version: Version = {
    resourceSnapshotName,
    resourceOverrideSnapshots,
    clusterResourceOverrideSnapshots,
  };
  return JSON.stringify({ run: firstUid(run), version });
}

function remembered(run: StagedUpdateRun, { metadata }: ResourceBinding): Version | undefined {
  const value = parsed(metadata.annotations?.[BEFORE_UPDATE_RUN_ANNOTATION]);
  if (!isObject(value) || value["run"] !== firstUid(run) || !isObject(value["version"])) return undefined;
  const { resourceSnapshotName } = value["version"];
  return typeof resourceSnapshotName === "string" ? (value["version"] as unknown as Version) : undefined;
}

/** Undefined for what others wrote into the annotation. */
function parsed(text: string | undefined): unknown {
  try {
    return text === undefined ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Gives the clusters of a stage back what they had before. Those that had nothing keep what they have. */
export function rollBack(pass: Pass, stage: StageUpdatingStatus): void {
  for (const cluster of stage.clusters)
    if (statusOf(cluster, "Started") === "True") rollBackCluster(pass, cluster);
}

function rollBackCluster(pass: Pass, cluster: ClusterUpdatingStatus): void {
  const binding = pass.targets.scheduled.get(cluster.clusterName);
  const previous = binding === undefined ? undefined : remembered(pass.run, binding);
  if (binding === undefined || previous === undefined) {
    const message = "the cluster had no other resources before the update run";
    return mark(cluster, pass, ["RolledBack", "False", "ClusterNotRolledBack", message]);
  }
  if (isAt(binding, versionFor(cluster, pass.resourceSnapshotName)))
    pass.bind.push({ binding, spec: { ...previous } });
  const message = `the cluster has resource snapshot ${previous.resourceSnapshotName} again`;
  return mark(cluster, pass, ["RolledBack", "True", "ClusterRolledBack", message]);
}
