import { describe, expect, it } from "vitest";
import { runCase } from "./testing/cases.fake.ts";

describe("generated policies", () => {
  it("are enforced as the manifests say, while pods, namespaces, nodes and policies change", () => {
    for (let seed = 0; seed < 300; seed++) expect(runCase(seed, { steps: 8 })).toBeUndefined();
  });
});
