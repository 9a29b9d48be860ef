import { expect, it } from "vitest";
import { serveHealth } from "#base/health.ts";
import { createMetrics } from "#base/metrics.ts";

it("says that it lives, what it waits for, and its metrics", async () => {
  const metrics = createMetrics();
  metrics
    .counter({ name: "passes_total", help: "Passes.", labels: ["result"] })
    .add({ result: "success" }, 3);
  let hasSynced = false;
  await using server = await serveHealth({
    host: "127.0.0.1",
    port: 0,
    metrics,
    ready: { informers: () => hasSynced, "hub-connection": () => true },
  });
  const ask = async (path: string, method = "GET") => {
    const response = await fetch(`http://127.0.0.1:${server.port}${path}`, { method });
    return [response.status, await response.text()] as const;
  };
  expect(await ask("/healthz")).toEqual([200, "ok\n"]);
  expect(await ask("/readyz")).toEqual([
    503,
    "[-]informers failed\n[+]hub-connection ok\nreadyz check failed\n",
  ]);
  hasSynced = true;
  expect((await ask("/readyz?verbose"))[0]).toBe(200);
  expect((await ask("/metrics"))[1]).toContain('passes_total{result="success"} 3');
  expect((await ask("/other"))[0]).toBe(404);
  expect((await ask("/metrics", "POST"))[0]).toBe(405);
});
