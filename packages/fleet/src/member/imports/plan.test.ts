import { describe, expect, it } from "vitest";
import type { Service } from "@fairlead/kube/api/core/v1/types.ts";
import type { ServiceImport } from "#api/multicluster.x-k8s.io/v1beta1/types.ts";
import type { ImportedService } from "#api/fairlead.dev/v1alpha1/types.ts";
import {
  fleetVip,
  planDerivedService,
  planMcsImport,
  planReady,
  planRefusal,
  vipOf,
} from "./mcs-import-plan.ts";

const spec: ImportedService["spec"] = {
  service: { namespace: "work", name: "hello" },
  type: "ClusterSetIP",
  ports: [{ name: "http", protocol: "TCP", port: 80 }],
  ipFamilies: ["IPv4", "IPv6"],
  sessionAffinity: "ClientIP",
  sessionAffinityConfig: { clientIP: { timeoutSeconds: 10 } },
  internalTrafficPolicy: "Cluster",
  labels: { a: "1" },
  annotations: { b: "2" },
  clusters: [{ cluster: "a", ports: [] }],
};
const derived = (clusterIPs: string[], more: Service["spec"] = {}): Service => ({
  metadata: { name: "derived-x" },
  spec: { clusterIPs, ipFamilies: clusterIPs.map((it) => (it.includes(":") ? "IPv6" : "IPv4")), ...more },
});
const owner = { metadata: { name: "hello", uid: "u" } };

describe("a multi-cluster ServiceImport", () => {
  it("says what the exports agreed on, with the addresses of this cluster", () => {
    const made = planMcsImport(spec, vipOf(derived(["10.96.0.9", "fd00::9"])));
    expect(made.spec).toEqual({
      type: "ClusterSetIP",
      ports: spec.ports,
      ips: ["10.96.0.9", "fd00::9"],
      ipFamilies: ["IPv4", "IPv6"],
      sessionAffinity: "ClientIP",
      sessionAffinityConfig: { clientIP: { timeoutSeconds: 10 } },
      internalTrafficPolicy: "Cluster",
    });
    expect(made.metadata.labels).toMatchObject({ a: "1" });
    expect(made.metadata.annotations).toMatchObject({ b: "2" });
  });

  it("without an address yet has neither addresses nor families, and is not ready", () => {
    expect(planMcsImport(spec, undefined).spec).not.toHaveProperty("ips");
    expect(planReady(spec, undefined, undefined)).toMatchObject({ status: "False", reason: "Pending" });
    expect(planReady(spec, vipOf(derived([""])), undefined)).toMatchObject({
      status: "False",
      reason: "Pending",
    });
    expect(planReady(spec, vipOf(derived(["10.96.0.9"])), undefined)).toMatchObject({
      status: "True",
      reason: "Ready",
    });
  });

  it("has the addresses of a parallel network that the hub gave it, in the families that all exporters serve", () => {
    const vips = ["10.127.0.9", "fd12::9"];
    expect(fleetVip({ vips, ipFamilies: ["IPv4", "IPv6"] }, undefined)?.ips).toEqual(vips);
    expect(fleetVip({ vips, ipFamilies: [] }, undefined)?.ips).toEqual(vips);
    const single = { vips, ipFamilies: ["IPv4" as const] };
    expect(fleetVip(single, undefined)).toEqual({ ips: ["10.127.0.9"], ipFamilies: ["IPv4"] });
    // A VIP is stable for the life of its import (KEP-1645).
    expect(fleetVip(single, { ...owner, spec: { type: "ClusterSetIP", ports: [], ips: vips } })?.ips).toEqual(
      vips,
    );
    expect(
      fleetVip({ ipFamilies: ["IPv4"] }, { ...owner, spec: { type: "ClusterSetIP", ports: [], ips: vips } }),
    ).toBeUndefined();
  });

  it("of a headless service has families but never an address", () => {
    const headless = { ...spec, type: "Headless" as const };
    const made = planMcsImport(headless, vipOf(derived(["10.96.0.9"])));
    expect(made.spec).not.toHaveProperty("ips");
    expect(made.spec?.ipFamilies).toEqual(["IPv4", "IPv6"]);
    expect(planReady(headless, undefined, undefined).status).toBe("True");
  });

  it("says when the cluster lacks the only family that exporters serve", () => {
    const refusal = planRefusal(["spec.ipFamilies[0]"], "not configured on this cluster");
    expect(planReady(spec, undefined, refusal)).toEqual({
      type: "Ready",
      status: "False",
      reason: "IPFamilyNotSupported",
      message: "not configured on this cluster",
    });
  });

  it("reports the server's message if the Service is rejected for any reason", () => {
    const refusal = planRefusal(["spec.trafficDistribution"], "supported values: PreferClose");
    expect(planReady(spec, undefined, refusal)).toMatchObject({
      status: "False",
      reason: "Pending",
      message: "supported values: PreferClose",
    });
  });
});

describe("the Service that carries the address of an import", () => {
  it("is dual-stack as far as the cluster is, unless all exporters have one family", () => {
    expect(planDerivedService(spec, owner, undefined).spec).toMatchObject({
      ipFamilyPolicy: "PreferDualStack",
    });
    const single = { ...spec, ipFamilies: ["IPv6" as const] };
    expect(planDerivedService(single, owner, undefined).spec).toMatchObject({
      ipFamilyPolicy: "SingleStack",
      ipFamilies: ["IPv6"],
    });
  });

  it("never loses an address that it has", () => {
    const single = { ...spec, ipFamilies: ["IPv4" as const] };
    const now = derived(["10.96.0.9", "fd00::9"], { ipFamilyPolicy: "PreferDualStack" });
    const kept = planDerivedService(single, owner, now).spec;
    expect(kept).toMatchObject({ ipFamilyPolicy: "PreferDualStack" });
    expect(kept).not.toHaveProperty("ipFamilies");
  });

  it("that was deleted gets its addresses again, which the import still has", () => {
    const single = { ...spec, ipFamilies: ["IPv4" as const] };
    const before = derived(["10.96.0.9", "fd00::9"], { ipFamilyPolicy: "PreferDualStack" });
    const reported = { ...planMcsImport(single, vipOf(before)), metadata: owner.metadata } as ServiceImport;
    expect(planMcsImport(single, undefined, reported).spec).toEqual(reported.spec);
    expect(planDerivedService(single, reported, undefined).spec).toMatchObject({
      clusterIP: "10.96.0.9",
      clusterIPs: ["10.96.0.9", "fd00::9"],
      ipFamilies: ["IPv4", "IPv6"],
      ipFamilyPolicy: "PreferDualStack",
    });
    // The server knows the address of one that is there.
    expect(planDerivedService(single, reported, before).spec).not.toHaveProperty("clusterIP");
  });

  it("has no selector: Fairlead writes its EndpointSlices", () => {
    expect(planDerivedService(spec, owner, undefined).spec).not.toHaveProperty("selector");
  });
});
