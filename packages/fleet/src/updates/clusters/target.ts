import type { ClusterUpgradeStatus, UpgradeTarget } from "#api/fairlead.dev/v1alpha1/updates.ts";
import { isSameVersion, parseImage } from "./versions.ts";

/** Whether a cluster has what the upgrade leads to. */
export function isAtTarget(observed: ClusterUpgradeStatus, target: UpgradeTarget): boolean {
  return missingOf(observed, target) === undefined;
}

/** What a cluster does not have of it, for people. */
export function missingOf(observed: ClusterUpgradeStatus, target: UpgradeTarget): string | undefined {
  const { type, kubernetesVersion: wanted, nodeImages = [] } = target;
  const nodes = observed.nodes ?? [];
  if (wanted !== undefined && !isSameVersion(observed.kubernetesVersion, wanted))
    return `the control plane has version ${observed.kubernetesVersion ?? "unknown"}`;
  if (type === "ControlPlaneOnly") return undefined;
  const older = nodes.find((it) => wanted !== undefined && !isSameVersion(it.kubernetesVersion, wanted));
  if (older !== undefined) return `node ${older.name} has version ${older.kubernetesVersion}`;
  const images = new Map(nodeImages.map((it) => [parseImage(it).family, it]));
  for (const { name, image } of nodes) {
    const wantedImage = image === undefined ? undefined : images.get(parseImage(image).family);
    if (wantedImage !== undefined && wantedImage !== image) return `node ${name} has image ${image}`;
  }
  return undefined;
}
