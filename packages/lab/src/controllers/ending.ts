import { type FleetError, hasCode } from "@fairlead/base/errors.ts";
import type { Status } from "@fairlead/kube/api/meta/types.ts";
import type { ControllerOptions } from "@fairlead/kube/types.ts";

type Reconcile = ControllerOptions["reconcile"];

/** A pass that meets something on its way out is over, and went well: the watch makes due what is left to do. */
export function untilEnding(reconcile: Reconcile): Reconcile {
  return async (key, signal) => {
    try {
      return await reconcile(key, signal);
    } catch (error) {
      if (isEnding(error)) return {};
      throw error;
    }
  };
}

/**
 * Whether a write failed because its object is being removed: the object or its namespace is gone, or the
 * namespace accepts no new objects. There is nothing to do then; the watch delivers the rest.
 */
function isEnding(error: unknown): boolean {
  return (
    hasCode(error, "API_NOT_FOUND") || (hasCode(error, "API_FORBIDDEN") && isNamespaceTerminating(error))
  );
}

function isNamespaceTerminating(error: FleetError): boolean {
  const { causes = [] } = (error.detail["status"] as Partial<Status> | undefined)?.details ?? {};
  return causes.some((cause) => cause.reason === "NamespaceTerminating");
}
