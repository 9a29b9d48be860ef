import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { clusterFacts } from "./cluster.ts";
import { applied, fleetOf } from "./cluster.fake.ts";
import { bindings, members, policies } from "./generate.fake.ts";
import { oracle, type OracleTask } from "./oracle.fake.ts";
import { compilePolicy } from "./policy.ts";
import { schedule, type Schedule } from "./schedule.ts";

const tasks: fc.Arbitrary<OracleTask> = fc.record({
  policy: policies,
  members,
  bindings,
  namespace: fc.constantFrom(undefined, "shop"),
  snapshot: fc.constant("p-1"),
});

function run({ policy, members: all, namespace, snapshot, bindings: present }: OracleTask): Schedule {
  return schedule({
    placement: { namespace, name: "p" },
    policy: compilePolicy(policy),
    snapshot: { name: snapshot, hash: "" },
    count: policy?.numberOfClusters ?? 0,
    clusters: fleetOf(...all.map((it) => clusterFacts(it, { heartbeatAgeMs: 0 }))),
    bindings: present,
  });
}

describe("a schedule", () => {
  it("is what KubeFleet's rules say, in 2,000 random fleets", () => {
    fc.assert(
      fc.property(tasks, (task) => {
        const { create, patch, unschedule } = run(task);
        expect({
          create: create.map((it) => it.spec.targetCluster).toSorted(),
          patch: patch.map((it) => it.binding.spec.targetCluster).toSorted(),
          unschedule: unschedule.map((it) => it.metadata.name).toSorted(),
        }).toEqual(oracle(task));
      }),
      { numRuns: 2000 },
    );
  });

  it("that is written leaves nothing to do, nor to report", () => {
    fc.assert(
      fc.property(tasks, (task) => {
        const first = run(task);
        const next = run({ ...task, bindings: applied(task.bindings, first, task.snapshot) });
        expect(next).toEqual({
          create: [],
          patch: [],
          unschedule: [],
          release: first.release,
          outcome: first.outcome,
        });
      }),
      { numRuns: 500 },
    );
  });

  it("does not depend on the order of clusters and bindings", () => {
    fc.assert(
      fc.property(tasks, (task) => {
        const turned = { ...task, bindings: task.bindings.toReversed() };
        const sorted = (it: Schedule): object => ({
          create: it.create.map((created) => created.metadata.name).toSorted(),
          unschedule: it.unschedule.map((removed) => removed.metadata.name).toSorted(),
          outcome: it.outcome,
        });
        expect(sorted(run(turned))).toEqual(sorted(run(task)));
      }),
      { numRuns: 200 },
    );
  });
});
