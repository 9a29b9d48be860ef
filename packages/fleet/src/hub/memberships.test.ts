import { describe, expect, it } from "vitest";
import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import type { ClusterMeshProfile } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { changedMembers, isClaimChanged } from "./memberships.ts";

function profile(members: string[], more: Partial<ClusterMeshProfile> = {}): ClusterMeshProfile {
  const network = { mode: "flat" as const };
  const applied = { network, members, memberSelector: "", operation: "1" };
  return {
    metadata: { name: "p" },
    spec: { memberSelector: {}, apply: "Manual", network, applied },
    ...more,
  };
}
function change<T>(before: T | undefined, after: T | undefined) {
  return { key: "p" as never, before, after };
}

describe("changes of a profile", () => {
  it("concern the members that come and go, of however many there are", () => {
    const many = Array.from({ length: 254 }, (_, at) => `m${at}`);
    expect(changedMembers(change(profile(many), profile([...many, "new"])))).toEqual(["new"]);
    expect(changedMembers(change(profile(many), profile(many.slice(1))))).toEqual(["m0"]);
  });

  it("concern no member if they are of its status alone, such as the state of another member", () => {
    const status = { state: "Connected" as const, members: 1 };
    expect(changedMembers(change(profile(["a"]), profile(["a"], { status })))).toEqual([]);
  });

  it("concern all members if the profile comes, goes, or selects or connects them in another way", () => {
    const { spec, ...rest } = profile(["a"]);
    const parallel = { ...rest, spec: { ...spec, network: { mode: "parallel" as const } } };
    expect(changedMembers(change(undefined, profile(["a"])))).toBe("all");
    expect(changedMembers(change(profile(["a"]), parallel))).toBe("all");
  });
});

describe("changes of a member", () => {
  const member = (labels: Record<string, string>, more: object = {}): MemberCluster => ({
    metadata: { name: "a", uid: "1", labels, ...more },
    spec: { identity: { kind: "User", name: "a" } },
  });

  it("matter to profiles if its labels change, or it comes or goes", () => {
    const at = "2026-01-01T00:00:00Z";
    expect(isClaimChanged(change(member({ a: "1" }), member({ a: "2" })))).toBe(true);
    expect(isClaimChanged(change(member({}), member({}, { deletionTimestamp: at })))).toBe(true);
    expect(isClaimChanged(change(undefined, member({})))).toBe(true);
    expect(isClaimChanged(change(member({}), { ...member({}), status: { conditions: [] } }))).toBe(false);
  });
});
