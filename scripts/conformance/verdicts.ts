/** What the suite found, out of the `report.yaml` that it leaves. */

import { parse } from "yaml";
import { isObject } from "@fairlead/base/json.ts";

/** As in the suite's own report. "Unknown": the spec failed for a reason unrelated to the implementation. */
export type Verdict = "Yes" | "No" | "Unknown" | "Skipped";

export interface SpecVerdict {
  readonly group: string;
  readonly spec: string;
  readonly verdict: Verdict;
  readonly message: string;
}

/** @throws {Error} if the text is not a report. */
export function readVerdicts(report: string): readonly SpecVerdict[] {
  const value: unknown = parse(report);
  if (!isObject(value) || !Array.isArray(value["groups"]))
    throw new Error("the suite left no report of its specs");
  return value["groups"].flatMap((group: unknown) => readGroup(group));
}

function readGroup(group: unknown): readonly SpecVerdict[] {
  if (!isObject(group) || !Array.isArray(group["tests"])) return [];
  const name = textOf(group["name"]);
  return group["tests"].filter(isObject).map((test) => ({
    group: name,
    spec: textOf(test["desc"]).replaceAll(/\s+/g, " "),
    verdict: verdictOf(test),
    message: textOf(test["message"]).replace(/^[\s-]+/, ""),
  }));
}

function verdictOf(test: Readonly<Record<string, unknown>>): Verdict {
  if (test["skipped"] === true) return "Skipped";
  if (test["failed"] === true) return "Unknown";
  return test["conformant"] === true && test["passed"] === true ? "Yes" : "No";
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** A line for each spec, and one with the sums. */
export function renderVerdicts(verdicts: readonly SpecVerdict[]): string {
  const lines = verdicts.map(
    (it) =>
      `  ${it.verdict.padEnd(7)}  ${it.group.padEnd(8)}  ${it.spec}${it.message === "" ? "" : `: ${it.message}`}`,
  );
  const passed = verdicts.filter((it) => it.verdict === "Yes").length;
  return [...lines, `${passed} of ${verdicts.length} specs passed`].join("\n");
}

/** Whether every spec ran and passed; a skipped one is not held to be met. */
export function isConformant(verdicts: readonly SpecVerdict[]): boolean {
  return verdicts.length > 0 && verdicts.every((it) => it.verdict === "Yes");
}
