import { describe, expect, it } from "vitest";
import { SECRETS, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { allow, rulesOf } from "./access.ts";
import { PROGRAMS } from "./programs.ts";

describe("declared rights", () => {
  it("become the fewest rules: declarations of one kind are merged, and kinds with equal verbs share a rule", () => {
    expect(
      rulesOf([
        allow(SERVICES, ["watch", "list"]),
        allow(SECRETS, ["list"]),
        allow(SECRETS, ["watch"]),
        allow(SECRETS, ["patch"], { names: ["b", "a"] }),
        allow(SERVICES, ["patch"], { subresource: "status" }),
      ]),
    ).toEqual([
      { apiGroups: [""], resources: ["secrets", "services"], verbs: ["list", "watch"] },
      { apiGroups: [""], resources: ["secrets"], resourceNames: ["a", "b"], verbs: ["patch"] },
      { apiGroups: [""], resources: ["services/status"], verbs: ["patch"] },
    ]);
  });
});

describe.each(PROGRAMS)("C8: $name", ({ name, cluster, system }) => {
  const everywhere = rulesOf(cluster);
  const all = [...everywhere, ...rulesOf(system)];

  it("reads no Secret but by its name in fleet-system", () => {
    expect(everywhere.filter((it) => it.resources?.includes("secrets"))).toEqual([]);
    for (const rule of all.filter((it) => it.resources?.includes("secrets")))
      expect(rule.resourceNames).not.toHaveLength(0);
  });

  it("writes no CustomResourceDefinitions, and reads those that it waits for", () => {
    for (const rule of all.filter((it) => it.resources?.includes("customresourcedefinitions"))) {
      expect(rule.resourceNames).not.toHaveLength(0);
      expect(["get", "list", "watch"]).toEqual(expect.arrayContaining(rule.verbs));
    }
  });

  it("has no wildcards, and gives itself nothing", () => {
    for (const rule of all) {
      expect(rule.verbs).not.toContain("*");
      // Placements select any kind, and may write the status of what they placed onto its original.
      const isOfPlacements = name === "fairlead-hub-placement" && rule.apiGroups?.includes("*") === true;
      if (isOfPlacements)
        expect([
          { resources: ["*"], verbs: ["get", "list", "watch"] },
          { resources: ["*/status"], verbs: ["patch"] },
        ]).toContainEqual({ resources: rule.resources, verbs: rule.verbs });
      else expect([...(rule.apiGroups ?? []), ...(rule.resources ?? [])]).not.toContain("*");
      expect(rule.verbs).not.toContain("escalate");
      expect(rule.verbs).not.toContain("impersonate");
    }
  });
});
