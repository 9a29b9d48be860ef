import { FleetError, hasCode } from "@fairlead/base/errors.ts";
import { isObject } from "@fairlead/base/json.ts";

/**
 * Ignores the error of a write to an object that was deleted concurrently, or whose namespace was or accepts no new objects.
 * This is not a failure: the watch event of the deletion enqueues the key again.
 */
export function ignoreNotFound(error: unknown): void {
  if (hasCode(error, "API_NOT_FOUND")) return;
  if (hasCode(error, "API_FORBIDDEN") && isNamespaceTerminating(error)) return;
  throw error;
}

/** Reads the cause that namespace admission gives (apiserver, plugin/pkg/admission/namespace/lifecycle). */
function isNamespaceTerminating(error: unknown): boolean {
  return statusCauses(error).some((it) => it["reason"] === "NamespaceTerminating");
}

/** Returns the causes in the server's response to a failed request (`metav1.StatusCause`). */
export function statusCauses(error: unknown): readonly Readonly<Record<string, unknown>>[] {
  const status = error instanceof FleetError ? error.detail["status"] : undefined;
  const details = isObject(status) ? status["details"] : undefined;
  const causes = isObject(details) ? details["causes"] : undefined;
  return Array.isArray(causes) ? causes.filter(isObject) : [];
}
