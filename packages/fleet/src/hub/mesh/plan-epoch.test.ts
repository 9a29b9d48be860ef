import { describe, expect, it } from "vitest";
import type { ClusterMeshProfile, Gateway } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { planEpoch, ROTATE_KEYS_ANNOTATION, STRAGGLER_MS } from "./plan-epoch.ts";

const NOW = Date.parse("2026-06-02T00:00:00Z");
const NOW_TEXT = "2026-06-02T00:00:00Z";

interface Facts {
  readonly hours?: number;
  readonly request?: string;
  readonly status?: ClusterMeshProfile["status"];
}
function profile({ hours, request, status }: Facts): ClusterMeshProfile {
  return {
    metadata: {
      name: "p",
      ...(request === undefined ? {} : { annotations: { [ROTATE_KEYS_ANNOTATION]: request } }),
    },
    spec: {
      memberSelector: {},
      network: { mode: "parallel" },
      ...(hours === undefined ? {} : { keyRotationHours: hours }),
    },
    ...(status === undefined ? {} : { status }),
  };
}
function gateway(...epochs: number[]): Gateway["spec"] {
  return { cluster: "a", ordinal: 0, node: "n", keys: epochs.map((epoch) => ({ epoch, publicKey: "k" })) };
}
const planned = (facts: Facts, gateways: readonly Gateway["spec"][] = []) =>
  planEpoch({ profile: profile(facts), known: undefined, gateways, nowMs: NOW });
const since = (hours: number) => `2026-06-01T${String(24 - hours).padStart(2, "0")}:00:00Z`;

describe("keys of gateways", () => {
  it("are of one epoch until another is asked for", () => {
    expect(planned({})).toEqual({ epoch: { keyEpoch: 1, keyEpochSince: NOW_TEXT }, againInMs: undefined });
    const status = { keyEpoch: 7, keyEpochSince: since(5) };
    expect(planned({ status }).epoch).toEqual(status);
  });

  it("are made again each time the annotation has another value, once for each", () => {
    const status = { keyEpoch: 1, keyEpochSince: since(5) };
    const { epoch } = planned({ status, request: "x" });
    expect(epoch).toEqual({ keyEpoch: 2, keyEpochSince: NOW_TEXT, keyRotationRequest: "x" });
    expect(planned({ status: epoch, request: "x" }).epoch).toEqual(epoch);
    expect(planned({ status: epoch }).epoch).toEqual(epoch);
    expect(planned({ status: epoch, request: "y" }).epoch.keyEpoch).toBe(3);
  });

  it("are made again after as many hours as the profile has", () => {
    const status = { keyEpoch: 1, keyEpochSince: since(5) };
    expect(planned({ status, hours: 6 })).toEqual({ epoch: status, againInMs: 3_600_000 });
    expect(planned({ status, hours: 5 }).epoch.keyEpoch).toBe(2);
  });

  it("are not made again before every gateway has one of the present epoch, for an hour at most", () => {
    const recent = { keyEpoch: 2, keyEpochSince: NOW_TEXT };
    const late = [gateway(1, 2), gateway(1)];
    expect(planned({ status: recent, request: "x" }, late)).toEqual({
      epoch: recent,
      againInMs: STRAGGLER_MS,
    });
    expect(planned({ status: recent, request: "x" }, [gateway(1, 2), gateway()]).epoch.keyEpoch).toBe(3);
    const old = { keyEpoch: 2, keyEpochSince: since(1) };
    expect(planned({ status: old, request: "x" }, late).epoch.keyEpoch).toBe(3);
  });

  it("do not begin again when the status of the profile is lost", () => {
    const { epoch } = planEpoch({ profile: profile({}), known: 7, gateways: [], nowMs: NOW });
    expect(epoch.keyEpoch).toBe(7);
  });

  it("have epochs of nine digits at most, as the names of their files have", () => {
    const last = { keyEpoch: 999_999_999, keyEpochSince: since(5) };
    expect(planned({ status: last, request: "x" }).epoch.keyEpoch).toBe(last.keyEpoch);
    const beyond = { ...last, keyEpoch: 2_000_000_000 };
    expect(planned({ status: beyond }).epoch.keyEpoch).toBe(last.keyEpoch);
  });

  it("do not wait for years because a clock was wrong", () => {
    const status = { keyEpoch: 2, keyEpochSince: "2036-01-01T00:00:00Z" };
    expect(planned({ status, hours: 6 })).toEqual({
      epoch: { keyEpoch: 2, keyEpochSince: NOW_TEXT },
      againInMs: 6 * 3_600_000,
    });
  });
});
