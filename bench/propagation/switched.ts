/**
 * The endpoint of an exported service is switched between two pods, one switch after the other: after how long has the kernel map of
 * the importer it? In a flat network that is the map of the importer's node, in a parallel one that of virtual IPs in `fleet`. Both labs
 * are up at the same time and are measured in turns, so that what else the machine does is in both.
 */
import { join } from "node:path";
import { delay, systemClock } from "@fairlead/base/clock.ts";
import { ADDRESS_BLOCKS } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/mesh.ts";
import { MCS_SERVICE_EXPORTS } from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import { FLEET_SYSTEM_NAMESPACE } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import { renderTable } from "@fairlead/fleet/cli/table.ts";
import { ATTACH_LABEL } from "@fairlead/fleet/dataplane/pod-attachment/selection.ts";
import { NAMESPACES, PODS, type Pod, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import {
  ENDPOINT_SLICES,
  type EndpointSlice,
  SERVICE_NAME_LABEL,
} from "@fairlead/kube/api/discovery/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { nodeNetns } from "@fairlead/lab/places.ts";
import { watchKernelMap } from "../../scripts/demo/latency.ts";
import { applyObjects } from "../../test/support/lab-actions.ts";
import { shellPod } from "../../test/support/lab-manifests.ts";
import { until } from "../../test/support/waiting.ts";
import { type BenchLab, quantile, startBenchLab } from "../lab/lab.ts";

const [EXPORTER, IMPORTER] = ["member-1", "member-2"];
const NAMESPACE = "bench";
const SERVICE = "switched";
const SWITCHES = 40;
const REST_MS = 50;
const SEEN_TIMEOUT_MS = 10_000;

type Mode = "flat" | "parallel";

/** A pod of the exporter, and the address that importers have for it. */
interface Target {
  readonly pod: Pod;
  readonly address: string;
}

interface Side {
  readonly mode: Mode;
  readonly exporter: KubeClient;
  /** The network namespace of the importer whose map is watched. */
  readonly netns: string;
  readonly targets: readonly Target[];
}

export async function measureSwitched(rounds: number): Promise<void> {
  await using flat = await startBenchLab("switched", { members: 2, nodes: 1 });
  await using nat = await startBenchLab("switched-nat", { members: 2, nodes: 1, topology: "nat" });
  const sides = [await prepare("flat", flat), await prepare("parallel", nat)];
  const latencies = new Map<Mode, number[][]>(sides.map(({ mode }) => [mode, []]));
  for (let round = 0; round < rounds; round += 1)
    for (const side of sides) latencies.get(side.mode)?.push(await measureRound(side));
  print(latencies);
}

async function prepare(mode: Mode, lab: BenchLab): Promise<Side> {
  const [exporter, importer] = [await lab.client(EXPORTER ?? ""), await lab.client(IMPORTER ?? "")];
  const node = lab.topology.clusters.find((it) => it.name === IMPORTER)?.nodes[0];
  if (node === undefined) throw new Error(`${IMPORTER} has no node`);
  for (const client of [exporter, importer])
    await client.create(NAMESPACES, { metadata: { name: NAMESPACE } });
  const pods = ["one", "two"].map((name) => shellPod({ namespace: NAMESPACE, name }));
  await applyObjects(exporter, pods.map(attached));
  const targets = await Promise.all(["one", "two"].map((name) => targetOf(exporter, name, mode)));
  const metadata = { name: SERVICE, namespace: NAMESPACE };
  await exporter.create(SERVICES, {
    metadata,
    spec: { ports: [{ name: "http", port: 80, targetPort: 8080 }] },
  });
  const [first] = targets;
  if (first === undefined) throw new Error("there is no pod");
  await exporter.create(ENDPOINT_SLICES, sliceOf(first));
  await exporter.create(MCS_SERVICE_EXPORTS, { metadata });
  const netns =
    mode === "flat" ? lab.layout.netnsOf(nodeNetns(node)) : join(lab.layout.node(node.name), "node", "fleet");
  return { mode, exporter, netns, targets };
}

function attached(pod: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const metadata = pod["metadata"] as { readonly labels: object };
  return { ...pod, metadata: { ...metadata, labels: { ...metadata.labels, [ATTACH_LABEL]: "true" } } };
}

/** Once the pod has its addresses. */
async function targetOf(client: KubeClient, name: string, mode: Mode): Promise<Target> {
  const found = await until(
    `addresses of the pod ${name}`,
    async () => {
      const pod = await client.get(PODS, objectKey(NAMESPACE, name));
      const own = pod.status?.podIP;
      if (mode === "flat" || own === undefined) return { pod, address: own };
      const blocks = await client.list(ADDRESS_BLOCKS, { namespace: FLEET_SYSTEM_NAMESPACE });
      const allocations = blocks.items.flatMap((it) => it.status?.allocations ?? []);
      return { pod, address: allocations.find((it) => it.podUID === pod.metadata.uid)?.ipv4 };
    },
    ({ address }) => address !== undefined,
    { timeoutMs: 60_000 },
  );
  return { pod: found.pod, address: found.address ?? "" };
}

function sliceOf({ pod }: Target): EndpointSlice {
  const { name, namespace = "", uid = "" } = pod.metadata;
  return {
    metadata: {
      name: `${SERVICE}-1`,
      namespace: NAMESPACE,
      labels: { [SERVICE_NAME_LABEL]: SERVICE },
    },
    addressType: "IPv4",
    ports: [{ name: "http", port: 8080, protocol: "TCP" }],
    endpoints: [
      {
        addresses: [pod.status?.podIP ?? ""],
        conditions: { ready: true, serving: true, terminating: false },
        targetRef: { kind: "Pod", namespace, name, uid },
      },
    ],
  };
}

/** Milliseconds from before the write in the exporter until the kernel of the importer reports the address, for each switch. */
async function measureRound({ exporter, netns, targets }: Side): Promise<number[]> {
  let awaited: { readonly address: RegExp; readonly seen: (atMs: number) => void } | undefined;
  // Events come in pieces.
  let said = "";
  using _watch = await watchKernelMap(
    netns,
    (text) => {
      said += text;
      if (awaited?.address.test(said) === true) awaited.seen(systemClock.monotonic());
      return false;
    },
    systemClock,
  );
  const latencies: number[] = [];
  // The first switches show that the watch and the service are there; they are not counted.
  for (let at = -2; at < SWITCHES; at += 1) {
    const target = targets[Math.abs(at + 1) % 2];
    if (target === undefined) throw new Error("there is no second pod");
    const seen = Promise.withResolvers<number>();
    said = "";
    awaited = { address: endpointOf(target), seen: seen.resolve };
    const askedMs = systemClock.monotonic();
    const patch = { endpoints: sliceOf(target).endpoints };
    await exporter.mergePatch(ENDPOINT_SLICES, objectKey(NAMESPACE, `${SERVICE}-1`), patch);
    const late = delay(systemClock, SEEN_TIMEOUT_MS, new AbortController().signal);
    const seenMs = await Promise.race([seen.promise, late]);
    if (seenMs !== undefined && at >= 0) latencies.push(seenMs - askedMs);
    else if (at >= 0) console.log(`  a switch was not seen within ${SEEN_TIMEOUT_MS / 1000} s`);
    await delay(systemClock, REST_MS, new AbortController().signal);
  }
  return latencies;
}

/** The event of an element of the map of endpoints that leads to the pod, as `nft monitor` prints it. */
function endpointOf({ address }: Target): RegExp {
  return new RegExp(`endpoints-4\\s[^}]* ${address.replaceAll(".", "\\.")} \\. 8080\\b`);
}

function print(latencies: ReadonlyMap<Mode, readonly (readonly number[])[]>): void {
  const flat = quantile(latencies.get("flat")?.flat() ?? [], 0.5);
  const rows = [...latencies].map(([mode, rounds]) => {
    const medians = rounds.map((it) => quantile(it, 0.5)).toSorted((a, b) => a - b);
    const all = rounds.flat();
    const range = [medians[0], medians.at(-1)].map((it) => it?.toFixed(1)).join(" to ");
    const text = (share: number): string => quantile(all, share).toFixed(1);
    return [mode, String(all.length), text(0.5), range, text(0.99), (quantile(all, 0.5) / flat).toFixed(2)];
  });
  const heads = ["SWITCHED ENDPOINT", "SWITCHES", "P50 MS", "P50 OF ROUNDS", "P99 MS", "P50/FLAT"];
  console.log(
    `${renderTable(
      heads.map((head, at) => ({ head, cell: (row: readonly string[]) => row[at] ?? "" })),
      rows,
    )}\n`,
  );
}
