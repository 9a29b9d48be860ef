import { describe, expect, it } from "vitest";
import type { ImportedService } from "#api/fairlead.dev/v1alpha1/types.ts";
import type { ServiceImport } from "#api/multicluster.x-k8s.io/v1beta1/types.ts";
import type { Service } from "@fairlead/kube/api/core/v1/types.ts";
import { vipOf } from "./mcs-import-plan.ts";
import { ADOPTED_ANNOTATION } from "#api/fairlead.dev/names.ts";
import { adoptionProblem, isServed, planAdoption, planRelease } from "./adoption.ts";

const spec: ImportedService["spec"] = {
  service: { namespace: "work", name: "hello" },
  type: "ClusterSetIP",
  ports: [{ port: 80 }, { name: "dns", protocol: "UDP", port: 53 }],
  clusters: [],
};
const derived: Service = {
  metadata: { name: "derived" },
  spec: { clusterIPs: ["10.96.0.9", "fd00::9"], ipFamilies: ["IPv4", "IPv6"] },
};

function ofUser(wanted: Partial<NonNullable<ServiceImport["spec"]>> = {}): ServiceImport {
  const metadata = { namespace: "work", name: "hello" };
  return { metadata, spec: { type: "ClusterSetIP", ports: [{ name: "http", port: 80 }], ...wanted } };
}

/** As the server applies a merge patch (RFC 7386), as far as these patches go. */
function merged(object: ServiceImport, patch: object | undefined): ServiceImport {
  const into = (value: object, change: object): object => {
    const all = Object.entries({ ...value, ...change }).map(([key, it]: [string, unknown]) => {
      const before = (value as Record<string, unknown>)[key];
      const isMap = typeof it === "object" && it !== null && !Array.isArray(it) && key in change;
      return [key, isMap ? into(before ?? {}, it) : it] as const;
    });
    return Object.fromEntries(all.filter(([, it]) => it !== null));
  };
  return into(object, patch ?? {}) as ServiceImport;
}

describe("an import that a user made", () => {
  it.each([
    ["all ports, whatever their names", ofUser(), undefined],
    ["no port", ofUser({ ports: [] }), undefined],
    [
      "another protocol",
      ofUser({ ports: [{ port: 53 }] }),
      "spec.ports has TCP port 53, which no cluster exports",
    ],
    [
      "another type",
      ofUser({ type: "Headless" }),
      "spec.type is Headless, but the exported service is ClusterSetIP",
    ],
    ["no spec", { metadata: ofUser().metadata }, "spec is missing"],
  ])("stands for a service or not: %s", (_, object, problem) => {
    expect(adoptionProblem(spec, object)).toBe(problem);
  });

  it("gets addresses once, keeps the fields of the user, and loses all that it got", () => {
    const user = ofUser({ sessionAffinity: "None" });
    const adopted = merged(user, planAdoption(user, spec, vipOf(derived)));
    expect(adopted.spec).toEqual({
      ...user.spec,
      ips: ["10.96.0.9", "fd00::9"],
      ipFamilies: ["IPv4", "IPv6"],
    });
    expect([isServed(user), isServed(adopted)]).toEqual([false, true]);
    expect(planAdoption(adopted, spec, vipOf(derived))).toBeUndefined();
    const released = merged(adopted, planRelease(adopted));
    expect(released.spec).toEqual(user.spec);
    expect(isServed(released)).toBe(false);
    expect(planRelease(released)).toBeUndefined();
  });

  it("gets addresses that changed, and no address for a headless service", () => {
    const adopted = merged(ofUser(), planAdoption(ofUser(), spec, vipOf(derived)));
    const other = { ...derived, spec: { clusterIPs: ["10.96.0.8"], ipFamilies: ["IPv4" as const] } };
    expect(merged(adopted, planAdoption(adopted, spec, vipOf(other))).spec?.ips).toEqual(["10.96.0.8"]);
    const headless = ofUser({ type: "Headless" });
    const served = merged(headless, planAdoption(headless, { type: "Headless", ports: [] }, undefined));
    expect(served.spec).toEqual(headless.spec);
    expect(served.metadata.annotations).toEqual({ [ADOPTED_ANNOTATION]: "true" });
    expect(planAdoption(served, { type: "Headless", ports: [] }, undefined)).toBeUndefined();
  });

  it("says by which names slices have its ports, where the user gave them others", () => {
    const namesOf = (object: ServiceImport): unknown =>
      merged(object, planAdoption(object, spec, vipOf(derived))).metadata.annotations?.[
        "fairlead.dev/port-names"
      ];
    expect(namesOf(ofUser())).toBe('["unnamed"]');
    expect(namesOf(ofUser({ ports: [{ name: "x", protocol: "UDP", port: 53 }, { port: 80 }] }))).toBe(
      '["dns","unnamed"]',
    );
    const same = ofUser({ ports: [{ port: 80 }, { name: "dns", protocol: "UDP", port: 53 }] });
    expect(namesOf(same)).toBeUndefined();
    const adopted = merged(ofUser(), planAdoption(ofUser(), spec, vipOf(derived)));
    const renamed = {
      ...adopted,
      spec: { ...adopted.spec, ports: [{ name: "unnamed", port: 80 }] },
    } as ServiceImport;
    expect(planAdoption(renamed, spec, vipOf(derived))).toMatchObject({
      metadata: { annotations: { "fairlead.dev/port-names": null } },
    });
    expect(merged(adopted, planRelease(adopted)).metadata.annotations).toEqual({});
  });

  it("keeps an address that the user wrote while no agent serves it", () => {
    expect(planRelease(ofUser({ ips: ["10.0.0.1"] }))).toBeUndefined();
  });
});
