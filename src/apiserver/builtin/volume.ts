import type { ApiObject, Strategy } from "../registry/types.ts";
import type { FieldError } from "../status.ts";
import { required } from "./field-errors.ts";
import { ensureFields, fieldsAt, setDefaults, stringsAt } from "./fields.ts";

/** Volumes and claims on them. Nothing here provides storage; what is asked for is kept and defaulted. */

export const volumeStrategy: Partial<Strategy> = {
  generation: "none",
  applyDefaults: (object) => {
    const spec = ensureFields(object, "spec");
    setDefaults(spec, { persistentVolumeReclaimPolicy: "Retain", volumeMode: "Filesystem" });
    const hostPath = fieldsAt(spec, "hostPath");
    if (hostPath !== undefined) hostPath["type"] ??= "";
  },
  prepareForCreate: (object) => {
    object["status"] = { phase: "Pending" };
  },
  validateCreate: (object) => [
    ...requireAccessModes(object),
    ...(fieldsAt(fieldsAt(object, "spec"), "capacity") === undefined ? [required("spec.capacity")] : []),
  ],
};

export const claimStrategy: Partial<Strategy> = {
  generation: "none",
  applyDefaults: (object) => setDefaults(ensureFields(object, "spec"), { volumeMode: "Filesystem" }),
  prepareForCreate: (object) => {
    object["status"] = { phase: "Pending" };
  },
  validateCreate: (object) => {
    const requests = fieldsAt(fieldsAt(fieldsAt(object, "spec"), "resources"), "requests");
    const hasSize = requests?.["storage"] !== undefined;
    return [...requireAccessModes(object), ...(hasSize ? [] : [required("spec.resources[storage]")])];
  },
};

function requireAccessModes(object: ApiObject): FieldError[] {
  const modes = stringsAt(fieldsAt(object, "spec"), "accessModes");
  return modes.length > 0 ? [] : [required("spec.accessModes", "at least 1 access mode is required")];
}
