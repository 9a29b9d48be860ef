import { hasCode } from "@fairlead/base/errors.ts";
import { causesOf } from "./causes.ts";

/**
 * For what is written to objects that someone may be taking away at this moment: the object, or its namespace, is gone.
 * That is no failure, and the watch that tells of it brings the key here again.
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
