/**
 * A Service is shared by its annotation, and withdrawn by another one: after how long have the importer's EndpointSlice, and the kernel map of its
 * node, the endpoint, or have it no longer? Compared with one hop in the same run: a write to an API server until a watch delivers it.
 */
import { delay, systemClock } from "@fairlead/base/clock.ts";
import { start } from "@fairlead/base/exec.ts";
import { renderTable } from "@fairlead/fleet/cli/table.ts";
import { NAMESPACES, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import {
  ENDPOINT_SLICES,
  type EndpointSlice,
  SERVICE_NAME_LABEL,
} from "@fairlead/kube/api/discovery/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { nodeNetns } from "@fairlead/lab/places.ts";
import { inNetns } from "@fairlead/os/netns/netns.ts";
import { type BenchLab, quantile, startBenchLab } from "../lab/lab.ts";

const [EXPORTER, IMPORTER] = ["member-1", "member-2"];
const KEY = objectKey("bench", "global");
const ADDRESS = "172.21.0.1";
const ROUNDS = 25;
const SEEN_TIMEOUT_MS = 10_000;

/** What a round changes, and the last of these what it ends with. */
const CHANGES = [
  ["annotation set", { "service.cilium.io/global": "true", "service.cilium.io/shared": null }, true],
  ["shared=false", { "service.cilium.io/shared": "false" }, false],
] as const;

type MeasureHop = (client: KubeClient, signal: AbortSignal) => Promise<number>;

export async function measureGlobal(measureHop: MeasureHop): Promise<void> {
  await using lab = await startBenchLab("global", { members: 2, nodes: 1 });
  const hopMs = await measureHop(await lab.client("hub"), AbortSignal.timeout(60_000));
  const [exporter, importer] = [await lab.client(EXPORTER ?? ""), await lab.client(IMPORTER ?? "")];
  for (const client of [exporter, importer]) {
    await client.create(NAMESPACES, { metadata: { name: "bench" } });
    const annotations = client === importer ? { "service.cilium.io/global": "true" } : {};
    const ports = [{ name: "http", port: 80, targetPort: 8080 }];
    await client.create(SERVICES, {
      metadata: { namespace: "bench", name: "global", annotations },
      spec: { ports },
    });
  }
  await exporter.create(ENDPOINT_SLICES, slice());
  const stop = new AbortController();
  const slices = createInformer(importer, ENDPOINT_SLICES, { namespace: "bench" }, systemDeps(silentLogger));
  slices.start(stop.signal);
  const { spec } = await importer.get(SERVICES, KEY);
  const watch = watchKernel(lab, spec?.clusterIP ?? "");
  const rows = new Map<string, { slice: number[]; kernel: number[] }>();
  // The first round is not counted: the watch of the kernel has to be there.
  for (let round = -1; round < ROUNDS; round += 1)
    for (const [what, annotations, isThere] of CHANGES) {
      const inSlice = Promise.withResolvers<number>();
      using _subscription = slices.subscribe(() => {
        if (hasAddress(slices.store.list()) === isThere) inSlice.resolve(systemClock.monotonic());
      });
      const inKernel = watch.until(isThere);
      const askedMs = systemClock.monotonic();
      await exporter.mergePatch(SERVICES, KEY, { metadata: { annotations } });
      const late = delay(systemClock, SEEN_TIMEOUT_MS, stop.signal).catch(() => {});
      const seen = await Promise.race([Promise.all([inSlice.promise, inKernel]), late]);
      const row = rows.get(what) ?? { slice: [], kernel: [] };
      rows.set(what, row);
      if (seen === undefined) console.log(`  ${what}: not seen within ${SEEN_TIMEOUT_MS / 1000} s`);
      else if (round >= 0) {
        row.slice.push(seen[0] - askedMs);
        row.kernel.push(seen[1] - askedMs);
      }
      await delay(systemClock, 100, stop.signal);
    }
  stop.abort();
  watch.stop();
  await slices[Symbol.asyncDispose]();
  print(rows, hopMs);
}

function slice(): EndpointSlice {
  return {
    metadata: { namespace: "bench", name: "global-1", labels: { [SERVICE_NAME_LABEL]: "global" } },
    addressType: "IPv4",
    ports: [{ name: "http", port: 8080, protocol: "TCP" }],
    endpoints: [{ addresses: [ADDRESS], conditions: { ready: true, serving: true, terminating: false } }],
  };
}

/** In a slice of the Service itself. */
function hasAddress(slices: Iterable<EndpointSlice>): boolean {
  return [...slices].some(
    ({ metadata, endpoints }) =>
      metadata.labels?.[SERVICE_NAME_LABEL] === "global" &&
      endpoints.some((it) => it.addresses.includes(ADDRESS)),
  );
}

/** The elements of the Service's address in the importer's map of endpoints, as the kernel reports them. */
function watchKernel(
  lab: BenchLab,
  clusterIP: string,
): { until: (isThere: boolean) => Promise<number>; stop: () => void } {
  const node = lab.topology.clusters.find((it) => it.name === IMPORTER)?.nodes[0];
  if (node === undefined) throw new Error(`${IMPORTER} has no node`);
  const line = inNetns(lab.layout.netnsOf(nodeNetns(node)), "nft", ["monitor", "elements"]);
  const child = start(line.command, line.args, { stdio: ["ignore", "pipe", "ignore"] });
  let said = "";
  let awaited: { readonly isThere: boolean; readonly seen: (atMs: number) => void } | undefined;
  child.stdout?.on("data", (chunk: Buffer) => {
    said += chunk.toString("utf8");
    const word = awaited?.isThere === true ? "create" : "delete";
    const [address, endpoint] = [clusterIP, ADDRESS].map((it) => it.replaceAll(".", "\\."));
    const element = new RegExp(
      `${word} element [^{}]*endpoints-4 {[^{}]* ${address} [^{}]* ${endpoint} \\. 8080\\b`,
    );
    if (element.test(said)) awaited?.seen(systemClock.monotonic());
  });
  return {
    until(isThere) {
      said = "";
      const seen = Promise.withResolvers<number>();
      awaited = { isThere, seen: seen.resolve };
      return seen.promise;
    },
    stop: () => void child.kill("SIGKILL"),
  };
}

function print(rows: ReadonlyMap<string, { slice: number[]; kernel: number[] }>, hopMs: number): void {
  const text = (all: readonly number[], share: number): string => quantile(all, share).toFixed(1);
  const heads = ["GLOBAL SERVICE", "CHANGES", "SLICE P50 MS", "P99", "KERNEL P50 MS", "P99", "SLICE P50/HOP"];
  console.log(
    `${renderTable(
      heads.map((head, at) => ({ head, cell: (row: readonly string[]) => row[at] ?? "" })),
      [...rows].map(([what, all]) => [
        what,
        String(all.slice.length),
        text(all.slice, 0.5),
        text(all.slice, 0.99),
        text(all.kernel, 0.5),
        text(all.kernel, 0.99),
        (quantile(all.slice, 0.5) / hopMs).toFixed(1),
      ]),
    )}\n`,
  );
}
