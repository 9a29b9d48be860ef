import type { Strategy } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import type { FieldError } from "#status.ts";
import { fieldsAt } from "@fairlead/base/fields.ts";
import { fields, nonNegative, positive, present, type Rule } from "./rules.ts";

const lease: Rule = fields({
  leaseDurationSeconds: present(positive),
  leaseTransitions: present(nonNegative),
});

export const leaseStrategy: Partial<Strategy> = {
  generation: "none",
  allowUnconditionalUpdate: false,
  allowCreateOnUpdate: true,
  prepareForCreate: dropCoordination,
  prepareForUpdate: dropCoordination,
  validateCreate: validateLease,
  validateUpdate: validateLease,
};

function validateLease(object: ApiObject): readonly FieldError[] {
  return lease(object["spec"], "spec");
}

/** Fields behind a feature that is off by default. */
function dropCoordination(object: ApiObject): void {
  const spec = fieldsAt(object, "spec");
  for (const field of ["strategy", "preferredHolder"]) delete spec?.[field];
}
