import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { ServiceSpec } from "@fairlead/kube/api/core/v1/types.ts";
import type { ApiObject } from "#values/object.ts";
import { define } from "../define.ts";
import { FakeKind } from "../strategy.fake.ts";
import { ServiceAllocations } from "./allocations.ts";
import { clusterIpsOf, nodePortsOf } from "./shape.ts";
import { serviceStrategy } from "./strategy.ts";

/** What people write; some of it is refused. */
const spec: fc.Arbitrary<object> = fc.record(
  {
    type: fc.constantFrom("ClusterIP", "NodePort", "LoadBalancer", "ExternalName"),
    clusterIP: fc.constantFrom("None", "10.0.0.5", "10.0.0.6", "fd00::5"),
    ipFamilyPolicy: fc.constantFrom("SingleStack", "PreferDualStack", "RequireDualStack"),
    ipFamilies: fc.constantFrom(["IPv4"], ["IPv6"], ["IPv6", "IPv4"]),
    externalName: fc.constant("example.com"),
    externalTrafficPolicy: fc.constantFrom("Local", "Cluster"),
    selector: fc.constant({ a: "b" }),
    ports: fc.constantFrom(
      [{ port: 80 }],
      [{ port: 80, nodePort: 30_003 }],
      [
        { name: "a", port: 80 },
        { name: "b", port: 81, protocol: "UDP" },
      ],
    ),
  },
  { requiredKeys: ["ports"] },
);

type Step =
  | { readonly act: "put" | "merge"; readonly name: string; readonly spec: object }
  | { readonly act: "delete"; readonly name: string };

const name = fc.constantFrom("a", "b", "c", "d");
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ act: fc.constant("put" as const), name, spec }) },
  { weight: 3, arbitrary: fc.record({ act: fc.constant("merge" as const), name, spec }) },
  { weight: 1, arbitrary: fc.record({ act: fc.constant("delete" as const), name }) },
);

function service(of: string, wanted: object): ApiObject {
  return { apiVersion: "v1", kind: "Service", metadata: { name: of, namespace: "n" }, spec: wanted };
}

/** A small cluster, after some writes. */
function after(steps: readonly Step[]): FakeKind {
  const allocations = new ServiceAllocations({
    serviceRanges: ["10.0.0.0/28", "fd00::/124"],
    nodePorts: { first: 30_000, last: 30_015 },
  });
  const kind = new FakeKind(
    define("v1", "Service", { plural: "services", strategy: serviceStrategy(allocations) }),
  );
  for (const it of steps) {
    const key = `n/${it.name}`;
    if (it.act === "delete") kind.remove(key);
    else {
      const before = it.act === "merge" ? specOf(kind.get(key)) : {};
      kind.write(service(it.name, { ...before, ...it.spec }));
    }
  }
  return kind;
}

function specOf(object: ApiObject | undefined): ServiceSpec {
  return object?.["spec"] ?? {};
}

describe("Services that are created, changed and deleted", () => {
  it("never share an address or a node port", () => {
    fc.assert(
      fc.property(fc.array(step, { minLength: 10, maxLength: 40 }), (steps) => {
        const specs = after(steps).all().map(specOf);
        const ips = specs.flatMap(clusterIpsOf);
        expect(new Set(ips).size).toBe(ips.length);
        const ports = specs.flatMap((it) => [...new Set(nodePortsOf(it))]);
        expect(new Set(ports).size).toBe(ports.length);
      }),
      { numRuns: 400 },
    );
  });

  it("have the addresses that their type, families and policy require", () => {
    fc.assert(
      fc.property(fc.array(step, { minLength: 5, maxLength: 20 }), (steps) => {
        for (const it of after(steps).all().map(specOf)) {
          if (it.type === "ExternalName") {
            expect(it.clusterIP ?? it.clusterIPs ?? it.ipFamilies).toBeUndefined();
            continue;
          }
          expect(it.clusterIPs?.[0]).toBe(it.clusterIP);
          if (it.clusterIP === "None") continue;
          expect(it.clusterIPs?.map((ip) => (ip.includes(":") ? "IPv6" : "IPv4"))).toEqual(it.ipFamilies);
          expect(it.ipFamilies).toHaveLength(it.ipFamilyPolicy === "SingleStack" ? 1 : 2);
          const needsPorts = it.type === "NodePort" || it.type === "LoadBalancer";
          expect((it.ports ?? []).every((port) => (port.nodePort !== undefined) === needsPorts)).toBe(true);
        }
      }),
      { numRuns: 400 },
    );
  });

  it("do not change when their own state is written again", () => {
    fc.assert(
      fc.property(fc.array(step, { minLength: 5, maxLength: 20 }), (steps) => {
        const kind = after(steps);
        for (const stored of kind.all()) {
          const { object, errors } = kind.write(stored);
          expect(errors).toEqual([]);
          expect(object).toEqual(stored);
        }
      }),
      { numRuns: 400 },
    );
  });
});
