import { describe, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import type { ContainerView } from "../container/runtime.ts";
import { ContainerStops } from "./stops.ts";

const run: ContainerView = {
  podUid: "u",
  name: "c",
  attempt: 0,
  image: "i",
  tty: false,
  user: { uid: 0, gid: 0, groups: [0] },
  fallsBackToLogs: false,
  folder: "f",
  startedAtMs: 0,
  exit: undefined,
  process: { pid: 1, startTicks: 1 },
};

function world() {
  const clock = new FakeClock();
  const beganMs = clock.now();
  const signals: string[] = [];
  const signal = (_: ContainerView, name: string): void => {
    signals.push(`${name}@${clock.now() - beganMs}`);
  };
  const stops = new ContainerStops({ signal }, clock);
  const stop = (inMs: number, isTurn = true, preStop?: () => Promise<void>): void =>
    stops.stop(run, { deadlineMs: beganMs + inMs, preStop, isTurn });
  return { clock, signals, stops, stop };
}

describe("the end of a container", () => {
  it("is SIGTERM, and SIGKILL when its time is over", async () => {
    const { clock, signals, stop } = world();
    stop(30_000);
    await clock.advance(29_999);
    expect(signals).toEqual(["SIGTERM@0"]);
    await clock.advance(1);
    expect(signals).toEqual(["SIGTERM@0", "SIGKILL@30000"]);
  });

  it("may be shortened, never extended", async () => {
    const { clock, signals, stop } = world();
    stop(30_000);
    stop(60_000);
    stop(5000);
    await clock.advance(5000);
    expect(signals).toEqual(["SIGTERM@0", "SIGKILL@5000"]);
  });

  it("waits for the preStop hook, but no longer than the time allows, and leaves 2 s after SIGTERM", async () => {
    const hook = Promise.withResolvers<void>();
    const { clock, signals, stop } = world();
    stop(10_000, true, () => hook.promise);
    await clock.advance(9999);
    expect(signals).toEqual([]);
    await clock.advance(2001);
    expect(signals).toEqual(["SIGTERM@10000", "SIGKILL@12000"]);
    hook.resolve();
  });

  it("waits for its turn, too", async () => {
    const { clock, signals, stop } = world();
    stop(10_000, false);
    await clock.advance(4000);
    expect(signals).toEqual([]);
    stop(10_000);
    await clock.advance(6000);
    expect(signals).toEqual(["SIGTERM@4000", "SIGKILL@10000"]);
  });

  it("sends no signal to a container that has ended", async () => {
    const { clock, signals, stops, stop } = world();
    stop(10_000);
    await clock.advance(1);
    stops.ended(run.folder);
    await clock.advance(60_000);
    expect(signals).toEqual(["SIGTERM@0"]);
    expect(stops.isStopping(run.folder)).toBe(false);
  });
});
