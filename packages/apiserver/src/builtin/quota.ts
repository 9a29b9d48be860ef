import { qualifiedNameProblems } from "#values/names.ts";
import type { Strategy } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import type { FieldError } from "#status.ts";
import { duplicate, invalid, notAllowed, required } from "#values/field-errors.ts";
import { ensureFields, type Fields, fieldsAt, itemsAt, stringsAt, textAt } from "@fairlead/base/fields.ts";
import { parseQuantity } from "@fairlead/kube/api/meta/quantity.ts";
import {
  containerResourceName,
  isExtendedResource,
  isStandardResource,
  resourceName,
  resourceQuantity,
  textOf,
} from "./resources.ts";
import { unchanged } from "./rules.ts";

/** ResourceQuotas and LimitRanges. Source: k8s.io/kubernetes, pkg/apis/core/validation. */

const SCOPES = new Set([
  "Terminating",
  "NotTerminating",
  "BestEffort",
  "NotBestEffort",
  "PriorityClass",
  "CrossNamespacePodAffinity",
  "VolumeAttributesClass",
]);
const QUOTA_RESOURCES = new Set(["cpu", "memory", "ephemeral-storage"]);

/** Standard names for which nothing is counted. */
const NOT_COUNTED = new Set(["storage"]);

function quotaName(name: string, path: string): FieldError[] {
  const errors = resourceName(name, path);
  const isCounted =
    name.includes("/") ||
    (isStandardResource(name) && !NOT_COUNTED.has(name)) ||
    /^requests\.(hugepages-|.*\/)/.test(name) ||
    QUOTA_RESOURCES.has(name);
  return isCounted ? errors : [...errors, invalid(path, name, "must be a standard resource for quota")];
}

function validateQuota(object: ApiObject): FieldError[] {
  const spec = fieldsAt(object, "spec");
  const hard = fieldsAt(spec, "hard") ?? {};
  const scopes = stringsAt(spec, "scopes");
  const unknown = scopes.some((it) => !SCOPES.has(it));
  return [
    ...Object.entries(hard).flatMap(([name, value]) => {
      const at = `spec.hard[${name}]`;
      return [...quotaName(name, at), ...resourceQuantity(name, value, at)];
    }),
    ...(unknown ? [invalid("spec.scopes", scopes, "unsupported scope")] : []),
    ...(scopes.some((scope) => Object.keys(hard).some((it) => !isScopeFor(scope, it)))
      ? [invalid("spec.scopes", scopes, "unsupported scope applied to resource")]
      : []),
    ...contradictions(scopes, "spec.scopes"),
    ...itemsAt(fieldsAt(spec, "scopeSelector"), "matchExpressions").flatMap(validateScope),
  ];
}

const POD_RESOURCES = new Set([
  "cpu",
  "memory",
  "limits.cpu",
  "limits.memory",
  "requests.cpu",
  "requests.memory",
]);
const CLAIM_RESOURCES = new Set(["persistentvolumeclaims", "requests.storage"]);

/** Whether what a scope selects is counted by a resource. Other groups' resources know no scopes. */
function isScopeFor(scope: string, name: string): boolean {
  if (!isStandardResource(name) && !QUOTA_RESOURCES.has(name)) return true;
  if (scope === "VolumeAttributesClass") return CLAIM_RESOURCES.has(name);
  return name === "pods" || (scope !== "BestEffort" && POD_RESOURCES.has(name)) || !SCOPES.has(scope);
}

function contradictions(scopes: readonly string[], path: string): FieldError[] {
  const pairs = [
    ["BestEffort", "NotBestEffort"],
    ["Terminating", "NotTerminating"],
  ];
  const isBoth = pairs.some((pair) => pair.every((it) => scopes.includes(it)));
  return isBoth ? [invalid(path, scopes, "conflicting scopes")] : [];
}

/** Scopes that say all by their name. */
const PLAIN_SCOPES = new Set([
  "BestEffort",
  "NotBestEffort",
  "Terminating",
  "NotTerminating",
  "CrossNamespacePodAffinity",
]);

function validateScope(requirement: Fields): FieldError[] {
  const path = "spec.scopeSelector.matchExpressions";
  const scope = textAt(requirement, "scopeName");
  const operator = textAt(requirement, "operator");
  const count = stringsAt(requirement, "values").length;
  const errors: FieldError[] = [];
  if (!SCOPES.has(scope)) errors.push(invalid(`${path}.scopeName`, scope, "unsupported scope"));
  if (PLAIN_SCOPES.has(scope) && operator !== "Exists") {
    const detail = `must be 'Exist' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity`;
    errors.push(invalid(`${path}.operator`, operator, detail));
  }
  if (operator === "In" || operator === "NotIn") {
    const detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
    if (count === 0) errors.push(required(`${path}.values`, detail));
  } else if (operator === "Exists" || operator === "DoesNotExist") {
    // prose: upstream (kube-apiserver)
    const detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
    if (count > 0) errors.push(invalid(`${path}.values`, requirement["values"], detail));
  } else errors.push(invalid(`${path}.operator`, operator, "not a valid selector operator"));
  return errors;
}

export const quotaStrategy: Partial<Strategy> = {
  generation: "none",
  validateCreate: validateQuota,
  validateUpdate: (object, old) => {
    const scopes = fieldsAt(object, "spec")?.["scopes"];
    const before = new Set(stringsAt(fieldsAt(old, "spec"), "scopes"));
    const isSame = new Set(stringsAt({ scopes }, "scopes")).symmetricDifference(before).size === 0;
    return [...validateQuota(object), ...(isSame ? [] : [unchanged("spec.scopes", scopes)])];
  },
};

const LIMIT_TYPES = new Set(["Pod", "Container", "PersistentVolumeClaim"]);
const BOUNDS = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] as const;

export const limitRangeStrategy: Partial<Strategy> = {
  generation: "none",
  allowCreateOnUpdate: true,
  applyDefaults: (object) => {
    for (const limit of itemsAt(fieldsAt(object, "spec"), "limits")) defaultLimit(limit);
  },
  validateCreate: validateLimitRange,
  validateUpdate: validateLimitRange,
};

/** In a container, `max` is the default of `default`; `default`, or else `min`, that of `defaultRequest`. */
function defaultLimit(limit: Fields): void {
  if (textAt(limit, "type") !== "Container") return;
  const usual = ensureFields(limit, "default");
  const request = ensureFields(limit, "defaultRequest");
  fill(usual, fieldsAt(limit, "max"));
  fill(request, usual);
  fill(request, fieldsAt(limit, "min"));
  for (const field of ["default", "defaultRequest"]) {
    if (Object.keys(fieldsAt(limit, field) ?? {}).length === 0) delete limit[field];
  }
}

function fill(list: Fields, from: Fields | undefined): void {
  for (const [name, value] of Object.entries(from ?? {})) list[name] ??= value;
}

function validateLimitRange(object: ApiObject): FieldError[] {
  const seen = new Set<string>();
  return itemsAt(fieldsAt(object, "spec"), "limits").flatMap((limit, at) => {
    const path = `spec.limits[${at}]`;
    const type = textAt(limit, "type");
    const errors = limitType(type, `${path}.type`);
    if (seen.has(type)) errors.push(duplicate(`${path}.type`, type));
    seen.add(type);
    return [...errors, ...validateLimit(limit, type, path)];
  });
}

function limitType(type: string, path: string): FieldError[] {
  const problems = qualifiedNameProblems(type).map((it) => invalid(path, type, it));
  if (problems.length > 0 || type.includes("/") || LIMIT_TYPES.has(type)) return problems;
  return [invalid(path, type, "must be a standard limit type or fully qualified")];
}

function validateLimit(limit: Fields, type: string, path: string): FieldError[] {
  const checkName = type === "Pod" || type === "Container" ? containerResourceName : resourceName;
  const isPod = type === "Pod";
  const listed = BOUNDS.flatMap((bound) => {
    const list = fieldsAt(limit, bound) ?? {};
    if (isPod && bound.startsWith("default") && Object.keys(list).length > 0) {
      return [notAllowed(`${path}.${bound}`, "may not be specified when `type` is 'Pod'")];
    }
    return Object.keys(list).flatMap((name) => checkName(name, `${path}.${bound}[${name}]`));
  });
  return [
    ...listed,
    ...needsStorage(limit, type, path),
    ...namesOf(limit).flatMap((it) => validateOrder(limit, it, path)),
  ];
}

function needsStorage(limit: Fields, type: string, path: string): FieldError[] {
  const has = (bound: string): boolean => fieldsAt(limit, bound)?.["storage"] !== undefined;
  if (type !== "PersistentVolumeClaim" || has("min") || has("max")) return [];
  return [
    required(
      `${path}.limits`,
      "either minimum or maximum storage value is required, but neither was provided",
    ),
  ];
}

function namesOf(limit: Fields): readonly string[] {
  return [...new Set(BOUNDS.flatMap((it) => Object.keys(fieldsAt(limit, it) ?? {})))];
}

/** Pairs of bounds, the first of which must not be above the second; with the words of the first. */
const ORDER = [
  ["min", "max", "min value"],
  ["defaultRequest", "max", "default request value"],
  ["defaultRequest", "default", "default request value"],
  ["default", "max", "default value"],
] as const;
const SECOND_WORDS: Readonly<Record<string, string>> = { max: "max value", default: "default limit value" };

function validateOrder(limit: Fields, name: string, path: string): FieldError[] {
  const valueOf = (bound: string): unknown => fieldsAt(limit, bound)?.[name];
  const errors: FieldError[] = [];
  for (const [low, high, words] of ORDER) {
    const [a, b] = [valueOf(low), valueOf(high)];
    if (a === undefined || b === undefined || (parseQuantity(a) ?? 0n) <= (parseQuantity(b) ?? 0n)) continue;
    const detail = `${words} ${textOf(a)} is greater than ${SECOND_WORDS[high] ?? ""} ${textOf(b)}`;
    // Upstream shows the second one here.
    errors.push(invalid(`${path}.${low}[${name}]`, low === "default" ? b : a, detail));
  }
  return [...errors, ...validateRatio(valueOf, name, path), ...notOvercommitted(valueOf, name, path)];
}

function validateRatio(valueOf: (bound: string) => unknown, name: string, path: string): FieldError[] {
  const value = valueOf("maxLimitRequestRatio");
  const [ratio, min, max] = [value, valueOf("min"), valueOf("max")].map((it) => parseQuantity(it));
  const at = `${path}.maxLimitRequestRatio[${name}]`;
  if (ratio === undefined) return [];
  if (ratio < 10n ** 9n) return [invalid(at, value, `ratio ${textOf(value)} is less than 1`)];
  if (min === undefined || max === undefined || min === 0n) return [];
  const possible = Number(max) / Number(min);
  if (Number(ratio) / 1e9 <= possible) return [];
  return [invalid(at, value, `ratio ${textOf(value)} is greater than max/min = ${possible.toFixed(6)}`)];
}

/** A resource that cannot be overcommitted has equal requests and limits. */
function notOvercommitted(valueOf: (bound: string) => unknown, name: string, path: string): FieldError[] {
  const [usual, request] = [valueOf("default"), valueOf("defaultRequest")];
  if (!isExtendedResource(name) || (usual === undefined && request === undefined)) return [];
  if (parseQuantity(usual) === parseQuantity(request)) return [];
  const detail = `default value ${textOf(usual)} must equal to defaultRequest value ${textOf(request)} in ${name}`;
  return [invalid(`${path}.defaultRequest[${name}]`, request, detail)];
}
