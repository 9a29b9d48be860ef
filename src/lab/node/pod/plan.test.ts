import { describe, expect, it } from "vitest";
import type { Pod, PodSpec } from "#api/core/v1/types.ts";
import { planContainers, type PodPlan, RestartBackoff, type Run } from "./plan.ts";

const NOW = 1_000_000;

function ended(name: string, code: number, attempt = 0): Run {
  return { name, attempt, startedAtMs: NOW - 2000, exit: { code, atMs: NOW - 1000 } };
}
function running(name: string, attempt = 0): Run {
  return { name, attempt, startedAtMs: NOW - 2000, exit: undefined };
}

function plan(spec: Partial<PodSpec>, runs: readonly Run[], restartAtMs = NOW): PodPlan {
  const pod: Pod = { metadata: { name: "p" }, spec: { containers: [{ name: "a" }, { name: "b" }], ...spec } };
  const latest = (name: string): Run | undefined => runs.find((it) => it.name === name);
  return planContainers({ pod, latest, restartAtMs: () => restartAtMs, nowMs: NOW });
}

const started = (it: PodPlan) => it.start.map(({ container, attempt }) => `${container.name}/${attempt}`);

describe("the plan of a pod", () => {
  it("starts all containers at once, and none that runs", () => {
    expect(started(plan({}, []))).toEqual(["a/0", "b/0"]);
    expect(started(plan({}, [running("a"), running("b")]))).toEqual([]);
  });

  it("starts init containers one after another, and the others only then", () => {
    const initContainers = [{ name: "i" }, { name: "j" }];
    expect(started(plan({ initContainers }, []))).toEqual(["i/0"]);
    expect(started(plan({ initContainers }, [running("i")]))).toEqual([]);
    expect(started(plan({ initContainers }, [ended("i", 0)]))).toEqual(["j/0"]);
    expect(started(plan({ initContainers }, [ended("i", 0), ended("j", 0)]))).toEqual(["a/0", "b/0"]);
  });

  it("asks no init container again once the others began", () => {
    const runs = [ended("a", 1, 3), running("b")];
    expect(started(plan({ initContainers: [{ name: "i" }] }, runs))).toEqual(["a/4"]);
  });

  it("tries an init container again that failed, unless the pod is never restarted", () => {
    const initContainers = [{ name: "i" }];
    expect(started(plan({ initContainers }, [ended("i", 1)]))).toEqual(["i/1"]);
    const never = plan({ initContainers, restartPolicy: "Never" }, [ended("i", 1)]);
    expect(never).toMatchObject({ start: [], initFailed: true, initPending: 1 });
  });

  it.each([
    ["Always", 0, ["a/1"]],
    ["Always", 1, ["a/1"]],
    ["OnFailure", 0, []],
    ["OnFailure", 1, ["a/1"]],
    ["Never", 1, []],
  ] as const)("with restart policy %s and exit code %i starts %j", (restartPolicy, code, expected) => {
    expect(started(plan({ restartPolicy }, [ended("a", code), running("b")]))).toEqual(expected);
  });

  it("waits until the back-off is over and says when that is", () => {
    const waiting = plan({}, [ended("a", 1), running("b")], NOW + 5000);
    expect(waiting).toMatchObject({ start: [], dueAtMs: NOW + 5000 });
    expect([...waiting.backingOff]).toEqual(["a"]);
  });
});

describe("the back-off of restarts", () => {
  const run = (attempt: number, lastedMs: number): Run => ({
    name: "a",
    attempt,
    startedAtMs: NOW,
    exit: { code: 1, atMs: NOW + lastedMs },
  });

  it("is nothing at first, then 10 s, and doubles up to 5 min", () => {
    const backoff = new RestartBackoff();
    const delays = Array.from({ length: 8 }, (_, attempt) => backoff.delayMs(run(attempt, 1000)) / 1000);
    expect(delays).toEqual([0, 10, 20, 40, 80, 160, 300, 300]);
  });

  it("is the same however often one asks about one run", () => {
    const backoff = new RestartBackoff();
    backoff.delayMs(run(0, 1000));
    expect([1, 1, 1].map((attempt) => backoff.restartAtMs(run(attempt, 1000)))).toEqual(
      Array.from({ length: 3 }, () => NOW + 11_000),
    );
  });

  it("begins anew after a run of 10 min", () => {
    const backoff = new RestartBackoff();
    for (let attempt = 0; attempt < 4; attempt++) backoff.delayMs(run(attempt, 1000));
    expect(backoff.delayMs(run(4, 600_000))).toBe(0);
  });
});
