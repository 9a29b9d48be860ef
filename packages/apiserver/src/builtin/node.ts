import { tryParsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import type { Strategy } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import type { FieldError } from "#status.ts";
import { duplicate, invalid, notAllowed } from "#values/field-errors.ts";
import {
  ensureFields,
  fieldsAt,
  type Fields,
  itemsAt,
  setDefault,
  stringsAt,
  textAt,
} from "@fairlead/base/fields.ts";
import { labelValueProblems } from "#values/names.ts";
import { qualifiedName } from "./labels.ts";
import { taintEffect } from "./pod/scheduling.ts";
import { resourceQuantity } from "./resources.ts";
import { fields, text } from "./rules.ts";

export const nodeStrategy: Partial<Strategy> = {
  generation: "none",
  keepsStatusOnCreate: true,
  applyDefaults: (object) => {
    alignPodCidrs(ensureFields(object, "spec"));
    const status = fieldsAt(object, "status");
    const capacity = fieldsAt(status, "capacity");
    if (status !== undefined && capacity !== undefined) setDefault(status, "allocatable", { ...capacity });
  },
  validateCreate: validateNode,
  validateUpdate: (object, old) => [...validateNode(object), ...validateNodeUpdate(object, old)],
  fieldSelectors: {
    "spec.unschedulable": (object) => String(fieldsAt(object, "spec")?.["unschedulable"] === true),
  },
};

/** `podCIDR` is the first of `podCIDRs`, for clients that know only one of them; where both are set and differ, it alone counts. */
function alignPodCidrs(spec: Fields): void {
  const [first] = stringsAt(spec, "podCIDRs");
  const single = textAt(spec, "podCIDR");
  if (single !== "" && single !== first) spec["podCIDRs"] = [single];
  else if (first !== undefined) spec["podCIDR"] = first;
}

function validateNode(object: ApiObject): FieldError[] {
  const spec = fieldsAt(object, "spec");
  return [...validateTaints(spec), ...validateStatus(object), ...validatePodCidrs(spec)];
}

function validatePodCidrs(spec: Fields | undefined): FieldError[] {
  const cidrs = stringsAt(spec, "podCIDRs");
  const path = "spec.podCIDRs";
  const errors = cidrs.flatMap((it, index) => {
    if (tryParsePrefix(it) !== undefined) return [];
    return [
      invalid(`${path}[${index}]`, it, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"),
    ];
  });
  if (errors.length > 0 || cidrs.length === 0) return errors;
  const families = new Set(cidrs.map((it) => tryParsePrefix(it)?.family));
  if (families.size < cidrs.length) {
    errors.push(invalid(path, cidrs, "may specify no more than one CIDR for each IP family"));
  }
  return errors;
}

/** Upstream reports errors of taints at the path of metadata. */
function validateTaints(spec: Fields | undefined): FieldError[] {
  const seen = new Set<string>();
  return itemsAt(spec, "taints").flatMap((taint, index) => {
    const path = `metadata.taints[${index}]`;
    const pair = `${textAt(taint, "key")}:${textAt(taint, "effect")}`;
    const isSeen = seen.has(pair);
    seen.add(pair);
    const repeated = duplicate(path, taint);
    return [
      ...fields({ key: qualifiedName, value: text(labelValueProblems), effect: taintEffect })(taint, path),
      ...(isSeen
        ? [{ ...repeated, message: `${repeated.message}: taints must be unique by key and effect pair` }]
        : []),
    ];
  });
}

function validateStatus(object: ApiObject): FieldError[] {
  const status = fieldsAt(object, "status");
  return ["capacity", "allocatable"].flatMap((list) =>
    Object.entries(fieldsAt(status, list) ?? {}).flatMap(([name, value]) =>
      resourceQuantity(name, value, `status.${list}.${name}`),
    ),
  );
}

/** Node information that is immutable once set. */
function validateNodeUpdate(object: ApiObject, old: ApiObject): FieldError[] {
  const spec = fieldsAt(object, "spec");
  const before = fieldsAt(old, "spec");
  const errors: FieldError[] = [];
  const cidrs = stringsAt(before, "podCIDRs").join(",");
  if (cidrs !== "" && stringsAt(spec, "podCIDRs").join(",") !== cidrs) {
    errors.push(notAllowed("spec.podCIDRs", 'node updates may not change podCIDR except from "" to valid'));
  }
  const provider = textAt(before, "providerID");
  if (provider !== "" && textAt(spec, "providerID") !== provider) {
    const detail = 'node updates may not change providerID except from "" to valid';
    errors.push(notAllowed("spec.providerID", detail));
  }
  return errors;
}
