import { describe, expect, it } from "vitest";
import type { Service } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { createHealthChecks, planHealthCheck } from "./health-check.ts";

const service: Service = {
  metadata: { name: "web", namespace: "work" },
  spec: {
    type: "LoadBalancer",
    externalTrafficPolicy: "Local",
    healthCheckNodePort: 31_999,
    ports: [{ port: 80 }],
  },
};
const node = { name: "here", zone: undefined, addresses: [] };
const endpoint = (ip: string, nodeName: string, ready = true) => ({
  addresses: [ip],
  nodeName,
  conditions: { ready, serving: true, terminating: !ready },
});

describe("the health check of a Service", () => {
  it("counts endpoints of this node that are ready", () => {
    const slices = [
      {
        metadata: { name: "s" },
        addressType: "IPv4" as const,
        ports: [{ port: 8080 }],
        endpoints: [
          endpoint("10.1.0.1", "here"),
          endpoint("10.1.0.2", "there"),
          endpoint("10.1.0.3", "here", false),
        ],
      },
    ];
    expect(planHealthCheck({ service, slices, node })).toEqual({ port: 31_999, localEndpoints: 1 });
    const cluster = { ...service, spec: { ...service.spec, externalTrafficPolicy: "Cluster" as const } };
    expect(planHealthCheck({ service: cluster, slices, node })).toBeUndefined();
  });

  it("answers 200 with local endpoints and 503 without, until it is removed", async () => {
    await using checks = createHealthChecks(silentLogger);
    const key = objectKey("work", "web");
    const port = 31_987;
    const ask = () => fetch(`http://127.0.0.1:${port}/healthz`);
    checks.set(key, { port, localEndpoints: 2 });
    const well = await ask();
    expect([well.status, well.headers.get("x-load-balancing-endpoint-weight")]).toEqual([200, "2"]);
    expect(await well.json()).toEqual({
      service: { namespace: "work", name: "web" },
      localEndpoints: 2,
      serviceProxyHealthy: true,
    });
    checks.set(key, { port, localEndpoints: 0 });
    expect((await ask()).status).toBe(503);
    checks.set(key, undefined);
    await expect(ask()).rejects.toThrow("fetch failed");
  });
});
