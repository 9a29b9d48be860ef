import type { TableColumn } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import { humanDuration } from "../duration.ts";
import { fieldsAt, itemsAt, numberAt, textAt } from "@fairlead/base/fields.ts";
import { ageColumn, column, nameColumn, NONE, specOf, statusOf, wide } from "./common.ts";

export const bindingColumns: readonly TableColumn[] = [
  nameColumn,
  column("Role", (object) => {
    const role = fieldsAt(object, "roleRef");
    return `${textAt(role, "kind")}/${textAt(role, "name")}`;
  }),
  ageColumn,
  wide("Users", (object) => subjectsText(object, "User")),
  wide("Groups", (object) => subjectsText(object, "Group")),
  wide("ServiceAccounts", (object) => subjectsText(object, "ServiceAccount")),
];

function subjectsText(object: ApiObject, kind: string): string {
  const subjects = itemsAt(object, "subjects").filter((it) => textAt(it, "kind") === kind);
  return subjects
    .map((it) =>
      kind === "ServiceAccount" ? `${textAt(it, "namespace")}/${textAt(it, "name")}` : textAt(it, "name"),
    )
    .join(", ");
}

export const leaseColumns: readonly TableColumn[] = [
  nameColumn,
  column("Holder", (object) => textAt(specOf(object), "holderIdentity")),
  ageColumn,
];

export const storageClassColumns: readonly TableColumn[] = [
  {
    ...nameColumn,
    cell: (object) => {
      const annotations = object.metadata.annotations ?? {};
      const isDefault = annotations["storageclass.kubernetes.io/is-default-class"] === "true";
      return isDefault ? `${object.metadata.name} (default)` : object.metadata.name;
    },
  },
  column("Provisioner", (object) => textAt(object, "provisioner")),
  column("ReclaimPolicy", (object) => textAt(object, "reclaimPolicy")),
  column("VolumeBindingMode", (object) => textAt(object, "volumeBindingMode")),
  column("AllowVolumeExpansion", (object) => object["allowVolumeExpansion"] === true),
  ageColumn,
];

export const priorityClassColumns: readonly TableColumn[] = [
  nameColumn,
  column("Value", (object) => numberAt(object, "value") ?? 0, "integer"),
  column("Global-Default", (object) => object["globalDefault"] === true, "boolean"),
  ageColumn,
  column("PreemptionPolicy", (object) => textAt(object, "preemptionPolicy")),
];

export const runtimeClassColumns: readonly TableColumn[] = [
  nameColumn,
  column("Handler", (object) => textAt(object, "handler")),
  ageColumn,
];

export const webhookColumns: readonly TableColumn[] = [
  nameColumn,
  column("Webhooks", (object) => itemsAt(object, "webhooks").length, "integer"),
  ageColumn,
];

export const admissionPolicyColumns: readonly TableColumn[] = [
  nameColumn,
  column("Validations", (object) => itemsAt(specOf(object), "validations").length, "integer"),
  column("ParamKind", (object) => {
    const kind = fieldsAt(specOf(object), "paramKind");
    return kind === undefined ? "<unset>" : `${textAt(kind, "apiVersion")}/${textAt(kind, "kind")}`;
  }),
  ageColumn,
];

export const admissionPolicyBindingColumns: readonly TableColumn[] = [
  nameColumn,
  column("PolicyName", (object) => textAt(specOf(object), "policyName")),
  column("ParamRef", (object) => {
    const ref = fieldsAt(specOf(object), "paramRef");
    if (ref === undefined) return "<unset>";
    const namespace = textAt(ref, "namespace");
    return namespace === "" ? textAt(ref, "name") : `${namespace}/${textAt(ref, "name")}`;
  }),
  ageColumn,
];

export const apiServiceColumns: readonly TableColumn[] = [
  nameColumn,
  column("Service", (object) => {
    const service = fieldsAt(specOf(object), "service");
    return service === undefined ? "Local" : `${textAt(service, "namespace")}/${textAt(service, "name")}`;
  }),
  column("Available", (object) => {
    const found = itemsAt(statusOf(object), "conditions").find((it) => textAt(it, "type") === "Available");
    if (found === undefined) return "Unknown";
    const status = textAt(found, "status");
    return status === "True" ? status : `${status} (${textAt(found, "reason")})`;
  }),
  ageColumn,
];

export const signingRequestColumns: readonly TableColumn[] = [
  nameColumn,
  ageColumn,
  column("SignerName", (object) => textAt(specOf(object), "signerName") || NONE),
  column("Requestor", (object) => textAt(specOf(object), "username")),
  column("RequestedDuration", (object) => {
    const seconds = numberAt(specOf(object), "expirationSeconds");
    return seconds === undefined ? NONE : humanDuration(seconds * 1000);
  }),
  column("Condition", (object) => {
    const types = itemsAt(statusOf(object), "conditions").map((it) => textAt(it, "type"));
    const isIssued = textAt(statusOf(object), "certificate") !== "";
    const parts = types.length === 0 ? ["Pending"] : types;
    return [...parts, ...(isIssued ? ["Issued"] : [])].join(",");
  }),
];
