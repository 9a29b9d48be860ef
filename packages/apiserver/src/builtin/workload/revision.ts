import { isObject } from "@fairlead/base/json.ts";
import type { Strategy } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import type { FieldError } from "#status.ts";
import { required } from "#values/field-errors.ts";
import { fields, immutable, nonNegative, type Rule } from "../rules.ts";

/** ControllerRevisions: what a controller remembers of a template. Source: k8s.io/kubernetes, pkg/apis/apps/validation. */

const revision: Rule = fields({ revision: nonNegative });

export const revisionStrategy: Partial<Strategy> = {
  generation: "none",
  validateCreate: (object) => [...revision(object, ""), ...validateData(object)],
  validateUpdate: (object, old) => [...revision(object, ""), ...immutable(object, old, "", "data")],
};

function validateData({ data }: ApiObject): FieldError[] {
  if (data === undefined || data === null) return [required("data", "data is mandatory")];
  return isObject(data) ? [] : [required("data", "data must be a valid JSON object")];
}
