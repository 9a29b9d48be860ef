import type { Strategy } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import type { FieldError } from "#status.ts";
import { invalid } from "#values/field-errors.ts";
import { fieldsAt } from "@fairlead/base/fields.ts";
import { labelSelector } from "./labels.ts";
import { share } from "./names.ts";
import { withStatus } from "./workload/status.ts";
import { fields, oneOf, present, type Rule } from "./rules.ts";

/** Source: k8s.io/kubernetes, pkg/apis/policy/validation. */

export const disruptionBudgetStrategy: Partial<Strategy> = {
  allowUnconditionalUpdate: false,
  validateCreate: validateDisruptionBudget,
  validateUpdate: withStatus("PodDisruptionBudget", validateDisruptionBudget),
};

/** A count or percentage of the pods, at most 100%. */
const part: Rule = present((value, path) => {
  const errors = share(value, path);
  const isOver = typeof value === "string" && errors.length === 0 && Number.parseInt(value, 10) > 100;
  return isOver ? [...errors, invalid(path, value, "must not be greater than 100%")] : errors;
});

const budget: Rule = fields({
  minAvailable: part,
  maxUnavailable: part,
  selector: labelSelector,
  unhealthyPodEvictionPolicy: present(oneOf("AlwaysAllow", "IfHealthyBudget")),
});

function validateDisruptionBudget(object: ApiObject): FieldError[] {
  const spec = fieldsAt(object, "spec");
  const isBoth = spec?.["minAvailable"] !== undefined && spec["maxUnavailable"] !== undefined;
  return [
    ...(isBoth ? [invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set")] : []),
    ...budget(spec, "spec"),
  ];
}
