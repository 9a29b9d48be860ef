import { describe, expect, it } from "vitest";
import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { isHeartbeat } from "./member-change.ts";

const AT = "2026-01-01T00:00:00Z";
const LATER = "2026-01-01T00:01:00Z";
const condition = {
  type: "Healthy",
  status: "True",
  reason: "Alive",
  message: "",
  lastTransitionTime: AT,
} as const;

function reported(at: string, cpu: string): MemberCluster {
  return {
    metadata: { name: "a", uid: "1", generation: 1, resourceVersion: at, labels: { region: "eu" } },
    spec: { identity: { kind: "User", name: "a" } },
    status: {
      conditions: [condition],
      agentStatus: [{ type: "MemberAgent", conditions: [condition], lastReceivedHeartbeat: at }],
      properties: { "kubernetes-fleet.io/node-count": { value: "3", observationTime: at } },
      resourceUsage: { observationTime: at, available: { cpu } },
    },
  };
}

const before = reported(AT, "1");
const { status = {} } = before;

describe("a report of a member", () => {
  it("is a heartbeat if only times and the usage of its resources are others", () => {
    expect(isHeartbeat({ key: objectKey(undefined, "a"), before, after: reported(LATER, "2") })).toBe(true);
  });
  it.each<[string, MemberCluster | undefined]>([
    ["the member is gone", undefined],
    ["it is another object", { ...before, metadata: { ...before.metadata, uid: "2" } }],
    ["its spec changed", { ...before, metadata: { ...before.metadata, generation: 2 } }],
    ["its labels changed", { ...before, metadata: { ...before.metadata, labels: {} } }],
    ["its annotations changed", { ...before, metadata: { ...before.metadata, annotations: { a: "b" } } }],
    ["it is being deleted", { ...before, metadata: { ...before.metadata, deletionTimestamp: LATER } }],
    [
      "a condition changed",
      { ...before, status: { ...status, conditions: [{ ...condition, status: "False" }] } },
    ],
    [
      "an agent came",
      { ...before, status: { ...status, agentStatus: [...(status.agentStatus ?? []), { type: "Other" }] } },
    ],
    [
      "a property changed",
      { ...before, status: { ...status, properties: { a: { value: "4", observationTime: AT } } } },
    ],
  ])("is more if %s", (_, after) => {
    expect(isHeartbeat({ key: objectKey(undefined, "a"), before, after })).toBe(false);
  });
});
