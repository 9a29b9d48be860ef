import { defined } from "@fairlead/base/defined.ts";
import { describe, expect, it } from "vitest";
import type { Service } from "@fairlead/kube/api/core/v1/types.ts";
import { writeExportFacts } from "./exported-service.ts";

function service(type: string, more: Partial<Service> = {}, annotations?: Record<string, string>): Service {
  const metadata = {
    namespace: "work",
    name: "hello",
    ...defined({ annotations }),
  };
  return { metadata, spec: { type: type as "LoadBalancer" }, ...more };
}
const lit = {
  status: { loadBalancer: { ingress: [{ ip: "192.0.2.1", ipMode: "VIP" }, { hostname: "lb.example" }] } },
};

describe("the load balancer of an export", () => {
  it("is where it is reached, and that it is public", () => {
    expect(writeExportFacts(service("LoadBalancer", lit), [])).toMatchObject({
      type: "LoadBalancer",
      isInternalLoadBalancer: false,
      loadBalancerIngress: [{ ip: "192.0.2.1" }, { hostname: "lb.example" }],
    });
  });

  it("is an empty list while it has no address, which differs from an agent that cannot tell", () => {
    expect(writeExportFacts(service("LoadBalancer"), [])).toMatchObject({ loadBalancerIngress: [] });
  });

  it.each([
    ["service.beta.kubernetes.io/azure-load-balancer-internal", "true", true],
    ["service.beta.kubernetes.io/azure-load-balancer-internal", "True", false],
    ["service.beta.kubernetes.io/aws-load-balancer-scheme", "internal", true],
    ["service.beta.kubernetes.io/aws-load-balancer-scheme", "internet-facing", false],
    ["networking.gke.io/load-balancer-type", "Internal", true],
  ])("is inside the network by %s: %s is %s", (name, value, expected) => {
    const facts = writeExportFacts(service("LoadBalancer", lit, { [name]: value }), []);
    expect(facts.isInternalLoadBalancer).toBe(expected);
  });

  it("is nothing for a Service of another type, whatever its annotations and status say", () => {
    const facts = writeExportFacts(
      service("ClusterIP", lit, { "networking.gke.io/load-balancer-type": "Internal" }),
      [],
    );
    expect(facts).not.toHaveProperty("isInternalLoadBalancer");
    expect(facts).not.toHaveProperty("loadBalancerIngress");
  });
});
