/** KEP-1645, "Constraints and Conflict Resolution": what the planners decide is what the text says, for generated exports. */

import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Ages, renderAges } from "@fairlead/fleet/domain/ages.ts";
import { EXPORTED_SINCE_ANNOTATION } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import type { InternalServiceExport } from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { planService } from "@fairlead/fleet/hub/services/plan.ts";
import { anyExports, anyFacts } from "./generate.ts";
import { CONFLICT_REASONS, judge, type OracleExport } from "./oracle.ts";
import { runPipeline, sent } from "./pipeline.ts";

/** The number of the KEP: the cases are the same in every run. */
const SEED = 1645;
const CASES = 1000;

const cases = fc.sample(anyExports, { seed: SEED, numRuns: CASES });

describe("exports of one service by several clusters", () => {
  it("result in what KEP-1645 requires: the winner, the union of the ports, and the conditions of every export", () => {
    fc.assert(
      fc.property(anyExports, (exports) => {
        const { valid, import: imported, conflicts } = judge(exports);
        expect(runPipeline(exports)).toMatchObject({ valid, import: imported, conflicts });
      }),
      { seed: SEED, numRuns: CASES },
    );
  });

  it("get traffic for the ports that their cluster has, and for no other", () => {
    fc.assert(
      fc.property(anyExports, (exports) => {
        expect(runPipeline(exports).servedBy).toEqual(judge(exports).servedBy);
      }),
      { seed: SEED, numRuns: CASES },
    );
  });

  it("all report a conflict, or none does; invalid ones report none", () => {
    fc.assert(
      fc.property(anyExports, (exports) => {
        const { valid, isReported, conflicts } = runPipeline(exports);
        for (const [cluster, reason] of valid)
          expect(isReported.get(cluster)).toBe(reason === "Valid" && conflicts.size > 0);
      }),
      { seed: SEED, numRuns: CASES },
    );
  });

  it("have the same result in every order", () => {
    fc.assert(
      fc.property(
        anyExports.chain((exports) =>
          fc.tuple(fc.constant(exports), fc.shuffledSubarray([...exports], { minLength: exports.length })),
        ),
        ([exports, shuffled]) => {
          const { valid: _unordered, isReported: _reported, ...outcome } = runPipeline(shuffled);
          expect(runPipeline(exports)).toMatchObject(outcome);
        },
      ),
      { seed: SEED, numRuns: CASES },
    );
  });

  it("produce a Service that an API server accepts: among several ports each has a name, and no name occurs twice", () => {
    fc.assert(
      fc.property(anyExports, (exports) => {
        const ports = runPipeline(exports).derived?.spec?.ports ?? [];
        const names = ports.map((it) => it.name ?? "");
        expect(new Set(names).size).toBe(names.length);
        if (names.length > 1) expect(names).not.toContain("");
      }),
      { seed: SEED, numRuns: CASES },
    );
  });
});

describe("a cluster that comes later", () => {
  it("does not affect exports of others, regardless of the age that it claims", () => {
    fc.assert(
      fc.property(
        anyExports,
        anyFacts,
        fc.constantFrom("1970-01-01T00:00:00Z", "2025-12-31T00:00:00Z", "2026-01-01T00:00:00+14:00"),
        (exports, facts, createdAt) => {
          const members = ["a", "b", "c", "d", "mallory"];
          const present = exports.flatMap((it) => sent(it) ?? []);
          const before = decide(present, members, undefined);
          const forged = forge(facts, createdAt);
          if (forged === undefined || present.length === 0) return;
          const after = decide([forged, ...present], members, before.ages);
          const [was, is] = [before, after].map((it) => it.audiences.get("")?.everyone);
          // Its own ports join the union, behind those of all others; families are those that all have.
          expect(is?.ports.slice(0, was?.ports.length)).toEqual(was?.ports);
          expect({ ...is, ports: [], clusters: [], ipFamilies: [] }).toEqual({
            ...was,
            ports: [],
            clusters: [],
            ipFamilies: [],
          });
          for (const { cluster, ports } of was?.clusters ?? [])
            expect(is?.clusters.find((it) => it.cluster === cluster)?.ports).toEqual(
              expect.arrayContaining(ports),
            );
        },
      ),
      { seed: SEED, numRuns: CASES },
    );
  });
});

/** Sent half a year after the others. */
function forge(
  facts: Omit<OracleExport, "cluster" | "createdAt">,
  createdAt: string,
): InternalServiceExport | undefined {
  const object = sent({ ...facts, cluster: "mallory", createdAt: 0 });
  if (object?.spec?.doors === undefined) return undefined;
  const doors = object.spec.doors.map((it) => ({ ...it, createdAt }));
  return {
    metadata: { ...object.metadata, creationTimestamp: "2026-07-01T00:00:00Z" },
    spec: { ...object.spec, doors },
  };
}

function decide(
  exports: readonly InternalServiceExport[],
  members: readonly string[],
  ages: Ages | undefined,
): ReturnType<typeof planService> {
  const annotations = ages === undefined ? {} : { [EXPORTED_SINCE_ANNOTATION]: renderAges(ages) };
  const serviceImport = ages === undefined ? undefined : { metadata: { name: "hello", annotations } };
  return planService({ exports, imports: [], serviceImport, members: new Set(members) });
}

describe("the generated cases", () => {
  const verdicts = cases.map((it) => judge(it));

  it.each(CONFLICT_REASONS)("reach %s many times, alone and among others", (reason) => {
    const having = verdicts.filter((it) => it.conflicts.has(reason));
    expect(having.length).toBeGreaterThanOrEqual(50);
    expect(having.some((it) => it.conflicts.size > 2)).toBe(true);
    expect(having.filter((it) => it.conflicts.size === 1).length).toBeGreaterThan(0);
  });

  it("reach agreement, services that cannot be exported, and equal creation times", () => {
    const counts = {
      agreed: verdicts.filter((it) => it.conflicts.size === 0 && (it.import?.clusters.size ?? 0) > 1).length,
      alone: verdicts.filter((it) => it.import?.clusters.size === 1).length,
      nothing: verdicts.filter((it) => it.import === undefined).length,
      headless: verdicts.filter((it) => it.import?.type === "Headless").length,
      tied: cases.filter((it) => hasTie(it)).length,
      refusedPort: cases.filter((it, at) => hasRefusedPort(it, verdicts[at]?.servedBy.size ?? 0)).length,
    };
    for (const count of Object.values(counts)) expect(count).toBeGreaterThanOrEqual(20);
  });
});

function hasTie(exports: readonly OracleExport[]): boolean {
  return new Set(exports.map((it) => it.createdAt)).size < exports.length;
}

/** Some port has to stay out, because an older export has its name or its number. */
function hasRefusedPort(exports: readonly OracleExport[], united: number): boolean {
  const all = exports.flatMap((it) => it.ports.map((port) => `${port.name}=${port.protocol}/${port.port}`));
  return united > 0 && new Set(all).size > united;
}
