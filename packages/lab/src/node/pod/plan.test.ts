import { describe, expect, it } from "vitest";
import type { Container, ContainerRestartRule, Pod, PodSpec } from "@fairlead/kube/api/core/v1/types.ts";
import { planContainers, type PodPlan } from "./plan.ts";
import { renderSeconds, RestartBackoff, type Run } from "./restart.ts";

const NOW = 1_000_000;

function ended(name: string, code: number, attempt = 0): Run {
  return { name, attempt, startedAtMs: NOW - 2000, exit: { code, atMs: NOW - 1000 } };
}
function running(name: string, attempt = 0): Run {
  return { name, attempt, startedAtMs: NOW - 2000, exit: undefined };
}

interface World {
  readonly restartAtMs?: number;
  /** Sidecars whose startup probe has not succeeded yet. */
  readonly starting?: readonly string[];
}

function plan(
  spec: Partial<PodSpec>,
  runs: readonly Run[],
  { restartAtMs = NOW, starting = [] }: World = {},
): PodPlan {
  const pod: Pod = { metadata: { name: "p" }, spec: { containers: [{ name: "a" }, { name: "b" }], ...spec } };
  const latest = (name: string): Run | undefined => runs.find((it) => it.name === name);
  const isStarted = ({ name }: Run): boolean => !starting.includes(name);
  return planContainers({ pod, latest, isStarted, restartAtMs: () => restartAtMs, nowMs: NOW });
}

const started = (it: PodPlan) => it.start.map(({ container, attempt }) => `${container.name}/${attempt}`);

describe("the plan of a pod", () => {
  it("starts all containers at once, except running ones", () => {
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

  it("runs no init container again once the main containers have started", () => {
    const runs = [ended("a", 1, 3), running("b")];
    expect(started(plan({ initContainers: [{ name: "i" }] }, runs))).toEqual(["a/4"]);
  });

  it("tries an init container again that failed, unless the pod is never restarted", () => {
    const initContainers = [{ name: "i" }];
    expect(started(plan({ initContainers }, [ended("i", 1)]))).toEqual(["i/1"]);
    const never = plan({ initContainers, restartPolicy: "Never" }, [ended("i", 1)]);
    expect(never).toMatchObject({ start: [], isOver: true, isInitialized: false });
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

  it("waits until the back-off is over and returns that time", () => {
    const waiting = plan({}, [ended("a", 1), running("b")], { restartAtMs: NOW + 5000 });
    expect(waiting).toMatchObject({ start: [], dueAtMs: NOW + 5000 });
    expect([...waiting.backingOff]).toEqual(["a"]);
  });
});

describe("a sidecar", () => {
  const sidecar = { name: "s", restartPolicy: "Always" } as const;

  it("starts before the init containers after it, which wait for its startup probe and not for its end", () => {
    const initContainers = [sidecar, { name: "i" }];
    expect(started(plan({ initContainers }, []))).toEqual(["s/0"]);
    expect(started(plan({ initContainers }, [running("s")], { starting: ["s"] }))).toEqual([]);
    expect(started(plan({ initContainers }, [running("s")]))).toEqual(["i/0"]);
    expect(started(plan({ initContainers }, [running("s"), ended("i", 0)]))).toEqual(["a/0", "b/0"]);
  });

  it("is restarted when it ended, whatever the pod's policy, and does not block the others a second time", () => {
    const spec: Partial<PodSpec> = { initContainers: [sidecar, { name: "i" }], restartPolicy: "Never" };
    expect(started(plan(spec, [ended("s", 0), running("i")]))).toEqual(["s/1"]);
    expect(started(plan(spec, [ended("s", 0), ended("i", 0)]))).toEqual(["s/1", "a/0", "b/0"]);
    expect(started(plan(spec, [ended("s", 1, 2), ended("i", 0), running("a"), running("b")]))).toEqual([
      "s/3",
    ]);
  });

  it("does not keep a pod running whose main containers are done", () => {
    const spec: Partial<PodSpec> = { initContainers: [sidecar], restartPolicy: "OnFailure" };
    const done = [ended("a", 0), ended("b", 0)];
    expect(plan(spec, [running("s"), ...done])).toMatchObject({ start: [], isOver: true });
    expect(plan(spec, [ended("s", 137), ...done])).toMatchObject({ start: [], isOver: true });
    expect(plan(spec, [running("s"), ended("a", 0), running("b")])).toMatchObject({ isOver: false });
  });

  it("ends with a pod whose init container failed for good", () => {
    const spec: Partial<PodSpec> = { initContainers: [sidecar, { name: "i" }], restartPolicy: "Never" };
    expect(plan(spec, [running("s"), ended("i", 1)])).toMatchObject({ start: [], isOver: true });
  });
});

describe("a container with its own restart policy", () => {
  const containers = (own: Partial<Container>): Container[] => [{ name: "a", ...own }, { name: "b" }];

  it("follows it instead of its pod's", () => {
    const never = plan({ containers: containers({ restartPolicy: "Never" }) }, [ended("a", 1), running("b")]);
    expect(started(never)).toEqual([]);
    const spec: Partial<PodSpec> = { restartPolicy: "Never" };
    const onFailure = { ...spec, containers: containers({ restartPolicy: "OnFailure" }) };
    expect(started(plan(onFailure, [ended("a", 1), running("b")]))).toEqual(["a/1"]);
  });

  it.each([
    ["In", [42], 42, ["a/1"]],
    ["In", [42], 43, []],
    ["NotIn", [42], 42, []],
    ["NotIn", [42], 43, ["a/1"]],
  ] as const)("with a rule for codes %s %j after code %i starts %j", (operator, values, code, expected) => {
    const rule: ContainerRestartRule = { action: "Restart", exitCodes: { operator, values: [...values] } };
    const own = containers({ restartPolicy: "Never", restartPolicyRules: [rule] });
    expect(started(plan({ containers: own }, [ended("a", code), running("b")]))).toEqual(expected);
  });

  it("may restart all containers: they end, and start again with the init containers", () => {
    const rule: ContainerRestartRule = {
      action: "RestartAllContainers",
      exitCodes: { operator: "In", values: [3] },
    };
    const own = containers({ restartPolicy: "Never", restartPolicyRules: [rule] });
    const spec: Partial<PodSpec> = {
      initContainers: [{ name: "i" }],
      containers: own,
      restartPolicy: "Never",
    };
    const init = { name: "i", attempt: 0, startedAtMs: NOW - 9000, exit: { code: 0, atMs: NOW - 8000 } };
    const source = ended("a", 3);
    expect(plan(spec, [init, source, running("b")])).toMatchObject({
      start: [],
      isOver: true,
      isRestartingAll: true,
    });
    const killed = { ...ended("b", 137), exit: { code: 137, atMs: NOW - 500 } };
    expect(started(plan(spec, [init, source, killed]))).toEqual(["i/1"]);
    const again = { name: "i", attempt: 1, startedAtMs: NOW - 400, exit: { code: 0, atMs: NOW - 300 } };
    expect(started(plan(spec, [again, source, killed]))).toEqual(["a/1", "b/1"]);
  });
});

describe("a delay in a message", () => {
  it.each([
    [10_000, "10s"],
    [80_000, "1m20s"],
    [300_000, "5m0s"],
  ])("of %i ms is written as Go does it: %s", (ms, text) => {
    expect(renderSeconds(ms)).toBe(text);
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

  it("is the same for repeated calls about one run", () => {
    const backoff = new RestartBackoff();
    backoff.delayMs(run(0, 1000));
    expect([1, 1, 1].map((attempt) => backoff.restartAtMs(run(attempt, 1000)))).toEqual(
      Array.from({ length: 3 }, () => NOW + 11_000),
    );
  });

  it("is reset after a run of 10 min", () => {
    const backoff = new RestartBackoff();
    for (let attempt = 0; attempt < 4; attempt++) backoff.delayMs(run(attempt, 1000));
    expect(backoff.delayMs(run(4, 600_000))).toBe(0);
  });
});
