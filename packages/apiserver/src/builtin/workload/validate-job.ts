import { sameJson } from "@fairlead/base/json.ts";
import type { ApiObject } from "#values/object.ts";
import type { FieldError } from "#status.ts";
import { duplicate, invalid, notSupported, required, tooLong } from "#values/field-errors.ts";
import { type Fields, fieldsAt, itemsAt, numberAt, stringAt, textAt } from "@fairlead/base/fields.ts";
import { labelSelector } from "../labels.ts";
import { domainPrefixedPath } from "../names.ts";
import { validatePodTemplate } from "../pod/validate.ts";
import { fields, immutable, nonNegative, oneOf, present, type Rule, unchanged } from "../rules.ts";
import { countIndexes } from "./indexes.ts";
import { validateMatch } from "./validate.ts";

/** Source: k8s.io/kubernetes, pkg/apis/batch/validation. */

const counts: Rule = fields({
  parallelism: present(nonNegative),
  completions: present(nonNegative),
  activeDeadlineSeconds: present(nonNegative),
  backoffLimit: present(nonNegative),
  ttlSecondsAfterFinished: present(nonNegative),
  backoffLimitPerIndex: present(nonNegative),
});

const MAX_INDEXES = 100_000;
const MAX_MANAGER_LENGTH = 63;

export function validateJob(object: ApiObject): FieldError[] {
  const spec = fieldsAt(object, "spec") ?? {};
  return [...validateJobSpec(spec, "spec"), ...validateOwnPods(spec)];
}

/** A job without selector finds no pods, whatever their labels. */
function validateOwnPods(spec: Fields): FieldError[] {
  const selector = fieldsAt(spec, "selector");
  if (selector !== undefined)
    return [...labelSelector(selector, "spec.selector"), ...validateMatch(spec, "spec")];
  const labels = fieldsAt(fieldsAt(fieldsAt(spec, "template"), "metadata"), "labels");
  return [
    required("spec.selector"),
    invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`"),
  ];
}

/** Also of CronJobs' templates, whose Jobs get a selector when they are made. */
export function validateJobSpec(spec: Fields, path: string): FieldError[] {
  return [
    ...counts(spec, path),
    ...validateIndexed(spec, path),
    ...validateManager(spec, path),
    ...validateFailurePolicy(spec, `${path}.podFailurePolicy`),
    ...validateSuccessPolicy(spec, `${path}.successPolicy`),
    ...validateReplacement(spec, path),
    ...validateJobTemplate(spec, `${path}.template`),
  ];
}

function validateJobTemplate(spec: Fields, path: string): FieldError[] {
  const template = fieldsAt(spec, "template");
  const policy = textAt(fieldsAt(template, "spec"), "restartPolicy");
  const at = `${path}.spec.restartPolicy`;
  const errors = validatePodTemplate(template, path);
  if (policy === "" || policy === "Always") {
    return [...errors, required(at, 'valid values: "OnFailure", "Never"')];
  }
  if (fieldsAt(spec, "podFailurePolicy") !== undefined && policy !== "Never") {
    errors.push(invalid(at, policy, 'only "Never" is supported when podFailurePolicy is specified'));
  }
  return ["OnFailure", "Never"].includes(policy)
    ? errors
    : [...errors, notSupported(at, policy, ["OnFailure", "Never"])];
}

function validateIndexed(spec: Fields, path: string): FieldError[] {
  const mode = stringAt(spec, "completionMode");
  const errors: FieldError[] = [];
  const at = (field: string): string => `${path}.${field}`;
  if (
    numberAt(spec, "maxFailedIndexes") !== undefined &&
    numberAt(spec, "backoffLimitPerIndex") === undefined
  ) {
    errors.push(required(at("backoffLimitPerIndex"), "when maxFailedIndexes is specified"));
  }
  errors.push(...fields({ maxFailedIndexes: present(nonNegative) })(spec, path));
  if (mode === undefined) return errors;
  errors.push(...oneOf("NonIndexed", "Indexed")(mode, at("completionMode")));
  if (mode !== "Indexed") {
    const missing = ["backoffLimitPerIndex", "maxFailedIndexes"].filter((it) => spec[it] !== undefined);
    return [...errors, ...missing.map((it) => invalid(at(it), spec[it], "requires indexed completion mode"))];
  }
  return [...errors, ...validateLimits(spec, at)];
}

function validateLimits(spec: Fields, at: (field: string) => string): FieldError[] {
  const errors: FieldError[] = [];
  const completions = numberAt(spec, "completions");
  const parallelism = numberAt(spec, "parallelism") ?? 0;
  const failed = numberAt(spec, "maxFailedIndexes");
  if (completions === undefined) {
    errors.push(required(at("completions"), "when completion mode is Indexed"));
  }
  if (parallelism > MAX_INDEXES) {
    const detail = `must be less than or equal to ${MAX_INDEXES} when completion mode is Indexed`;
    errors.push(invalid(at("parallelism"), parallelism, detail));
  }
  if (failed !== undefined && completions !== undefined && failed > completions) {
    errors.push(invalid(at("maxFailedIndexes"), failed, "must be less than or equal to completions"));
  }
  if (failed !== undefined && failed > MAX_INDEXES) {
    errors.push(invalid(at("maxFailedIndexes"), failed, `must be less than or equal to ${MAX_INDEXES}`));
  }
  return errors;
}

function validateManager(spec: Fields, path: string): FieldError[] {
  const manager = stringAt(spec, "managedBy");
  if (manager === undefined) return [];
  const errors = [...domainPrefixedPath(manager, `${path}.managedBy`)];
  return manager.length > MAX_MANAGER_LENGTH
    ? [...errors, tooLong(`${path}.managedBy`, MAX_MANAGER_LENGTH)]
    : errors;
}

const ACTIONS = ["Count", "FailIndex", "FailJob", "Ignore"];
const QUOTED = (values: readonly string[]): string => `[${values.map((it) => JSON.stringify(it)).join(" ")}]`;

function needed(value: string, path: string, supported: readonly string[]): FieldError[] {
  if (value === "") return [required(path, `valid values: ${QUOTED(supported)}`)];
  return [...oneOf(...supported)(value, path)];
}

function validateFailurePolicy(spec: Fields, path: string): FieldError[] {
  const podSpec = fieldsAt(fieldsAt(spec, "template"), "spec");
  const names = ["containers", "initContainers"].flatMap((it) =>
    itemsAt(podSpec, it).map((one) => one["name"]),
  );
  return itemsAt(fieldsAt(spec, "podFailurePolicy"), "rules").flatMap((rule, at) => {
    const here = `${path}.rules[${at}]`;
    const codes = fieldsAt(rule, "onExitCodes");
    const conditions = itemsAt(rule, "onPodConditions");
    const errors = needed(textAt(rule, "action"), `${here}.action`, ACTIONS);
    if (codes !== undefined) errors.push(...validateExitCodes(codes, `${here}.onExitCodes`, names));
    errors.push(
      ...conditions.flatMap((it, index) => validateCondition(it, `${here}.onPodConditions[${index}]`)),
    );
    if (codes !== undefined && conditions.length > 0) {
      errors.push(oneOfBoth(here, "specifying both OnExitCodes and OnPodConditions is not supported"));
    }
    if (codes === undefined && conditions.length === 0) {
      errors.push(oneOfBoth(here, "specifying one of OnExitCodes and OnPodConditions is required"));
    }
    return errors;
  });
}

function oneOfBoth(field: string, detail: string): FieldError {
  return { type: "FieldValueInvalid", field, message: `Invalid value: ${detail}` };
}

const STATUSES = ["False", "True", "Unknown"];

function validateCondition(condition: Fields, path: string): FieldError[] {
  return [...oneOf(...STATUSES)(condition["status"], `${path}.status`)];
}

function validateExitCodes(codes: Fields, path: string, names: readonly unknown[]): FieldError[] {
  const operator = textAt(codes, "operator");
  const container = stringAt(codes, "containerName");
  const listed = codes["values"];
  const values = Array.isArray(listed) ? listed.filter((it) => typeof it === "number") : [];
  const at = `${path}.values`;
  const errors = needed(operator, `${path}.operator`, ["In", "NotIn"]);
  if (container !== undefined && !names.includes(container)) {
    const detail = "must be one of the container or initContainer names in the pod template";
    errors.push(invalid(`${path}.containerName`, container, detail));
  }
  if (values.length === 0) errors.push(invalid(at, values, "at least one value is required"));
  const seen = new Set<number>();
  for (const [index, value] of values.entries()) {
    if (seen.has(value)) errors.push(duplicate(`${at}[${index}]`, value));
    else if (value === 0 && operator === "In") {
      errors.push(invalid(`${at}[${index}]`, value, "must not be 0 for the In operator"));
    }
    seen.add(value);
  }
  const isOrdered = values.every((it, index) => index === 0 || it >= (values[index - 1] ?? 0));
  return isOrdered ? errors : [...errors, invalid(at, values, "must be ordered")];
}

function validateSuccessPolicy(spec: Fields, path: string): FieldError[] {
  const policy = fieldsAt(spec, "successPolicy");
  if (policy === undefined) return [];
  if (textAt(spec, "completionMode") !== "Indexed") {
    return [invalid(path, policy, "requires indexed completion mode")];
  }
  const rules = itemsAt(policy, "rules");
  if (rules.length === 0) {
    return [
      required(`${path}.rules`, "at least one rules must be specified when the successPolicy is specified"),
    ];
  }
  return rules.flatMap((it, at) =>
    validateSuccessRule(it, `${path}.rules[${at}]`, numberAt(spec, "completions") ?? 0),
  );
}

function validateSuccessRule(rule: Fields, path: string, completions: number): FieldError[] {
  const count = numberAt(rule, "succeededCount");
  const indexes = stringAt(rule, "succeededIndexes");
  if (count === undefined && indexes === undefined) {
    return [required(path, "at least one of succeededCount or succeededIndexes must be specified")];
  }
  const errors: FieldError[] = [];
  let known = 0;
  if (indexes !== undefined) {
    const counted = countIndexes(indexes, completions);
    if (typeof counted === "number") known = counted;
    else {
      const detail = `error parsing succeededIndexes: ${counted}`;
      errors.push(invalid(`${path}.succeededIndexes`, indexes, detail));
    }
  }
  if (count === undefined) return errors;
  const at = `${path}.succeededCount`;
  errors.push(...nonNegative(count, at));
  if (count > completions) {
    const detail = `must be less than or equal to ${completions} (the number of specified completions)`;
    errors.push(invalid(at, count, detail));
  }
  if (indexes !== undefined && count > known) {
    const detail = `must be less than or equal to ${known} (the number of indexes in the specified succeededIndexes field)`;
    errors.push(invalid(at, count, detail));
  }
  return errors;
}

function validateReplacement(spec: Fields, path: string): FieldError[] {
  const policy = stringAt(spec, "podReplacementPolicy");
  const supported =
    fieldsAt(spec, "podFailurePolicy") === undefined ? ["Failed", "TerminatingOrFailed"] : ["Failed"];
  return policy === undefined ? [] : [...oneOf(...supported)(policy, `${path}.podReplacementPolicy`)];
}

export function validateJobUpdate(object: ApiObject, old: ApiObject): FieldError[] {
  const spec = fieldsAt(object, "spec");
  const before = fieldsAt(old, "spec");
  // A suspended job that has not run may still be placed elsewhere (KEP-2926).
  const isFree = before?.["suspend"] === true && fieldsAt(old, "status")?.["startTime"] === undefined;
  return [
    ...validateJob(object),
    ...validateCompletions(spec ?? {}, before ?? {}),
    ...immutable(spec, before, "spec.", "selector"),
    ...(isFree ? validatePlacement(spec, before) : immutable(spec, before, "spec.", "template")),
    ...immutable(spec, before, "spec.", ...FIXED),
  ];
}

/** Where pods run, and what they are called. */
const PLACEMENT = new Set(["affinity", "nodeSelector", "tolerations", "schedulingGates"]);

function validatePlacement(spec: Fields | undefined, before: Fields | undefined): FieldError[] {
  const restOf = (of: Fields | undefined): Fields =>
    Object.fromEntries(
      Object.entries(fieldsAt(fieldsAt(of, "template"), "spec") ?? {}).filter(([key]) => !PLACEMENT.has(key)),
    );
  const rest = restOf(spec);
  return sameJson(rest, restOf(before)) ? [] : [unchanged("spec.template.spec", rest)];
}

const FIXED = ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"];

/** An indexed job may grow and shrink as long as all of its pods run at once (KEP-3715). */
function validateCompletions(spec: Fields, before: Fields): FieldError[] {
  if (sameJson(spec["completions"], before["completions"])) return [];
  const isElastic = textAt(spec, "completionMode") === "Indexed" && spec["completions"] !== undefined;
  if (!isElastic || before["completions"] === undefined)
    return immutable(spec, before, "spec.", "completions");
  if (spec["completions"] === spec["parallelism"]) return [];
  return [
    invalid("spec.completions", spec["completions"], "can only be modified in tandem with spec.parallelism"),
  ];
}
