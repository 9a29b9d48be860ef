import { describe, expect, it } from "vitest";
import type { KubeObject, OwnerReference } from "@fairlead/kube/api/meta/types.ts";
import {
  PARENT_PLACEMENT_LABEL,
  PARENT_PLACEMENT_NAMESPACE_LABEL,
} from "#api/placement.kubernetes-fleet.io/names.ts";
import type { AppliedWork, Work } from "#api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { isSamePlacement, ownerReferenceTo, ownersOf, standingOfOther } from "./ownership.ts";

const appliedWork = (name: string): AppliedWork => ({
  metadata: { name, uid: `uid-${name}` },
  spec: { workName: name, workNamespace: "fleet-member-a" },
});
const [ours, theirs, gone] = ["ours", "theirs", "gone"].map((it) => ownerReferenceTo(appliedWork(it))) as [
  OwnerReference,
  OwnerReference,
  OwnerReference,
];
const user: OwnerReference = { apiVersion: "apps/v1", kind: "Deployment", name: "web", uid: "uid-web" };
const owned = (...ownerReferences: OwnerReference[]): KubeObject => ({
  metadata: { name: "x", ownerReferences },
});
const standing = (it: OwnerReference) => (it.name === "gone" ? ("orphaned" as const) : ("rival" as const));

describe("the owners of an object", () => {
  it.each([
    ["none", owned(), { isOurs: false, rival: undefined, superior: undefined, foreign: [], kept: [] }],
    [
      "this Work",
      owned(ours),
      { isOurs: true, rival: undefined, superior: undefined, foreign: [], kept: [ours] },
    ],
    [
      "a Work of another placement",
      owned(theirs),
      { isOurs: false, rival: theirs, superior: undefined, foreign: [], kept: [theirs] },
    ],
    [
      "a Work that is gone",
      owned(gone, user),
      { isOurs: false, rival: undefined, superior: undefined, foreign: [user], kept: [user] },
    ],
    [
      "a user's object",
      owned(user, ours),
      { isOurs: true, rival: undefined, superior: undefined, foreign: [user], kept: [user, ours] },
    ],
  ])("are read: %s", (_, object, expected) => {
    expect(ownersOf(object, appliedWork("ours"), standing)).toEqual(expected);
  });

  it("are of one placement when both labels say so", () => {
    const of = (placement?: string, namespace?: string): KubeObject => ({
      metadata: {
        name: "w",
        labels: {
          ...(placement === undefined ? {} : { [PARENT_PLACEMENT_LABEL]: placement }),
          ...(namespace === undefined ? {} : { [PARENT_PLACEMENT_NAMESPACE_LABEL]: namespace }),
        },
      },
    });
    expect(isSamePlacement(of("p"), of("p"))).toBe(true);
    expect(isSamePlacement(of("p", "n"), of("p", "n"))).toBe(true);
    expect(isSamePlacement(of("p"), of("p", "n"))).toBe(false);
    expect(isSamePlacement(of("p"), of("q"))).toBe(false);
    expect(isSamePlacement(of(), of())).toBe(false);
  });
});

describe("a Work of another placement with the same object", () => {
  const work = (name: string, sharedPriority?: number): Work => ({
    metadata: { name },
    spec: sharedPriority === undefined ? {} : { applyStrategy: { sharedPriority } },
  });
  it.each([
    [undefined, undefined, "rival"],
    [undefined, 1, "rival"],
    [1, undefined, "rival"],
    [0, 1, "superior"],
    [2, 1, "inferior"],
    // Of equal ones the first by name: "other" comes before "own".
    [1, 1, "superior"],
  ])("with priorities %s here and %s there is its %s", (here, there, expected) => {
    expect(standingOfOther(work("own", here), work("other", there))).toBe(expected);
  });
});
