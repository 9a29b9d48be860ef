import { hasCode } from "@fairlead/base/errors.ts";
import { causesOf } from "./causes.ts";

/**
 * Ignores the error of a write to an object that is deleted concurrently, or whose namespace is. This is not a failure:
 * the watch event of the deletion enqueues the key again.
 */
export function ignoreVanishing(error: unknown): void {
  if (hasCode(error, "API_NOT_FOUND")) return;
  if (hasCode(error, "API_FORBIDDEN") && isTerminating(error)) return;
  throw error;
}

/** The cause that the admission of namespaces gives (apiserver, plugin/pkg/admission/namespace/lifecycle). */
function isTerminating(error: unknown): boolean {
  return causesOf(error).some((it) => it["reason"] === "NamespaceTerminating");
}
