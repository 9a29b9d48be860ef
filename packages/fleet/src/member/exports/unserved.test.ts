import { describe, expect, it } from "vitest";
import { ENDPOINTS } from "#api/fairlead.dev/names.ts";
import type { ReportedExport } from "./invalid.ts";
import { planExportsServed, unservedKey } from "./unserved.ts";

const SINCE = "2026-01-01T00:00:00Z";
const SINCE_MS = Date.parse(SINCE);

function exported(
  name: string,
  given: { readonly weight?: string; readonly why?: string } = {},
): ReportedExport {
  const condition = (type: string, status: "True" | "False", message: string) => ({
    type,
    status,
    reason: "Because",
    message,
    lastTransitionTime: SINCE,
  });
  const annotations: Record<string, string> =
    given.weight === undefined ? {} : { "networking.fleet.azure.com/weight": given.weight };
  return {
    metadata: { namespace: "work", name, annotations },
    status: {
      conditions: [
        condition("Valid", "True", ""),
        ...(given.why === undefined ? [] : [condition(ENDPOINTS, "False", given.why)]),
      ],
    },
  };
}

const WITHDRAWN =
  "work/a: weight 0: nothing is exported; set networking.fleet.azure.com/weight of the ServiceExport to 1 or more";

describe("a member reports of its exports", () => {
  const later = SINCE_MS + 60_000;

  it("nothing while each gets requests", () => {
    const found = planExportsServed({ fleet: [exported("a", { weight: "1" })], mcs: [exported("b")] }, later);
    expect(found).toEqual({ condition: undefined, settlesInMs: undefined });
  });

  it("those that the fleet API withdraws for their weight, unless the other API exports the Service", () => {
    const fleet = [exported("a", { weight: "0" })];
    expect(planExportsServed({ fleet, mcs: [] }, later).condition?.message).toBe(WITHDRAWN);
    expect(planExportsServed({ fleet, mcs: [exported("a")] }, later).condition).toBeUndefined();
    expect(unservedKey(fleet[0])).not.toBe(unservedKey(exported("a")));
  });

  it("those without endpoints once, with the cause, when they have been so for a moment", () => {
    const why = "no endpoints: Deployment a is scaled to 0 replicas";
    const both = { fleet: [exported("a", { why })], mcs: [exported("a", { why })] };
    expect(planExportsServed(both, SINCE_MS + 1000)).toEqual({ condition: undefined, settlesInMs: 2000 });
    expect(planExportsServed(both, later).condition?.message).toBe(`work/a: ${why}`);
    // The clock was set back.
    expect(planExportsServed(both, SINCE_MS - 60_000).condition?.message).toBe(`work/a: ${why}`);
  });

  it("so many, and no more", () => {
    const fleet = Array.from({ length: 1000 }, (_, at) => exported(`e-${at}`, { why: "x".repeat(30_000) }));
    const { condition } = planExportsServed({ fleet, mcs: [] }, later);
    expect(condition?.message.length).toBeLessThan(6000);
    expect(condition?.message).toMatch(/and 980 more$/);
  });
});
