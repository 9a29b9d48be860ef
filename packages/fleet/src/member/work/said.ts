import { FleetError, messageOf } from "@fairlead/base/errors.ts";
import { isObject } from "@fairlead/base/json.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { statusCauses } from "@fairlead/kube/objects/not-found.ts";
import { isSecret } from "#placement/work/manifest.ts";

/** Unit: characters. */
const MAX_TEXT = 1000;

/** What the API server said, without the request that it was asked. Of a Secret only the fields: refusals may quote values. */
export function said(error: unknown, about?: KubeObject): string {
  const status = error instanceof FleetError ? error.detail["status"] : undefined;
  const { message, reason } = isObject(status) ? status : {};
  if (about !== undefined && isSecret(about) && isObject(status)) {
    const fields = statusCauses(error).flatMap((it) =>
      typeof it["field"] === "string" ? [it["field"]] : [],
    );
    return [typeof reason === "string" ? reason : "refused", ...fields].join(", ").slice(0, MAX_TEXT);
  }
  return (typeof message === "string" && message !== "" ? message : messageOf(error)).slice(0, MAX_TEXT);
}
