import { defined } from "@fairlead/base/defined.ts";
import { describe, expect, it } from "vitest";
import type { Container, Pod, PodSpec } from "@fairlead/kube/api/core/v1/types.ts";
import type { ContainerExit, ContainerView } from "../container/runtime.ts";
import { podStatus, type PodStatus, type StatusInput } from "./status.ts";

const NOW = Date.parse("2026-01-01T00:00:10Z");

function view(name: string, attempt: number, exit?: ContainerExit): ContainerView {
  const process = { pid: 1, startTicks: 1 };
  return {
    podUid: "u",
    name,
    attempt,
    image: "docker.io/library/busybox:1",
    tty: false,
    user: { uid: 0, gid: 0, groups: [0] },
    fallsBackToLogs: false,
    folder: `${name}/${attempt}`,
    process,
    startedAtMs: NOW - 5000,
    exit,
  };
}

function ended(code: number): ContainerExit {
  return { code, reason: code === 0 ? "Completed" : "Error", atMs: NOW };
}

function report(
  runs: readonly ContainerView[],
  change: Partial<StatusInput> & { spec?: Partial<PodSpec>; before?: PodStatus } = {},
): PodStatus {
  const { spec, before, ...rest } = change;
  const pod: Pod = {
    metadata: { name: "p", namespace: "n", generation: 3 },
    spec: { containers: [{ name: "a", image: "busybox:1" }], ...spec },
    ...defined({ status: before }),
  };
  return podStatus({
    pod,
    place: { podIPs: ["10.0.0.2", "fd00::2"], hostIPs: ["192.0.2.1"] },
    run: (name, back) =>
      runs.filter((it) => it.name === name).toSorted((a, b) => b.attempt - a.attempt)[back],
    waiting: new Map(),
    isReady: () => true,
    isStarted: () => true,
    hasNetwork: true,
    isEnding: false,
    ended: undefined,
    isRestartingAll: false,
    nowMs: NOW,
    ...rest,
  });
}

const conditionOf = (status: PodStatus, type: string) => status.conditions?.find((it) => it.type === type);

describe("the status of a pod", () => {
  it("has its addresses and its start time", () => {
    expect(report([view("a", 0)])).toMatchObject({
      phase: "Running",
      podIP: "10.0.0.2",
      podIPs: [{ ip: "10.0.0.2" }, { ip: "fd00::2" }],
      hostIP: "192.0.2.1",
      startTime: "2026-01-01T00:00:10Z",
      observedGeneration: 3,
      containerStatuses: [
        {
          name: "a",
          ready: true,
          started: true,
          restartCount: 0,
          state: { running: { startedAt: "2026-01-01T00:00:05Z" } },
        },
      ],
    });
  });

  it("is not ready while a container is not, and names it", () => {
    const status = report([view("a", 0)], { isReady: () => false });
    expect(conditionOf(status, "Ready")).toMatchObject({
      status: "False",
      reason: "ContainersNotReady",
      message: "containers with unready status: [a]",
    });
  });

  it("keeps the time of a condition that stays, and the conditions of others", () => {
    const before: PodStatus = {
      conditions: [
        { type: "Ready", status: "True", lastTransitionTime: "2025-12-31T00:00:00Z" },
        { type: "example.org/gate", status: "True", lastTransitionTime: "2025-12-30T00:00:00Z" },
      ],
    };
    const status = report([view("a", 0)], { before });
    expect(conditionOf(status, "Ready")?.lastTransitionTime).toBe("2025-12-31T00:00:00Z");
    expect(conditionOf(status, "example.org/gate")?.status).toBe("True");
    const changed = report([view("a", 0)], { before, isReady: () => false });
    expect(conditionOf(changed, "Ready")?.lastTransitionTime).toBe("2026-01-01T00:00:10Z");
  });

  it("is the same for the same state, so that nothing is written twice", () => {
    const first = report([view("a", 0)]);
    expect(report([view("a", 0)], { before: first, nowMs: NOW + 60_000 })).toEqual(first);
  });

  it.each([
    ["Always", [ended(0)], "Running"],
    ["OnFailure", [ended(1)], "Running"],
    ["OnFailure", [ended(0)], "Succeeded"],
    ["Never", [ended(1)], "Failed"],
    ["Never", [ended(0)], "Succeeded"],
  ] as const)(
    "with restart policy %s and a container that ended comes to its phase",
    (restartPolicy, [exit], phase) => {
      expect(report([view("a", 0, exit)], { spec: { restartPolicy } }).phase).toBe(phase);
    },
  );

  it("is terminal once the pod is ending and its containers have ended, whatever the restart policy", () => {
    expect(report([view("a", 0, ended(0))], { isEnding: true }).phase).toBe("Succeeded");
    expect(report([view("a", 0, ended(137))], { isEnding: true }).phase).toBe("Failed");
  });

  it("shows why a container waits, and how its last run ended", () => {
    const waiting = new Map([["a", { reason: "CrashLoopBackOff", message: "back-off" }]]);
    const status = report([view("a", 0, ended(2)), view("a", 1, ended(3))], { waiting });
    expect(status.containerStatuses?.[0]).toMatchObject({
      state: { waiting: { reason: "CrashLoopBackOff" } },
      lastState: { terminated: { exitCode: 3 } },
      restartCount: 1,
      ready: false,
    });
    expect(status.phase).toBe("Running");
  });

  it("is pending while init containers run, and failed when one did for good", () => {
    const spec: Partial<PodSpec> = { initContainers: [{ name: "i" }], restartPolicy: "Never" };
    const pending = report([view("i", 0)], { spec });
    expect(pending.phase).toBe("Pending");
    expect(conditionOf(pending, "Initialized")).toMatchObject({
      status: "False",
      message: "containers with incomplete status: [i]",
    });
    expect(pending.containerStatuses?.[0]?.state?.waiting?.reason).toBe("PodInitializing");
    expect(report([view("i", 0, ended(1))], { spec }).phase).toBe("Failed");
  });

  it("counts a sidecar as started, not as done, and waits for it no more once the pod has begun", () => {
    const sidecar: Container = { name: "s", restartPolicy: "Always" };
    const spec: Partial<PodSpec> = { initContainers: [sidecar], restartPolicy: "Never" };
    const starting = report([view("s", 0)], { spec, isStarted: () => false });
    expect(starting.phase).toBe("Pending");
    expect(conditionOf(starting, "Initialized")?.status).toBe("False");
    expect(report([view("s", 0), view("a", 0)], { spec }).phase).toBe("Running");
    expect(report([view("s", 0), view("a", 0, ended(0))], { spec }).phase).toBe("Running");
    expect(report([view("s", 0, ended(143)), view("a", 0, ended(0))], { spec }).phase).toBe("Succeeded");
    const again = report([view("s", 1, ended(1)), view("a", 0)], { spec });
    expect(again.phase).toBe("Running");
    expect(conditionOf(again, "Initialized")?.status).toBe("True");
    expect(conditionOf(again, "Ready")?.message).toBe("containers with unready status: [s]");
  });

  it("is ready only with its readiness gates", () => {
    const spec: Partial<PodSpec> = { readinessGates: [{ conditionType: "example.org/gate" }] };
    expect(conditionOf(report([view("a", 0)], { spec }), "Ready")).toMatchObject({
      status: "False",
      reason: "ReadinessGatesNotReady",
      message: 'corresponding condition of pod readiness gate "example.org/gate" does not exist.',
    });
    const before: PodStatus = { conditions: [{ type: "example.org/gate", status: "True" }] };
    expect(conditionOf(report([view("a", 0)], { spec, before }), "Ready")?.status).toBe("True");
  });

  it("has failed when its node ended it, once nothing of it runs", () => {
    const why = { reason: "DeadlineExceeded", message: "too long" };
    expect(report([view("a", 0)], { ended: why }).phase).toBe("Running");
    expect(report([view("a", 0, ended(0))], { ended: why })).toMatchObject({ phase: "Failed", ...why });
  });
});
