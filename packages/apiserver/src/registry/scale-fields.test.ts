import { describe, expect, it } from "vitest";
import { validateScale } from "./scale-fields.ts";

const PATHS = {
  specReplicasPath: ".spec.replicas",
  statusReplicasPath: ".status.replicas",
  labelSelectorPath: ".status.selector",
};

function problems(fields: object, subresource = ""): string[] {
  const object = { apiVersion: "example.com/v1", kind: "Widget", metadata: { name: "a" }, ...fields };
  return validateScale(object, PATHS, subresource).map((it) => `${it.field}: ${it.message}`);
}

describe("fields that scale reads", () => {
  it.each<[object, string[]]>([
    [{}, []],
    [{ spec: { replicas: 3 }, status: { replicas: 0, selector: "a=b" } }, []],
    [{ spec: null }, []],
    [{ spec: { replicas: -1 } }, [".spec.replicas: Invalid value: -1: should be a non-negative integer"]],
    [
      { status: { replicas: 3_000_000_000 } },
      [".status.replicas: Invalid value: 3000000000: should be less than or equal to 2147483647"],
    ],
    [
      { spec: { replicas: "x" } },
      [
        ".spec.replicas: Invalid value: 0: .spec.replicas accessor error: x is of the type string, expected int64",
      ],
    ],
    [
      { spec: -1 },
      [
        ".spec.replicas: Invalid value: 0: .spec.replicas accessor error: -1 is of the type int64, expected map[string]interface{}",
      ],
    ],
    [
      { status: { selector: true } },
      [
        '.status.selector: Invalid value: "": .status.selector accessor error: true is of the type bool, expected string',
      ],
    ],
  ])("of %j", (fields, expected) => {
    expect(problems(fields)).toEqual(expected);
  });

  it("are those of the status alone in an update of it", () => {
    expect(problems({ spec: { replicas: -1 } }, "status")).toEqual([]);
  });
});
