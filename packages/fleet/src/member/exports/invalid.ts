import type { NewCondition } from "@fairlead/kube/objects/conditions.ts";
import { EXPORTS_VALID } from "#api/fairlead.dev/names.ts";
import { keyOf } from "@fairlead/kube/api/meta/key.ts";
import type { Condition, KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { byNaturalText } from "@fairlead/base/text.ts";

/** Reports exports on the hub that are invalid in the member, and so are never sent. Pure. */

export type ReportedExport = KubeObject & { readonly status?: { readonly conditions?: Condition[] } };

/** Limits of the report. Unit: lines, and characters of each. */
const LIMIT = { lines: 20, characters: 256 };

/** Returns why an export is invalid, from its own condition; undefined if it is valid, or not yet checked. */
export function invalidityOf(it: ReportedExport | undefined): string | undefined {
  return it?.status?.conditions?.find(({ type, status }) => type === "Valid" && status === "False")?.message;
}

/** Undefined where all exports are valid. */
export function planExportsValid(exports: Iterable<ReportedExport>): NewCondition | undefined {
  const lines = new Set<string>();
  for (const it of exports) {
    const why = invalidityOf(it);
    if (why !== undefined) lines.add(lineOf(it, why));
  }
  return falseWith(EXPORTS_VALID, "InvalidExports", lines);
}

export function lineOf(it: KubeObject, why: string): string {
  const line = why.slice(0, LIMIT.characters).replaceAll(/\s+/g, " ");
  return `${keyOf(it)}: ${line}`.slice(0, LIMIT.characters);
}

/** A condition with as many lines as are allowed; undefined without lines. */
export function falseWith(
  type: string,
  reason: string,
  lines: ReadonlySet<string>,
): NewCondition | undefined {
  if (lines.size === 0) return undefined;
  const sorted = [...lines].toSorted(byNaturalText);
  const reported = sorted.slice(0, LIMIT.lines);
  if (sorted.length > reported.length) reported.push(`and ${sorted.length - reported.length} more`);
  return { type, status: "False", reason, message: reported.join("\n") };
}
