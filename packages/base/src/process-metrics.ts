import { readdirSync, readFileSync } from "node:fs";
import type { Metrics } from "./metrics.ts";

/** The `process_*` metrics that Prometheus' client libraries agree on. What the platform does not report is left out. */
export function createProcessMetrics(metrics: Metrics): Disposable {
  const named = (suffix: string, help: string) => ({ name: `process_${suffix}`, help });
  const cpu = metrics.counter(named("cpu_seconds_total", "CPU time, user and system."));
  const gauges = {
    resident: metrics.gauge(named("resident_memory_bytes", "Resident memory.")),
    virtual: metrics.gauge(named("virtual_memory_bytes", "Virtual memory.")),
    openFds: metrics.gauge(named("open_fds", "Open file descriptors.")),
    maxFds: metrics.gauge(named("max_fds", "File descriptors that may be open.")),
    heap: metrics.gauge({ name: "nodejs_heap_size_used_bytes", help: "Used part of the heap." }),
  };
  metrics
    .gauge(named("start_time_seconds", "Start time, since the Unix epoch."))
    .set({}, performance.timeOrigin / 1000);
  let countedSeconds = 0;
  return metrics.onRender(() => {
    const { user, system } = process.cpuUsage();
    const seconds = (user + system) / 1e6;
    cpu.add({}, seconds - countedSeconds);
    countedSeconds = seconds;
    const { rss, heapUsed } = process.memoryUsage();
    gauges.resident.set({}, rss);
    gauges.heap.set({}, heapUsed);
    setKnown(gauges.virtual, numberIn("/proc/self/status", /^VmSize:\s+(\d+) kB$/m), 1024);
    setKnown(gauges.maxFds, numberIn("/proc/self/limits", /^Max open files\s+(\d+)/m), 1);
    setKnown(gauges.openFds, countIn("/proc/self/fd"), 1);
  });
}

function setKnown(
  gauge: { set(labels: Record<string, string>, value: number): void },
  value: number | undefined,
  unit: number,
): void {
  if (value !== undefined) gauge.set({}, value * unit);
}

function numberIn(path: string, pattern: RegExp): number | undefined {
  try {
    const found = pattern.exec(readFileSync(path, "utf8"))?.[1];
    return found === undefined ? undefined : Number(found);
  } catch {
    return undefined;
  }
}

function countIn(folder: string): number | undefined {
  try {
    return readdirSync(folder).length;
  } catch {
    return undefined;
  }
}
