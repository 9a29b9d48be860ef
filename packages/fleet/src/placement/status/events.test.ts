import { expect, it } from "vitest";
import type { Condition } from "@fairlead/kube/api/meta/types.ts";
import type { Placement } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { eventsOfPlacement } from "./events.ts";

const PREFIX = "ResourcePlacement";
/** "Type=Status Reason", of generation 2 unless "^" follows. */
function placement(...conditions: readonly string[]): Placement {
  return {
    metadata: { name: "web", generation: 2 },
    spec: { resourceSelectors: [] },
    status: {
      conditions: conditions.map((text): Condition => {
        const [what = "", reason = "", mark = ""] = text.split(" ");
        const [type = "", status = ""] = what.split("=");
        const observedGeneration = mark === "^" ? 1 : 2;
        return {
          type: PREFIX + type,
          status: status as Condition["status"],
          reason,
          message: `${reason} message`,
          observedGeneration,
          lastTransitionTime: "",
        };
      }),
    },
  };
}
const reported = (before: Placement, after: Placement): string[] =>
  eventsOfPlacement(before, after, PREFIX).map((it) => `${it.type} ${it.reason}`);

const DONE = [
  "Scheduled=True S",
  "RolloutStarted=True R",
  "Overridden=True N",
  "Applied=True A",
  "Available=True A",
];

it("a rollout has an Event for each step, with KubeFleet's reasons, and once", () => {
  expect(reported(placement(), placement(...DONE))).toEqual([
    "Normal PlacementRolloutStarted",
    "Normal PlacementOverriddenSucceeded",
    "Normal PlacementApplied",
    "Normal PlacementAvailable",
    "Normal PlacementRolloutCompleted",
  ]);
  expect(reported(placement(...DONE), placement(...DONE))).toEqual([]);
});
it("what is True of an earlier generation has an Event again once it is True of the present one", () => {
  expect(reported(placement("Applied=True A ^"), placement("Applied=True A"))).toEqual([
    "Normal PlacementApplied",
  ]);
  expect(reported(placement(), placement("Applied=True A ^"))).toEqual([]);
});
it("a placement that lacks clusters is not completed, and is warned of, again only if the reason changes", () => {
  const lacking = placement("Scheduled=False SchedulingPolicyUnfulfilled", "Available=True A");
  expect(reported(placement(), lacking)).toEqual([
    "Normal PlacementAvailable",
    "Warning SchedulingPolicyUnfulfilled",
  ]);
  expect(reported(lacking, lacking)).toEqual([]);
  expect(reported(lacking, placement("Scheduled=False InvalidResourceSelectors"))).toEqual([
    "Warning InvalidResourceSelectors",
  ]);
});
