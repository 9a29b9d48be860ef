import { describe, expect, it } from "vitest";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { HealthRules } from "./health.ts";

const job: KubeObject = { metadata: { name: "j" } };
const JOB = { group: "batch", kind: "Job" };
const rule = (available: string, of = JOB) => ({ ...of, available });

function rules(): { readonly health: HealthRules; readonly compiled: string[] } {
  const compiled: string[] = [];
  const health = new HealthRules((expression) => {
    compiled.push(expression);
    if (expression === "invalid") throw new Error("undeclared reference");
    return () => {
      if (expression === "throws") throw new Error("no such key: status");
      return expression === "true";
    };
  });
  return { health, compiled };
}

describe("the availability by health rules", () => {
  it.each([
    ["true", { availability: "Available" }],
    ["false", { availability: "ManifestNotAvailableYet", detail: "the health rule of Job is false" }],
    [
      "throws",
      {
        availability: "ManifestNotAvailableYet",
        detail: "the health rule of Job has no value: no such key: status",
      },
    ],
    [
      "invalid",
      { availability: "Failed", detail: "the health rule of Job is invalid: undeclared reference" },
    ],
  ])("is that of the expression %s", (expression, expected) => {
    expect(rules().health.judge([rule(expression)], JOB, job)).toEqual(expected);
  });

  it("is that of the kind where no rule is of this kind and group", () => {
    const others = [
      rule("true", { group: "example.com", kind: "Job" }),
      rule("true", { group: "", kind: "Pod" }),
    ];
    expect(rules().health.judge(others, JOB, job)).toEqual({ availability: "NotTrackable" });
  });

  it("takes the place of what is known of a kind, and the first rule counts", () => {
    const map = { group: "", kind: "ConfigMap" };
    const { health } = rules();
    expect(health.judge([rule("false", map), rule("true", map)], map, job).availability).toBe(
      "ManifestNotAvailableYet",
    );
    expect(health.judge([{ kind: "ConfigMap", available: "false" }], map, job).availability).toBe(
      "ManifestNotAvailableYet",
    );
  });

  it("compiles an expression once", () => {
    const { health, compiled } = rules();
    for (const expression of ["true", "true", "invalid", "invalid"])
      health.judge([rule(expression)], JOB, job);
    expect(compiled).toEqual(["true", "invalid"]);
  });

  it("is not known to an agent that evaluates no rules", () => {
    expect(new HealthRules(undefined).judge([rule("true")], JOB, job)).toEqual({
      availability: "Failed",
      detail: "the health rule of Job is invalid: this agent evaluates no health rules",
    });
  });
});
