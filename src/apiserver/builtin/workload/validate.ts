import type { LabelSelector } from "#api/meta/types.ts";
import { sameJson } from "#base/json.ts";
import type { ApiObject } from "../../registry/types.ts";
import type { FieldError } from "../../status.ts";
import {
  IMMUTABLE,
  invalid,
  notAllowed,
  notSupported,
  required,
  unlessNonNegative,
  unlessOneOf,
} from "../field-errors.ts";
import { type Fields, fieldsAt, stringMapAt, textAt } from "../fields.ts";
import { isEmptySelector, validateLabelSelector } from "../labels.ts";
import { validatePodTemplate } from "../pod/strategy.ts";
import { matchesLabels } from "../selectors.ts";

/** Source: k8s.io/kubernetes, pkg/apis/apps/validation and pkg/apis/batch/validation. */

const COUNTS = ["replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"];

/** Deployment, ReplicaSet, StatefulSet and DaemonSet: a selector, and a template that it matches. */
export function validateWorkload(object: ApiObject): FieldError[] {
  const spec = fieldsAt(object, "spec");
  return [
    ...validateSelector(spec, object.kind),
    ...COUNTS.flatMap((it) => unlessNonNegative(`spec.${it}`, spec?.[it])),
    ...validateTemplate(spec, ["Always"]),
    ...validateStrategy(object),
  ];
}

export function validateWorkloadUpdate(object: ApiObject, old: ApiObject): FieldError[] {
  const errors = validateWorkload(object);
  const selector = fieldsAt(fieldsAt(object, "spec"), "selector");
  if (!sameJson(selector, fieldsAt(fieldsAt(old, "spec"), "selector"))) {
    errors.push(invalid("spec.selector", selector, IMMUTABLE));
  }
  return errors;
}

function validateSelector(spec: Fields | undefined, kind: string): FieldError[] {
  const selector = fieldsAt(spec, "selector");
  if (selector === undefined) return [required("spec.selector")];
  const errors = validateLabelSelector(selector, "spec.selector");
  if (isEmptySelector(selector)) {
    errors.push(invalid("spec.selector", selector, `empty selector is invalid for ${kind.toLowerCase()}`));
  } else if (errors.length === 0 && fieldsAt(spec, "template") !== undefined) {
    errors.push(...validateMatch(spec, selector));
  }
  return errors;
}

function validateMatch(spec: Fields | undefined, selector: LabelSelector): FieldError[] {
  const labels = stringMapAt(fieldsAt(fieldsAt(spec, "template"), "metadata"), "labels");
  if (matchesLabels(selector, labels)) return [];
  const path = "spec.template.metadata.labels";
  return [invalid(path, labels, "`selector` does not match template `labels`")];
}

function validateTemplate(spec: Fields | undefined, restartPolicies: readonly string[]): FieldError[] {
  const template = fieldsAt(spec, "template");
  if (template === undefined) return [required("spec.template")];
  const errors = validatePodTemplate(template, "spec.template");
  const policy = textAt(fieldsAt(template, "spec"), "restartPolicy");
  if (!restartPolicies.includes(policy)) {
    errors.push(notSupported("spec.template.spec.restartPolicy", policy, restartPolicies));
  }
  return errors;
}

const STRATEGIES: Readonly<Record<string, { readonly field: string; readonly types: readonly string[] }>> = {
  Deployment: { field: "strategy", types: ["Recreate", "RollingUpdate"] },
  StatefulSet: { field: "updateStrategy", types: ["OnDelete", "RollingUpdate"] },
  DaemonSet: { field: "updateStrategy", types: ["OnDelete", "RollingUpdate"] },
};

function validateStrategy(object: ApiObject): FieldError[] {
  const rule = STRATEGIES[object.kind];
  if (rule === undefined) return [];
  const path = `spec.${rule.field}`;
  const strategy = fieldsAt(fieldsAt(object, "spec"), rule.field);
  const type = textAt(strategy, "type");
  const errors = unlessOneOf(`${path}.type`, type, rule.types);
  const rolling = fieldsAt(strategy, "rollingUpdate");
  if (rolling === undefined) return errors;
  if (type !== "RollingUpdate") {
    const detail = `may not be specified when strategy \`type\` is '${type}'`;
    return [...errors, notAllowed(`${path}.rollingUpdate`, detail)];
  }
  const fields = ["maxUnavailable", "maxSurge"].filter((it) => rolling[it] !== undefined);
  errors.push(...fields.flatMap((it) => validateShare(`${path}.rollingUpdate.${it}`, rolling[it])));
  if (fields.length === 2 && fields.every((it) => isZero(rolling[it]))) {
    const detail = "may not be 0 when `maxSurge` is 0";
    errors.push(invalid(`${path}.rollingUpdate.maxUnavailable`, rolling["maxUnavailable"], detail));
  }
  return errors;
}

/** A count, or a percentage. */
export function validateShare(path: string, value: unknown): FieldError[] {
  if (typeof value === "number") return unlessNonNegative(path, value);
  if (typeof value === "string" && /^\d+%$/.test(value)) return [];
  const detail =
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for " +
    "validation is '[0-9]+%')";
  return [invalid(path, value, detail)];
}

function isZero(value: unknown): boolean {
  return value === 0 || value === "0%";
}

const STATEFUL_SET_FIELDS = [
  "replicas",
  "ordinals",
  "template",
  "updateStrategy",
  "revisionHistoryLimit",
  "persistentVolumeClaimRetentionPolicy",
  "minReadySeconds",
];

export function validateStatefulSetUpdate(object: ApiObject, old: ApiObject): FieldError[] {
  const errors = validateWorkload(object);
  const fixedPart = (of: ApiObject): Fields =>
    Object.fromEntries(
      Object.entries(fieldsAt(of, "spec") ?? {}).filter(([key]) => !STATEFUL_SET_FIELDS.includes(key)),
    );
  if (sameJson(fixedPart(object), fixedPart(old))) return errors;
  const list = STATEFUL_SET_FIELDS.slice(0, -1)
    .map((it) => `'${it}'`)
    .join(", ");
  const detail = `updates to statefulset spec for fields other than ${list} and 'minReadySeconds' are forbidden`;
  return [...errors, notAllowed("spec", detail)];
}

export function validateJob(object: ApiObject): FieldError[] {
  const spec = fieldsAt(object, "spec");
  const selector = fieldsAt(spec, "selector");
  return [
    ...[
      "parallelism",
      "completions",
      "backoffLimit",
      "activeDeadlineSeconds",
      "ttlSecondsAfterFinished",
    ].flatMap((it) => unlessNonNegative(`spec.${it}`, spec?.[it])),
    ...unlessOneOf("spec.completionMode", spec?.["completionMode"], ["Indexed", "NonIndexed"]),
    ...(selector === undefined ? [required("spec.selector")] : validateMatch(spec, selector)),
    ...validateTemplate(spec, ["Never", "OnFailure"]),
  ];
}

export function validateJobUpdate(object: ApiObject, old: ApiObject): FieldError[] {
  const spec = fieldsAt(object, "spec");
  const before = fieldsAt(old, "spec");
  const fixed = ["completions", "selector", "completionMode", "backoffLimitPerIndex"];
  // A suspended job that has not run may still be placed elsewhere (KEP-2926).
  const isFree = before?.["suspend"] === true && fieldsAt(old, "status")?.["startTime"] === undefined;
  const frozen = isFree ? fixed : [...fixed, "template"];
  const changed = frozen.filter((it) => !sameJson(spec?.[it], before?.[it]));
  return [...validateJob(object), ...changed.map((it) => invalid(`spec.${it}`, spec?.[it], IMMUTABLE))];
}
