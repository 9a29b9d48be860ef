import { resource } from "../../meta/resource.ts";
import type { KubeObject } from "../../meta/types.ts";

export interface VolumeAttributesClass extends KubeObject {
  driverName: string;
}

export const VOLUME_ATTRIBUTES_CLASSES = resource<VolumeAttributesClass>(
  "storage.k8s.io/v1",
  "VolumeAttributesClass",
  "volumeattributesclasses",
  "Cluster",
);
