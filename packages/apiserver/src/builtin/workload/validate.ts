import type { LabelSelector } from "@fairlead/kube/api/meta/types.ts";
import { sameJson } from "@fairlead/base/json.ts";
import type { ApiObject } from "#values/object.ts";
import type { FieldError } from "#status.ts";
import { invalid, notAllowed, notSupported, required } from "#values/field-errors.ts";
import { type Fields, fieldsAt, itemsAt, numberAt, stringMapAt, textAt } from "@fairlead/base/fields.ts";
import { isEmptySelector, labelSelector } from "../labels.ts";
import { dnsLabel, share } from "../names.ts";
import { validatePodTemplate } from "../pod/validate.ts";
import { fields, immutable, nonNegative, oneOf, optional, present, type Rule } from "../rules.ts";
import { matchesLabels } from "../selectors.ts";
import { claimSpec } from "../storage/claim-spec.ts";

/** Source: k8s.io/kubernetes, pkg/apis/apps/validation. */

/** A template whose pods the selector finds and that run until they are stopped. */
function validateTemplate(spec: Fields | undefined, path: string): FieldError[] {
  const template = fieldsAt(spec, "template");
  return [
    ...(fieldsAt(spec, "selector") !== undefined && isEmptySelector(fieldsAt(spec, "selector"))
      ? []
      : validateMatch(spec, path)),
    ...validatePodTemplate(template, `${path}.template`),
    ...runsOn(template, `${path}.template`, "ReplicaSet"),
  ];
}

/** Pods of workloads that keep a number of them run until they are stopped. */
function runsOn(template: Fields | undefined, path: string, kind: string): FieldError[] {
  const spec = fieldsAt(template, "spec");
  const policy = textAt(spec, "restartPolicy");
  const deadline = `activeDeadlineSeconds in ${kind} is not Supported`;
  return [
    ...(policy === "Always" ? [] : [notSupported(`${path}.spec.restartPolicy`, policy, ["Always"])]),
    ...(spec?.["activeDeadlineSeconds"] === undefined
      ? []
      : [notAllowed(`${path}.spec.activeDeadlineSeconds`, deadline)]),
  ];
}

/** Validates that the selector matches the template; an invalid selector is reported elsewhere. */
export function validateMatch(spec: Fields | undefined, path: string): FieldError[] {
  const selector = fieldsAt(spec, "selector") as LabelSelector | undefined;
  if (labelSelector(selector, "").length > 0) return [];
  const labels = fieldsAt(fieldsAt(fieldsAt(spec, "template"), "metadata"), "labels");
  // No selector finds nothing, an empty one everything.
  if (selector !== undefined && matchesLabels(selector, stringMapAt({ labels }, "labels"))) return [];
  return [invalid(`${path}.template.metadata.labels`, labels, "`selector` does not match template `labels`")];
}

interface SelectorWords {
  readonly kind: string;
  /** What is added where the selector cannot be used; undefined: nothing is. */
  readonly unusable?: string;
}

function validateSelector(spec: Fields | undefined, { kind, unusable }: SelectorWords): FieldError[] {
  const selector = fieldsAt(spec, "selector");
  if (selector === undefined) return [required("spec.selector")];
  const errors = [...labelSelector(selector, "spec.selector")];
  if (isEmptySelector(selector)) {
    errors.push(invalid("spec.selector", selector, `empty selector is invalid for ${kind}`));
  }
  if (unusable !== undefined && isUnusable(selector)) {
    errors.push(invalid("spec.selector", selector, unusable));
  }
  return errors;
}

/** Whether upstream's own selectors cannot be made of it: labels' values are not looked at. */
function isUnusable(selector: Fields): boolean {
  return labelSelector(selector, "").length > 0;
}

const deployment: Rule = fields({ replicas: nonNegative, minReadySeconds: nonNegative });
const history: Rule = fields({ revisionHistoryLimit: present(nonNegative) });

export function validateDeployment(object: ApiObject): FieldError[] {
  const spec = fieldsAt(object, "spec") ?? {};
  const deadline = numberAt(spec, "progressDeadlineSeconds");
  const ready = numberAt(spec, "minReadySeconds") ?? 0;
  const isShort = deadline !== undefined && deadline <= ready;
  return [
    ...fields({ replicas: nonNegative })(spec, "spec"),
    ...validateSelector(spec, { kind: "deployment", unusable: "invalid label selector" }),
    ...(isUnusable(fieldsAt(spec, "selector") ?? {}) ? [] : validateTemplate(spec, "spec")),
    ...validateStrategy(spec, "strategy", ["Recreate", "RollingUpdate"]),
    ...fields({ minReadySeconds: nonNegative })(spec, "spec"),
    ...history(spec, "spec"),
    ...fields({ progressDeadlineSeconds: present(nonNegative) })(spec, "spec"),
    ...(isShort
      ? [invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")]
      : []),
  ];
}

export function validateReplicaSet(object: ApiObject): FieldError[] {
  const spec = fieldsAt(object, "spec") ?? {};
  return [
    ...deployment(spec, "spec"),
    ...validateSelector(spec, { kind: "deployment", unusable: "invalid label selector" }),
    ...(isUnusable(fieldsAt(spec, "selector") ?? {}) ? [] : validateTemplate(spec, "spec")),
  ];
}

export function validateDaemonSet(object: ApiObject): FieldError[] {
  const spec = fieldsAt(object, "spec") ?? {};
  const selector = fieldsAt(spec, "selector") ?? {};
  return [
    ...labelSelector(selector, "spec.selector"),
    ...(isUnusable(selector) || isEmptySelector(selector) ? [] : validateMatch(spec, "spec")),
    ...(isEmptySelector(selector)
      ? [invalid("spec.selector", selector, "empty selector is invalid for daemonset")]
      : []),
    ...validatePodTemplate(fieldsAt(spec, "template"), "spec.template"),
    ...restartsAlways(spec),
    ...fields({ minReadySeconds: nonNegative })(spec, "spec"),
    ...validateDaemonStrategy(spec),
    ...history(spec, "spec"),
  ];
}

function restartsAlways(spec: Fields): FieldError[] {
  const policy = textAt(fieldsAt(fieldsAt(spec, "template"), "spec"), "restartPolicy");
  return policy === "Always" ? [] : [notSupported("spec.template.spec.restartPolicy", policy, ["Always"])];
}

/** An invalid type is reported at the path of the whole strategy. */
function validateStrategy(spec: Fields, field: string, types: readonly string[]): FieldError[] {
  const path = `spec.${field}`;
  const strategy = fieldsAt(spec, field);
  const type = textAt(strategy, "type");
  const rolling = fieldsAt(strategy, "rollingUpdate");
  if (!types.includes(type)) return [notSupported(path, strategy, types)];
  if (type !== "RollingUpdate") {
    const detail = "may not be specified when strategy `type` is 'Recreate'";
    return rolling === undefined ? [] : [notAllowed(`${path}.rollingUpdate`, detail)];
  }
  return rolling === undefined
    ? [required(`${path}.rollingUpdate`, "should be specified when strategy `type` is 'RollingUpdate'")]
    : validateRolling(rolling, `${path}.rollingUpdate`);
}

function validateRolling(rolling: Fields, path: string): FieldError[] {
  const errors = [...fields({ maxUnavailable: share, maxSurge: share })(rolling, path)];
  if (isZero(rolling["maxUnavailable"]) && isZero(rolling["maxSurge"])) {
    const detail = "may not be 0 when `maxSurge` is 0";
    errors.push(invalid(`${path}.maxUnavailable`, rolling["maxUnavailable"], detail));
  }
  return [...errors, ...notOverAll(rolling["maxUnavailable"], `${path}.maxUnavailable`)];
}

function notOverAll(value: unknown, path: string): FieldError[] {
  if (typeof value !== "string" || !/^\d+%$/.test(value) || Number.parseInt(value, 10) <= 100) return [];
  return [invalid(path, value, "must not be greater than 100%")];
}

function isZero(value: unknown): boolean {
  return value === undefined || value === 0 || (typeof value === "string" && /^0+%$/.test(value));
}

function validateDaemonStrategy(spec: Fields): FieldError[] {
  const strategy = fieldsAt(spec, "updateStrategy");
  const type = textAt(strategy, "type");
  if (type === "OnDelete") return [];
  if (type !== "RollingUpdate")
    return [notSupported("spec.updateStrategy", strategy, ["RollingUpdate", "OnDelete"])];
  const rolling = fieldsAt(strategy, "rollingUpdate");
  const path = "spec.updateStrategy.rollingUpdate";
  if (rolling === undefined) return [required(path)];
  const errors = [...fields({ maxUnavailable: share, maxSurge: share })(rolling, path)];
  const [unavailable, surge] = [rolling["maxUnavailable"], rolling["maxSurge"]];
  if (!isZero(unavailable) && !isZero(surge)) {
    errors.push(invalid(`${path}.maxSurge`, surge, "may not be set when maxUnavailable is non-zero"));
  } else if (isZero(unavailable) && isZero(surge)) {
    errors.push(required(`${path}.maxUnavailable`, "cannot be 0 when maxSurge is 0"));
  }
  return [
    ...errors,
    ...notOverAll(unavailable, `${path}.maxUnavailable`),
    ...notOverAll(surge, `${path}.maxSurge`),
  ];
}

export function validateWorkloadUpdate(
  validate: (object: ApiObject) => readonly FieldError[],
): (object: ApiObject, old: ApiObject) => FieldError[] {
  return (object, old) => [
    ...validate(object),
    ...immutable(fieldsAt(object, "spec"), fieldsAt(old, "spec"), "spec.", "selector"),
  ];
}

const retention: Rule = optional(oneOf("Retain", "Delete"));

const statefulSet: Rule = fields({
  persistentVolumeClaimRetentionPolicy: fields({ whenDeleted: retention, whenScaled: retention }),
  replicas: nonNegative,
  minReadySeconds: nonNegative,
  ordinals: present(fields({ start: nonNegative })),
});

export function validateStatefulSet(object: ApiObject): FieldError[] {
  return validateStatefulSetSpec(object, {});
}

interface StatefulSetChecks {
  /** An update tolerates the name of a Service and claim templates that were stored before: they cannot change. */
  readonly isUpdate?: boolean;
  /** An update of a StatefulSet whose stored spec is invalid does not validate the template. */
  readonly skipsTemplate?: boolean;
}

function validateStatefulSetSpec(
  object: ApiObject,
  { isUpdate = false, skipsTemplate = false }: StatefulSetChecks,
): FieldError[] {
  const spec = fieldsAt(object, "spec") ?? {};
  const management = textAt(spec, "podManagementPolicy");
  const isManaged = ["OrderedReady", "Parallel"].includes(management);
  const template = templateOfPods(spec);
  const isUnusableSelector = isUnusable(fieldsAt(spec, "selector") ?? {});
  return [
    ...(isManaged
      ? []
      : [invalid("spec.podManagementPolicy", management, "must be 'OrderedReady' or 'Parallel'")]),
    ...validateUpdateStrategy(spec),
    ...(isUpdate ? [] : claimTemplates(spec)),
    ...statefulSet(spec, "spec"),
    ...(isUpdate ? [] : fields({ serviceName: optional(dnsLabel) })(spec, "spec")),
    ...validateSelector(spec, { kind: "statefulset", unusable: "" }),
    ...(isUnusableSelector || isEmptySelector(fieldsAt(spec, "selector")) ? [] : validateMatch(spec, "spec")),
    ...(isUnusableSelector || skipsTemplate ? [] : validatePodTemplate(template, "spec.template")),
    ...runsOn(template, "spec.template", "StatefulSet"),
  ];
}

function claimTemplates(spec: Fields): readonly FieldError[] {
  return itemsAt(spec, "volumeClaimTemplates").flatMap((it, at) =>
    claimSpec(it["spec"], `spec.volumeClaimTemplates[${at}].spec`),
  );
}

/**
 * The template as the controller makes pods of it: with a volume for each claim template in place of one of that name, and without
 * the host name and the subdomain, which it sets itself. Source: pkg/apis/apps/validation, `ValidateStatefulSetSpec`.
 */
function templateOfPods(spec: Fields): Fields | undefined {
  const template = fieldsAt(spec, "template");
  if (template === undefined) return undefined;
  const { hostname: _hostname, subdomain: _subdomain, ...rest } = fieldsAt(template, "spec") ?? {};
  const names = new Set(
    itemsAt(spec, "volumeClaimTemplates").map((it) => textAt(fieldsAt(it, "metadata"), "name")),
  );
  if (names.size === 0) return { ...template, spec: rest };
  const claims = [...names].map((name) => ({ name, persistentVolumeClaim: { claimName: name } }));
  const others = itemsAt(rest, "volumes").filter((it) => !names.has(textAt(it, "name")));
  return { ...template, spec: { ...rest, volumes: [...claims, ...others] } };
}

function validateUpdateStrategy(spec: Fields): FieldError[] {
  const path = "spec.updateStrategy";
  const strategy = fieldsAt(spec, "updateStrategy");
  const type = textAt(strategy, "type");
  const rolling = fieldsAt(strategy, "rollingUpdate");
  if (type === "RollingUpdate") {
    return [...fields({ partition: nonNegative })(rolling, `${path}.rollingUpdate`)];
  }
  if (type !== "OnDelete") return [invalid(path, strategy, "must be 'RollingUpdate' or 'OnDelete'")];
  if (rolling === undefined) return [];
  return [invalid(`${path}.rollingUpdate`, rolling, "only allowed for updateStrategy 'RollingUpdate'")];
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
  const skipsTemplate = validateStatefulSetSpec(old, { isUpdate: true }).length > 0;
  const errors = validateStatefulSetSpec(object, { isUpdate: true, skipsTemplate });
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

export function validateReplicationController(object: ApiObject): FieldError[] {
  const spec = fieldsAt(object, "spec") ?? {};
  const template = fieldsAt(spec, "template");
  const selector = stringMapAt(spec, "selector");
  const isEmpty = Object.keys(selector).length === 0;
  const labels = stringMapAt(fieldsAt(template, "metadata"), "labels");
  const matches = Object.entries(selector).every(([key, value]) => labels[key] === value);
  return [
    ...fields({ minReadySeconds: nonNegative })(spec, "spec"),
    ...(isEmpty ? [required("spec.selector")] : []),
    ...fields({ replicas: nonNegative })(spec, "spec"),
    ...(template === undefined ? [required("spec.template")] : []),
    ...(template === undefined || isEmpty || matches
      ? []
      : [invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")]),
    ...(template === undefined ? [] : validatePodTemplate(template, "spec.template")),
    ...(template === undefined ? [] : restartsAlways(spec)),
  ];
}
