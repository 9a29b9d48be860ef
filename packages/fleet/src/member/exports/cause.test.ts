import { describe, expect, it } from "vitest";
import { ENDPOINTS } from "#api/fairlead.dev/names.ts";
import type { Container, ContainerStatus, Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { lookAgainInMs, whyNoPods, whyNotReady, type Workload } from "./cause.ts";

describe("a Service without pods has a cause", () => {
  const hello = (replicas: number): Workload => ({
    kind: "Deployment",
    name: "hello",
    replicas,
    labels: { app: "hello", "pod-template": "1" },
  });
  const other: Workload = { kind: "StatefulSet", name: "other", replicas: 3, labels: { app: "other" } };

  it.each<[string, Record<string, string>, Workload[], RegExp]>([
    [
      "its Deployment has no replicas",
      { app: "hello" },
      [other, hello(0)],
      /^Deployment hello is scaled to 0/,
    ],
    [
      "its Deployment has not made pods",
      { app: "hello" },
      [hello(0), hello(2)],
      /^Deployment hello has no pods yet/,
    ],
    [
      "its selector is wrong",
      { app: "helo", tier: "a" },
      [other, hello(2)],
      /the selector app=helo,tier=a of/,
    ],
  ])("%s", (_, selector, workloads, expected) => {
    expect(whyNoPods(selector, workloads)).toMatch(expected);
  });
});

describe("a pod that is not ready is named with the cause", () => {
  const status = (more: Partial<ContainerStatus>): ContainerStatus => ({
    name: "echo",
    ready: false,
    restartCount: 0,
    image: "",
    imageID: "",
    ...more,
  });
  const pod = (container: Partial<ContainerStatus>, more: Partial<Container> = {}): Pod => ({
    metadata: { namespace: "work", name: "hello-1" },
    spec: { containers: [{ name: "echo", ...more }] },
    status: { phase: "Running", containerStatuses: [status(container)] },
  });
  const running = { state: { running: {} } };

  it.each<[string, Pod]>([
    [
      "is not ready: container echo does not pass its readiness probe, a GET of /healthz at port 9",
      pod(running, { readinessProbe: { httpGet: { path: "/healthz", port: 9 } } }),
    ],
    [
      "is not ready: container echo does not pass its readiness probe, a connection to port http",
      pod(running, { readinessProbe: { tcpSocket: { port: "http" } } }),
    ],
    [
      "is not ready: container echo does not pass its startup probe, gRPC at port 9",
      pod(
        { ...running, started: false },
        { startupProbe: { grpc: { port: 9 } }, readinessProbe: { exec: { command: ["secret"] } } },
      ),
    ],
    [
      "is not ready: container echo does not pass its readiness probe, a command",
      pod(running, { readinessProbe: { exec: {} } }),
    ],
    ["is not ready: container echo starts", pod(running)],
    [
      "is not ready: container echo waits: CrashLoopBackOff, after it ended with code 3",
      pod({
        state: { waiting: { reason: "CrashLoopBackOff", message: "secret" } },
        lastState: { terminated: { exitCode: 3, message: "secret" } },
      }),
    ],
    ["is not ready: container echo ended with code 1", pod({ state: { terminated: { exitCode: 1 } } })],
    [
      "is not scheduled: 0/1 nodes are available",
      {
        metadata: { name: "hello-1" },
        status: {
          conditions: [{ type: "PodScheduled", status: "False", message: "0/1 nodes are available" }],
        },
      },
    ],
    [
      "is not ready: its readiness gate example.com/open is not True",
      {
        metadata: { name: "hello-1" },
        spec: { containers: [], readinessGates: [{ conditionType: "example.com/open" }] },
      },
    ],
    ["ends", { metadata: { name: "hello-1", deletionTimestamp: "2026-01-01T00:00:00Z" } }],
    ["is Pending", { metadata: { name: "hello-1" } }],
  ])("%s", (why, of) => {
    expect(whyNotReady(of)).toBe(`pod hello-1 ${why}`);
  });
});

it("a cause is looked at again when it is twice as old, after five seconds at first, and each day at least", () => {
  const since = "2026-01-01T00:00:00Z";
  const conditions = [
    { type: ENDPOINTS, status: "False" as const, reason: "", message: "", lastTransitionTime: since },
  ];
  const afterMs = (ageMs: number): number => lookAgainInMs(conditions, Date.parse(since) + ageMs);
  expect([undefined, []].map((it) => lookAgainInMs(it, 0))).toEqual([5000, 5000]);
  expect([-1000, 100, 8000, 1e12].map(afterMs)).toEqual([5000, 5000, 8000, 86_400_000]);
});
