import { isObject } from "@fairlead/base/json.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";

/** What the API server asks a webhook, and is answered. Source: `admission.k8s.io/v1`, AdmissionReview. */

export interface Asked {
  readonly uid: string;
  readonly kind: string;
  readonly operation: string;
  readonly object: KubeObject | undefined;
  readonly oldObject: KubeObject | undefined;
}

/** Undefined if the body is not a review. */
export function readReview(body: unknown): Asked | undefined {
  const request = isObject(body) ? body["request"] : undefined;
  if (!isObject(request) || !isObject(request["kind"])) return undefined;
  const { uid, operation, object, oldObject } = request;
  const { kind } = request["kind"];
  if (typeof uid !== "string" || typeof kind !== "string" || typeof operation !== "string") return undefined;
  return { uid, kind, operation, object: objectOf(object), oldObject: objectOf(oldObject) };
}

function objectOf(value: unknown): KubeObject | undefined {
  return isObject(value) && isObject(value["metadata"]) ? (value as unknown as KubeObject) : undefined;
}

export function answer({ uid }: Asked, problem: string | undefined): object {
  const status = { code: 403, reason: "Forbidden", message: problem };
  return {
    apiVersion: "admission.k8s.io/v1",
    kind: "AdmissionReview",
    response: problem === undefined ? { uid, allowed: true } : { uid, allowed: false, status },
  };
}
