import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import type { ApplyMode, ClusterMeshProfile, NetworkMode } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { sliceExportName } from "#api/fairlead.dev/cluster-names.ts";
import { selectMembers } from "./mesh-members.ts";
import {
  changedObjects,
  keyOfObject,
  type MeshFleet,
  meshObjects,
  type MeshObjects,
  type ObjectChange,
  withApplied,
} from "./mesh-objects.ts";
import { type MeshPlan, planMesh, stepsTo } from "./mesh-plan.ts";

const NAMES = ["m1", "m2", "m3", "m4", "m5", "m6"] as const;
const LABELS = ["a", "b", "c"] as const;

function member(name: string, label: string): MemberCluster {
  return { metadata: { name, labels: { mesh: label } }, spec: { identity: { kind: "User", name } } };
}

interface Settings {
  readonly mode: NetworkMode;
  readonly version: string | undefined;
  readonly isGlobal: boolean | undefined;
}
interface Drafted extends Settings {
  readonly label: string;
  readonly apply: ApplyMode;
  readonly members: readonly string[] | undefined;
  readonly before: Settings;
}

function settings({ mode, version, isGlobal }: Settings) {
  return {
    network: { mode },
    ...(version === undefined ? {} : { version }),
    ...(isGlobal === undefined ? {} : { defaultGlobalNamespace: isGlobal }),
  };
}
function profile(draft: Drafted, age: number): ClusterMeshProfile {
  const applied = {
    ...settings(draft.before),
    members: [...(draft.members ?? [])].toSorted(),
    memberSelector: "old",
    operation: "old",
  };
  return {
    metadata: { name: `p${age}`, creationTimestamp: `2026-01-01T00:00:0${age}Z` },
    spec: {
      ...settings(draft),
      memberSelector: { byLabel: `mesh=${draft.label}` },
      apply: draft.apply,
      ...(draft.members === undefined ? {} : { applied }),
    },
  };
}

const PLAIN: Settings = { mode: "flat", version: undefined, isGlobal: undefined };

const anySettings = {
  mode: fc.constantFrom<NetworkMode>("flat", "parallel"),
  version: fc.constantFrom(undefined, "0.2.0", "0.3.0"),
  isGlobal: fc.constantFrom(undefined, true, false),
};
const anyProfile = fc.record({
  ...anySettings,
  label: fc.constantFrom(...LABELS),
  apply: fc.constantFrom<ApplyMode>("Manual", "Manual", "Continuous"),
  members: fc.option(fc.uniqueArray(fc.constantFrom(...NAMES)), { nil: undefined }),
  before: fc.record(anySettings),
});
const anyFleet: fc.Arbitrary<MeshFleet> = fc
  .record({
    profiles: fc.array(anyProfile, { minLength: 1, maxLength: 3 }),
    labels: fc.array(fc.constantFrom(...LABELS), { minLength: NAMES.length, maxLength: NAMES.length }),
    exports: fc.uniqueArray(
      fc.record({ cluster: fc.constantFrom(...NAMES), name: fc.constantFrom("x", "y") }),
      { selector: (it) => `${it.cluster} ${it.name}` },
    ),
    importing: fc.uniqueArray(fc.constantFrom(...NAMES)),
  })
  .map(({ profiles, labels, exports, importing }) => ({
    profiles: profiles.map(profile),
    members: NAMES.map((name, at) => member(name, labels[at] ?? "a")),
    exports: exports.map(({ cluster, name }) => ({
      cluster,
      name,
      namespace: "work",
      slices: [sliceExportName(cluster, "work", name)],
    })),
    namespaces: new Map(importing.map((it) => [it, new Set(["work"])])),
    views: new Set(["fleet-view-default", ...profiles.map((_, at) => `fleet-view-p${at}`)]),
  }));

const keysOf = (changes: readonly ObjectChange[]): Set<string> => new Set(changes.map(keyOfObject));
const contents = (objects: MeshObjects): Record<string, string> =>
  Object.fromEntries([...objects].map(([key, it]) => [key, it.content]));
/** What an API server has after the changes that were announced. */
function carriedOut(before: MeshObjects, plan: MeshPlan, after: MeshObjects): Record<string, string> {
  const result = new Map([...before].map(([key, it]) => [key, it.content]));
  for (const change of plan.changes) {
    const key = keyOfObject(change);
    expect(result.has(key)).toBe(change.action !== "create");
    if (change.action === "delete") result.delete(key);
    else result.set(key, after.get(key)?.content ?? "");
  }
  return Object.fromEntries(result);
}

interface Steps {
  readonly most: number | undefined;
  /** Default: all. */
  readonly steps?: number;
  readonly onStep: (now: MeshFleet, next: MeshFleet) => void;
}

function carryOut(fleet: MeshFleet, plan: MeshPlan, { most, steps, onStep }: Steps): MeshFleet {
  const all = stepsTo(fleet.profiles[0]?.spec.applied, plan.target, most);
  return all.slice(0, steps).reduce((now, step) => {
    const next = withApplied(now, "p0", step);
    onStep(now, next);
    return next;
  }, fleet);
}

function expectWayBack(before: MeshFleet, after: MeshFleet): void {
  const applied = before.profiles[0]?.spec.applied;
  if (applied === undefined) return;
  const back = carryOut(after, planMesh(after, "p0", applied), { most: undefined, onStep: () => {} });
  expect(changedObjects(meshObjects(before), meshObjects(back))).toEqual([]);
}

describe("a plan", () => {
  it("lists exactly the objects that change when it is applied, in whatever steps, and nothing else", () => {
    const inSteps = fc.constantFrom(1, 2, 4, undefined);
    const stop = fc.nat({ max: 6 });
    let applied = 0;
    fc.assert(
      fc.property(anyFleet, inSteps, stop, (fleet, most, stopAt) => {
        const plan = planMesh(fleet, "p0");
        if (plan.problems.length > 0) return;
        applied += 1;
        const listed = keysOf(plan.changes);
        const onStep = (now: MeshFleet, next: MeshFleet): void => {
          const changed = keysOf(changedObjects(meshObjects(now), meshObjects(next)));
          if (most === undefined) expect([...changed.difference(listed)]).toEqual([]);
        };
        const half = carryOut(fleet, plan, { most, steps: stopAt, onStep });
        // Begun again after an interruption.
        const done = carryOut(half, planMesh(half, "p0"), { most, onStep });
        const [before, after] = [meshObjects(fleet), meshObjects(done)];
        expect(contents(after)).toEqual(carriedOut(before, plan, after));
        expect(keysOf(changedObjects(before, after))).toEqual(listed);
        expect(planMesh(done, "p0").changes).toEqual([]);
        expectWayBack(fleet, done);
      }),
      { numRuns: 1000 },
    );
    expect(applied).toBeGreaterThan(200);
  });

  it("takes no member from another profile", () => {
    fc.assert(
      fc.property(anyFleet, (fleet) => {
        const plan = planMesh(fleet, "p0");
        if (plan.problems.length > 0) return;
        const owners = (of: MeshFleet): Map<string, string> =>
          new Map(
            selectMembers(of.profiles, of.members).flatMap(({ profile: { metadata }, members }) =>
              members.map((it) => [it.metadata.name, metadata.name] as const),
            ),
          );
        const [was, is] = [owners(fleet), owners(withApplied(fleet, "p0", plan.target))];
        for (const [name, owner] of was) if (owner !== "p0") expect(is.get(name)).toBe(owner);
      }),
      { numRuns: 200 },
    );
  });
});

describe("the rows of a plan", () => {
  const of = (more: Partial<Drafted>): ClusterMeshProfile =>
    profile({ ...PLAIN, label: "a", apply: "Manual", members: undefined, before: PLAIN, ...more }, 0);
  const fleet = (profiles: readonly ClusterMeshProfile[], members: readonly MemberCluster[]): MeshFleet => ({
    profiles,
    members,
    namespaces: new Map(),
    exports: [],
    views: new Set(),
  });

  it("add, remove and keep members, and name the profile that has a member already", () => {
    const other = { ...of({ members: ["m4"], label: "z" }), metadata: { name: "other" } };
    const all = [member("m1", "a"), member("m2", "a"), member("m3", "b"), member("m4", "a")];
    const plan = planMesh(fleet([of({ members: ["m2", "m3"] }), other], all), "p0");
    expect(plan.rows.map((it) => [it.action, it.member])).toEqual([
      ["Add", "m1"],
      ["-", "m2"],
      ["Remove", "m3"],
      ["Error", "m4"],
    ]);
    expect(plan.problems).toEqual([
      "m4: it belongs to profile other; a member has one profile: change its labels, or the selector of one of them",
    ]);
  });

  it("refuse the 256th member with the number that the selector matches", () => {
    const all = Array.from({ length: 256 }, (_, at) => member(`x${at}`, "a"));
    expect(planMesh(fleet([of({})], all), "p0").problems[0]).toContain("matches 256 members");
    expect(planMesh(fleet([of({})], all.slice(1)), "p0").problems).toEqual([]);
  });

  it("name the settings that change for all members", () => {
    const changed = of({ members: ["m1"], isGlobal: false, version: "0.3.0" });
    const plan = planMesh(fleet([changed], [member("m1", "a")]), "p0");
    expect(plan.settings).toEqual(["version", "defaultGlobalNamespace"]);
  });
});
