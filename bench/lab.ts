/**
 * `lab up` (installed, bundled) until a pod in one cluster has its first answer from a pod in another: a hub and three
 * members of two nodes. Then `lab down`, and what all of it holds in memory.
 *
 * Compared with 19.9 s, which k3d 5.8 publishes for an answering application in ONE cluster (minikube's time-to-k8s
 * benchmark, 2025, another machine), and with the time that this machine needs only to start as many empty Node
 * processes. Three runs; the median is printed.
 */
import { readFileSync } from "node:fs";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { exec } from "@fairlead/base/exec.ts";
import { renderTable } from "@fairlead/fleet/cli/table.ts";
import { PODS } from "@fairlead/kube/api/core/v1/types.ts";
import { findLabProcesses } from "@fairlead/lab/processes.ts";
import { findKubectl } from "@fairlead/base/program/kubectl.ts";
import { type BenchLab, quantile, root, startBenchLab } from "./lab/lab.ts";

const RUNS = 3;
const K3D_ONE_CLUSTER_MS = 19_900;
const URL = "http://hello.work.svc.clusterset.local/";

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
  await applyExamples(lab);
  await firstAnswer(lab);
  const answerMs = performance.now() - startMs;
  const pids = findLabProcesses(lab.layout.root);
  const memoryMiB = pids.reduce((sum, pid) => sum + memoryOf(pid), 0) / 1024;
  return { upMs: lab.upMs, answerMs, processes: pids.length, memoryMiB, downMs: await lab.down() };
}

async function applyExamples(lab: BenchLab): Promise<void> {
  const kubectl = findKubectl(`${root}node_modules/.tools`);
  await Promise.all(
    ["member-1", "member-2", "member-3"].map((cluster) =>
      exec(kubectl, [
        "--kubeconfig",
        lab.layout.kubeconfig,
        "--context",
        cluster,
        "apply",
        "-f",
        `${root}examples/${cluster}.yaml`,
      ]),
    ),
  );
  const client = await lab.client("member-3");
  const key = objectKey("work", "client");
  const selector = {
    namespace: "work",
    fieldSelector: "metadata.name=client",
    sendInitialEvents: true,
    allowWatchBookmarks: true,
  };
  for await (const event of client.watch(PODS, selector, AbortSignal.timeout(60_000))) {
    if (event.type !== "ERROR" && event.object.status?.phase === "Running") return;
  }
  throw new Error(`pod ${key} does not run`);
}

/** Sends requests from the pod until one is answered: the loop runs inside, so that the start of kubectl is counted once. */
async function firstAnswer(lab: BenchLab): Promise<void> {
  const script = `i=0; while [ $i -lt 3000 ]; do curl -sf -m 1 ${URL} && exit 0; i=$((i+1)); sleep 0.02; done; exit 1`;
  const args = [
    "--kubeconfig",
    lab.layout.kubeconfig,
    "--context",
    "member-3",
    "-n",
    "work",
    "exec",
    "client",
    "--",
    "sh",
    "-c",
    script,
  ];
  await exec(findKubectl(`${root}node_modules/.tools`), args, { timeoutMs: 90_000 });
}

/** Proportional share: pages that several processes map count once. Unit: KiB. */
function memoryOf(pid: number): number {
  try {
    return Number(/^Pss:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, "utf8"))?.[1] ?? 0);
  } catch {
    return 0;
  }
}

async function startEmptyProcesses(count: number): Promise<number> {
  const startMs = performance.now();
  await Promise.all(Array.from({ length: count }, () => exec(process.execPath, ["-e", "0"])));
  return performance.now() - startMs;
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
