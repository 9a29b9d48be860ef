import type { ApiObject, Strategy } from "../../registry/types.ts";
import type { FieldError } from "../../status.ts";
import { invalid, required } from "../field-errors.ts";
import { fieldsAt, textAt } from "../fields.ts";

const REFERENCE_FIELDS = ["kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"];

/** @param reference - The field that names the object: it differs between the two groups. */
function selectorsOf(reference: string, reporter: string): NonNullable<Strategy["fieldSelectors"]> {
  return {
    ...Object.fromEntries(
      REFERENCE_FIELDS.map((field) => [
        `${reference}.${field}`,
        (object: ApiObject) =>
          textAt(fieldsAt(object, reference) ?? fieldsAt(object, "involvedObject"), field),
      ]),
    ),
    reason: (object) => textAt(object, "reason"),
    type: (object) => textAt(object, "type"),
    [reporter]: (object) => textAt(object, reporter) || textAt(object, "reportingComponent"),
    source: (object) =>
      textAt(fieldsAt(object, "source"), "component") || textAt(object, "reportingComponent"),
  };
}

const shared = {
  generation: "none",
  allowCreateOnUpdate: true,
} as const;

export const coreEventStrategy: Partial<Strategy> = {
  ...shared,
  validateCreate: (object) => validatePlace(object, "involvedObject"),
  fieldSelectors: selectorsOf("involvedObject", "reportingComponent"),
};

export const eventStrategy: Partial<Strategy> = {
  ...shared,
  validateCreate: (object) => [...validatePlace(object, "regarding"), ...validateNewEvent(object)],
  fieldSelectors: selectorsOf("regarding", "reportingController"),
};

/** An event stands beside its object; where a cluster-scoped one's stands is left to who writes it. */
function validatePlace(object: ApiObject, reference: string): FieldError[] {
  const involved = textAt(fieldsAt(object, reference), "namespace");
  if (involved === "" || involved === object.metadata.namespace) return [];
  return [invalid(`${reference}.namespace`, involved, "does not match event.namespace")];
}

/** The newer group is stricter. Source: k8s.io/kubernetes, pkg/apis/core/validation/events.go. */
function validateNewEvent(object: ApiObject): FieldError[] {
  if (textAt(object, "eventTime") === "") return [];
  const fields = ["reportingController", "reportingInstance", "action", "reason"];
  const missing = fields.filter((it) => textAt(object, it) === "").map((it) => required(it));
  const type = textAt(object, "type");
  if (type === "Normal" || type === "Warning") return missing;
  return [...missing, invalid("type", type, 'has invalid value: must be "Normal" or "Warning"')];
}
