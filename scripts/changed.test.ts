import { describe, expect, it } from "vitest";
import { touchedPackages } from "./changed.ts";

const dependencies = new Map([
  ["base", []],
  ["kube", ["base"]],
  ["fleet", ["kube"]],
  ["lab", ["kube"]],
]);
const touched = (...files: readonly string[]): readonly string[] | undefined => {
  const found = touchedPackages(files, dependencies);
  return found === undefined ? undefined : [...found].toSorted();
};

describe("the packages that a change touches", () => {
  it("are those of its files and all that depend on them", () => {
    expect(touched("packages/lab/src/up.ts")).toEqual(["lab"]);
    expect(touched("packages/kube/src/types.ts")).toEqual(["fleet", "kube", "lab"]);
    expect(touched("packages/base/package.json")).toEqual(["base", "fleet", "kube", "lab"]);
  });

  it("are empty if only documents change, and unknown if a file of no package does", () => {
    expect(touched("docs/lab.md", "README.md")).toEqual([]);
    expect(touched("packages/lab/src/up.ts", "scripts/check.ts")).toBeUndefined();
    expect(touched("packages/other/src/a.ts")).toBeUndefined();
  });
});
