import { expect, it } from "vitest";
import { createMetrics, type MetricsRegistry } from "./metrics.ts";

async function seriesOf(metrics: MetricsRegistry, name: string): Promise<readonly string[]> {
  return (await metrics.render()).split("\n").filter((it) => it.startsWith(`${name}{`));
}

it("a counter with ever new values of its labels has a bounded number of series, and counts all of them", async () => {
  const metrics = createMetrics();
  const counter = metrics.counter({ name: "passes_total", help: "Passes.", labels: ["from", "to"] });
  for (let at = 0; at < 30_000; at += 1) counter.add({ from: `member-${at}`, to: "a" });
  counter.add({ from: "member-1", to: "a" });
  const series = await seriesOf(metrics, "passes_total");
  expect(series).toHaveLength(10_001);
  expect(series.find((it) => it.includes("other"))).toBe('passes_total{from="other",to="other"} 20000');
  expect(series.find((it) => it.includes('"member-1"'))).toBe('passes_total{from="member-1",to="a"} 2');
});

it("a histogram with ever new values of its labels has a bounded number of series, and room again for those that are removed", async () => {
  const metrics = createMetrics();
  const options = { name: "wait_seconds", help: "Waits.", labels: ["member"], buckets: [1] };
  const histogram = metrics.histogram(options);
  for (let at = 0; at < 11_000; at += 1) histogram.observe({ member: `m${at}` }, 0);
  expect(await seriesOf(metrics, "wait_seconds_count")).toHaveLength(10_001);
  histogram.remove({ member: "m0" });
  histogram.observe({ member: "new" }, 0);
  const series = await seriesOf(metrics, "wait_seconds_count");
  expect(series).toHaveLength(10_001);
  expect(series).toContain('wait_seconds_count{member="new"} 1');
});
