/** dnsperf, as a client of `bench dns`. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { exec } from "@fairlead/base/exec.ts";
import { usageOfAll } from "../fleet/programs.ts";
import { quantile } from "../lab/lab.ts";
import { nameOf, shuffled } from "./data.ts";
import type { RunningServer } from "./servers.ts";

export interface PerfFigures {
  readonly perSecond: number;
  /** Answers for each second of processor time of the server. */
  readonly perCpuSecond: number;
  /** At a fixed rate. Unit: milliseconds. */
  readonly p99: number;
}

/** As long as one measurement takes. Unit: seconds. */
const RUN_SECONDS = 3;
/** Queries a second for latencies: less than half of what any of the servers can do, so that they show no queue. */
const STEADY_RATE = 5000;

export async function measureWithDnsperf(dir: string, server: RunningServer): Promise<PerfFigures> {
  const file = join(dir, "queries");
  await writeFile(
    file,
    `${shuffled(20_000)
      .map((it) => `${nameOf(it)} A`)
      .join("\n")}\n`,
  );
  const common = [
    "-s",
    "127.0.0.1",
    "-p",
    String(server.port),
    "-d",
    file,
    "-l",
    String(RUN_SECONDS),
    "-c",
    "10",
  ];
  const before = await usageOfAll([server.pid]);
  const { stdout } = await exec("dnsperf", [...common, "-q", "100"]);
  const cpuSeconds = ((await usageOfAll([server.pid])).cpuMs - before.cpuMs) / 1000;
  const answered = numberAfter(stdout, "Queries completed:");
  const steady = await exec("dnsperf", [...common, "-Q", String(STEADY_RATE), "-v"]);
  // "> NOERROR service-1.work.svc.clusterset.local. A 0.000123"
  const latencies = steady.stdout
    .split("\n")
    .filter((it) => it.startsWith("> NOERROR "))
    .map((it) => Number(it.split(" ").at(-1)) * 1000);
  return {
    perSecond: numberAfter(stdout, "Queries per second:"),
    perCpuSecond: answered / cpuSeconds,
    p99: quantile(latencies, 0.99),
  };
}

function numberAfter(text: string, label: string): number {
  const [, rest = ""] = text.split(label);
  return Number.parseFloat(rest);
}
