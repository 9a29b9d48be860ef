/**
 * How many keys a controller should work on at the same time: a controller that writes one object per key to an API server
 * whose answers take longer and longer. What one worker could do at most is one key per answer; where more workers bring
 * no more, the server, or this process, is at its end.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CONFIG_MAPS, type ConfigMap } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { startApiServer } from "@fairlead/apiserver/server.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { renderTable } from "@fairlead/fleet/cli/table.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { startFaultyProxy } from "../test/kube/faulty-proxy.ts";

const WORKERS = [1, 4, 8, 16, 32, 64];
/** In addition to the server's own time. Unit: milliseconds. */
const DELAYS_MS = [0, 5, 20, 100];
/** About as long each round takes. Unit: milliseconds. */
const ROUND_MS = 1000;
const ROUNDS = 3;

export async function run(): Promise<void> {
  const dataDir = await mkdtemp(join(tmpdir(), "bench-concurrency-"));
  await using stack = new AsyncDisposableStack();
  stack.defer(() => rm(dataDir, { recursive: true }));
  const server = await startApiServer({ dataDir, journal: "none" });
  stack.defer(() => server.close());
  const config = await loadKubeconfig(server.kubeconfig);
  const proxy = stack.use(await startFaultyProxy(Number(new URL(config.server).port)));
  const rows: string[][] = [];
  for (const delayMs of DELAYS_MS) {
    proxy.delayMs = delayMs;
    const rates: string[] = [];
    for (const workers of WORKERS) {
      await using client = connect({ ...config, server: `https://127.0.0.1:${proxy.port}` });
      const found: number[] = [];
      for (let round = 0; round < ROUNDS; round++) found.push(await measure(client, workers, delayMs));
      rates.push(found.toSorted((a, b) => a - b)[1]?.toFixed(0) ?? "");
    }
    rows.push([`${delayMs} ms`, ...rates]);
  }
  const headers = ["DELAY", ...WORKERS.map((it) => `${it} WORKERS`)];
  console.log(
    renderTable(
      headers.map((header, at) => ({ head: header, cell: (row: string[]) => row[at] ?? "" })),
      rows,
    ),
  );
  console.log("keys a second, the median of three rounds");
}

let turn = 0;

/** @returns Keys a second. */
async function measure(client: KubeClient, workers: number, delayMs: number): Promise<number> {
  const keys = Math.min(800, Math.max(40, Math.round((workers * ROUND_MS) / (delayMs + 3))));
  const deps = systemDeps(silentLogger);
  const value = String(++turn);
  const stop = new AbortController();
  await using informer = createInformer<ConfigMap>(client, CONFIG_MAPS, { labelSelector: "none" }, deps);
  await using controller = createController(
    {
      name: "bench",
      concurrency: workers,
      sources: [watching(informer)],
      async reconcile(key, signal) {
        const body = { metadata: { namespace: "default", name: key.split("/")[1] ?? "" }, data: { value } };
        await client.apply(CONFIG_MAPS, body, { fieldManager: "bench", signal });
      },
    },
    deps,
  );
  await controller.start(stop.signal);
  const startedMs = performance.now();
  for (let at = 0; at < keys; at++) controller.enqueue(objectKey("default", `one-${at}`));
  await controller.idle(stop.signal);
  const tookMs = performance.now() - startedMs;
  stop.abort();
  return (keys / tookMs) * 1000;
}
