import { ignoreNotFound } from "@fairlead/kube/objects/not-found.ts";
import type { ControllerOptions } from "@fairlead/kube/types.ts";

type Reconcile = ControllerOptions["reconcile"];

/** Ends a reconcile without failure if an object that it writes, or its namespace, is deleted concurrently. */
export function untilEnding(reconcile: Reconcile): Reconcile {
  return async (key, signal) => {
    try {
      return await reconcile(key, signal);
    } catch (error) {
      ignoreNotFound(error);
      return {};
    }
  };
}
