import { defined } from "@fairlead/base/defined.ts";
import { describe, expect, it } from "vitest";
import type { Deployment } from "@fairlead/kube/api/apps/v1/types.ts";
import type { CoreEvent, Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { lackingOf } from "./deployment.ts";
import { lastWarning, whyNotRunning } from "./pods.ts";

function deployment(status: Deployment["status"], replicas = 2): Deployment {
  const template = { metadata: {}, spec: { containers: [] } };
  return {
    metadata: { name: "agent", generation: 3 },
    spec: { replicas, selector: {}, template },
    ...defined({ status }),
  };
}

describe("a Deployment", () => {
  const done = { observedGeneration: 3, replicas: 2, updatedReplicas: 2, availableReplicas: 2 };

  it("is rolled out when all its pods are updated and available, and no old pod is left", () => {
    expect(lackingOf(deployment(done))).toBeUndefined();
    expect(lackingOf(deployment({ observedGeneration: 3 }, 0))).toBeUndefined();
  });

  it.each([
    ["no controller has observed its latest generation", { ...done, observedGeneration: 2 }, /not observed/],
    ["it has no status", undefined, /not observed/],
    ["pods are missing", { ...done, updatedReplicas: 1 }, /^1 of 2 pods are updated/],
    ["old pods are left", { ...done, replicas: 3 }, /^1 old pods/],
    ["pods are not ready", { ...done, availableReplicas: 0 }, /^0 of 2 pods are ready/],
  ])("is not rolled out while %s", (_, status, why) => {
    expect(lackingOf(deployment(status))).toMatch(why);
  });

  it("is not rolled out if it was deleted", () => {
    expect(lackingOf(undefined)).toBe("it was deleted");
  });
});

describe("a pod that does not run", () => {
  const pod = (status: Pod["status"]): Pod => ({ metadata: { name: "p" }, ...(status && { status }) });
  const container = { name: "c", ready: false, restartCount: 0, image: "i", imageID: "" };

  it.each<[string, Pod | undefined, string]>([
    ["went away", undefined, "it was deleted"],
    [
      "waits for its image",
      pod({
        containerStatuses: [
          { ...container, state: { waiting: { reason: "ErrImagePull", message: "not found" } } },
        ],
      }),
      "ErrImagePull: not found",
    ],
    [
      "ends again and again",
      pod({
        containerStatuses: [
          {
            ...container,
            state: { waiting: { reason: "CrashLoopBackOff" } },
            lastState: { terminated: { exitCode: 3, reason: "Error", message: "no API server\n" } },
          },
        ],
      }),
      "CrashLoopBackOff; it ended with 3 Error: no API server",
    ],
    [
      "finds no node",
      pod({
        phase: "Pending",
        conditions: [
          { type: "Ready", status: "False", message: "later" },
          { type: "PodScheduled", status: "False", message: "0/3 nodes are available" },
        ],
      }),
      "0/3 nodes are available",
    ],
    [
      "runs and is not ready",
      pod({
        phase: "Running",
        conditions: [
          { type: "ContainersReady", status: "False", message: "containers with unready status: [c]" },
        ],
      }),
      "containers with unready status: [c]",
    ],
    [
      "was evicted",
      pod({ phase: "Failed", message: "the node was low on memory" }),
      "the node was low on memory",
    ],
    ["reports nothing", pod({}), "it is Pending"],
  ])("is reported as such because it %s", (_, it_, why) => {
    expect(whyNotRunning(it_)).toBe(why);
  });

  it("is warned about by its own events, the last of which counts", () => {
    const event = (uid: string, reason: string, at: string, type = "Warning"): CoreEvent => ({
      metadata: { name: reason },
      involvedObject: { uid },
      reason,
      type,
      lastTimestamp: at,
    });
    const events = [
      event("a", "Second", "2026-01-01T00:00:02Z"),
      event("a", "First", "2026-01-01T00:00:01Z"),
      event("b", "Other", "2026-01-01T00:00:03Z"),
      event("a", "Pulled", "2026-01-01T00:00:04Z", "Normal"),
    ];
    expect(lastWarning(events, "a")).toBe("Second");
    expect(lastWarning(events, "c")).toBeUndefined();
  });
});
