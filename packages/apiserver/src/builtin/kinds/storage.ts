import type { ResourceDefinition } from "#registry/types.ts";
import {
  attachmentColumns,
  attributesClassColumns,
  csiNodeColumns,
  driverColumns,
} from "../columns/storage.ts";
import { storageClassColumns } from "../columns/other.ts";
import { define } from "../define.ts";
import {
  attachmentStrategy,
  attributesClassStrategy,
  capacityStrategy,
  csiNodeStrategy,
  driverStrategy,
  driverWarnings,
  storageClassStrategy,
} from "../storage/classes.ts";

/** Group storage: what is asked for is kept and defaulted; nothing here provides storage. */
export function storageResources(): readonly ResourceDefinition[] {
  return [
    define("storage.k8s.io/v1", "StorageClass", {
      plural: "storageclasses",
      clusterScoped: true,
      shortNames: ["sc"],
      columns: storageClassColumns,
      strategy: storageClassStrategy,
    }),
    define("storage.k8s.io/v1", "VolumeAttachment", {
      plural: "volumeattachments",
      clusterScoped: true,
      columns: attachmentColumns,
      hasStatus: true,
      strategy: attachmentStrategy,
    }),
    define("storage.k8s.io/v1", "CSIDriver", {
      plural: "csidrivers",
      clusterScoped: true,
      columns: driverColumns,
      strategy: driverStrategy,
      warnings: driverWarnings,
    }),
    define("storage.k8s.io/v1", "CSINode", {
      plural: "csinodes",
      clusterScoped: true,
      columns: csiNodeColumns,
      strategy: csiNodeStrategy,
    }),
    define("storage.k8s.io/v1", "CSIStorageCapacity", {
      plural: "csistoragecapacities",
      strategy: capacityStrategy,
    }),
    define("storage.k8s.io/v1", "VolumeAttributesClass", {
      plural: "volumeattributesclasses",
      clusterScoped: true,
      shortNames: ["vac"],
      columns: attributesClassColumns,
      strategy: attributesClassStrategy,
    }),
  ];
}
