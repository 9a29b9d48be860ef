import type { JsonPatchOverride } from "#api/placement.kubernetes-fleet.io/v1beta1/overrides.ts";

/** Fields that identify an object, or belong to the member's controllers. */
const FIXED = new Set(["apiVersion", "kind", "status"]);
const METADATA = new Set(["annotations", "labels"]);

/** Why the operation of an override is refused; undefined if it is valid. */
export function problemOfPatch({ op, path, value }: JsonPatchOverride): string | undefined {
  const problem = problemOfPath(path);
  if (problem !== undefined) return `path: "${path}" ${problem}`;
  if (op === "remove") return value == null ? undefined : `value: not allowed with "remove"`;
  return value === undefined ? `value: required with "${op}"` : undefined;
}

function problemOfPath(path: string): string | undefined {
  if (!path.startsWith("/")) return `is not a JSON pointer: it does not start with "/"`;
  const steps = path.split("/").slice(1);
  if (steps.includes("")) return "has an empty element";
  const [first = "", second = ""] = steps;
  if (FIXED.has(first)) return `cannot be overridden: the field "${first}" is fixed`;
  if (first === "metadata" && !METADATA.has(second))
    return `cannot be overridden: of the metadata, only "/metadata/annotations" and "/metadata/labels" can be`;
  return undefined;
}
