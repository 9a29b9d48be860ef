import { describe, expect, it } from "vitest";
import { type AnyObject, differences, snapshotOf } from "./snapshot.ts";

function object(name: string, more: Partial<AnyObject["metadata"]> = {}, rest: object = {}): AnyObject {
  return {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name, namespace: "work", uid: name, ...more },
    ...rest,
  };
}

const compare = (before: readonly AnyObject[], after: readonly AnyObject[]): readonly string[] =>
  differences(snapshotOf(before), snapshotOf(after));

describe("the objects of a cluster before and after", () => {
  it("differ by what is new, gone and changed", () => {
    const before = [object("kept"), object("lost"), object("altered", {}, { data: { a: "1" } })];
    const after = [object("kept"), object("altered", {}, { data: { a: "2" } }), object("new")];
    expect(compare(before, after)).toEqual([
      "changed: ConfigMap work/altered",
      "gone: ConfigMap work/lost",
      "left behind: ConfigMap work/new",
    ]);
  });

  it("are the same when only Kubernetes has written: status, versions, its annotations, the order of fields", () => {
    const before = object("a", { annotations: { x: "1" } }, { data: { a: "1", b: "2" }, status: { n: 1 } });
    const after = object(
      "a",
      { uid: "other", annotations: { x: "1", "deployment.kubernetes.io/revision": "3" } },
      { status: { n: 2 }, data: { b: "2", a: "1" } },
    );
    expect(compare([before], [after])).toEqual([]);
  });

  it("leave out objects that a controller creates for a remaining object, and no others", () => {
    const ownerReferences = [{ uid: "owner", controller: true }];
    expect(compare([object("owner")], [object("owner"), object("made", { ownerReferences })])).toEqual([]);
    expect(compare([], [object("made", { ownerReferences })])).toEqual(["left behind: ConfigMap work/made"]);
  });

  it("distinguish kinds of one name in two groups", () => {
    const other = { ...object("a"), apiVersion: "example.test/v1" };
    expect(compare([object("a")], [object("a"), other])).toEqual([
      "left behind: ConfigMap.example.test work/a",
    ]);
  });
});
