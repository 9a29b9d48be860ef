import { describe, expect, it } from "vitest";
import type { InternalServiceExport } from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { planExport } from "./plan.ts";
import { planTraffic } from "./traffic.ts";

const exportOf = (annotations: Record<string, string>) => ({
  metadata: { namespace: "work", name: "hello", annotations },
});
const judged = (reason: string, message: string): InternalServiceExport => ({
  metadata: { name: "work-hello" },
  spec: { ports: [], serviceReference: {} as never, priority: 3 },
  status: {
    conditions: [
      {
        type: "fairlead.dev/Traffic",
        status: "False",
        reason,
        message,
        lastTransitionTime: "2026-01-01T00:00:00Z",
      },
    ],
  },
});
const NOTHING = { mcs: undefined, fleet: undefined, current: undefined };

describe("the traffic conditions of an export (C3)", () => {
  it("is nothing where it asks for nothing", () => {
    expect(planTraffic({ ...NOTHING, mcs: exportOf({}) })).toEqual({ traffic: {}, conditions: [] });
  });

  it("is what holds, and what a service proxy cannot do", () => {
    const annotations = { "fairlead.dev/weight": "5", "fairlead.dev/export-to": "b,c" };
    const { conditions } = planTraffic({ ...NOTHING, mcs: exportOf(annotations) });
    expect(conditions).toMatchObject([{ type: "fairlead.dev/Traffic", status: "True", reason: "Applied" }]);
    expect(conditions[0]?.message).toMatch(/weight 5: .*service proxy shares out evenly; exported to b, c/);
  });

  it("is which annotations mean nothing, what was meant, and what holds all the same", () => {
    const fleet = exportOf({
      "fairlead.dev/prioritty": "2",
      "fairlead.dev/weight": "5",
      "example.com/x": "",
    });
    const plan = planTraffic({
      ...NOTHING,
      fleet,
      mcs: exportOf({ "fairlead.dev/ports": "union", "fairlead.dev/affinity": "local" }),
    });
    expect(plan.traffic).toEqual({ affinity: "local" });
    expect(plan.conditions).toMatchObject([{ status: "False", reason: "UnknownAnnotation" }]);
    expect(plan.conditions[0]?.message).toBe(
      "fairlead.dev/prioritty has no effect on a ServiceExport, did you mean fairlead.dev/priority?",
    );
    const many = Object.fromEntries(Array.from({ length: 5000 }, (_, at) => [`fairlead.dev/x${at}`, ""]));
    expect(planTraffic({ ...NOTHING, fleet: exportOf(many) }).conditions[0]?.message).toMatch(
      /; and 4995 more$/,
    );
  });

  it("is which annotation is wrong and why, with what the hub found", () => {
    const fleet = exportOf({ "fairlead.dev/priority": "first" });
    const current = judged("UnknownMembers", "no members: x");
    const plan = planTraffic({ ...NOTHING, fleet, current });
    expect(plan.traffic).toEqual({ priority: 3 });
    expect(plan.conditions).toMatchObject([{ status: "False", reason: "InvalidAnnotation,UnknownMembers" }]);
    expect(plan.conditions[0]?.message).toMatch(/^fairlead.dev\/priority: .*; using 3; no members: x$/);
  });
});

describe("an export that asks for traffic", () => {
  const service = {
    metadata: { namespace: "work", name: "hello" },
    spec: { clusterIP: "10.0.0.1", ports: [{ port: 80 }] },
  };
  const view = { namespace: "work", name: "hello", service, current: undefined };

  it("sends it to the hub and tells both kinds of exports", () => {
    const fleet = exportOf({ "networking.fleet.azure.com/weight": "7", "fairlead.dev/priority": "2" });
    const plan = planExport({ ...view, fleet, mcs: exportOf({ "fairlead.dev/affinity": "local" }) });
    expect(plan.spec).toMatchObject({ weight: 7, priority: 2, affinity: "local" });
    for (const conditions of [plan.fleet, plan.mcs])
      expect(conditions?.map((it) => it.type)).toContain("fairlead.dev/Traffic");
  });

  it("has the weight of the multi-cluster API where that has one; 0 keeps the export and its name (A3)", () => {
    const fleet = exportOf({ "networking.fleet.azure.com/weight": "7" });
    const mcs = exportOf({ "fairlead.dev/weight": "0" });
    expect(planExport({ ...view, fleet, mcs }).spec).toMatchObject({ weight: 0 });
    expect(planExport({ ...view, fleet: undefined, mcs }).spec).toMatchObject({ weight: 0 });
  });

  it("says nothing of traffic where it cannot be exported", () => {
    const mcs = exportOf({ "fairlead.dev/weight": "5" });
    const plan = planExport({ ...view, service: undefined, fleet: undefined, mcs });
    expect(plan.mcs?.map((it) => it.type)).not.toContain("fairlead.dev/Traffic");
  });
});
