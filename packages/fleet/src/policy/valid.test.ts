import { describe, expect, it } from "vitest";
import { compileNetworkPolicy } from "./compile/network-policy.ts";
import type { Compilation } from "./model.ts";
import { validCondition } from "./valid.ts";

function compiled(spec: object): Compilation {
  const metadata = { name: "p", namespace: "shop" };
  return compileNetworkPolicy({ metadata, spec }, { cluster: "a", isLocalByDefault: true });
}

describe("the condition Valid", () => {
  it("is True if every field is understood", () => {
    expect(validCondition(compiled({ podSelector: {} }))).toMatchObject({ type: "Valid", status: "True" });
  });

  it("names the fields that are not enforced, and what becomes of them", () => {
    const ports = Array.from({ length: 12 }, () => ({ port: 0 }));
    const { status, reason, message } = validCondition(compiled({ podSelector: {}, ingress: [{ ports }] }));
    expect([status, reason]).toEqual(["False", "PartlyEnforced"]);
    expect(message).toContain("spec.ingress[0].ports[0].port: 0 is not a port");
    expect(message).toMatch(/\(matches nothing\); 2 more$/);
  });

  it("says that a policy is not enforced", () => {
    expect(validCondition(compiled({ podSelector: 1 }))).toMatchObject({
      status: "False",
      reason: "NotEnforced",
    });
  });
});
