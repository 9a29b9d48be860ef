import type { NewCondition } from "@fairlead/kube/objects/conditions.ts";
import type { Compilation, Refusal } from "./model.ts";

/** How many refusals a condition names. */
const MAX_NAMED = 10;

/** The condition `Valid` of an object: False if a part of it is not enforced as it is written, with each field and what becomes of it. */
export function validCondition({ refusals }: Compilation): NewCondition {
  const [first] = refusals;
  if (first === undefined)
    return { type: "Valid", status: "True", reason: "Understood", message: "Every field is understood." };
  const reason = refusals.some((it) => it.effect === "policy not enforced" || it.effect === "pods closed")
    ? "NotEnforced"
    : "PartlyEnforced";
  const named = refusals.slice(0, MAX_NAMED).map(textOf);
  const rest = refusals.length - named.length;
  const message = [...named, ...(rest === 0 ? [] : [`${rest} more`])].join("; ");
  return { type: "Valid", status: "False", reason, message };
}

function textOf({ field, reason, effect }: Refusal): string {
  return `${field}: ${reason.replace(/\.$/, "")} (${effect})`;
}
