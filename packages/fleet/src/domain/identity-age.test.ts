import { describe, expect, it } from "vitest";
import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { ageCondition, identityAge } from "./identity-age.ts";

const HOUR_MS = 3_600_000;

function member(status: "True" | "False"): MemberCluster {
  const condition = {
    type: "Healthy",
    status,
    reason: "x",
    message: "",
    lastTransitionTime: "2026-01-01T00:00:00Z",
  };
  return {
    metadata: { name: "a" },
    spec: { identity: { kind: "User", name: "a" } },
    status: { conditions: [condition] },
  };
}

function after(hours: number, status: "True" | "False" = "False") {
  return identityAge(member(status), Date.parse("2026-01-01T00:00:00Z") + hours * HOUR_MS);
}

describe("what a member said of its pods", () => {
  it("counts while it reports, and for a day after that", () => {
    expect(after(1000, "True")).toMatchObject({ silentSinceMs: undefined, isForgotten: false });
    expect(identityAge(undefined, 0).isForgotten).toBe(false);
    expect(after(1)).toMatchObject({ isForgotten: false, forgottenInMs: 23 * HOUR_MS });
    expect(after(24)).toMatchObject({ isForgotten: true, forgottenInMs: undefined });
  });

  it("is reported with its age", () => {
    expect(ageCondition(after(1, "True"))).toMatchObject({ type: "Current", status: "True" });
    expect(ageCondition(after(1))).toMatchObject({
      status: "False",
      reason: "HeartbeatLost",
      message:
        "the member has not reported since 2026-01-01T00:00:00Z: what other members know of its pods is as old, and counts until 2026-01-02T00:00:00Z",
    });
    expect(ageCondition(after(25))).toMatchObject({ status: "False", reason: "Forgotten" });
  });
});
