import { afterEach, describe, expect, it } from "vitest";
import { createMetrics } from "@fairlead/base/metrics.ts";
import { RCODE } from "@fairlead/dns/wire/types.ts";
import { createDnsMeters } from "@fairlead/dns/meters.ts";
import { type MetricsServer, serveMetrics } from "@fairlead/base/program/metrics-server.ts";

let server: MetricsServer | undefined;
afterEach(async () => {
  await server?.[Symbol.asyncDispose]();
  server = undefined;
});

describe("the metrics of a DNS server", () => {
  it("count queries by transport and answers by response code, each once", async () => {
    const metrics = createMetrics();
    using meters = createDnsMeters(metrics);
    for (let turn = 0; turn < 3; turn++) meters.asked("udp");
    meters.asked("tcp");
    meters.answered(RCODE.NOERROR);
    meters.answered(RCODE.NXDOMAIN);
    meters.answered(RCODE.NXDOMAIN);
    for (let turn = 0; turn < 2; turn++) {
      const text = await metrics.render();
      expect(text).toContain('fairlead_dns_requests_total{proto="udp"} 3');
      expect(text).toContain('fairlead_dns_requests_total{proto="tcp"} 1');
      expect(text).toContain('fairlead_dns_responses_total{rcode="NXDOMAIN"} 2');
    }
  });

  it("are served over HTTP, with health and readiness", async () => {
    const metrics = createMetrics();
    using meters = createDnsMeters(metrics);
    meters.asked("udp");
    let isReady = false;
    const { port } = (server = await serveMetrics({
      metrics,
      address: "127.0.0.1:0",
      checks: [{ name: "zones", kind: "ready", problem: () => (isReady ? undefined : "not complete") }],
    }));
    const get = (path: string) => fetch(`http://127.0.0.1:${port}${path}`);
    expect((await get("/readyz")).status).toBe(503);
    isReady = true;
    expect((await get("/readyz")).status).toBe(200);
    expect((await get("/healthz")).status).toBe(200);
    expect((await get("/other")).status).toBe(404);
    expect(await (await get("/metrics")).text()).toContain('fairlead_dns_requests_total{proto="udp"} 1');
  });

  it("reject an invalid address", async () => {
    const options = { metrics: createMetrics(), checks: [] };
    for (const address of ["", "localhost", "127.0.0.1:99999", "127.0.0.1:x"]) {
      await expect(serveMetrics({ ...options, address })).rejects.toMatchObject({ code: "OPTION_INVALID" });
    }
  });
});
