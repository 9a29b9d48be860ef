import { byText } from "@fairlead/base/text.ts";
import type { TableColumn } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import { ageOf } from "../duration.ts";
import { fieldsAt, type Fields, itemsAt, numberAt, stringMapAt, textAt } from "@fairlead/base/fields.ts";
import { ageColumn, column, listText, nameColumn, NONE, specOf, statusOf, UNKNOWN, wide } from "./common.ts";

const ROLE_LABEL = "node-role.kubernetes.io/";
const OLD_ROLE_LABEL = "kubernetes.io/role";

export const namespaceColumns: readonly TableColumn[] = [
  nameColumn,
  column("Status", (object) => textAt(statusOf(object), "phase")),
  ageColumn,
];

export const configMapColumns: readonly TableColumn[] = [
  nameColumn,
  column("Data", (object) => sizeOf(object, "data") + sizeOf(object, "binaryData")),
  ageColumn,
];

export const secretColumns: readonly TableColumn[] = [
  nameColumn,
  column("Type", (object) => textAt(object, "type")),
  column("Data", (object) => sizeOf(object, "data")),
  ageColumn,
];

function sizeOf(object: ApiObject, field: string): number {
  return Object.keys(fieldsAt(object, field) ?? {}).length;
}

export const nameAndAge: readonly TableColumn[] = [nameColumn, ageColumn];

export const nodeColumns: readonly TableColumn[] = [
  nameColumn,
  column("Status", nodeStatusText),
  column("Roles", nodeRolesText),
  ageColumn,
  column("Version", (object) => nodeInfo(object, "kubeletVersion")),
  wide("Internal-IP", (object) => nodeAddress(object, "InternalIP")),
  wide("External-IP", (object) => nodeAddress(object, "ExternalIP")),
  wide("OS-Image", (object) => nodeInfo(object, "osImage") || UNKNOWN),
  wide("Kernel-Version", (object) => {
    const version = nodeInfo(object, "kernelVersion") || UNKNOWN;
    const architecture = nodeInfo(object, "architecture");
    return architecture === "" ? version : `${version} (${architecture})`;
  }),
  wide("Container-Runtime", (object) => nodeInfo(object, "containerRuntimeVersion") || UNKNOWN),
];

function nodeStatusText(object: ApiObject): string {
  const ready = itemsAt(statusOf(object), "conditions").find((it) => textAt(it, "type") === "Ready");
  let text = "Unknown";
  if (ready !== undefined) text = textAt(ready, "status") === "True" ? "Ready" : "NotReady";
  return specOf(object)?.["unschedulable"] === true ? `${text},SchedulingDisabled` : text;
}

function nodeRolesText(object: ApiObject): string {
  const roles = Object.entries(object.metadata.labels ?? {}).flatMap(([key, value]) => {
    if (key.startsWith(ROLE_LABEL) && key.length > ROLE_LABEL.length) return [key.slice(ROLE_LABEL.length)];
    return key === OLD_ROLE_LABEL && value !== "" ? [value] : [];
  });
  return listText([...new Set(roles)].toSorted());
}

function nodeInfo(object: ApiObject, field: string): string {
  return textAt(fieldsAt(statusOf(object), "nodeInfo"), field);
}

function nodeAddress(object: ApiObject, type: string): string {
  const found = itemsAt(statusOf(object), "addresses").find((it) => textAt(it, "type") === type);
  return found === undefined ? NONE : textAt(found, "address");
}

export const eventColumns: readonly TableColumn[] = [
  column("Last Seen", lastSeenText),
  column("Type", (object) => textAt(object, "type")),
  column("Reason", (object) => textAt(object, "reason")),
  column("Object", (object) => {
    const involved = fieldsAt(object, "involvedObject");
    const name = textAt(involved, "name");
    const kind = textAt(involved, "kind").toLowerCase();
    return name === "" ? kind : `${kind}/${name}`;
  }),
  wide("Subobject", (object) => textAt(fieldsAt(object, "involvedObject"), "fieldPath")),
  wide("Source", (object) => {
    const source = fieldsAt(object, "source");
    const component = textAt(source, "component") || textAt(object, "reportingComponent");
    const host = textAt(source, "host") || textAt(object, "reportingInstance");
    return host === "" ? component : `${component}, ${host}`;
  }),
  column("Message", (object) => textAt(object, "message").trim()),
  wide("First Seen", (object, nowMs) =>
    ageOf(textAt(object, "firstTimestamp") || object["eventTime"], nowMs),
  ),
  wide("Count", countText),
  { ...nameColumn, priority: 1 },
];

function seriesOf(object: ApiObject): Fields | undefined {
  return fieldsAt(object, "series");
}

function lastSeenText(object: ApiObject, nowMs: number): string {
  const observed = textAt(seriesOf(object), "lastObservedTime") || textAt(object, "lastTimestamp");
  return ageOf(observed || textAt(object, "firstTimestamp") || object["eventTime"], nowMs);
}

function countText(object: ApiObject): number {
  return numberAt(seriesOf(object), "count") ?? (numberAt(object, "count") || 1);
}

export const volumeColumns: readonly TableColumn[] = [
  nameColumn,
  column("Capacity", (object) => textAt(fieldsAt(specOf(object), "capacity"), "storage") || "0"),
  column("Access Modes", (object) => accessModesText(specOf(object))),
  column("Reclaim Policy", (object) => textAt(specOf(object), "persistentVolumeReclaimPolicy")),
  column("Status", phaseText),
  column("Claim", (object) => {
    const claim = fieldsAt(specOf(object), "claimRef");
    return claim === undefined ? "" : `${textAt(claim, "namespace")}/${textAt(claim, "name")}`;
  }),
  column("StorageClass", storageClassText),
  column(
    "VolumeAttributesClass",
    (object) => textAt(specOf(object), "volumeAttributesClassName") || "<unset>",
  ),
  column("Reason", (object) => textAt(statusOf(object), "reason")),
  ageColumn,
  wide("VolumeMode", (object) => textAt(specOf(object), "volumeMode") || "<unset>"),
];

export const claimColumns: readonly TableColumn[] = [
  nameColumn,
  column("Status", phaseText),
  column("Volume", (object) => textAt(specOf(object), "volumeName")),
  column("Capacity", (object) =>
    textAt(specOf(object), "volumeName") === ""
      ? ""
      : textAt(fieldsAt(statusOf(object), "capacity"), "storage") || "0",
  ),
  column("Access Modes", (object) =>
    textAt(specOf(object), "volumeName") === "" ? "" : accessModesText(statusOf(object)),
  ),
  column("StorageClass", storageClassText),
  column(
    "VolumeAttributesClass",
    (object) => textAt(specOf(object), "volumeAttributesClassName") || "<unset>",
  ),
  ageColumn,
  wide("VolumeMode", (object) => textAt(specOf(object), "volumeMode") || "<unset>"),
];

/** The annotation is older than the field, and still goes before it. */
function storageClassText(object: ApiObject): string {
  return (
    object.metadata.annotations?.["volume.beta.kubernetes.io/storage-class"] ??
    textAt(specOf(object), "storageClassName")
  );
}

function phaseText(object: ApiObject): string {
  if (object.metadata.deletionTimestamp !== undefined) return "Terminating";
  return textAt(statusOf(object), "phase");
}

const ACCESS_MODES: Readonly<Record<string, string>> = {
  ReadWriteOnce: "RWO",
  ReadOnlyMany: "ROX",
  ReadWriteMany: "RWX",
  ReadWriteOncePod: "RWOP",
};

function accessModesText(of: Fields | undefined): string {
  const modes = of?.["accessModes"];
  if (!Array.isArray(modes)) return "";
  return Object.keys(ACCESS_MODES)
    .filter((it) => modes.includes(it))
    .map((it) => ACCESS_MODES[it])
    .join(",");
}

export const quotaColumns: readonly TableColumn[] = [
  nameColumn,
  column("Request", (object) => quotaText(object, (it) => !it.startsWith("limits"))),
  column("Limit", (object) => quotaText(object, (it) => it.startsWith("limits"))),
  ageColumn,
];

function quotaText(object: ApiObject, isShown: (resource: string) => boolean): string {
  const used = stringMapAt(statusOf(object), "used");
  return Object.entries(stringMapAt(statusOf(object), "hard"))
    .filter(([key]) => isShown(key))
    .toSorted(([a], [b]) => byText(a, b))
    .map(([key, hard]) => `${key}: ${used[key] ?? "0"}/${hard}`)
    .join(", ");
}
