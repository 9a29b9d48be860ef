import { FleetError } from "@fairlead/base/errors.ts";
import { isObject } from "@fairlead/base/json.ts";

/** What a server gave as the causes of an error (`metav1.StatusCause`). */
export function causesOf(error: unknown): readonly Readonly<Record<string, unknown>>[] {
  const status = error instanceof FleetError ? error.detail["status"] : undefined;
  const details = isObject(status) ? status["details"] : undefined;
  const causes = isObject(details) ? details["causes"] : undefined;
  return Array.isArray(causes) ? causes.filter(isObject) : [];
}
