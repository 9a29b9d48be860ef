import { beforeEach, describe, expect, it } from "vitest";
import { IDLE_PROBE_MS } from "./liveness.ts";
import { DEAD_MS, HOLD_OFF_MS, PROBE_MS, STABLE_ANSWERS } from "./path-choice.ts";
import { ProbedPaths } from "./probed-paths.ts";

const [NEAR, FAR] = [
  { address: "198.51.100.1", port: 31_821 },
  { address: "198.51.100.2", port: 31_821 },
];
const RTT_MS = 5;

let paths: ProbedPaths;
let nowMs: number;
let used: typeof NEAR | undefined;
/** Those that answer. */
let living: readonly (typeof NEAR)[];

/** What is probed now. */
function asked(isUsed: (it: typeof NEAR) => boolean): readonly (typeof NEAR)[] {
  const all = [...paths.due(nowMs, (it) => isUsed(it))];
  for (let next = paths.search(nowMs); next !== undefined; next = paths.search(nowMs)) all.push(next);
  return all;
}

/** Turns for so long. @returns When each endpoint was probed. */
function turn(forMs: number): readonly { readonly atMs: number; readonly address: string }[] {
  const probes: { atMs: number; address: string }[] = [];
  for (const untilMs = nowMs + forMs; nowMs < untilMs; nowMs += PROBE_MS) {
    paths.judge(nowMs);
    for (const endpoint of asked((it) => it === used)) {
      probes.push({ atMs: nowMs, address: endpoint.address });
      if (living.includes(endpoint)) paths.answered(endpoint, nowMs, nowMs + RTT_MS);
    }
  }
  return probes;
}

const countOf = (probes: ReturnType<typeof turn>, { address }: typeof NEAR): number =>
  probes.filter((it) => it.address === address).length;

beforeEach(() => {
  paths = new ProbedPaths();
  paths.candidates = [NEAR, FAR];
  [nowMs, used, living] = [0, undefined, [NEAR, FAR]];
  turn(10 * PROBE_MS);
});

describe("candidates that do not answer, such as hosts of others that a hostile member names,", () => {
  it("get a datagram each ten seconds, whatever else the member names in between", () => {
    paths = new ProbedPaths();
    living = [];
    const named = (at: number) =>
      Array.from({ length: 16 }, (_, host) => ({ address: `198.51.${at % 100}.${host}`, port: 31_821 }));
    let count = 0;
    for (let at = 0; at < 3600; at++) {
      paths.candidates = named(at);
      count += turn(1000).length;
    }
    expect(count).toBeLessThanOrEqual(16 * (3600 / 10 + 10));
  });

  it("get two datagrams a second at most, however often the member changes its key", () => {
    living = [];
    let count = 0;
    for (let at = 0; at < 600; at++) {
      paths = new ProbedPaths(paths);
      paths.candidates = [NEAR];
      count += turn(PROBE_MS).length;
    }
    expect(count).toBeLessThanOrEqual((600 * PROBE_MS) / 500 + 1);
  });
});

describe("a direct path", () => {
  it("proves itself at once: three answers take less than a second", () => {
    paths = new ProbedPaths();
    paths.candidates = [NEAR];
    turn(STABLE_ANSWERS * PROBE_MS);
    expect(paths.list()).toMatchObject([{ endpoint: NEAR, answers: STABLE_ANSWERS }]);
  });

  it("that carries traffic is probed every 200 ms, spare and idle ones every two seconds", () => {
    used = NEAR;
    turn(IDLE_PROBE_MS);
    const probes = turn(10 * IDLE_PROBE_MS);
    expect(countOf(probes, NEAR)).toBe((10 * IDLE_PROBE_MS) / PROBE_MS);
    expect(countOf(probes, FAR)).toBe(10);
    used = undefined;
    turn(IDLE_PROBE_MS);
    expect(countOf(turn(10 * IDLE_PROBE_MS), NEAR)).toBe(10);
  });

  it("that is idle and leaves a probe without an answer is probed often, and dead after three", () => {
    turn(IDLE_PROBE_MS);
    living = [];
    const probes = turn(IDLE_PROBE_MS + DEAD_MS + 2 * PROBE_MS).filter((it) => it.address === NEAR.address);
    expect(probes.map((it) => it.atMs - (probes[0]?.atMs ?? 0)).slice(0, 3)).toEqual([0, 200, 400]);
    expect(paths.list().map((it) => it.answers)).toEqual([0, 0]);
  });

  it("in use is dead within a second after it was cut", () => {
    used = NEAR;
    turn(PROBE_MS);
    living = [FAR];
    const cutAtMs = nowMs;
    while (paths.list().some((it) => it.endpoint === NEAR && it.answers > 0)) turn(PROBE_MS);
    expect(nowMs - cutAtMs).toBeLessThanOrEqual(1000);
  });

  it("whose answers take longer than three probes stays alive", () => {
    paths = new ProbedPaths();
    paths.candidates = [NEAR];
    const answers: (() => void)[] = [];
    const rttTurns = 5;
    for (let at = 0; at < 100; at += 1, nowMs += PROBE_MS) {
      answers[at]?.();
      paths.judge(nowMs);
      const atMs = nowMs;
      for (const it of asked(() => at > 50))
        answers[at + rttTurns] = () => paths.answered(it, atMs, atMs + rttTurns * PROBE_MS);
    }
    expect(paths.list()).toMatchObject([{ endpoint: NEAR }]);
    expect(paths.list()[0]?.answers).toBeGreaterThan(20);
  });

  it("is not dead because the program did not run", () => {
    turn(IDLE_PROBE_MS);
    const [before] = paths.list();
    for (const endpoint of paths.due(nowMs + IDLE_PROBE_MS, () => true))
      expect([NEAR, FAR]).toContain(endpoint);
    nowMs += 60_000;
    paths.forgive(60_000 - IDLE_PROBE_MS - PROBE_MS);
    expect(paths.judge(nowMs)).toBe(false);
    expect(paths.list()[0]?.answers).toBe(before?.answers);
  });

  it("that failed is not used for 30 s, and then is news", () => {
    living = [];
    turn(IDLE_PROBE_MS + DEAD_MS + 2 * PROBE_MS);
    living = [NEAR];
    turn(20_000);
    expect(paths.list().find((it) => it.endpoint === NEAR)?.failedAtMs).toBeDefined();
    turn(HOLD_OFF_MS);
    expect(paths.list()).toMatchObject([{ endpoint: NEAR }]);
    expect(paths.list()[0]?.failedAtMs).toBeUndefined();
  });
});
