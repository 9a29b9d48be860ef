import { byText } from "@fairlead/base/text.ts";
import { applyConflict, reported, type StatusError } from "#status.ts";
import { renderPath } from "./field-set.ts";
import type { Manager } from "./managers.ts";

/** A field that one manager owns and another wants to change. */
export interface FieldConflict {
  readonly manager: Manager;
  readonly path: readonly string[];
}

/** 409 with one cause per field, worded as upstream does; of very many, the first. */
export function conflictError(conflicts: readonly FieldConflict[]): StatusError {
  const named = reported(conflicts, lengthOf)
    .map(({ manager, path }) => ({ manager: renderManager(manager), path, field: renderPath(path) }))
    .toSorted((a, b) => byText(a.manager, b.manager) || byPath(a.path, b.path));
  const causes = named.map(({ manager, field }) => ({
    reason: "FieldManagerConflict",
    message: `conflict with ${manager}`,
    field,
  }));
  return applyConflict(messageOf(named, conflicts.length), causes);
}

function lengthOf({ path }: FieldConflict): number {
  return path.reduce((sum, it) => sum + it.length, 0);
}

/** Kinds of path elements in their order: fields, items by key, by value, by index. */
const ORDER = "fkvi";

/** The fields of one level before those below. Source: structured-merge-diff, fieldpath/set.go. */
function byPath(a: readonly string[], b: readonly string[]): number {
  const at = a.findIndex((it, index) => it !== b[index]);
  if (at < 0) return a.length - b.length;
  const isBelow = (of: readonly string[]): number => (of.length > at + 1 ? 1 : 0);
  const [one = "", other = ""] = [a[at], b[at]];
  return (
    isBelow(a) - isBelow(b) ||
    ORDER.indexOf(one.charAt(0)) - ORDER.indexOf(other.charAt(0)) ||
    byText(one, other)
  );
}

function messageOf(named: readonly { manager: string; field: string }[], count: number): string {
  const [only] = named;
  if (count === 1 && only !== undefined) {
    return `Apply failed with 1 conflict: conflict with ${only.manager}: ${only.field}`;
  }
  const lines = Map.groupBy(named, (it) => it.manager)
    .entries()
    .flatMap(([manager, fields]) => [`conflicts with ${manager}:`, ...fields.map((it) => `- ${it.field}`)]);
  return `Apply failed with ${count} conflicts: ${[...lines].join("\n")}`;
}

function renderManager({ name, operation, apiVersion, subresource }: Manager): string {
  const quoted = JSON.stringify(name);
  const named = subresource === "" ? quoted : `${quoted} with subresource ${JSON.stringify(subresource)}`;
  return operation === "Apply" ? named : `${named} using ${apiVersion}`;
}
