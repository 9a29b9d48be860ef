/**
 * The labels of a pod in a change: after how long does the importer have the copy that its nodes read, and what does that weigh on the
 * wire? All programs run in this process. Then what many pods take: objects, bytes and memory.
 */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { delay, systemClock } from "@fairlead/base/clock.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { VIEW_NAMESPACE } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import { IDENTITY_SLICES, type IdentitySlice } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/identities.ts";
import { FLEET_SYSTEM_NAMESPACE } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import { PODS_PER_SLICE } from "@fairlead/fleet/member/identities/groups.ts";
import { renderTable } from "@fairlead/fleet/cli/table.ts";
import { CONFIG_MAPS, PODS } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { type ByteRelay, startByteRelay } from "../../test/support/byte-relay.ts";
import { startFleet, type TestFleet } from "../../test/support/fleet.ts";
import { addNode } from "../../test/support/mesh.ts";
import { admit, runPod } from "../../test/support/pods.ts";
import { eventually } from "../../test/support/waiting.ts";
import { quantile } from "../lab/lab.ts";

const NAMESPACE = "shop";
const CHANGES = 200;
/** As in a cluster: workloads of this many pods. */
const PODS_PER_WORKLOAD = 10;
const WORKLOADS = 300;
const SIZES = [1, 4, 8, 16, 32, 64];

export async function measureIdentities(): Promise<void> {
  await using stack = new AsyncDisposableStack();
  let relay: ByteRelay | undefined;
  const hubServerOf = async (member: string, port: number): Promise<string | undefined> => {
    if (member !== "b") return undefined;
    relay = stack.use(await startByteRelay(port));
    return `https://127.0.0.1:${relay.port}`;
  };
  const fleet = stack.use(await startFleet({ members: ["a", "b"], hubServerOf }));
  const [a, b] = [fleet.client("a"), fleet.client("b")];
  await addNode(a, "n1", { address: "192.168.0.1", podCIDR: "10.0.0.0/12" });
  await admit(b, "all-of-a", { namespace: NAMESPACE, labels: { "io.cilium.k8s.policy.cluster": "a" } });
  for (let at = 0; at < PODS_PER_WORKLOAD; at += 1) await runPod(a, `w-${at}`, podOf(0, at));
  await eventually(b, IDENTITY_SLICES, (all) => count(all) === PODS_PER_WORKLOAD, IN_SYSTEM);
  const hop = await measureHop(b);
  await measureChanges(fleet, hop, () => relay?.watched() ?? (() => 0));
  await measureMany(fleet);
}

const IN_SYSTEM = { namespace: FLEET_SYSTEM_NAMESPACE, timeoutMs: 120_000 };

function podOf(workload: number, at: number) {
  const number = workload * PODS_PER_WORKLOAD + at;
  return {
    namespace: NAMESPACE,
    labels: {
      "app.kubernetes.io/name": `service-${workload}`,
      "app.kubernetes.io/instance": `release-${workload}`,
      "pod-template-hash": "6d4b75cb6d",
    },
    address: `10.${1 + Math.floor(number / 60_000)}.${Math.floor(number / 250) % 250}.${(number % 250) + 1}`,
  };
}

function count(slices: readonly IdentitySlice[]): number {
  return slices.reduce((sum, { spec }) => sum + (spec.pods?.length ?? 0), 0);
}

/** From a write to the importer's API server until a watch of it delivers the change. Unit: milliseconds. */
async function measureHop(client: KubeClient): Promise<readonly number[]> {
  const times: number[] = [];
  await using informer = createInformer(client, CONFIG_MAPS, { namespace: NAMESPACE }, deps);
  informer.start(AbortSignal.timeout(60_000));
  await informer.synced(AbortSignal.timeout(60_000));
  for (let at = 0; at < CHANGES; at += 1) {
    const seen = Promise.withResolvers<void>();
    using _watch = informer.subscribe(({ after }) => {
      if (after?.data?.["at"] === String(at)) seen.resolve();
    });
    const startMs = systemClock.monotonic();
    const metadata = { namespace: NAMESPACE, name: "hop" };
    await client.apply(CONFIG_MAPS, { metadata, data: { at: String(at) } }, { fieldManager: "bench" });
    await seen.promise;
    times.push(systemClock.monotonic() - startMs);
  }
  return times;
}

const deps = systemDeps(silentLogger);

/** One label of one pod changes at a time: the pod moves to a slice of its own and back. */
async function measureChanges(
  fleet: TestFleet,
  hop: readonly number[],
  watched: () => () => number,
): Promise<void> {
  const [a, b] = [fleet.client("a"), fleet.client("b")];
  await using copies = createInformer(b, IDENTITY_SLICES, { namespace: FLEET_SYSTEM_NAMESPACE }, deps);
  copies.start(AbortSignal.timeout(300_000));
  await copies.synced(AbortSignal.timeout(60_000));
  const times: number[] = [];
  const ofLabels = watched();
  for (let at = 0; at < CHANGES; at += 1) {
    const version = String(at);
    const seen = Promise.withResolvers<void>();
    using _watch = copies.subscribe(({ after }) => {
      if (after?.spec.labels?.["version"] === version) seen.resolve();
    });
    const startMs = systemClock.monotonic();
    await a.mergePatch(PODS, objectKey(NAMESPACE, "w-0"), { metadata: { labels: { version } } });
    await seen.promise;
    times.push(systemClock.monotonic() - startMs);
    await delay(systemClock, 20, new AbortController().signal);
  }
  const bytesOfLabels = ofLabels();
  const ofPods = watched();
  for (let at = 0; at < CHANGES; at += 1)
    await runPod(a, `more-${at}-6d4b75cb6d-x2x9k`, podOf(WORKLOADS, at));
  await eventually(b, IDENTITY_SLICES, (all) => count(all) === PODS_PER_WORKLOAD + CHANGES, IN_SYSTEM);
  const bytesOfPods = ofPods();
  const of = (all: readonly number[]): string =>
    [0.5, 0.99].map((it) => quantile(all, it).toFixed(1)).join(" / ");
  print(
    ["IDENTITY", "P50 / P99 MS", "HOPS", "BYTES TO A MEMBER: NEW LABELS", "A NEW POD"],
    [
      [
        "label of a pod, to the copy for nodes",
        of(times),
        (quantile(times, 0.5) / quantile(hop, 0.5)).toFixed(1),
        (bytesOfLabels / CHANGES).toFixed(0),
        (bytesOfPods / CHANGES).toFixed(0),
      ],
    ],
  );
}

/** Workloads of one size, as the API server of the hub lists them, and what an informer of a node keeps of them. */
async function measureMany(fleet: TestFleet): Promise<void> {
  const [a, b, hub] = [fleet.client("a"), fleet.client("b"), fleet.client("hub")];
  const startMs = systemClock.monotonic();
  for (let workload = 1; workload < WORKLOADS; workload += 1)
    await Promise.all(
      Array.from({ length: PODS_PER_WORKLOAD }, (_, at) =>
        runPod(a, `w-${workload}-${at}`, podOf(workload, at)),
      ),
    );
  const pods = WORKLOADS * PODS_PER_WORKLOAD + CHANGES;
  await eventually(b, IDENTITY_SLICES, (all) => count(all) === pods, IN_SYSTEM);
  const seconds = (systemClock.monotonic() - startMs) / 1000;
  const { items } = await hub.list(IDENTITY_SLICES, { namespace: VIEW_NAMESPACE });
  const memory = memoryOf((await b.list(IDENTITY_SLICES, { namespace: FLEET_SYSTEM_NAMESPACE })).items);
  print(
    ["PODS", "PER WORKLOAD", "CREATED AND KNOWN IN S", "OBJECTS", "BYTES OF THE LIST/POD", "MEMORY/POD"],
    [
      [
        String(pods),
        String(PODS_PER_WORKLOAD),
        seconds.toFixed(0),
        String(items.length),
        (JSON.stringify(items).length / pods).toFixed(0),
        `${(memory / pods).toFixed(0)} B`,
      ],
    ],
  );
  printSizes(items.filter((it) => it.spec.type === "Pods"));
}

/** What slices of other sizes would weigh, from the weights of these. */
function printSizes(slices: readonly IdentitySlice[]): void {
  const bytesOfPods = slices.reduce((sum, it) => sum + JSON.stringify(it.spec.pods).length, 0);
  const perPod = bytesOfPods / count(slices);
  const perSlice = slices.reduce((sum, it) => sum + JSON.stringify(it).length, 0) / slices.length;
  const frame = perSlice - bytesOfPods / slices.length;
  const rows = [10, 100].flatMap((pods) =>
    SIZES.map((size) => {
      const objects = Math.ceil(pods / size);
      return [
        String(pods),
        `${size}${size === PODS_PER_SLICE ? " (in use)" : ""}`,
        (objects / pods).toFixed(2),
        ((objects * frame) / pods + perPod).toFixed(0),
        (frame + perPod * Math.min(size, pods)).toFixed(0),
      ];
    }),
  );
  print(
    ["PODS OF A WORKLOAD", "PODS IN A SLICE", "OBJECTS/POD", "BYTES OF THE LIST/POD", "BYTES OF A SLICE"],
    rows,
  );
}

/** What an informer keeps, many times over: one alone is less than what else changes. */
function memoryOf(items: readonly IdentitySlice[]): number {
  const text = JSON.stringify(
    items.map((it) => ({ ...it, metadata: { ...it.metadata, managedFields: [] } })),
  );
  const before = heap();
  const kept = Array.from({ length: COPIES }, () => JSON.parse(text) as unknown);
  return (heap() - before) / kept.length;
}

const COPIES = 50;

function heap(): number {
  setFlagsFromString("--expose-gc");
  (runInNewContext("gc") as () => void)();
  return process.memoryUsage().heapUsed;
}

function print(heads: readonly string[], rows: readonly string[][]): void {
  const columns = heads.map((head, at) => ({ head, cell: (row: string[]) => row[at] ?? "" }));
  console.log(`${renderTable(columns, rows)}\n`);
}
