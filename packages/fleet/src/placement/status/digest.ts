import { createHash } from "node:crypto";
import { jsonKey } from "@fairlead/base/json.ts";

/** A short text that two statuses share exactly when they say the same. What is empty counts as absent, as API servers have it. */
export function statusDigest(status: object): string {
  const present = Object.entries(status as Record<string, unknown>).filter(([, it]) => !isEmpty(it));
  return createHash("sha256")
    .update(jsonKey(Object.fromEntries(present)))
    .digest("base64");
}

function isEmpty(value: unknown): boolean {
  return (
    value === undefined || value === null || value === "" || (Array.isArray(value) && value.length === 0)
  );
}
