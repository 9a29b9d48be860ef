import { describe, expect, it } from "vitest";
import { POD_RANGES } from "#api/fairlead.dev/names.ts";
import { rangeProperties, reportedRanges } from "./ranges.ts";

const NOW = "2026-01-02T03:04:05Z";
const before = { value: "10.0.0.0/23", observationTime: "2026-01-01T00:00:00Z" };

describe("the ranges that a member reports", () => {
  it("are as few as say the same, and stay as they were observed", () => {
    const found = { [POD_RANGES]: ["10.0.1.0/24", "", "10.0.0.0/24"] };
    const fresh = { properties: { [POD_RANGES]: { value: "10.0.0.0/23", observationTime: NOW } } };
    expect(rangeProperties(found, undefined, NOW)).toEqual(fresh);
    expect(rangeProperties(found, { [POD_RANGES]: before }, NOW)).toEqual({
      properties: { [POD_RANGES]: before },
    });
    expect(rangeProperties({ [POD_RANGES]: [""] }, undefined, NOW)).toEqual({});
  });

  it("are kept by the hub as far as they can be read, and without all else that a member says", () => {
    const said = (value: string) => ({ value, observationTime: NOW });
    const kept = (value: string) => reportedRanges({ [POD_RANGES]: said(value), other: said("x") });
    expect(kept("10.0.0.0/24, nonsense,10.0.1.0/24")).toEqual({
      properties: { [POD_RANGES]: said("10.0.0.0/23") },
    });
    expect(kept("nonsense")).toEqual({});
    expect(kept("10.0.0.0/24,".repeat(10_000))).toEqual({});
    expect(reportedRanges(undefined)).toEqual({});
  });

  it("are a bounded number", () => {
    const many = Array.from({ length: 3000 }, (_, at) => `10.${Math.floor(at / 100)}.${(at % 100) * 2}.0/24`);
    const { properties } = rangeProperties({ [POD_RANGES]: many }, undefined, NOW);
    expect(properties?.[POD_RANGES]?.value.split(",")).toHaveLength(1000);
    expect(reportedRanges(properties)).toEqual({ properties });
  });
});
