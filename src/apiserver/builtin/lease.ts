import type { ApiObject, Strategy } from "../registry/types.ts";
import type { FieldError } from "../status.ts";
import { unlessNonNegative, unlessPositive } from "./field-errors.ts";
import { fieldsAt } from "./fields.ts";

export const leaseStrategy: Partial<Strategy> = {
  generation: "none",
  allowUnconditionalUpdate: false,
  allowCreateOnUpdate: true,
  validateCreate: validateLease,
  validateUpdate: validateLease,
};

function validateLease(object: ApiObject): FieldError[] {
  const spec = fieldsAt(object, "spec");
  return [
    ...unlessPositive("spec.leaseDurationSeconds", spec?.["leaseDurationSeconds"]),
    ...unlessNonNegative("spec.leaseTransitions", spec?.["leaseTransitions"]),
  ];
}
