import { cloneJson, jsonKey, sameJson } from "@fairlead/base/json.ts";
import type { WriteContext } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import type { FieldError } from "#status.ts";
import { invalid, notAllowed } from "#values/field-errors.ts";
import { type Fields, fieldsAt, itemsAt, numberAt, stringMapAt, textAt } from "@fairlead/base/fields.ts";
import { each } from "../rules.ts";
import { toleration } from "./scheduling.ts";
import { validatePodStatus } from "./status.ts";
import { image, validatePodSpec } from "./validate.ts";

/** Validates updates of pods. Source: k8s.io/kubernetes, pkg/apis/core/validation, `ValidatePodUpdate`. */

const UPDATE_RULE =
  "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`," +
  "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations)," +
  "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

export function validatePodUpdate(pod: ApiObject, old: ApiObject, context: WriteContext): FieldError[] {
  const spec = fieldsAt(pod, "spec") ?? {};
  const before = fieldsAt(old, "spec") ?? {};
  if (context.subresource === "status") return validatePodStatus(pod, old);
  if (sameJson(spec, before)) return [];
  const errors = validatePodSpec(spec, "spec", { podName: pod.metadata.name });
  for (const list of ["containers", "initContainers"]) {
    if (itemsAt(spec, list).length !== itemsAt(before, list).length) {
      return [...errors, notAllowed(`spec.${list}`, "pod updates may not add or remove containers")];
    }
    errors.push(...itemsAt(spec, list).flatMap((it, at) => image(it, `spec.${list}[${at}]`)));
  }
  const deadline = validateDeadline(numberAt(spec, "activeDeadlineSeconds"), before);
  errors.push(...deadline.errors);
  if (deadline.isFinal) return errors;
  errors.push(...validateTolerations(spec, before), ...validateGates(spec, before));
  const isGated = itemsAt(before, "schedulingGates").length > 0;
  if (isGated) errors.push(...validateNodeSelector(spec, before));
  if (sameJson(fixedPart(spec, context, isGated), fixedPart(before, context, isGated))) return errors;
  return [...errors, notAllowed("spec", UPDATE_RULE)];
}

const DEADLINE = "spec.activeDeadlineSeconds";

function validateDeadline(
  deadline: number | undefined,
  before: Fields,
): { readonly errors: readonly FieldError[]; readonly isFinal: boolean } {
  const old = numberAt(before, "activeDeadlineSeconds");
  if (deadline === undefined) {
    const detail = "must not update from a positive integer to nil value";
    return { errors: old === undefined ? [] : [invalid(DEADLINE, deadline, detail)], isFinal: false };
  }
  if (deadline < 0 || deadline >= 2 ** 31) {
    return {
      errors: [invalid(DEADLINE, deadline, "must be between 0 and 2147483647, inclusive")],
      isFinal: true,
    };
  }
  if (old === undefined || old >= deadline) return { errors: [], isFinal: false };
  return {
    errors: [invalid(DEADLINE, deadline, "must be less than or equal to previous value")],
    isFinal: true,
  };
}

function validateTolerations(spec: Fields, before: Fields): readonly FieldError[] {
  const path = "spec.tolerations";
  const untimed = (it: Fields): Fields => ({ ...it, tolerationSeconds: undefined });
  const kept = new Set(itemsAt(spec, "tolerations").map((it) => jsonKey(untimed(it))));
  const isMissing = itemsAt(before, "tolerations").some((it) => !kept.has(jsonKey(untimed(it))));
  if (!isMissing) return each(toleration)(spec["tolerations"], path);
  return [notAllowed(path, "existing toleration can not be modified except its tolerationSeconds")];
}

function validateGates(spec: Fields, before: Fields): FieldError[] {
  const known = new Set(itemsAt(before, "schedulingGates").map((it) => textAt(it, "name")));
  return itemsAt(spec, "schedulingGates").flatMap((it, at) => {
    const name = textAt(it, "name");
    if (known.has(name)) return [];
    const detail = `only deletion is allowed, but found new scheduling gate '${name}'`;
    return [notAllowed(`spec.schedulingGates[${at}].name`, detail)];
  });
}

/** While a gate holds the pod back, its place may be narrowed (KEP-3838). */
function validateNodeSelector(spec: Fields, before: Fields): FieldError[] {
  const after = stringMapAt(spec, "nodeSelector");
  const isKept = Object.entries(stringMapAt(before, "nodeSelector")).every(
    ([key, value]) => after[key] === value,
  );
  if (isKept) return [];
  const detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
  return [invalid("spec.nodeSelector", after, detail)];
}

/** The immutable part of a pod: everything except images and a few fields, and the node while the pod is being bound. */
function fixedPart(spec: Fields, { subresource }: WriteContext, isGated: boolean): Fields {
  const fixed = cloneJson(spec);
  for (const list of ["containers", "initContainers"]) {
    for (const container of itemsAt(fixed, list)) delete container["image"];
  }
  for (const field of ["activeDeadlineSeconds", "tolerations", "schedulingGates"]) delete fixed[field];
  const grace = numberAt(spec, "terminationGracePeriodSeconds") ?? 0;
  if (grace === 1 || grace < 0) delete fixed["terminationGracePeriodSeconds"];
  if (isGated) delete fixed["nodeSelector"];
  if (isGated) delete fieldsAt(fixed, "affinity")?.["nodeAffinity"];
  if (subresource === "binding") delete fixed["nodeName"];
  return fixed;
}
