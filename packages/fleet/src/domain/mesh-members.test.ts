import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import type { ClusterMeshProfile } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { byAge, type Selected, selectMembers } from "./mesh-members.ts";

function profile(name: string, labels: Record<string, string>, age: number): ClusterMeshProfile {
  return {
    metadata: { name, creationTimestamp: `2026-01-01T00:00:0${age}Z` },
    spec: { memberSelector: { matchLabels: labels }, network: { mode: "parallel" } },
  };
}
function member(name: string, labels: Record<string, string> = {}): MemberCluster {
  return { metadata: { name, labels }, spec: { identity: { kind: "User", name } } };
}

/** The profile of a member, also while it leaves. */
function ownerOf(all: readonly Selected[], name: string): string | undefined {
  return all.find((it) => [...it.members, ...it.leaving].some((one) => one.metadata.name === name))?.profile
    .metadata.name;
}
function applied(name: string, members: string[], age = 0): ClusterMeshProfile {
  const { spec, ...rest } = profile(name, { mesh: name }, age);
  const settings = { network: { mode: "flat" as const }, memberSelector: `mesh=${name}`, operation: "1" };
  return { ...rest, spec: { ...spec, apply: "Manual", applied: { ...settings, members } } };
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
          const selecting = all.filter((it) =>
            Object.entries(it.spec.memberSelector.matchLabels ?? {}).every(([key, value]) => {
              const known: Record<string, string | undefined> = labels;
              return known[key] === value;
            }),
          );
          const [oldest] = selecting.toSorted(byAge);
          expect(owners[0]?.profile).toBe(oldest);
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
  });

  it("that leaves belongs to its profile until it is gone, and counts no more", () => {
    const leaving = { ...member("x"), metadata: { name: "x", deletionTimestamp: "2026-01-01T00:00:00Z" } };
    const all = [profile("p", {}, 0)];
    expect(selectMembers(all, [leaving])[0]?.members).toEqual([]);
    expect(ownerOf(selectMembers(all, [leaving]), "x")).toBe("p");
  });

  it("belongs to the profile that was applied to it, whatever its labels are and other profiles select", () => {
    const all = selectMembers([profile("q", {}, 0), applied("p", ["x"], 1)], [member("x"), member("y")]);
    expect([ownerOf(all, "x"), ownerOf(all, "y")]).toEqual(["p", "q"]);
    expect(all[0]?.elsewhere).toEqual([{ member: "x", profile: "p" }]);
  });
});

describe("a manual profile", () => {
  it("has no members and no network until it is applied, and then those that it was applied to", () => {
    const { spec, ...rest } = profile("p", {}, 0);
    const [waiting] = selectMembers([{ ...rest, spec: { ...spec, apply: "Manual" } }], [member("x")]);
    expect([waiting?.members, waiting?.profile.spec.network.mode]).toEqual([[], "flat"]);
    const changed = applied("p", ["x", "gone"]);
    changed.spec.network = { mode: "parallel" };
    changed.spec.policyDefaultLocalCluster = false;
    const [done] = selectMembers([changed], [member("x")]);
    expect(done?.profile.spec).toMatchObject({ network: { mode: "flat" } });
    expect(done?.profile.spec.policyDefaultLocalCluster).toBeUndefined();
    expect(done?.absent).toEqual(["gone"]);
  });
});

describe("a profile", () => {
  it("has 255 members at most, the oldest ones, and names the others", () => {
    const at = (age: number): MemberCluster => ({
      ...member(`m${age}`),
      metadata: {
        name: `m${age}`,
        creationTimestamp: new Date(Date.UTC(2026, 0, 1) + age * 1000).toISOString(),
      },
    });
    const members = Array.from({ length: 257 }, (_, age) => at(age)).toReversed();
    const [first, second] = selectMembers([profile("p", {}, 0), profile("q", {}, 1)], members);
    expect([first?.members.length, first?.members[0]?.metadata.name]).toEqual([255, "m0"]);
    expect(first?.beyond).toEqual(["m255", "m256"]);
    expect(second?.members.map((it) => it.metadata.name)).toEqual(["m255", "m256"]);
  });

  it("whose data plane is not supported has no members, and tells so", () => {
    const cilium = profile("p", {}, 0);
    cilium.spec.dataplane = "cilium";
    const [selected] = selectMembers([cilium], [member("x")]);
    expect(selected?.members).toEqual([]);
    expect(selected?.problem).toContain("spec.dataplane: cilium is not supported yet");
  });
});
