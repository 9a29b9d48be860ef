import { describe, expect, it } from "vitest";
import type { Pod } from "@fairlead/kube/api/core/v1/types.ts";
import type { PodDisruptionBudget } from "@fairlead/kube/api/policy/v1/types.ts";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { timestamp } from "@fairlead/kube/objects/conditions.ts";
import { planBudget } from "./plan.ts";

const clock = new FakeClock();

function pod(name: string, parts: { readonly ready?: boolean; readonly deleting?: boolean } = {}): Pod {
  const { ready = true, deleting = false } = parts;
  const status = ready ? ("True" as const) : ("False" as const);
  return {
    metadata: { name, ...(deleting ? { deletionTimestamp: timestamp(clock.now()) } : {}) },
    status: { conditions: [{ type: "Ready", status }] },
  };
}

function plan(
  spec: NonNullable<PodDisruptionBudget["spec"]>,
  pods: readonly Pod[],
  more: { readonly expected?: number | string; readonly status?: PodDisruptionBudget["status"] } = {},
) {
  const status = more.status === undefined ? {} : { status: more.status };
  const budget = { metadata: { name: "b", generation: 1 }, spec, ...status };
  return planBudget({ budget, pods, expected: more.expected ?? pods.length, clock });
}

const three = [pod("a"), pod("b"), pod("c", { ready: false })];

describe("a PodDisruptionBudget", () => {
  it.each([
    ["minAvailable 1", { minAvailable: 1 }, 1, 1],
    ["minAvailable 2", { minAvailable: 2 }, 2, 0],
    ["half of three, rounded up", { minAvailable: "50%" }, 2, 0],
    ["maxUnavailable 1, used up by the one that is not ready", { maxUnavailable: 1 }, 2, 0],
    ["maxUnavailable 2", { maxUnavailable: 2 }, 1, 1],
    ["maxUnavailable 34 %, rounded up", { maxUnavailable: "34%" }, 1, 1],
    ["more than there are", { maxUnavailable: 9 }, 0, 2],
  ])("of %s", (_, spec, desiredHealthy, disruptionsAllowed) => {
    const { status } = plan(spec, three);
    expect(status).toMatchObject({ desiredHealthy, disruptionsAllowed, currentHealthy: 2, expectedPods: 3 });
    const [reason, is] = disruptionsAllowed > 0 ? ["SufficientPods", "True"] : ["InsufficientPods", "False"];
    expect(status.conditions?.[0]).toMatchObject({ type: "DisruptionAllowed", reason, status: is });
  });

  it("counts the desired pods of workloads, not the existing ones", () => {
    expect(plan({ maxUnavailable: 1 }, [pod("a"), pod("b")], { expected: 5 }).status).toMatchObject({
      desiredHealthy: 4,
      disruptionsAllowed: 0,
      expectedPods: 5,
    });
  });

  it("allows no disruption without pods, and if the count is unknown", () => {
    expect(plan({ maxUnavailable: 1 }, []).status.disruptionsAllowed).toBe(0);
    const { status } = plan({ maxUnavailable: 1 }, three, { expected: "no scale" });
    expect(status).toMatchObject({
      disruptionsAllowed: 0,
      conditions: [{ reason: "SyncFailed", message: "no scale" }],
    });
  });

  it("counts a pod whose eviction was granted as gone, for two minutes", () => {
    const base = { disruptionsAllowed: 0, currentHealthy: 2, desiredHealthy: 1, expectedPods: 2 };
    const status = { ...base, disruptedPods: { a: timestamp(clock.now()) } };
    const pods = [pod("a"), pod("b")];
    const soon = plan({ minAvailable: 1 }, pods, { status });
    expect(soon.status).toMatchObject({ currentHealthy: 1, disruptionsAllowed: 0 });
    expect(soon.checkInMs).toBe(120_000);
    const old = { ...base, disruptedPods: { a: timestamp(clock.now() - 121_000) } };
    const later = plan({ minAvailable: 1 }, pods, { status: old });
    expect(later.status).toMatchObject({ currentHealthy: 2, disruptionsAllowed: 1 });
    expect(later.late).toEqual([pods[0]]);
    const gone = plan({ minAvailable: 1 }, [pod("a", { deleting: true }), pod("b")], { status });
    expect(gone.status.disruptedPods).toBeUndefined();
  });
});
