import { expect, it } from "vitest";
import { planExportsValid, type ReportedExport } from "./invalid.ts";

function exported(name: string, message?: string): ReportedExport {
  const status = message === undefined ? ("True" as const) : ("False" as const);
  const condition = {
    type: "Valid",
    status,
    reason: "Because",
    message: message ?? "",
    lastTransitionTime: "",
  };
  return { metadata: { namespace: "work", name }, status: { conditions: [condition] } };
}

it("no condition is set for exports that are valid, or that have no Valid condition yet", () => {
  expect(planExportsValid([exported("a"), { metadata: { namespace: "work", name: "b" } }])).toBeUndefined();
});

it("each export that is not valid has a line, once where both kinds say the same, in an order that stays", () => {
  const given = [exported("b-10", "no\nService"), exported("b-2", "headless"), exported("b-2", "headless")];
  const message = "work/b-2: headless\nwork/b-10: no Service";
  expect(planExportsValid(given)?.message).toBe(message);
  expect(planExportsValid(given.toReversed())?.message).toBe(message);
});

it("the message about invalid exports is bounded, for any number of exports and any length of reasons", () => {
  const many = Array.from({ length: 1000 }, (_, at) => exported(`export-${at}`, "x".repeat(30_000)));
  const message = planExportsValid(many)?.message ?? "";
  expect(message.length).toBeLessThan(6000);
  expect(message).toMatch(/and 980 more$/);
});
