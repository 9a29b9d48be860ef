import { describe, expect, it } from "vitest";
import { seededRng } from "@fairlead/base/rng.ts";
import type { IdentitySlice } from "#api/fairlead.dev/v1alpha1/identities.ts";
import { changedSpec, changeOf } from "./identity-change.ts";

type Spec = IdentitySlice["spec"];

function sliceOf(pods: number, first = 2, publishedAt = "2026-03-01T10:00:00.123456Z"): Spec {
  return {
    cluster: "member-001",
    type: "Pods",
    namespace: "shop",
    labels: { "app.kubernetes.io/name": "api", "pod-template-hash": "6d4b75cb6d" },
    serviceAccount: "default",
    ports: [{ name: "http", protocol: "TCP", port: 8080 }],
    pods: Array.from({ length: pods }, (_, at) => ({
      name: `api-6d4b75cb6d-${((first + at) * 104_729).toString(36).padStart(5, "x").slice(-5)}`,
      addresses: [`10.1.0.${first + at}`, `fd00:1::${(first + at).toString(16)}`],
    })),
    publishedAt,
  };
}
const LATER = "2026-03-01T10:00:01.987654Z";

describe("the change of an identity slice", () => {
  it.each([
    ["a pod that comes", sliceOf(15), sliceOf(16, 2, LATER)],
    ["a pod that goes", sliceOf(16), sliceOf(15, 2, LATER)],
    ["a pod that another one replaces", sliceOf(10), sliceOf(10, 3, LATER)],
    ["a new slice", undefined, sliceOf(1)],
  ])("says what is different in few bytes: %s", (_, before, after) => {
    const change = changeOf(before, after) ?? "";
    expect(change.length).toBeLessThan(before === undefined ? 200 : 85);
    expect(changedSpec(before, change)).toEqual(after);
  });

  it("leads to the same contents again, whatever changed", () => {
    const rng = seededRng(7);
    let before: Spec | undefined;
    for (let at = 0; at < 300; at += 1) {
      const after = sliceOf(Math.floor(rng.random() * 17), Math.floor(rng.random() * 200), `2026-${at}`);
      if (rng.random() < 0.3) after.labels = { version: String(at), "ä/ö": "" };
      const change = changeOf(before, after);
      expect(change).toBeDefined();
      expect(changedSpec(before, change ?? "")).toEqual(after);
      before = rng.random() < 0.1 ? undefined : after;
    }
  });

  it("is not applied to other contents than those that it is a change of", () => {
    const change = changeOf(sliceOf(5), sliceOf(6)) ?? "";
    for (const other of [undefined, sliceOf(4), sliceOf(5, 2, LATER), sliceOf(5, 3)])
      expect(changedSpec(other, change)).toBeUndefined();
  });

  it.each(["", "AAAA", "AAAAAAAA", "no change", "____________"])("is not read of the text %j", (text) => {
    expect(changedSpec(sliceOf(3), text)).toBeUndefined();
  });

  it("is left out if it is long: the slice itself says no more", () => {
    const rng = seededRng(1);
    const random = () =>
      Array.from({ length: 60 }, () => Math.floor(rng.random() * 36).toString(36)).join("");
    const labels = Object.fromEntries(Array.from({ length: 64 }, () => [random(), random()]));
    expect(changeOf(sliceOf(1), { ...sliceOf(1), labels })).toBeUndefined();
  });
});
