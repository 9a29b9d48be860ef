import { describe, expect, it } from "vitest";
import type { FlowCheck, FlowReport, ProbeRequest, UpdateRun } from "#api/fairlead.dev/v1alpha1/updates.ts";
import { flowsIn, planProbes, type ProbeFleet } from "./flows.ts";

const SINCE = "2026-11-23T12:00:00Z";
const REQUEST: ProbeRequest = { cluster: "a", since: SINCE };
const OK: FlowReport = { ...REQUEST, targets: 3, tried: 200, failed: 0 };

/** Reports of as many probers as there are numbers: how many of 200 probes failed. */
function judged(failed: readonly (number | Partial<FlowReport> | undefined)[], check?: FlowCheck) {
  const reports = failed.map((it) =>
    it === undefined ? it : { ...OK, ...(typeof it === "number" ? { failed: it } : it) },
  );
  const plan = new Map(reports.map((_, at) => [`p${at}`, [REQUEST]]));
  return flowsIn(plan, (prober) => reports[Number(prober.slice(1))])("a", check);
}

describe("failed flows of a member", () => {
  it.each<[string, readonly (number | Partial<FlowReport> | undefined)[], number]>([
    ["are those of the median prober", [0, 10, 200], 50],
    ["are not what one of three says", [0, 0, 200], 0],
    ["are what the other two of three say, although one hides it", [0, 100, 100], 500],
    ["are, of two, those that both see", [0, 200], 0],
    ["are not what two of four say", [0, 0, 200, 200], 0],
    ["are not judged by one prober alone", [200], 0],
    [
      "are not judged by reports of few probes",
      [{ tried: 19, failed: 19 }, { tried: 19, failed: 19 }, 200],
      0,
    ],
    ["are not judged by those that have not reported", [undefined, undefined, 200], 0],
    ["are zero if no more failed than by chance", [2, 2, 2], 0],
    ["are all at most, whatever is reported", [{ failed: 1e6 }, { failed: 1e6 }], 1000],
  ])("%s", (_what, reports, perMille) => {
    expect(judged(reports).failedPerMille).toBe(perMille);
  });

  it("are what a single prober says if the check permits it", () => {
    expect(judged([100], { minProbers: 1 }).failedPerMille).toBe(500);
  });

  it("need not be waited for where no member can probe", () => {
    const nothing = { targets: 0, tried: 0 };
    expect(
      [judged([]), judged([nothing, nothing]), judged([nothing, undefined])].map((it) => it.isIdle),
    ).toEqual([true, true, false]);
  });
});

describe("probers", () => {
  const NAMES = Array.from({ length: 100 }, (_, at) => `m${at}`);
  const fleet = (more: Partial<ProbeFleet> = {}): ProbeFleet => ({
    members: NAMES,
    isSilent: () => false,
    report: () => OK,
    nowMs: Date.parse(SINCE),
    ...more,
  });
  /** A run in which members are probed, the first ones Running. */
  const run = (
    probed: readonly string[],
    running: readonly string[] = [],
    flows: FlowCheck = {},
  ): UpdateRun => {
    const status = (state: "Running" | "NotStarted") => ({ state });
    const limits = { failureCount: 0, maxAllowedFailures: 0, maxConcurrency: 1 };
    const members = [
      ...probed.map((name) => ({ name, status: status("NotStarted"), probedSince: SINCE })),
      ...running.map((name) => ({ name, status: status("Running") })),
    ];
    const stage = { name: "s", status: status("Running"), ...limits };
    return {
      metadata: { name: "r" },
      spec: {
        state: "Run",
        managedClusterUpdate: { upgrade: { type: "Full", kubernetesVersion: "1.34.1" } },
      },
      status: {
        status: status("Running"),
        attempt: 1,
        failureCount: 0,
        strategy: { stages: [{ name: "s", health: { flows } }] },
        stages: [{ ...stage, groups: [{ ...stage, members }] }],
      },
    };
  };
  const probersOf = (cluster: string, of: ReturnType<typeof planProbes>): string[] =>
    [...of].filter(([, requests]) => requests.some((it) => it.cluster === cluster)).map(([name]) => name);

  it("are five for each member, others for each, and never itself", () => {
    const plan = planProbes([run(NAMES.slice(0, 20))], fleet());
    const chosen = NAMES.slice(0, 20).map((it) => probersOf(it, plan));
    expect(new Set(chosen.map((it) => it.length))).toEqual(new Set([5]));
    expect(new Set(chosen.map((it) => it.toSorted().join())).size).toBe(20);
    for (const [at, it] of chosen.entries()) expect(it).not.toContain(`m${at}`);
  });

  it("are replaced one by one when they fall silent, are upgraded themselves or find nothing to probe", () => {
    const before = probersOf("m0", planProbes([run(["m0"])], fleet()));
    const [first = ""] = before;
    const without = before.slice(1).toSorted();
    const asked = (it: ReturnType<typeof planProbes>) => probersOf("m0", it).toSorted();
    const silent = asked(planProbes([run(["m0"])], fleet({ isSilent: (it) => it === first })));
    expect(silent).toEqual(expect.arrayContaining(without));
    expect([silent.length, silent.includes(first)]).toEqual([5, false]);
    expect(asked(planProbes([run(["m0"], [first])], fleet()))).toEqual(silent);
    // It stays asked: it may find something later.
    const report: ProbeFleet["report"] = (it) => ({ ...OK, targets: it === first ? 0 : 3 });
    expect(asked(planProbes([run(["m0"])], fleet({ report })))).toEqual([...silent, first].toSorted());
  });

  it("that do not report in time make room for others, and twenty are asked at most", () => {
    const silent = fleet({ report: () => undefined });
    expect(probersOf("m0", planProbes([run(["m0"])], silent))).toHaveLength(5);
    const late = { ...silent, nowMs: silent.nowMs + 15_000 };
    expect(probersOf("m0", planProbes([run(["m0"])], late))).toHaveLength(20);
  });

  it("are not chosen where a check has none, nor for members that are not upgraded", () => {
    expect(planProbes([run(["m0"], [], { probers: 0 }), run([], ["m1"])], fleet()).size).toBe(0);
  });

  it("probe 50 members at most", () => {
    const plan = planProbes([run(NAMES, [], { probers: 20 })], fleet({ members: NAMES.slice(0, 4) }));
    expect([...plan.values()].map((it) => it.length)).toEqual([50, 50, 50, 50]);
  });
});
