/**
 * `lab up` (installed, bundled) until a pod in one cluster has its first answer from a pod in another: a hub and three
 * members of two nodes. Then `lab down`, and what all of it holds in memory.
 *
 * Compared with 19.9 s, which k3d 5.8 publishes for an answering application in ONE cluster (minikube's time-to-k8s
 * benchmark, 2025, another machine), and with the time that this machine needs only to start as many empty Node
 * processes. Three runs; the median is printed.
 */
import { exec } from "@fairlead/base/exec.ts";
import { renderTable } from "@fairlead/fleet/cli/table.ts";
import { findLabProcesses } from "@fairlead/lab/processes.ts";
import { pssOf } from "./against/usage.ts";
import { answerAcross } from "./lab/first-answer.ts";
import { quantile, startBenchLab } from "./lab/lab.ts";

const RUNS = 3;
const K3D_ONE_CLUSTER_MS = 19_900;

interface Sample {
  readonly upMs: number;
  readonly answerMs: number;
  readonly downMs: number;
  readonly processes: number;
  readonly memoryMiB: number;
}

export async function run(): Promise<void> {
  const samples: Sample[] = [];
  for (let at = 0; at < RUNS; at += 1) samples.push(await measure());
  const floorMs = await startEmptyProcesses(samples[0]?.processes ?? 0);
  const median = (pick: (sample: Sample) => number): number =>
    quantile(
      samples.map((it) => pick(it)),
      0.5,
    );
  const answerMs = median((it) => it.answerMs);
  const rows = [
    ["lab up, hub and 3 members of 2 nodes", seconds(median((it) => it.upMs)), ""],
    [
      "first answer across clusters",
      seconds(answerMs),
      `${(answerMs / K3D_ONE_CLUSTER_MS).toFixed(2)} of k3d's one cluster`,
    ],
    [
      "as many empty Node processes",
      seconds(floorMs),
      `the answer takes ${(answerMs / floorMs).toFixed(1)} times that`,
    ],
    ["lab down", seconds(median((it) => it.downMs)), ""],
    [
      "memory of all processes (PSS)",
      `${median((it) => it.memoryMiB).toFixed(0)} MiB`,
      `${median((it) => it.processes)} processes`,
    ],
  ];
  console.log(
    renderTable(
      ["WHAT", "MEDIAN", "RATIO"].map((head, at) => ({ head, cell: (row: string[]) => row[at] ?? "" })),
      rows,
    ),
  );
}

async function measure(): Promise<Sample> {
  const startMs = performance.now();
  await using lab = await startBenchLab("bench", { members: 3, nodes: 2 });
  await answerAcross(lab);
  const answerMs = performance.now() - startMs;
  const pids = findLabProcesses(lab.layout.root);
  const memoryMiB = pssOf(pids);
  return { upMs: lab.upMs, answerMs, processes: pids.length, memoryMiB, downMs: await lab.down() };
}

async function startEmptyProcesses(count: number): Promise<number> {
  const startMs = performance.now();
  await Promise.all(Array.from({ length: count }, () => exec(process.execPath, ["-e", "0"])));
  return performance.now() - startMs;
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
