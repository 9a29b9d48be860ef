import { resource } from "../../meta/resource.ts";
import type { KubeObject } from "../../meta/types.ts";

/** Volumes and claims, with only the fields that show whether they are in use. */

export interface PersistentVolumeClaim extends KubeObject {
  spec?: { volumeName?: string; volumeAttributesClassName?: string };
  status?: {
    phase?: "Pending" | "Bound" | "Lost";
    currentVolumeAttributesClassName?: string;
    modifyVolumeStatus?: { status: string; targetVolumeAttributesClassName?: string };
  };
}

export interface PersistentVolume extends KubeObject {
  spec?: { volumeAttributesClassName?: string };
  status?: { phase?: "Pending" | "Available" | "Bound" | "Released" | "Failed" };
}

export const PERSISTENT_VOLUME_CLAIMS = resource<PersistentVolumeClaim>(
  "v1",
  "PersistentVolumeClaim",
  "persistentvolumeclaims",
);
export const PERSISTENT_VOLUMES = resource<PersistentVolume>(
  "v1",
  "PersistentVolume",
  "persistentvolumes",
  "Cluster",
);
