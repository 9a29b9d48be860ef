import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import type { ClusterMeshProfile } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { profileOf, selectMembers } from "./mesh-members.ts";

function profile(name: string, labels: Record<string, string>, age: number): ClusterMeshProfile {
  return {
    metadata: { name, creationTimestamp: `2026-01-01T00:00:0${age}Z` },
    spec: { memberSelector: { matchLabels: labels }, network: { mode: "parallel" } },
  };
}
function member(name: string, labels: Record<string, string> = {}): MemberCluster {
  return { metadata: { name, labels }, spec: { identity: { kind: "User", name } } };
}

describe("a member", () => {
  it("belongs to the oldest profile that selects it, and to no other", () => {
    const label = fc.constantFrom({}, { a: "1" }, { b: "1" }, { a: "1", b: "1" });
    const profiles = fc.uniqueArray(
      fc.record({ name: fc.constantFrom("p", "q", "r"), labels: label, age: fc.nat({ max: 2 }) }),
      { selector: (it) => it.name },
    );
    const members = fc.uniqueArray(fc.record({ name: fc.constantFrom("x", "y", "z"), labels: label }), {
      selector: (it) => it.name,
    });
    fc.assert(
      fc.property(profiles, members, (ofProfiles, ofMembers) => {
        const all = ofProfiles.map((it) => profile(it.name, it.labels, it.age));
        const selected = selectMembers(
          all,
          ofMembers.map((it) => member(it.name, it.labels)),
        );
        for (const { name, labels } of ofMembers) {
          const owners = selected.filter((it) => it.members.some((one) => one.metadata.name === name));
          expect(owners.length).toBeLessThan(2);
          expect(owners[0]?.profile).toBe(profileOf(all, member(name, labels)));
          const losers = selected.filter((it) => it.elsewhere.some((one) => one.member === name));
          if (owners.length === 0) expect(losers).toEqual([]);
          for (const it of losers) expect(selected.indexOf(it)).toBeGreaterThan(selected.indexOf(owners[0]!));
        }
      }),
    );
  });

  it.each([
    ["has the namespace of members without a profile", profile("default", {}, 0), "fleet-view-default"],
    ["has a name that is too long for a namespace", profile("p".repeat(60), {}, 0), "metadata.name"],
    [
      "has a selector that cannot be used",
      {
        ...profile("p", {}, 0),
        spec: {
          memberSelector: { matchExpressions: [{ key: "a", operator: "In" as const }] },
          network: { mode: "flat" as const },
        },
      },
      "spec.memberSelector",
    ],
  ])("does not belong to a profile that %s", (_what, bad, found) => {
    const [selected] = selectMembers([bad], [member("x")]);
    expect(selected?.members).toEqual([]);
    expect(selected?.problem).toContain(found);
    expect(profileOf([bad], member("x"))).toBeUndefined();
  });

  it("that leaves belongs to its profile until it is gone, and counts no more", () => {
    const leaving = { ...member("x"), metadata: { name: "x", deletionTimestamp: "2026-01-01T00:00:00Z" } };
    const all = [profile("p", {}, 0)];
    expect(selectMembers(all, [leaving])[0]?.members).toEqual([]);
    expect(profileOf(all, leaving)).toBe(all[0]);
  });
});
