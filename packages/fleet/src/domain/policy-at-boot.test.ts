import { expect, it } from "vitest";
import type { Node, Taint } from "@fairlead/kube/api/core/v1/types.ts";
import { type BootReport, describeBoot, planStartupTaint, policyAtBoot } from "./policy-at-boot.ts";

const OURS: Taint = { key: "fairlead.dev/agent-not-ready", effect: "NoSchedule" };
const OTHER: Taint = { key: "example.com/other", effect: "NoExecute" };

/** A node in boot b2. */
function node(taints: Taint[], said?: BootReport, unschedulable?: boolean): Node {
  return {
    metadata: { name: "n1" },
    spec: { taints, ...(unschedulable === undefined ? {} : { unschedulable }) },
    status: { nodeInfo: { bootID: "b2" }, conditions: said === undefined ? [] : [describeBoot(said)] },
  };
}

it.each<[string, Node, boolean, Taint[] | undefined]>([
  ["on which no agent ever was stays as it is", node([]), true, undefined],
  [
    "that its kubelet registered with the taint keeps it until an agent reports",
    node([OURS]),
    true,
    undefined,
  ],
  ["whose agent has written its policies takes pods", node([OTHER, OURS], { boot: "b2" }), true, [OTHER]],
  [
    "whose agent has written its policies and which has no taint is not written",
    node([], { boot: "b2" }),
    true,
    undefined,
  ],
  [
    "that has booted since its agent reported takes no pods",
    node([OTHER], { boot: "b1" }),
    true,
    [OTHER, OURS],
  ],
  ["that is cordoned gets the taint before it boots", node([], { boot: "b2" }, true), true, [OURS]],
  ["that is not cordoned any more loses it without a boot", node([OURS], { boot: "b2" }, false), true, []],
  ["of a cluster without a network is not held", node([OURS], { boot: "b1" }), false, []],
  ["whose plugin enforces policies is not held", node([OURS], { boot: "b1", engine: "Cilium" }), true, []],
])("a node %s", (_, it, isHeld, expected) => {
  expect(planStartupTaint(it, isHeld)).toEqual(expected);
});

it.each<[BootReport, string]>([
  [{ boot: "b2", restored: "b2" }, "True Restored"],
  [{ boot: "b2", restored: "b1" }, "False NotRestored"],
  [{ boot: "b2" }, "False NotRestored"],
  [{ boot: "b2", engine: "Calico" }, "True NetworkPluginEnforces"],
])("an agent reports %j", (said, expected) => {
  const { status, reason } = describeBoot(said);
  expect(`${status} ${reason}`).toBe(expected);
});

it.each<[readonly string[], boolean, string]>([
  [[], false, "True Restored"],
  [["n1"], true, "False OnlyNewPodsWait"],
  [["n1"], false, "False NothingHoldsPodsBack"],
])(
  "a member with nodes %j that had no policies, and the taint: %s, reports %s",
  (unrestored, hasTaint, expected) => {
    const agents = {
      areEverywhere: true,
      present: ["n1", "n2"],
      missing: [],
      ofPlugin: [],
      unfiltered: [],
      failing: [],
      unrestored,
      support: [],
    };
    const found = policyAtBoot({ mode: "flat", engine: undefined, agents }, hasTaint);
    expect(`${found?.status} ${found?.reason}`).toBe(expected);
    expect(policyAtBoot({ mode: "flat", engine: "Cilium", agents }, hasTaint)).toBeUndefined();
    expect(policyAtBoot({ mode: undefined, engine: undefined, agents }, hasTaint)).toBeUndefined();
  },
);
