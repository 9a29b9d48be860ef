import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { IdentityRequest, IdentityWants } from "#api/fairlead.dev/v1alpha1/identities.ts";
import { wantsOf } from "#domain/identity-wants.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { DemandIndex } from "./demand-index.ts";

const CLUSTERS = ["a", "b", "c", "d"] as const;

/** What all others request of a cluster, from the beginning. */
function wantedOf(cluster: string, demands: ReadonlyMap<string, IdentityWants>): IdentityWants {
  const others = [...demands].filter(([member]) => member !== cluster).map(([, wants]) => wants);
  const requests = others
    .flatMap((it) => it.requests)
    .filter((it) => it.clusters?.includes(cluster) !== false)
    .map((it) => Object.fromEntries(Object.entries(it).filter(([key]) => key !== "clusters")));
  return wantsOf(
    requests,
    others.some((it) => it.nodes === true),
  );
}

const web: IdentityRequest = { namespaces: ["shop"], podSelector: { matchLabels: { app: "web" } } };

const aRequest: fc.Arbitrary<IdentityRequest> = fc.record(
  {
    clusters: fc.uniqueArray(fc.constantFrom(...CLUSTERS), { maxLength: 3 }),
    namespaces: fc.constantFrom(["shop"], ["bank"]),
    podSelector: fc.constantFrom({ matchLabels: { app: "web" } }, {}),
  },
  { requiredKeys: [] },
);
const aDemand: fc.Arbitrary<IdentityWants | undefined> = fc.option(
  fc.record(
    { requests: fc.array(aRequest, { maxLength: 4 }), nodes: fc.boolean() },
    { requiredKeys: ["requests"] },
  ),
  { nil: undefined },
);

describe("what is wanted of the members of a network", () => {
  it("is what all others request of them, each request once, and nothing of their own", () => {
    const index = new DemandIndex();
    index.set("a", {
      requests: [
        { ...web, clusters: ["b"] },
        { namespaces: ["bank"], clusters: ["c"] },
      ],
    });
    index.set("b", { requests: [{ namespaces: ["own"] }] });
    index.set("c", { requests: [web], nodes: true });
    expect(index.wantsOf("b")).toEqual({ requests: [web], nodes: true });
    expect(index.wantsOf("c")).toEqual({ requests: [{ namespaces: ["bank"] }, { namespaces: ["own"] }] });
  });

  it("is the same after any changes as from the beginning, and each change says exactly of which members", () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.constantFrom(...CLUSTERS), aDemand), { maxLength: 12 }), (changes) => {
        const index = new DemandIndex();
        const demands = new Map<string, IdentityWants>();
        for (const [member, wants] of changes) {
          const before = CLUSTERS.map((it) => wantedOf(it, demands));
          if (wants === undefined) demands.delete(member);
          else demands.set(member, wants);
          const isChanged = index.set(member, wants);
          for (const [at, cluster] of CLUSTERS.entries()) {
            const after = wantedOf(cluster, demands);
            expect(index.wantsOf(cluster)).toEqual(after);
            if (!sameJson(before[at], after)) expect(isChanged(cluster)).toBe(true);
            // One that requests everything hides what else changes.
            else if (!after.requests.some((it) => Object.keys(it).length === 0))
              expect(isChanged(cluster)).toBe(false);
          }
        }
      }),
    );
  });
});
