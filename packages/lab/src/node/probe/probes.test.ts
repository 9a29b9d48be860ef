import { describe, expect, it } from "vitest";
import type { Container, Probe } from "@fairlead/kube/api/core/v1/types.ts";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import type { ContainerView } from "../container/runtime.ts";
import { PodProbes } from "./probes.ts";

function world(
  container: Partial<Container>,
  known?: { readonly ready: boolean; readonly started: boolean },
) {
  const clock = new FakeClock();
  const run: ContainerView = {
    podUid: "u",
    name: "c",
    attempt: 0,
    image: "i",
    tty: false,
    user: { uid: 0, gid: 0, groups: [0] },
    fallsBackToLogs: false,
    folder: "f",
    startedAtMs: clock.now(),
    exit: undefined,
    process: { pid: 1, startTicks: 1 },
  };
  const state = { ok: true, changes: 0, failures: [] as string[], attempts: [] as string[] };
  const probes = new PodProbes({
    clock,
    attempt: (probe: Probe) => {
      state.attempts.push(`${probe.exec?.command?.[0]}@${clock.now() - run.startedAtMs}`);
      return Promise.resolve({ ok: state.ok, message: "no" });
    },
    onChange: () => void state.changes++,
    onFailure: (_, kind, { isFinal }) => void state.failures.push(`${kind}${isFinal ? "!" : ""}`),
  });
  probes.begin({ container: { name: "c", ...container }, run, podIP: "10.0.0.1" }, known);
  return { clock, probes, run, state };
}

const probe = (name: string, more: Partial<Probe> = {}): Probe => ({ exec: { command: [name] }, ...more });

describe("the probes of a container", () => {
  it("report it as ready and started at once if it has none", () => {
    const { probes, run } = world({});
    expect([probes.isStarted(run), probes.isReady(run)]).toEqual([true, true]);
  });

  it("find it ready after the first success", async () => {
    const { clock, probes, run, state } = world({ readinessProbe: probe("r", { initialDelaySeconds: 3 }) });
    await clock.advance(2999);
    expect(probes.isReady(run)).toBe(false);
    await clock.advance(1);
    expect([probes.isReady(run), state.changes, state.attempts]).toEqual([true, 1, ["r@3000"]]);
  });

  it("run more often while a program starts, without reporting failures", async () => {
    const { clock, probes, run, state } = world({ readinessProbe: probe("r", { periodSeconds: 1 }) });
    state.ok = false;
    await clock.advance(300);
    expect(state.attempts).toEqual(["r@0", "r@40", "r@120", "r@280"]);
    expect(state.failures).toEqual([]);
    state.ok = true;
    await clock.advance(320);
    expect(probes.isReady(run)).toBe(true);
    await clock.advance(1000);
    expect(state.attempts.slice(4)).toEqual(["r@600", "r@1600"]);
  });

  it("mark it unready after failureThreshold consecutive failures", async () => {
    const { clock, probes, run, state } = world({
      readinessProbe: probe("r", { failureThreshold: 2, successThreshold: 2 }),
    });
    await clock.advance(10_000);
    expect(probes.isReady(run)).toBe(true);
    state.ok = false;
    await clock.advance(10_000);
    expect(probes.isReady(run)).toBe(true);
    await clock.advance(10_000);
    expect([probes.isReady(run), state.failures]).toEqual([false, ["readiness", "readiness!"]]);
    state.ok = true;
    await clock.advance(10_000);
    expect(probes.isReady(run)).toBe(false);
    await clock.advance(10_000);
    expect([probes.isReady(run), state.changes]).toEqual([true, 3]);
  });

  it("begin readiness and liveness only when the startup probe has succeeded", async () => {
    const { clock, probes, run, state } = world({
      startupProbe: probe("s"),
      readinessProbe: probe("r"),
      livenessProbe: probe("l"),
    });
    state.ok = false;
    await clock.advance(15_000);
    expect([probes.isStarted(run), state.attempts]).toEqual([false, ["s@0", "s@10000"]]);
    state.ok = true;
    await clock.advance(5000);
    expect([probes.isStarted(run), probes.isReady(run)]).toEqual([true, true]);
    expect(state.attempts.slice(2)).toEqual(["s@20000", "r@20000", "l@20000"]);
  });

  it("give a container up that does not start or does not live, once", async () => {
    for (const kind of ["startup", "liveness"] as const) {
      const { clock, state } = world({ [`${kind}Probe`]: probe("x", { failureThreshold: 2 }) });
      state.ok = false;
      await clock.advance(60_000);
      expect(state.failures).toEqual([kind, `${kind}!`]);
    }
  });

  it("take a container for what it was when the kubelet was restarted", () => {
    const { probes, run } = world(
      { readinessProbe: probe("r"), startupProbe: probe("s") },
      { ready: true, started: true },
    );
    expect([probes.isStarted(run), probes.isReady(run)]).toEqual([true, true]);
  });

  it("end with the container", async () => {
    const { clock, probes, run, state } = world({ readinessProbe: probe("r") });
    await clock.advance(0);
    probes.end(run.folder);
    await clock.advance(60_000);
    expect([state.attempts.length, probes.isReady(run), clock.pending]).toEqual([1, false, 0]);
  });
});
