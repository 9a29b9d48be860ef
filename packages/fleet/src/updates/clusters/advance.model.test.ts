import * as fc from "fast-check";
import { expect, it } from "vitest";
import { sameJson } from "@fairlead/base/json.ts";
import type {
  GateConfiguration,
  StrategySpec,
  UpdateRunStatus,
  UpdateState,
  UpdateStatus,
} from "#api/fairlead.dev/v1alpha1/updates.ts";
import { ALLOWED_ACTIONS, isFinal, TRANSITIONS } from "./states.ts";
import { UpdateWorld } from "./world.fake.ts";

/** Random walks of events over random strategies: what holds after each pass, and how each run ends. */

const SIZES = [
  [3, 2],
  [4, 1],
] as const;
const NAMES = SIZES.flatMap((sizes, stage) =>
  sizes.flatMap((size, group) => Array.from({ length: size }, (_, at) => `m${stage}${group}${at}`)),
);

const limits = fc.record(
  {
    maxConcurrency: fc.constantFrom("1", "50%", "100%"),
    maxAllowedFailures: fc.constantFrom("0", "1", "50%", "100%"),
  },
  { requiredKeys: [] },
);
const gate: GateConfiguration[] = [{ displayName: "go", type: "Approval" }];
const gates = fc.record(
  { beforeGates: fc.constant(gate), afterGates: fc.constant(gate) },
  { requiredKeys: [] },
);
const strategies: fc.Arbitrary<StrategySpec> = fc
  .tuple(...SIZES.flatMap((sizes) => sizes.map(() => fc.tuple(limits, gates))))
  .chain((groups) =>
    fc
      .array(fc.tuple(fc.constantFrom("0", "1", "100%"), gates, fc.constantFrom(0, 60)), {
        minLength: 2,
        maxLength: 2,
      })
      .map((stages) => ({
        stages: stages.map(([maxAllowedFailures, own, afterStageWaitInSeconds], stage) => ({
          name: `s${stage}`,
          maxAllowedFailures,
          afterStageWaitInSeconds,
          ...own,
          groups: [0, 1].map((at) => {
            const [limit, gated] = groups[stage * 2 + at] ?? [{}, {}];
            return { name: `g${stage}${at}`, ...limit, ...gated };
          }),
        })),
      })),
  );

const member = fc.constantFrom(...NAMES);
const events = fc.array(
  fc.oneof(
    { weight: 6, arbitrary: fc.record({ do: fc.constant("finish" as const), name: member }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant("fail" as const), name: member }) },
    { weight: 3, arbitrary: fc.record({ do: fc.constant("approve" as const) }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant("later" as const) }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constantFrom("stop" as const, "start" as const) }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant("again" as const) }) },
    {
      weight: 1,
      arbitrary: fc.record({ do: fc.constantFrom("hide" as const, "show" as const), name: member }),
    },
    { weight: 1, arbitrary: fc.record({ do: fc.constant("leave" as const), name: member }) },
    {
      weight: 1,
      arbitrary: fc.record({
        do: fc.constant("skip" as const),
        target: fc.oneof(
          fc.record({ type: fc.constant("Member" as const), name: member }),
          fc.record({ type: fc.constant("Group" as const), name: fc.constantFrom("g01", "g10") }),
          fc.record({
            type: fc.constantFrom("Stage" as const, "AfterStageWait" as const),
            name: fc.constant("s0"),
          }),
        ),
      }),
    },
  ),
  { maxLength: 40 },
);
type Event = typeof events extends fc.Arbitrary<readonly (infer E)[]> ? E : never;

function worldOf(strategy: StrategySpec): UpdateWorld {
  const world = new UpdateWorld();
  for (const name of NAMES) world.add(name, { group: `g${name.slice(1, 3)}` });
  world.request({ strategy });
  world.settle();
  return world;
}

const hidden = { problem: "hidden" };

function apply(world: UpdateWorld, event: Event): void {
  if ("name" in event) applyToMember(world, event.do, event.name);
  else if (event.do === "approve") world.approve("go");
  else if (event.do === "later") world.later(45_000);
  else request(world, event);
  world.settle();
}

function applyToMember(
  world: UpdateWorld,
  what: "finish" | "fail" | "hide" | "show" | "leave",
  name: string,
): void {
  const isRunning = world.member(name).status.state === "Running";
  const isHidden = world.clusters.get(name) === hidden;
  if (what === "leave") world.members.delete(name);
  else if (what === "show" && isHidden) world.clusters.set(name, { kubernetesVersion: "1.33.4", nodes: [] });
  else if (what === "hide" && !isRunning) world.clusters.set(name, hidden);
  else if (what === "finish" && isRunning) world.finish(name, "Succeeded");
  else if (what === "fail" && isRunning) world.finish(name, "Failed");
}

/** As the server permits it. */
function request(world: UpdateWorld, event: Event): void {
  const { state } = world;
  const isActive = ALLOWED_ACTIONS[state].includes("stop");
  const mayStart = ALLOWED_ACTIONS[state].includes("start");
  if (event.do === "stop" && isActive) world.request({ state: "Stop" });
  if (event.do === "start" && mayStart) world.request({ state: "Run" });
  if (event.do === "again" && mayStart)
    world.request({ state: "Run", attempt: (world.run.spec.attempt ?? 1) + 1 });
  if (event.do === "skip" && isActive) world.skip(event.target);
}

const REACHABLE: ReadonlyMap<UpdateState, ReadonlySet<UpdateState>> = new Map(
  (Object.keys(TRANSITIONS) as UpdateState[]).map((from) => {
    const seen = new Set<UpdateState>();
    const visit = (state: UpdateState): void => {
      for (const next of TRANSITIONS[state])
        if (!seen.has(next)) {
          seen.add(next);
          visit(next);
        }
    };
    visit(from);
    // The table has no way to Skipped: it is reached from what has not begun.
    if (!isFinal(from)) seen.add("Skipped");
    return [from, seen];
  }),
);

function states({ status, stages }: UpdateRunStatus): readonly (readonly [string, UpdateStatus])[] {
  return [
    ["run", status],
    ...stages.flatMap((stage) => [
      [stage.name, stage.status] as const,
      ...stage.groups.flatMap((group) => [
        [group.name, group.status] as const,
        ...group.members.map((it) => [it.name, it.status] as const),
      ]),
    ]),
  ];
}

function checkChange(before: UpdateRunStatus, after: UpdateRunStatus): void {
  const old = new Map(states(before));
  for (const [name, { state }] of states(after)) {
    const from = old.get(name)?.state ?? "NotStarted";
    if (from !== state && REACHABLE.get(from)?.has(state) !== true)
      throw new Error(`${name} went from ${from} to ${state}`);
    if (isFinal(from) && !sameJson(old.get(name), new Map(states(after)).get(name)))
      throw new Error(`${name} changed though it was ${from}`);
  }
}

function checkStatus(status: UpdateRunStatus): void {
  const isRunning = (it: { readonly status: UpdateStatus }): boolean => it.status.state === "Running";
  let isOpen = true;
  for (const stage of status.stages) {
    const members = stage.groups.flatMap((it) => it.members);
    const begun = members.filter((it) => !["NotStarted", "Skipped"].includes(it.status.state));
    if (!isOpen) expect(begun.map((it) => it.name)).toEqual([]);
    isOpen &&= isFinal(stage.status.state);
    expect(members.filter(isRunning).length).toBeLessThanOrEqual(stage.maxConcurrency);
    for (const group of stage.groups)
      expect(group.members.filter(isRunning).length).toBeLessThanOrEqual(group.maxConcurrency);
    expect(stage.failureCount).toBe(stage.groups.reduce((sum, it) => sum + it.failureCount, 0));
  }
  expect(status.failureCount).toBe(status.stages.reduce((sum, it) => sum + it.failureCount, 0));
  expect(Object.values(status.counts ?? {}).reduce((sum, it) => sum + it, 0)).toBe(NAMES.length);
  const isEnded = isFinal(status.status.state) || status.status.state === "Failed";
  expect(status.outcome !== undefined).toBe(isEnded);
}

it("keeps order, concurrency, finality and counts, whatever happens, and a pass without news changes nothing", () => {
  fc.assert(
    fc.property(strategies, events, (strategy, list) => {
      const world = worldOf(strategy);
      world.onPass = (before, after) => {
        if (before !== undefined) checkChange(before, after);
        checkStatus(after);
      };
      world.start();
      for (const it of list) {
        apply(world, it);
        expect(world.pass()).toBe(false);
      }
    }),
    { numRuns: 300 },
  );
});

/** Everything that a run may wait for happens. */
function help(world: UpdateWorld): void {
  for (const name of NAMES) apply(world, { do: "show", name });
  apply(world, { do: "again" });
  for (const name of NAMES) apply(world, { do: "finish", name });
  apply(world, { do: "approve" });
  apply(world, { do: "later" });
}

it("ends, when members report, users approve and time passes, and says what became of each member", () => {
  fc.assert(
    fc.property(strategies, events, (strategy, list) => {
      const world = worldOf(strategy);
      world.start();
      for (const it of list) apply(world, it);
      for (let round = 0; round < 40 && !isFinal(world.state); round += 1) help(world);
      expect(isFinal(world.state)).toBe(true);
      const { Failed: failed = 0, Completed: completed = 0 } = world.status.counts ?? {};
      const partly = completed === 0 ? "Failed" : "CompletedWithFailures";
      expect(world.status.outcome).toBe(failed === 0 ? "Succeeded" : partly);
    }),
    { numRuns: 40 },
  );
});
