/** From a write to the API server until `fairlead dns`, a process of its own, answers with the change. */
import { once } from "node:events";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { startApiServer } from "@fairlead/apiserver/server.ts";
import { delay, systemClock } from "@fairlead/base/clock.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { start } from "@fairlead/base/exec.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { freePort } from "@fairlead/base/testing/free-port.ts";
import { MULTICLUSTER_CRDS } from "@fairlead/fleet/api/multicluster.x-k8s.io/crds.ts";
import { MCS_SERVICE_IMPORTS } from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { ENDPOINT_SLICES, type EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import { installCrds } from "@fairlead/kube/definitions/crds.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { watchDns } from "../../scripts/demo/latency.ts";

const MAIN = fileURLToPath(new URL("../../packages/fairlead/src/main.ts", import.meta.url));
const NAMESPACE = "work";
/** Services with changes of their own while one is measured. */
const OTHERS = 100;
const MEASURED = 200;
/** Changes that are not counted: the programs have just started. */
const WARM_UP = 20;

/** @param othersPerSecond - Changes of other services in the meantime. @returns Latencies. Unit: milliseconds. */
export async function measureChanges(dir: string, othersPerSecond: number): Promise<readonly number[]> {
  await using stack = new AsyncDisposableStack();
  const dataDir = join(dir, `api-${othersPerSecond}`);
  await mkdir(dataDir, { recursive: true });
  const api = await startApiServer({ dataDir, journal: "none" });
  stack.defer(() => api.close());
  const client = stack.use(connect(await loadKubeconfig(api.kubeconfig)));
  const signal = AbortSignal.timeout(120_000);
  await fill(client, signal);
  const server = `127.0.0.1:${await startProgram(api.kubeconfig, stack)}`;
  const stop = new AbortController();
  const others = changeOthers(client, othersPerSecond, stop.signal);
  const latencies: number[] = [];
  for (let turn = 0; turn < WARM_UP + MEASURED; turn++) {
    const address = `10.9.${turn >> 8}.${turn & 255}`;
    const isAwaited = (found: readonly string[]): boolean => found.includes(address);
    using sighting = watchDns(server, `service-0.${NAMESPACE}.svc.clusterset.local`, isAwaited, systemClock);
    const startedMs = systemClock.monotonic();
    await write(client, 0, address);
    latencies.push((await sighting.seen) - startedMs);
  }
  stop.abort();
  await others;
  return latencies.slice(WARM_UP);
}

async function fill(client: KubeClient, signal: AbortSignal): Promise<void> {
  await installCrds(
    client,
    { crds: MULTICLUSTER_CRDS, fieldManager: "bench" },
    systemDeps(silentLogger),
    signal,
  );
  await client.create(NAMESPACES, { metadata: { name: NAMESPACE } });
  for (let service = 0; service <= OTHERS; service++) {
    const metadata = { name: `service-${service}`, namespace: NAMESPACE };
    await client.create(MCS_SERVICE_IMPORTS, { metadata, spec: { type: "Headless", ports: [] } });
    await client.create(ENDPOINT_SLICES, sliceOf(service, "10.8.0.1"));
  }
}

function sliceOf(service: number, address: string): EndpointSlice {
  return {
    metadata: {
      name: `service-${service}`,
      namespace: NAMESPACE,
      labels: {
        "multicluster.kubernetes.io/service-name": `service-${service}`,
        "multicluster.kubernetes.io/source-cluster": "east",
      },
    },
    addressType: "IPv4",
    endpoints: [{ addresses: [address] }],
    ports: [{ name: "http", port: 80, protocol: "TCP" }],
  };
}

async function write(client: KubeClient, service: number, address: string): Promise<void> {
  const endpoints = [{ addresses: [address] }];
  await client.mergePatch(ENDPOINT_SLICES, objectKey(NAMESPACE, `service-${service}`), { endpoints });
}

async function changeOthers(client: KubeClient, perSecond: number, signal: AbortSignal): Promise<void> {
  const writes: Promise<void>[] = [];
  if (perSecond === 0) return;
  for (let turn = 0; !signal.aborted; turn++) {
    writes.push(write(client, 1 + (turn % OTHERS), `10.7.${(turn >> 8) & 255}.${turn & 255}`));
    await delay(systemClock, 1000 / perSecond, signal).catch(() => {});
  }
  await Promise.all(writes);
}

/** @returns The port of `fairlead dns`. */
async function startProgram(kubeconfig: string, stack: AsyncDisposableStack): Promise<number> {
  const port = await freePort();
  const args = ["dns", "--kubeconfig", kubeconfig, "--listen", `127.0.0.1:${port}`];
  const child = start(process.execPath, [MAIN, ...args, "--ready-fd", "3", "--log-level", "error"], {
    stdio: ["ignore", "inherit", "inherit", "pipe"],
  });
  stack.defer(async () => {
    child.kill("SIGKILL");
    await once(child, "exit");
  });
  await once(child.stdio[3] as Readable, "data");
  return port;
}
