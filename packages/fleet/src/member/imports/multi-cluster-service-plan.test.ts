import { defined } from "@fairlead/base/defined.ts";
import { describe, expect, it } from "vitest";
import type { Service } from "@fairlead/kube/api/core/v1/types.ts";
import type {
  FleetServiceImport,
  MultiClusterService,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { planEvents } from "./multi-cluster-service-events.ts";
import {
  type MultiClusterPlan,
  type MultiClusterView,
  planMultiClusterService,
} from "./multi-cluster-service-plan.ts";

const at = "2026-01-01T00:00:00Z";
const nowMs = Date.parse(at);
const object = (
  more: Partial<MultiClusterService["metadata"]> = {},
  status: MultiClusterService["status"] = {},
): MultiClusterService => ({
  metadata: { namespace: "work", name: "web", uid: "m1", ...more },
  spec: { serviceImport: { name: "hello" } },
  status,
});
const imported = (more: Partial<FleetServiceImport> = {}): FleetServiceImport => ({
  metadata: {
    namespace: "work",
    name: "hello",
    ownerReferences: [
      { apiVersion: "v", kind: "MultiClusterService", name: "web", uid: "m1", controller: true },
    ],
  },
  status: {
    type: "ClusterSetIP",
    clusters: [{ cluster: "a" }],
    ports: [{ name: "http", protocol: "TCP", port: 80, targetPort: 8080 }],
  },
  ...more,
});
const byHand = imported({ metadata: { namespace: "work", name: "hello" } });
const service: Service = {
  metadata: { namespace: "fleet-system", name: "work-web" },
  status: { loadBalancer: { ingress: [{ ip: "192.0.2.1" }] } },
};
const plan = (more: Partial<MultiClusterView> = {}): MultiClusterPlan =>
  planMultiClusterService({
    object: object(),
    imported: undefined,
    derived: undefined,
    rivals: [],
    passOn: [],
    isLegacyHub: false,
    left: undefined,
    nowMs,
    ...more,
  });
const made = ({ service: wanted }: MultiClusterPlan) => (wanted.kind === "apply" ? wanted.object : undefined);

describe("a MultiClusterService", () => {
  it("asks for its import first, and waits", () => {
    const { serviceImport, service: wanted, conditions } = plan();
    expect(serviceImport?.metadata).toMatchObject({
      name: "hello",
      ownerReferences: [{ uid: "m1", controller: true }],
    });
    expect(wanted).toEqual({ kind: "none" });
    expect(conditions).toMatchObject([
      {
        type: "Valid",
        status: "Unknown",
        reason: "UnknownServiceImport",
        message: "asking the hub for hello",
      },
    ]);
  });

  it("gets a load balancer once clusters export the service", () => {
    const wanted = plan({ imported: imported() });
    expect(wanted.conditions.slice(0, 1)).toEqual([
      {
        type: "Valid",
        status: "True",
        reason: "FoundServiceImport",
        message: "hello is imported from a",
      },
    ]);
    expect(made(wanted)).toEqual({
      metadata: {
        namespace: "fleet-system",
        name: "work-web",
        labels: {
          "networking.fleet.azure.com/multi-cluster-service-name": "web",
          "networking.fleet.azure.com/multi-cluster-service-namespace": "work",
        },
      },
      spec: {
        type: "LoadBalancer",
        ipFamilyPolicy: "PreferDualStack",
        ports: [{ name: "http", protocol: "TCP", port: 80, targetPort: 8080 }],
      },
    });
    expect(wanted.labels).toEqual({
      "networking.fleet.azure.com/service-import": "hello",
      "networking.fleet.azure.com/derived-service": "work-web",
    });
  });

  it("says that its Service has no address until that has one, once", () => {
    const pending = plan({ imported: imported() }).conditions;
    expect(pending[1]).toMatchObject({
      type: "fairlead.dev/LoadBalancer",
      status: "False",
      reason: "Pending",
    });
    expect(pending[1]?.message).toMatch(/^Service fleet-system\/work-web has no address yet/);
    const before = pending.map((it) => ({ ...it, lastTransitionTime: at }));
    expect(planEvents(undefined, pending)).toContainEqual(
      expect.objectContaining({ type: "Normal", reason: "Pending" }),
    );
    expect(planEvents(before, pending)).toEqual([]);
    const given = plan({ imported: imported(), derived: service });
    expect(given.conditions.map((it) => it.type)).toEqual(["Valid"]);
  });

  it("reports unknown annotations in addition to the missing address, and keeps its load balancer", () => {
    const misspelled = { "fairlead.dev/source-range": "10.0.0.0/8", "example.com/other": "x" };
    const asking = object({ annotations: misspelled });
    const wanted = plan({ object: asking, imported: imported(), derived: service });
    const message =
      "fairlead.dev/source-range has no effect on a MultiClusterService, did you mean fairlead.dev/source-ranges?";
    expect(wanted.conditions[1]).toEqual({
      type: "fairlead.dev/LoadBalancer",
      status: "False",
      reason: "UnknownAnnotation",
      message,
    });
    expect(planEvents([], wanted.conditions)).toContainEqual({
      type: "Warning",
      reason: "UnknownAnnotation",
      message,
    });
    expect(wanted.service.kind).toBe("apply");
    expect(plan({ object: asking, imported: imported() }).conditions[1]?.reason).toBe(
      "Pending,UnknownAnnotation",
    );
  });

  it("keeps the Service, and with it the address, that another agent made", () => {
    const before = { metadata: { namespace: "fleet-system", name: "legacy-name" } };
    const wanted = plan({ imported: imported(), derived: before });
    expect(made(wanted)?.metadata.name).toBe("legacy-name");
  });

  it("C1: waits while another MultiClusterService of its cluster has the import, and reports which", () => {
    const wanted = plan({ object: object({ uid: "m2" }), imported: imported() });
    expect(wanted).toMatchObject({ serviceImport: undefined, service: { kind: "none" } });
    expect(wanted.conditions).toMatchObject([
      { status: "Unknown", message: "MultiClusterService web of this cluster imports hello" },
    ]);
  });

  it("uses an import made by hand, without making it its own; of several, the one that has it, then the oldest", () => {
    const alone = plan({ imported: byHand });
    expect(alone.serviceImport).toBeUndefined();
    expect(made(alone)).toBeDefined();
    const older = object({ name: "old", uid: "m0", creationTimestamp: "2025-01-01T00:00:00Z" });
    const here = object({ creationTimestamp: at });
    const second = plan({ object: here, imported: byHand, rivals: [older] });
    expect(second.conditions[0]?.message).toMatch(/^MultiClusterService old /);
    const held = object({
      creationTimestamp: at,
      labels: { "networking.fleet.azure.com/derived-service": "work-web" },
    });
    expect(made(plan({ object: held, imported: byHand, rivals: [older] }))).toBeDefined();
  });

  it.each([
    [{ type: "Headless" as const, clusters: [{ cluster: "a" }] }, /headless/],
    [{ clusters: [] }, /no cluster exports/],
    [{}, /no cluster exports/],
    [{ message: "work/hello is imported by b" }, /^work\/hello is imported by b$/],
  ])("C9: gets none for an import that cannot be balanced, and reports why (case %#)", (status, message) => {
    const wanted = plan({ imported: imported({ status }) });
    expect(wanted.service).toEqual({ kind: "none" });
    expect(wanted.conditions).toHaveLength(1);
    expect(wanted.conditions[0]?.message).toMatch(message);
  });

  it("C1: asks to share the import where its annotation says so", () => {
    const annotations = { "fairlead.dev/import": "shared" };
    expect(plan({ object: object({ annotations }) }).serviceImport?.metadata.annotations).toEqual(
      annotations,
    );
    const other = { "fairlead.dev/import": "mine" };
    expect(
      plan({ object: object({ annotations: other }) }).serviceImport?.metadata.annotations,
    ).toBeUndefined();
  });

  it("reports that a service proxy does not support weights, only if these differ", () => {
    const weighed = (...weights: (number | undefined)[]) =>
      plan({
        derived: service,
        imported: imported({
          status: {
            type: "ClusterSetIP",
            clusters: weights.map((weight, index) => ({
              cluster: `c${index}`,
              ...defined({ weight }),
            })),
          },
        }),
      }).conditions;
    expect(weighed(undefined, 3)[1]).toMatchObject({
      type: "fairlead.dev/WeightsHonored",
      status: "False",
    });
    expect(weighed(undefined, 3)[1]?.message).toContain("c0 1, c1 3");
    expect(weighed(3, 3)).toHaveLength(1);
    expect(weighed(undefined, 1)).toHaveLength(1);
  });

  it("A10: of a cluster that left has nothing, and says so", () => {
    const wanted = plan({ imported: imported(), derived: service, left: "a" });
    expect(wanted).toMatchObject({ serviceImport: undefined, service: { kind: "none" }, labels: {} });
    expect(wanted.conditions).toMatchObject([
      { type: "Valid", status: "Unknown", reason: "UnknownServiceImport" },
      { type: "fairlead.dev/Active", status: "False", reason: "LeftFleet" },
    ]);
  });
});

describe("A7: the Service of a MultiClusterService whose last export went", () => {
  const unknown = (sinceMs: number, annotations: Record<string, string> = {}) =>
    object(
      { annotations },
      {
        conditions: [
          {
            type: "Valid",
            status: "Unknown",
            reason: "UnknownServiceImport",
            message: "",
            lastTransitionTime: new Date(sinceMs).toISOString(),
          },
        ],
      },
    );
  const gone = imported({ status: {} });

  it("is kept for ten minutes, while the status is emptied and the label goes", () => {
    const wanted = plan({ imported: gone, derived: service });
    expect(wanted.service).toEqual({ kind: "keep", untilMs: nowMs + 600_000 });
    expect(wanted.labels).toEqual({ "networking.fleet.azure.com/service-import": "hello" });
    expect(wanted.conditions).toHaveLength(1);
    expect(wanted.conditions[0]).toMatchObject({
      status: "Unknown",
      reason: "UnknownServiceImport",
    });
    expect(wanted.conditions[0]?.message).toMatch(
      /Service fleet-system\/work-web keeps its address until 2026-01-01T00:10:00Z$/,
    );
  });

  it("goes when the time is over, counted from when the exports went", () => {
    const early = plan({ object: unknown(nowMs - 599_000), imported: gone, derived: service });
    expect(early.service).toEqual({ kind: "keep", untilMs: nowMs + 1000 });
    const late = plan({ object: unknown(nowMs - 600_000), imported: gone, derived: service });
    expect(late.service).toEqual({ kind: "none" });
  });

  it.each([
    ["0s", undefined],
    ["1h30m", 5_400_000],
    ["soon", 600_000],
    ["-1m", 600_000],
    ["9000h", 7 * 86_400_000],
  ])("is kept for as long as the annotation says, up to a week (%s)", (text, graceMs) => {
    const wanted = plan({
      object: object({ annotations: { "fairlead.dev/grace-period": text } }),
      imported: gone,
      derived: service,
    });
    expect(wanted.service).toEqual(
      graceMs === undefined ? { kind: "none" } : { kind: "keep", untilMs: nowMs + graceMs },
    );
  });

  it("is the same one again when an export returns", () => {
    const wanted = plan({ object: unknown(nowMs - 1000), imported: imported(), derived: service });
    expect(made(wanted)?.metadata.name).toBe("work-web");
    expect(wanted.labels).toHaveProperty(["networking.fleet.azure.com/derived-service"], "work-web");
  });
});

describe("C9: events of a MultiClusterService", () => {
  it("are recorded once for each change", () => {
    const found = plan({ imported: imported(), derived: service }).conditions;
    const dated = found.map((it) => ({ ...it, lastTransitionTime: at }));
    expect(planEvents(undefined, found)).toMatchObject([{ type: "Normal", reason: "FoundValidService" }]);
    expect(planEvents(dated, found)).toEqual([]);
    const lost = plan({ imported: imported({ status: {} }) }).conditions;
    expect(planEvents(dated, lost)).toMatchObject([{ type: "Normal", reason: "UnimportedService" }]);
    expect(planEvents(undefined, lost)).toEqual([]);
  });
});
