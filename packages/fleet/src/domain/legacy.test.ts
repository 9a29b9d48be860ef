import { expect, it } from "vitest";
import { exportForOthers } from "./legacy.ts";

it("an export is sent to legacy hubs with every published field that it has, and no addition", () => {
  const ports = [{ port: 80 }];
  expect(
    exportForOthers({
      ports,
      type: "LoadBalancer",
      weight: 3,
      isInternalLoadBalancer: false,
      loadBalancerIngress: [{ ip: "192.0.2.1" }],
      priority: 1,
      affinity: "local",
    }),
  ).toEqual({ ports, type: "LoadBalancer", weight: 3, isInternalLoadBalancer: false });
  expect(exportForOthers({ ports })).toEqual({ ports });
});
