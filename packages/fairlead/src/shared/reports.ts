import { printNote } from "@fairlead/base/print.ts";
import type { Report } from "@fairlead/fleet/cli/fleet/steps.ts";

/** Prints the outcome of a step. */
export function sayReport({ step, status, message }: Report): void {
  const sign = { done: "✓", failed: "✗", undone: "↩" }[status];
  printNote(`${sign} ${step}${message === undefined ? "" : `: ${message}`}`);
}
