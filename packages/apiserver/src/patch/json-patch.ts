import { isObject } from "@fairlead/base/json.ts";
import { applyJsonPatch as patched, JsonPatchError } from "@fairlead/base/json-patch.ts";
import { badRequest, StatusError, tooLarge } from "#status.ts";
import { goTypeName } from "./go-text.ts";

/** As kube-apiserver limits it, against requests that cost more to apply than to send. */
const MAX_OPERATIONS = 10_000;

/**
 * Applies a JSON patch as kube-apiserver does; `target` is not changed.
 *
 * @throws {StatusError} 400 for a malformed patch, 413 beyond 10,000 operations, 422 if an operation cannot be applied.
 */
export function applyJsonPatch(target: unknown, patch: unknown): unknown {
  if (!Array.isArray(patch) || !patch.every(isObject)) {
    throw badRequest(
      `error decoding patch: json: cannot unmarshal ${goTypeName(patch)} into Go value of type []handlers.jsonPatchOp`,
    );
  }
  if (patch.length > MAX_OPERATIONS) {
    throw tooLarge(
      `Request entity too large: The allowed maximum operations in a JSON patch is ${MAX_OPERATIONS}, got ${patch.length}`,
    );
  }
  try {
    return patched(target, patch);
  } catch (error) {
    throw error instanceof JsonPatchError ? statusOf(error) : error;
  }
}

function statusOf({ problem, message }: JsonPatchError): StatusError {
  switch (problem) {
    case "malformed":
      return badRequest(message);
    case "tooLarge":
      return tooLarge(message);
    case "inapplicable":
      // As kube-apiserver answers a patch that does not fit; the real one leaves the detail out.
      return new StatusError({
        code: 422,
        reason: "Invalid",
        message: `the server rejected our request due to an error in our request: ${message}`,
        details: {},
      });
    default:
      return problem satisfies never;
  }
}
