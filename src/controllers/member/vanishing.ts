import { hasCode } from "#base/errors.ts";
import { isObject } from "#base/json.ts";

/**
 * For what is written to objects that someone may be taking away at this moment: the object, or its namespace, is gone.
 * That is no failure, and the watch that tells of it brings the key here again.
 */
export function ignoreVanishing(error: unknown): void {
  if (hasCode(error, "API_NOT_FOUND")) return;
  if (hasCode(error, "API_FORBIDDEN") && isTerminating(error.detail["status"])) return;
  throw error;
}

/** The cause that the admission of namespaces gives (apiserver, plugin/pkg/admission/namespace/lifecycle). */
function isTerminating(status: unknown): boolean {
  const details = isObject(status) ? status["details"] : undefined;
  const causes = isObject(details) ? details["causes"] : undefined;
  return (
    Array.isArray(causes) && causes.some((it) => isObject(it) && it["reason"] === "NamespaceTerminating")
  );
}
