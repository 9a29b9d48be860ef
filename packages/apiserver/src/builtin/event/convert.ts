import type { ApiObject } from "#values/object.ts";

/** Fields of `events.k8s.io/v1` under other names than in the core group, in which events are stored. */
const CORE_NAMES: Readonly<Record<string, string>> = {
  regarding: "involvedObject",
  note: "message",
  reportingController: "reportingComponent",
  deprecatedSource: "source",
  deprecatedFirstTimestamp: "firstTimestamp",
  deprecatedLastTimestamp: "lastTimestamp",
  deprecatedCount: "count",
};
const NEW_NAMES = Object.fromEntries(Object.entries(CORE_NAMES).map(([renamed, core]) => [core, renamed]));

/** From the core group to `events.k8s.io/v1`. */
export function eventFromStored(object: ApiObject): ApiObject {
  const event = rename(object, NEW_NAMES, "events.k8s.io/v1");
  // The core group writes them even where they are empty.
  for (const field of ["reportingController", "reportingInstance"]) {
    if (event[field] === "") delete event[field];
  }
  return event;
}

/** From `events.k8s.io/v1` to the core group. */
export function eventToStored(object: ApiObject): ApiObject {
  return rename(object, CORE_NAMES, "v1");
}

function rename(object: ApiObject, names: Readonly<Record<string, string>>, apiVersion: string): ApiObject {
  const fields = Object.entries(object).map(([key, value]) => [
    Object.hasOwn(names, key) ? names[key] : key,
    value,
  ]);
  return { ...(Object.fromEntries(fields) as ApiObject), apiVersion };
}
