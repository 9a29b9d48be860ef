import type { ApiObject, Strategy } from "../registry/types.ts";
import type { FieldError } from "../status.ts";
import { invalid, required, unlessPositive } from "./field-errors.ts";
import { ensureFields, fieldsAt, numberAt, setDefault, textAt } from "./fields.ts";
import { validateLabelSelector } from "./labels.ts";
import { validateShare } from "./workload/validate.ts";

export const disruptionBudgetStrategy: Partial<Strategy> = {
  allowUnconditionalUpdate: false,
  validateCreate: validateDisruptionBudget,
  validateUpdate: validateDisruptionBudget,
};

function validateDisruptionBudget(object: ApiObject): FieldError[] {
  const spec = fieldsAt(object, "spec");
  const present = ["minAvailable", "maxUnavailable"].filter((it) => spec?.[it] !== undefined);
  const errors = present.flatMap((it) => validateShare(`spec.${it}`, spec?.[it]));
  if (present.length > 1) {
    errors.push(invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set"));
  }
  return [...errors, ...validateLabelSelector(fieldsAt(spec, "selector"), "spec.selector")];
}

export const autoscalerStrategy: Partial<Strategy> = {
  generation: "none",
  applyDefaults: (object) => {
    const spec = ensureFields(object, "spec");
    setDefault(spec, "minReplicas", 1);
    if (spec["metrics"] !== undefined) return;
    const target = { type: "Utilization", averageUtilization: 80 };
    spec["metrics"] = [{ type: "Resource", resource: { name: "cpu", target } }];
  },
  validateCreate: validateAutoscaler,
  validateUpdate: validateAutoscaler,
};

function validateAutoscaler(object: ApiObject): FieldError[] {
  const spec = fieldsAt(object, "spec");
  const target = fieldsAt(spec, "scaleTargetRef");
  const least = numberAt(spec, "minReplicas") ?? 1;
  const most = numberAt(spec, "maxReplicas") ?? 0;
  const errors = [...unlessPositive("spec.minReplicas", least), ...unlessPositive("spec.maxReplicas", most)];
  if (most < least) {
    errors.push(invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`"));
  }
  for (const field of ["kind", "name"]) {
    if (textAt(target, field) === "") errors.push(required(`spec.scaleTargetRef.${field}`));
  }
  return errors;
}
