import { type FieldError, invalid } from "#status.ts";
import type { ListQuery } from "./list.ts";
import { notSupported } from "./options.ts";

/** Valid combinations of list options. Source: apimachinery, pkg/apis/meta/internalversion/validation (KEP-3157 for watches). */

type Said = Pick<
  ListQuery,
  "resourceVersion" | "resourceVersionMatch" | "continueToken" | "sendInitialEvents"
>;

const MATCH = "resourceVersionMatch";
const NO_CONTINUE = "resourceVersionMatch is forbidden when continue is provided";

/** @throws {StatusError} 422 */
export function checkListOptions(said: Said): void {
  refuse([
    ...(said.resourceVersionMatch === "" ? [] : matchErrors(said)),
    ...(said.sendInitialEvents === undefined
      ? []
      : [forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")]),
  ]);
}

function matchErrors({ resourceVersion, resourceVersionMatch: match, continueToken }: Said): FieldError[] {
  const errors: FieldError[] = [];
  if (resourceVersion === "")
    errors.push(forbidden(MATCH, "resourceVersionMatch is forbidden unless resourceVersion is provided"));
  if (continueToken !== "") errors.push(forbidden(MATCH, NO_CONTINUE));
  if (match !== "Exact" && match !== "NotOlderThan")
    errors.push(notSupported(MATCH, match, ["Exact", "NotOlderThan", ""]));
  if (match === "Exact" && resourceVersion === "0")
    errors.push(forbidden(MATCH, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'));
  return errors;
}

/** @throws {StatusError} 422 */
export function checkWatchOptions(said: Said): void {
  const { resourceVersionMatch: match, continueToken, sendInitialEvents } = said;
  const hasMatch = match !== "";
  const errors: FieldError[] = [];
  if (sendInitialEvents === undefined && hasMatch) {
    const why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
    errors.push(forbidden(MATCH, why));
  } else if (sendInitialEvents !== undefined && match !== "NotOlderThan")
    errors.push(forbidden(MATCH, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"));
  if (hasMatch && match !== "NotOlderThan") errors.push(notSupported(MATCH, match, ["NotOlderThan"]));
  if ((hasMatch || beginsWithState(said)) && continueToken !== "") errors.push(forbidden(MATCH, NO_CONTINUE));
  refuse(errors);
}

/** A watch that does not say how it begins, and begins anywhere, is one that wants the state first. */
function beginsWithState({ resourceVersion, sendInitialEvents }: Said): boolean {
  return sendInitialEvents === undefined && (resourceVersion === "" || resourceVersion === "0");
}

function forbidden(field: string, why: string): FieldError {
  return { type: "FieldValueForbidden", field, message: `Forbidden: ${why}` };
}

function refuse(errors: readonly FieldError[]): void {
  if (errors.length > 0) throw invalid("meta.k8s.io", "ListOptions", "", errors);
}
