import { describe, expect, it } from "vitest";
import type { Endpoints, Service } from "@fairlead/kube/api/core/v1/types.ts";
import { planSlices } from "../endpointslice/plan.ts";
import { isMirrored, mirroredGroups, mirrorTarget } from "./plan.ts";

const service: Service = { metadata: { name: "db", namespace: "work" }, spec: { ports: [{ port: 5432 }] } };
const endpoints: Endpoints = {
  metadata: { name: "db", namespace: "work", uid: "e-1", labels: { team: "data" } },
  subsets: [
    {
      addresses: [{ ip: "192.0.2.10" }, { ip: "2001:db8::10" }],
      notReadyAddresses: [{ ip: "192.0.2.11" }],
      ports: [{ port: 5432 }],
    },
  ],
};

describe("Endpoints that people write", () => {
  it("become a slice of each family, under the Service's name and the controller's", () => {
    const { create } = planSlices(mirrorTarget(endpoints), mirroredGroups(endpoints), []);
    expect(
      create.map((it) => [it.addressType, it.endpoints.map((of) => [of.addresses[0], of.conditions])]),
    ).toEqual([
      [
        "IPv4",
        [
          ["192.0.2.10", { ready: true }],
          ["192.0.2.11", { ready: false }],
        ],
      ],
      ["IPv6", [["2001:db8::10", { ready: true }]]],
    ]);
    expect(create[0]?.ports).toEqual([{ name: "", protocol: "TCP", port: 5432 }]);
    expect(create[0]?.metadata).toMatchObject({
      labels: {
        team: "data",
        "kubernetes.io/service-name": "db",
        "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io",
      },
      ownerReferences: [{ kind: "Endpoints", name: "db", uid: "e-1" }],
    });
    const again = planSlices(mirrorTarget(endpoints), mirroredGroups(endpoints), create);
    expect([again.create, again.update, again.delete]).toEqual([[], [], []]);
  });

  it("are not mirrored if the Service has a selector or is absent, or if their label disables it", () => {
    expect(isMirrored(endpoints, service)).toBe(true);
    expect(isMirrored(endpoints, undefined)).toBe(false);
    expect(isMirrored(endpoints, { ...service, spec: { selector: { app: "db" } } })).toBe(false);
    const marked = (parts: Partial<Endpoints["metadata"]>): Endpoints => ({
      ...endpoints,
      metadata: { ...endpoints.metadata, ...parts },
    });
    const skip = { "endpointslice.kubernetes.io/skip-mirror": "true" };
    expect(isMirrored(marked({ labels: skip }), service)).toBe(false);
    const lock = { "control-plane.alpha.kubernetes.io/leader": "{}" };
    expect(isMirrored(marked({ annotations: lock }), service)).toBe(false);
  });
});
