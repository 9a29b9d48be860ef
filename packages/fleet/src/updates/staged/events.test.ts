import { expect, it } from "vitest";
import type { StageConfig } from "#api/placement.kubernetes-fleet.io/v1beta1/staged.ts";
import { eventOfRun } from "./events.ts";
import { FakeWorld } from "./world.fake.ts";

const STAGES: StageConfig[] = [{ name: "one", labelSelector: {}, afterStageTasks: [{ type: "Approval" }] }];

it("a run has an Event when it waits, is stuck or is over, and none for each step", () => {
  const fleet = new FakeWorld({ a: "one", b: "one" }, STAGES);
  const reported: string[] = [];
  let before = fleet.run;
  const settle = (): void => {
    fleet.settle();
    const event = eventOfRun(before, fleet.run);
    if (event !== undefined) reported.push(`${event.type} ${event.reason}`);
    before = fleet.run;
  };
  settle();
  fleet.nowMs += 6 * 60_000;
  settle();
  settle();
  fleet.ready("a");
  settle();
  fleet.ready("b");
  settle();
  fleet.approve("run-after-one");
  settle();
  settle();
  expect(reported).toEqual([
    "Warning UpdateRunStuck",
    "Normal UpdateRunWaiting",
    "Normal UpdateRunSucceeded",
  ]);
});
