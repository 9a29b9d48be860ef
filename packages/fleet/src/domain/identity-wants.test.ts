import { describe, expect, it } from "vitest";
import { type IdentityRequest, MAX_IDENTITY_REQUESTS } from "#api/fairlead.dev/v1alpha1/identities.ts";
import { readWants, wantsOf } from "./identity-wants.ts";

describe("what is wanted of a member", () => {
  it("is everything if one member requests that, or all of them together too much", () => {
    const many = Array.from({ length: MAX_IDENTITY_REQUESTS + 1 }, (_, at): IdentityRequest => ({
      namespaces: [`n${at}`],
    }));
    expect(wantsOf([{ namespaces: ["shop"] }, {}], false)).toEqual({ requests: [{}] });
    expect(wantsOf(many, false)).toEqual({ requests: [{}] });
    expect(wantsOf(many.slice(1), false).requests).toHaveLength(MAX_IDENTITY_REQUESTS);
  });

  it("has the addresses of the clusters of which these are requested, however much else", () => {
    const addresses = true;
    const ofB = { clusters: ["b"], addresses };
    expect(wantsOf([{ namespaces: ["shop"] }, ofB], false).requests).toEqual([ofB, { namespaces: ["shop"] }]);
    expect(wantsOf([ofB, {}, { clusters: ["a"], addresses }], false)).toEqual({
      requests: [{}, { clusters: ["a", "b"], addresses }],
    });
    expect(wantsOf([ofB, {}, { addresses }], false)).toEqual({ requests: [{ addresses }] });
    const { addresses: areNeeded, pods } = readWants({ requests: [ofB] });
    expect([areNeeded(), areNeeded("b"), areNeeded("c")]).toEqual([true, true, false]);
    expect(pods("shop", {}, {})).toBe(true);
    expect(readWants({ requests: [{}] }).addresses()).toBe(false);
  });
});

describe("a request", () => {
  const { pods, namespace } = readWants({
    requests: [
      {
        namespaceSelector: { matchLabels: { team: "x" } },
        podSelector: { matchExpressions: [{ key: "app", operator: "In", values: ["web", "api"] }] },
      },
    ],
  });

  it("is for pods that both of its selectors select", () => {
    expect(pods("shop", { team: "x" }, { app: "api" })).toBe(true);
    expect(pods("shop", { team: "y" }, { app: "api" })).toBe(false);
    expect(pods("shop", { team: "x" }, {})).toBe(false);
    expect(namespace("shop", { team: "y" })).toBe(false);
  });

  it("is for pods of every namespace whose labels are not known", () => {
    expect(pods("shop", undefined, { app: "web" })).toBe(true);
  });

  it("that cannot be read is for nothing, and does not affect the others", () => {
    const broken = { podSelector: { matchExpressions: [{ key: "app", operator: "In" as const }] } };
    const reader = readWants({ requests: [broken, { namespaces: ["shop"] }] });
    expect(reader.pods("bank", {}, {})).toBe(false);
    expect(reader.pods("shop", {}, {})).toBe(true);
    expect(readWants({ requests: [broken] }).isEmpty).toBe(true);
  });
});
