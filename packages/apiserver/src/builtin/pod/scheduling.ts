import { dnsLabelProblems, labelValueProblems, subdomainProblems } from "#values/names.ts";
import type { FieldError } from "#status.ts";
import { duplicate, invalid, notAllowed, notSupported, required } from "#values/field-errors.ts";
import { type Fields, fieldsAt, itemsAt, numberAt, stringsAt, textAt } from "@fairlead/base/fields.ts";
import { labelSelector, qualifiedName } from "../labels.ts";
import {
  all,
  each,
  fields,
  filled,
  oneOf,
  optional,
  number,
  present,
  type Rule,
  text,
  whole,
} from "../rules.ts";

/** Where a pod may run. Source: k8s.io/kubernetes, pkg/apis/core/validation. */

const operands: Rule = whole((of, path) => {
  const count = stringsAt(of, "values").length;
  const operator = textAt(of, "operator");
  const at = `${path}.values`;
  switch (operator) {
    case "In":
    case "NotIn":
      return count > 0 ? [] : [required(at, "must be specified when `operator` is 'In' or 'NotIn'")];
    case "Exists":
    case "DoesNotExist":
      if (count === 0) return [];
      return [notAllowed(at, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")];
    case "Gt":
    case "Lt":
      return count === 1
        ? []
        : [required(at, "must be specified single value when `operator` is 'Lt' or 'Gt'")];
    default:
      return [invalid(`${path}.operator`, operator, "not a valid selector operator")];
  }
});

const nodeRequirement = all(operands, fields({ key: qualifiedName, values: each(text(labelValueProblems)) }));
/** Preferences were taken with any value before values were checked. */
const nodePreference = all(operands, fields({ key: qualifiedName }));

const nodeField: Rule = whole((of, path) => {
  const values = stringsAt(of, "values");
  const operator = textAt(of, "operator");
  const errors: FieldError[] = [];
  if (operator !== "In" && operator !== "NotIn") {
    errors.push(invalid(`${path}.operator`, operator, "not a valid selector operator"));
  } else if (values.length !== 1) {
    const detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
    errors.push(required(`${path}.values`, detail));
  }
  const key = textAt(of, "key");
  if (key !== "metadata.name")
    return [...errors, invalid(`${path}.key`, key, "not a valid field selector key")];
  return [...errors, ...each(text(subdomainProblems))(values, `${path}.values`)];
});

const weight = number((it) => it >= 1 && it <= 100, "must be in the range 1-100");

export const nodeSelector: Rule = fields({
  nodeSelectorTerms: filled(
    "must have at least one node selector term",
    each(fields({ matchExpressions: each(nodeRequirement), matchFields: each(nodeField) })),
  ),
});

const nodeAffinity = fields({
  requiredDuringSchedulingIgnoredDuringExecution: present(nodeSelector),
  preferredDuringSchedulingIgnoredDuringExecution: each(
    fields({
      weight,
      preference: fields({ matchExpressions: each(nodePreference), matchFields: each(nodeField) }),
    }),
  ),
});

/** Keys whose values the pod itself has are looked up in its labels, so that there must be a selector to add them to. */
function labelKeys(of: Fields, path: string, key: string): FieldError[] {
  const keys = stringsAt(of, key);
  if (keys.length === 0) return [];
  if (fieldsAt(of, "labelSelector") === undefined) {
    return [notAllowed(`${path}.${key}`, "must not be specified when labelSelector is not set")];
  }
  return [...each(qualifiedName)(keys, `${path}.${key}`)];
}

const matchLabelKeys: Rule = whole((of, path) => {
  const other = new Set(stringsAt(of, "mismatchLabelKeys"));
  const both = stringsAt(of, "matchLabelKeys").flatMap((it, at) =>
    other.has(it)
      ? [invalid(`${path}.matchLabelKeys[${at}]`, it, "exists in both matchLabelKeys and mismatchLabelKeys")]
      : [],
  );
  return [...labelKeys(of, path, "matchLabelKeys"), ...labelKeys(of, path, "mismatchLabelKeys"), ...both];
});

const podTerm: Rule = all(
  fields({ labelSelector, namespaceSelector: labelSelector }),
  whole((of, path) =>
    stringsAt(of, "namespaces").flatMap((it) => text(dnsLabelProblems)(it, `${path}.namespace`)),
  ),
  matchLabelKeys,
  fields({ topologyKey: all(filled("can not be empty"), qualifiedName) }),
);

const podAffinity = fields({
  requiredDuringSchedulingIgnoredDuringExecution: each(podTerm),
  preferredDuringSchedulingIgnoredDuringExecution: each(fields({ weight, podAffinityTerm: podTerm })),
});

export const affinity: Rule = fields({ nodeAffinity, podAffinity, podAntiAffinity: podAffinity });

const EFFECTS = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
export const taintEffect: Rule = filled("", oneOf(...EFFECTS));

const tolerationOperator: Rule = whole((of, path) => {
  const operator = textAt(of, "operator");
  const value = textAt(of, "value");
  const at = `${path}.operator`;
  if (operator === "Exists") {
    return value === "" ? [] : [invalid(at, value, "value must be empty when `operator` is 'Exists'")];
  }
  if (operator === "Gt" || operator === "Lt")
    return [notSupported(at, operator, ["Equal", "Exists", "Lt", "Gt"])];
  if (operator !== "" && operator !== "Equal") return [notSupported(at, operator, ["Equal", "Exists"])];
  const problems = labelValueProblems(value);
  return problems.length === 0 ? [] : [invalid(at, value, problems.join(";"))];
});

export const toleration: Rule = all(
  fields({ key: optional(qualifiedName) }),
  whole((of, path) => {
    const operator = textAt(of, "operator");
    const errors: FieldError[] = [];
    if (textAt(of, "key") === "" && operator !== "Exists") {
      const detail =
        'operator must be Exists when `key` is empty, which means "match all values and all keys"';
      errors.push(invalid(`${path}.operator`, operator, detail));
    }
    const effect = textAt(of, "effect");
    if (numberAt(of, "tolerationSeconds") !== undefined && effect !== "NoExecute") {
      const detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
      errors.push(invalid(`${path}.effect`, effect, detail));
    }
    return errors;
  }),
  tolerationOperator,
  fields({ effect: optional(oneOf(...EFFECTS)) }),
);

const aboveZero = number((it) => it > 0, "must be greater than zero");

const minDomains: Rule = whole((of, path) => {
  const count = numberAt(of, "minDomains");
  const action = textAt(of, "whenUnsatisfiable");
  if (count === undefined) return [];
  const detail = `can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ${action}`;
  const errors = action === "DoNotSchedule" ? [] : [invalid(`${path}.minDomains`, count, detail)];
  return [...aboveZero(count, `${path}.minDomains`), ...errors];
});

export const topologySpreadConstraints: Rule = (constraints, path) => {
  const list = itemsAt({ constraints }, "constraints");
  const pairOf = (of: Fields): readonly string[] => [
    textAt(of, "topologyKey"),
    textAt(of, "whenUnsatisfiable"),
  ];
  const last = new Map(list.map((it, at) => [JSON.stringify(pairOf(it)), at]));
  return list.flatMap((it, at) => {
    const isRepeated = last.get(JSON.stringify(pairOf(it))) !== at;
    const here = `${path}[${at}]`;
    return [
      ...fields({
        maxSkew: aboveZero,
        topologyKey: filled("can not be empty"),
        whenUnsatisfiable: oneOf("DoNotSchedule", "ScheduleAnyway"),
      })(it, here),
      ...(isRepeated
        ? [duplicate(`${here}.{topologyKey, whenUnsatisfiable}`, `{${pairOf(it).join(", ")}}`)]
        : []),
      ...minDomains(it, here),
      ...fields({
        nodeAffinityPolicy: present(oneOf("Honor", "Ignore")),
        nodeTaintsPolicy: present(oneOf("Honor", "Ignore")),
      })(it, here),
      ...matchLabelKeys(it, here),
      ...fields({ labelSelector })(it, here),
    ];
  });
};
