import { expect, it } from "vitest";
import { type LeavePlan, renderLeavePlan } from "./leave-plan.ts";

const plan: LeavePlan = {
  cluster: "a",
  exports: ["work/both", "work/only"],
  servedOnlyHere: ["work/only"],
  placed: "2 objects (Deployment 2)",
  placedOnLeave: "Keep",
  deletesExports: false,
};

it("the preview of a leave names what the fleet loses, what stays, and what becomes of placed objects", () => {
  expect(renderLeavePlan(plan, "text")).toBe(
    "a would leave the fleet. Nothing was changed.\nServices that it would not export any more: 2; its ServiceExports would stay.\nNo other cluster can serve these services:\n  work/only\nPlaced there (Keep): 2 objects (Deployment 2)",
  );
  const forced = { ...plan, servedOnlyHere: [], placed: undefined, deletesExports: true };
  expect(renderLeavePlan(forced, "text")).toBe(
    "a would leave the fleet. Nothing was changed.\nServices that it would not export any more: 2; its ServiceExports would be deleted.",
  );
  expect(JSON.parse(renderLeavePlan(plan, "json"))).toEqual(plan);
});
