import { sameJson } from "@fairlead/base/json.ts";
import type { Strategy } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import { timestamp } from "#registry/metadata.ts";
import type { FieldError } from "#status.ts";
import { IMMUTABLE, invalid, notAllowed, notSupported, required } from "#values/field-errors.ts";
import {
  ensureFields,
  type Fields,
  fieldsAt,
  setDefault,
  setDefaults,
  stringAt,
  textAt,
} from "@fairlead/base/fields.ts";
import { dnsLabel, subdomain } from "../names.ts";
import { nodeSelector } from "../pod/scheduling.ts";
import { driverName, hostPath, nfs } from "../pod/volumes.ts";
import { parseQuantity } from "@fairlead/kube/api/meta/quantity.ts";
import { all, fields, filled, oneOf, optional, present, type Rule, whole } from "../rules.ts";
import { protect } from "./protection.ts";
import { accessModes, claimSpec, defaultSources, dropForeignSource, volumeMode } from "./claim-spec.ts";

/** Volumes and claims on them. Source: k8s.io/kubernetes, pkg/apis/core/validation and the admission plugin that protects them. */

const secretReference: Rule = present(
  fields({ name: filled("", subdomain), namespace: filled("", dnsLabel) }),
);

const SOURCES: Readonly<Record<string, Rule>> = {
  hostPath,
  nfs,
  local: fields({ path: filled() }),
  csi: fields({
    driver: all(driverName, optional(subdomain)),
    volumeHandle: filled(),
    controllerPublishSecretRef: secretReference,
    controllerExpandSecretRef: secretReference,
    nodePublishSecretRef: secretReference,
    nodeExpandSecretRef: secretReference,
  }),
};

/** Fields of a volume's spec that say nothing of where it is kept. */
const OTHER_FIELDS = new Set([
  "accessModes",
  "capacity",
  "claimRef",
  "mountOptions",
  "nodeAffinity",
  "persistentVolumeReclaimPolicy",
  "storageClassName",
  "volumeAttributesClassName",
  "volumeMode",
]);

function sourceOf(spec: Fields): Fields {
  return Object.fromEntries(Object.entries(spec).filter(([key]) => !OTHER_FIELDS.has(key)));
}

const source: Rule = whole((spec, path) => {
  const kinds = Object.keys(sourceOf(spec));
  if (kinds.length === 0) return [required(path, "must specify a volume type")];
  return kinds.flatMap((it, at) =>
    at === 0
      ? (SOURCES[it]?.(spec[it], `${path}.${it}`) ?? [])
      : [notAllowed(`${path}.${it}`, "may not specify more than 1 volume type")],
  );
});

const capacity: Rule = whole((list, path) => [
  ...(Object.keys(list).length === 1 && list["storage"] !== undefined
    ? []
    : [notSupported(path, list, ["storage"])]),
  ...Object.entries(list).flatMap(([name, value]) => {
    const size = parseQuantity(value) ?? 0n;
    const at = `${path}[${name}]`;
    return [
      ...(size < 0n ? [invalid(at, Number(size / 10n ** 9n), "must be a valid resource quantity")] : []),
      ...(size <= 0n ? [invalid(at, value, "must be greater than zero")] : []),
    ];
  }),
]);

const requiredNodes: Rule = whole((of, path) =>
  fieldsAt(of, "required") === undefined
    ? [required(`${path}.required`, "must specify required node constraints")]
    : fields({ required: nodeSelector })(of, path),
);

const volumeSpec: Rule = all(
  fields({ accessModes: all(filled(), accessModes) }),
  (value, path) => {
    const spec = fieldsAt({ value }, "value");
    const list = fieldsAt(spec, "capacity");
    if (list === undefined)
      return [required(`${path}.capacity`), notSupported(`${path}.capacity`, null, ["storage"])];
    const missing = Object.keys(list).length === 0 ? [required(`${path}.capacity`)] : [];
    return [...missing, ...capacity(list, `${path}.capacity`)];
  },
  fields({
    persistentVolumeReclaimPolicy: optional(oneOf("Delete", "Recycle", "Retain")),
    nodeAffinity: present(requiredNodes),
  }),
  source,
  fields({ storageClassName: optional(subdomain), volumeMode }),
  whole((spec, path) => {
    const name = stringAt(spec, "volumeAttributesClassName");
    if (name === undefined) return [];
    const errors =
      name === ""
        ? [required(`${path}.volumeAttributesClassName`, "an empty string is disallowed")]
        : subdomain(name, `${path}.volumeAttributesClassName`);
    if (spec["csi"] !== undefined) return errors;
    return [...errors, required(`${path}.csi`, "has to be specified when using volumeAttributesClassName")];
  }),
);

const validateVolume: Rule = fields({ spec: volumeSpec });

function validateVolumeUpdate(object: ApiObject, old: ApiObject): readonly FieldError[] {
  const spec = fieldsAt(object, "spec") ?? {};
  const before = fieldsAt(old, "spec") ?? {};
  const errors = [...validateVolume(object, "")];
  if (!sameJson(sourceOf(spec), sourceOf(before))) {
    errors.push(
      notAllowed("spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation"),
    );
  }
  errors.push(...sameMode(spec, before));
  const nodes = before["nodeAffinity"];
  if (nodes !== undefined && !sameJson(nodes, spec["nodeAffinity"])) {
    const detail = `${IMMUTABLE}, except for updating from beta label to GA`;
    errors.push(invalid("nodeAffinity", spec["nodeAffinity"], detail));
  }
  return [...errors, ...keepsAttributesClass(spec, before)];
}

/** Reported without its `spec`, as upstream does. */
function sameMode(spec: Fields, before: Fields): FieldError[] {
  const mode = spec["volumeMode"];
  return mode === before["volumeMode"] ? [] : [invalid("volumeMode", mode, IMMUTABLE)];
}

function keepsAttributesClass(spec: Fields, before: Fields): FieldError[] {
  if (before["volumeAttributesClassName"] === undefined || spec["volumeAttributesClassName"] !== undefined)
    return [];
  return [notAllowed("spec.volumeAttributesClassName", "update from non-nil value to nil is forbidden")];
}

export const volumeStrategy: Partial<Strategy> = {
  generation: "none",
  applyDefaults: (object) => {
    const spec = ensureFields(object, "spec");
    setDefaults(spec, { persistentVolumeReclaimPolicy: "Retain" });
    spec["volumeMode"] ??= "Filesystem";
    setDefault(ensureFields(object, "status"), "phase", "Pending");
    const path = fieldsAt(spec, "hostPath");
    if (path !== undefined) path["type"] ??= "";
  },
  prepareForCreate: (object, { nowMs }) => {
    object["status"] = { phase: "Pending", lastPhaseTransitionTime: timestamp(nowMs) };
    protect(object, "kubernetes.io/pv-protection");
  },
  prepareForUpdate: (object, old, { nowMs }) => {
    const status = fieldsAt(object, "status");
    const before = fieldsAt(old, "status");
    if (status === undefined || status["phase"] === before?.["phase"]) return;
    if (status["lastPhaseTransitionTime"] === before?.["lastPhaseTransitionTime"]) {
      status["lastPhaseTransitionTime"] = timestamp(nowMs);
    }
  },
  validateCreate: (object) => validateVolume(object, ""),
  validateUpdate: validateVolumeUpdate,
};

const validateClaim: Rule = fields({ spec: claimSpec });

/** The mutable fields of a bound claim's spec. */
const FREE_FIELDS = new Set(["resources", "volumeAttributesClassName"]);

function validateClaimUpdate(object: ApiObject, old: ApiObject): readonly FieldError[] {
  const spec = fieldsAt(object, "spec") ?? {};
  const before = fieldsAt(old, "spec") ?? {};
  const errors = [...validateClaim(object, "")];
  const fixed = (of: Fields): unknown => [
    Object.fromEntries(Object.entries(of).filter(([key]) => !FREE_FIELDS.has(key))),
    fieldsAt(fieldsAt(of, "resources"), "limits"),
  ];
  const sizeOf = (of: Fields): bigint =>
    parseQuantity(fieldsAt(fieldsAt(of, "resources"), "requests")?.["storage"]) ?? 0n;
  const isBound = textAt(fieldsAt(old, "status"), "phase") === "Bound";
  const isResized = sizeOf(spec) !== sizeOf(before);
  const isClassChanged = spec["volumeAttributesClassName"] !== before["volumeAttributesClassName"];
  const binds = textAt(before, "volumeName") === "" && textAt(spec, "volumeName") !== "";
  const comparable = binds ? { ...spec, volumeName: before["volumeName"] } : spec;
  if (!sameJson(fixed(comparable), fixed(before)) || (!isBound && (isResized || isClassChanged))) {
    const detail =
      "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
    errors.push(notAllowed("spec", detail));
  }
  if (sizeOf(spec) < sizeOf(before)) {
    errors.push(notAllowed("spec.resources.requests.storage", "field can not be less than status.capacity"));
  }
  return [...errors, ...sameMode(spec, before)];
}

function completeSources(object: ApiObject, old: ApiObject | undefined): void {
  const spec = ensureFields(object, "spec");
  dropForeignSource(spec, fieldsAt(old, "spec"));
  defaultSources(spec);
}

export const claimStrategy: Partial<Strategy> = {
  generation: "none",
  applyDefaults: (object) => {
    const spec = ensureFields(object, "spec");
    spec["volumeMode"] ??= "Filesystem";
    setDefault(ensureFields(object, "status"), "phase", "Pending");
  },
  prepareForCreate: (object) => {
    completeSources(object, undefined);
    object["status"] = { phase: "Pending" };
    protect(object, "kubernetes.io/pvc-protection");
  },
  prepareForUpdate: completeSources,
  validateCreate: (object) => validateClaim(object, ""),
  validateUpdate: validateClaimUpdate,
};
