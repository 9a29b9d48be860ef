import { describe, expect, it } from "vitest";
import { BYTES, mapOf, STRING } from "#cel/type.ts";
import { CelMap, type CelValue } from "#cel/value.ts";
import { evaluatePolicy } from "./evaluate.ts";
import { compilePolicy } from "./program.ts";
import type { PolicySpec } from "./types.ts";

/** Comparing it costs nine tenths of what one expression may cost. */
const DATA = new Uint8Array(9_000_000);
const EXPENSIVE = "object.data != object.data";
const FAILS = `${EXPENSIVE} || 1 / 0 == 1`;
const MANY = 100;

/** Counts how often expressions read it. */
class CountingObject extends CelMap {
  reads = 0;
  override get(): CelValue {
    this.reads += 1;
    return DATA;
  }
}

function evaluate(spec: PolicySpec) {
  const object = new CountingObject(mapOf(STRING, BYTES));
  const result = evaluatePolicy(compilePolicy(spec), spec, new Map([["object", object]]));
  return { ...result, reads: object.reads };
}

const all = <T>(item: T): T[] => Array.from({ length: MANY }, () => item);

describe("a policy of many expensive expressions is cut off", () => {
  it.each([
    ["that are false", { validations: all({ expression: EXPENSIVE }) }],
    ["that fail", { validations: all({ expression: FAILS }) }],
    [
      "that are variables",
      {
        variables: [{ name: "costly", expression: FAILS }],
        validations: all({ expression: "variables.costly" }),
      },
    ],
    [
      "that are messages",
      { validations: all({ expression: "false", messageExpression: `${FAILS} ? 'a' : 'b'` }) },
    ],
    [
      "that are annotations",
      { auditAnnotations: all({ key: "a", valueExpression: `${FAILS} ? 'a' : 'b'` }) },
    ],
  ] as const)("%s", (_, spec) => {
    const { reads, denials, annotationProblems } = evaluate(spec);
    // The budget of a policy is that of ten expressions, each of which reads it three times at most.
    expect(reads).toBeGreaterThanOrEqual(20);
    expect(reads).toBeLessThanOrEqual(3 * 13);
    expect(denials.length + annotationProblems.length).toBe(MANY);
  });

  it("that are conditions", () => {
    const { reads, denials } = evaluate({
      matchConditions: all({ name: "c", expression: FAILS }),
      validations: [{ expression: "true" }],
    });
    expect(reads).toBeLessThanOrEqual(3 * 3);
    expect(denials.map((it) => it.message).join()).toContain("running out of cost budget");
  });
});
