import { isObject, sameJson } from "@fairlead/base/json.ts";
import type { Strategy } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import type { FieldError } from "#status.ts";
import { invalid, required } from "#values/field-errors.ts";
import { fieldsAt, numberAt, textAt } from "@fairlead/base/fields.ts";
import { qualifiedName } from "../labels.ts";
import { unchanged } from "../rules.ts";

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
  defaultPropagation: "Unsupported",
} as const;

export const coreEventStrategy: Partial<Strategy> = {
  ...shared,
  validateCreate: (object) => validateEvent(object, CORE),
  validateUpdate: (object) => validateEvent(object, CORE),
  fieldSelectors: selectorsOf("involvedObject", "reportingComponent"),
};

export const eventStrategy: Partial<Strategy> = {
  ...shared,
  validateCreate: (object) => [...validateEvent(object, NEW), ...validateNewEvent(object)],
  validateUpdate: (object, old) => [...validateEvent(object, NEW), ...validateNewEventUpdate(object, old)],
  fieldSelectors: selectorsOf("regarding", "reportingController"),
};

/** The fields that have other names in the two groups. Errors name most of them as the core group does. */
interface Names {
  readonly reference: string;
  readonly reporter: string;
  readonly note: string;
}
const CORE: Names = { reference: "involvedObject", reporter: "reportingComponent", note: "message" };
const NEW: Names = { reference: "regarding", reporter: "reportingController", note: "note" };

const MAX_WORD = 128;
const MAX_NOTE = 1024;

/** Events that have a time are of the newer form, and more is asked of them. Source: k8s.io/kubernetes, pkg/apis/core/validation/events.go. */
function validateEvent(object: ApiObject, names: Names): FieldError[] {
  const hasTime = textAt(object, "eventTime") !== "";
  const place = validatePlace(object, names.reference, hasTime);
  if (!hasTime) return place;
  const reporter = textAt(object, names.reporter);
  return [
    ...place,
    ...(reporter === "" ? [required(names.reporter)] : []),
    ...qualifiedName(reporter, names.reporter),
    ...["reportingInstance", "action", "reason"].flatMap((it) => word(object, it)),
    ...atMost("message", textAt(object, names.note), MAX_NOTE),
  ];
}

function word(object: ApiObject, field: string): FieldError[] {
  const text = textAt(object, field);
  return [...(text === "" ? [required(field)] : []), ...atMost(field, text, MAX_WORD)];
}

function atMost(field: string, text: string, limit: number): FieldError[] {
  return text.length > limit ? [invalid(field, "", `can have at most ${limit} characters`)] : [];
}

/** An event is in the namespace of its object; events of cluster-scoped objects are in `default`. */
function validatePlace(object: ApiObject, reference: string, hasTime: boolean): FieldError[] {
  const involved = textAt(fieldsAt(object, reference), "namespace");
  const { namespace = "" } = object.metadata;
  const homes = hasTime ? ["default", "kube-system"] : ["default"];
  const isRight = involved === "" ? homes.includes(namespace) : hasTime || involved === namespace;
  return isRight ? [] : [invalid("involvedObject.namespace", involved, "does not match event.namespace")];
}

function validateSeries(object: ApiObject): FieldError[] {
  const series = fieldsAt(object, "series");
  if (series === undefined) return [];
  return [
    ...((numberAt(series, "count") ?? 0) < 2 ? [invalid("series.count", "", "should be at least 2")] : []),
    ...(textAt(series, "lastObservedTime") === "" ? [required("series.lastObservedTime")] : []),
  ];
}

/** Fields that only the core group writes, by their core names. */
const DEPRECATED = [
  ["deprecatedFirstTimestamp", "firstTimestamp"],
  ["deprecatedLastTimestamp", "lastTimestamp"],
  ["deprecatedCount", "count"],
  ["deprecatedSource", "source"],
] as const;

function isSet(value: unknown): boolean {
  return isObject(value) ? Object.keys(value).length > 0 : Boolean(value);
}

/** The newer group is stricter. */
function validateNewEvent(object: ApiObject): FieldError[] {
  const type = textAt(object, "type");
  return [
    ...validateSeries(object),
    ...(textAt(object, "eventTime") === "" ? [required("eventTime")] : []),
    ...(["Normal", "Warning"].includes(type) ? [] : [invalid("type", "", `has invalid value: ${type}`)]),
    ...DEPRECATED.filter(([field]) => isSet(object[field])).map(([, name]) =>
      invalid(name, "", "needs to be unset"),
    ),
  ];
}

/** The immutable fields, by the core names; only the series can change. */
const FIXED = [
  ["regarding", "involvedObject"],
  ["reason", "reason"],
  ["note", "message"],
  ["deprecatedSource", "source"],
  ["deprecatedFirstTimestamp", "firstTimestamp"],
  ["deprecatedLastTimestamp", "lastTimestamp"],
  ["deprecatedCount", "count"],
  ["reason", "reason"],
  ["type", "type"],
  ["eventTime", "eventTime"],
  ["action", "action"],
  ["related", "related"],
  ["reportingController", "reportingController"],
  ["reportingInstance", "reportingInstance"],
] as const;

function validateNewEventUpdate(object: ApiObject, old: ApiObject): FieldError[] {
  return [
    ...(sameJson(object["series"], old["series"]) ? [] : validateSeries(object)),
    ...FIXED.filter(([field]) => !sameJson(object[field], old[field])).map(([field, name]) =>
      unchanged(name, object[field] ?? ""),
    ),
  ];
}
