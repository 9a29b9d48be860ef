import type { TableColumn } from "#registry/types.ts";
import { fieldsAt, itemsAt, stringsAt, textAt } from "@fairlead/base/fields.ts";
import { ageColumn, column, listText, nameColumn, specOf, statusOf, UNSET } from "./common.ts";

export const attachmentColumns: readonly TableColumn[] = [
  nameColumn,
  { ...column("Attacher", (object) => textAt(specOf(object), "attacher")), format: "name" },
  column("PV", (object) => textAt(fieldsAt(specOf(object), "source"), "persistentVolumeName")),
  column("Node", (object) => textAt(specOf(object), "nodeName")),
  column("Attached", (object) => statusOf(object)?.["attached"] === true, "boolean"),
  ageColumn,
];

export const driverColumns: readonly TableColumn[] = [
  nameColumn,
  column("AttachRequired", (object) => specOf(object)?.["attachRequired"] === true, "boolean"),
  column("PodInfoOnMount", (object) => specOf(object)?.["podInfoOnMount"] === true, "boolean"),
  column("StorageCapacity", (object) => specOf(object)?.["storageCapacity"] === true, "boolean"),
  column("TokenRequests", (object) => {
    const audiences = itemsAt(specOf(object), "tokenRequests").map((it) => textAt(it, "audience"));
    return audiences.length === 0 ? UNSET : audiences.join(",");
  }),
  column("RequiresRepublish", (object) => specOf(object)?.["requiresRepublish"] === true, "boolean"),
  column("Modes", (object) => listText(stringsAt(specOf(object), "volumeLifecycleModes"))),
  ageColumn,
];

export const csiNodeColumns: readonly TableColumn[] = [
  nameColumn,
  column("Drivers", (object) => itemsAt(specOf(object), "drivers").length, "integer"),
  ageColumn,
];

export const attributesClassColumns: readonly TableColumn[] = [
  nameColumn,
  column("DriverName", (object) => textAt(object, "driverName")),
  ageColumn,
];
