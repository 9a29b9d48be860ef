import type { Resource } from "#api/meta/resource.ts";
import type { KubeObject } from "#api/meta/types.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import { statusCauses } from "./not-found.ts";

/** Events about changes of others to objects that one controller writes. */

/** Records Events on objects; the `EventRecorder` of a program. */
export interface ChangeRecorder {
  record<T extends KubeObject>(
    of: Resource<T>,
    object: T,
    event: { readonly type: "Normal" | "Warning"; readonly reason: string; readonly message: string },
  ): void;
}

/** A field that a server reported as owned by another manager. */
export interface TakenField {
  readonly field: string;
  readonly manager: string;
}

/** The most fields that a message names. */
const MAX_FIELDS = 5;

/** Reads the conflicts of an apply without `force`; none if the request failed for another reason. */
export function takenFields(error: unknown): readonly TakenField[] {
  if (!hasCode(error, "API_CONFLICT")) return [];
  return statusCauses(error).flatMap(({ reason, field, message }) =>
    reason === "FieldManagerConflict" && typeof field === "string"
      ? [{ field: field.replace(/^\./, ""), manager: managerIn(message) }]
      : [],
  );
}

/** `conflict with "kubectl-edit" using v1`, as servers word it. */
function managerIn(message: unknown): string {
  const [, name] = typeof message === "string" ? message.split('"', 2) : [];
  return name ?? "another client";
}

export interface Reverted {
  readonly taken: readonly TakenField[];
  /** The manager that set them back. Fields that it took under this name itself are not reported. */
  readonly by: string;
}

export function recordReverted<T extends KubeObject>(
  events: ChangeRecorder,
  of: Resource<T>,
  object: T,
  { taken, by }: Reverted,
): void {
  const foreign = taken.filter((it) => it.manager !== by);
  if (foreign.length === 0) return;
  const managers = [...new Set(foreign.map((it) => it.manager))].toSorted().join(", ");
  const fields = [...new Set(foreign.map((it) => it.field))].toSorted();
  const shown = fields.slice(0, MAX_FIELDS).join(", ");
  const more = fields.length > MAX_FIELDS ? ` and ${fields.length - MAX_FIELDS} more fields` : "";
  events.record(of, object, {
    type: "Warning",
    reason: "ChangeReverted",
    message: `${managers} changed ${shown}${more}, which ${by} writes: set back`,
  });
}
