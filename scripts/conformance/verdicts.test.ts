import { describe, expect, it } from "vitest";
import { stringify } from "yaml";
import { isConformant, readVerdicts, renderVerdicts } from "./verdicts.ts";

const PASSED = { passed: true, failed: false, skipped: false, conformant: true };
const FAILED = { ...PASSED, passed: false };
const report = (...tests: readonly object[]): string =>
  stringify({ groups: [{ name: "Required", tests }], passed: 1, total: tests.length });

describe("the report of the suite", () => {
  it("is read with the verdicts yes, no, unknown and skipped", () => {
    const verdicts = readVerdicts(
      report(
        { desc: "passes  twice", message: "", ...PASSED },
        { desc: "does not conform", message: " - no import", ...FAILED, conformant: false },
        { desc: "met an error", message: " - refused", ...FAILED, failed: true },
        { desc: "needs two", message: " - one cluster", ...FAILED, skipped: true },
      ),
    );
    expect(verdicts.map((it) => [it.verdict, it.spec, it.message])).toEqual([
      ["Yes", "passes twice", ""],
      ["No", "does not conform", "no import"],
      ["Unknown", "met an error", "refused"],
      ["Skipped", "needs two", "one cluster"],
    ]);
    expect(renderVerdicts(verdicts)).toContain("1 of 4 specs passed");
    expect(isConformant(verdicts)).toBe(false);
  });

  it("is good only when there are specs and all passed", () => {
    expect(isConformant(readVerdicts(report({ desc: "passes", message: "", ...PASSED })))).toBe(true);
    expect(isConformant(readVerdicts(stringify({ groups: [] })))).toBe(false);
    expect(() => readVerdicts("passed: 0")).toThrow(/no report/);
  });
});
