/**
 * Claims: a node has a changed label of a pod in the sets of its kernel in milliseconds, however many policies and pods there are, and keeps
 * less than 1 kB for each pod of another cluster.
 *
 * 1,000 policies in one of 10 clusters with 10,000 pods, as one of the cluster's nodes sees them: with 30 pods of its own, and with all 1,000
 * of the cluster. The limit taken in the same run is to compile everything again, which is what a program without an index does. Memory is
 * compared with the same pods as JSON.
 *
 *   npm run bench -- policy [--policies 1000] [--pods 10000] [--clusters 10] [--changes 2000]
 */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { renderTable } from "@fairlead/fleet/cli/table.ts";
import { PolicyDraft } from "@fairlead/fleet/dataplane/policy/policy-draft.ts";
import { PolicyTable } from "@fairlead/fleet/dataplane/policy/policy-table.ts";
import { compileNetworkPolicy } from "@fairlead/fleet/policy/compile/network-policy.ts";
import type { CompiledPolicy, PolicyPod } from "@fairlead/fleet/policy/model.ts";
import { Resolver } from "@fairlead/fleet/policy/resolver/resolver.ts";
import { createNetns, deleteNetns } from "@fairlead/os/netns/netns.ts";
import { createNft } from "@fairlead/os/nft/netlink/driver.ts";

interface Size {
  readonly policies: number;
  readonly pods: number;
  readonly clusters: number;
  readonly changes: number;
}

const OWN = "cluster-0";
const NODE = "node-0";
const NODES_PER_CLUSTER = 33;
/** Pods of a workload have the same labels. */
const PODS_PER_WORKLOAD = 10;
const WORKLOADS_PER_NAMESPACE = 5;
const KERNEL_CHANGES = 200;
const CLUSTER_LABEL = "io.cilium.k8s.policy.cluster";

export async function run(argv: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      policies: { type: "string", default: "1000" },
      pods: { type: "string", default: "10000" },
      clusters: { type: "string", default: "10" },
      changes: { type: "string", default: "2000" },
    },
  });
  const size: Size = {
    policies: Number(values.policies),
    pods: Number(values.pods),
    clusters: Number(values.clusters),
    changes: Number(values.changes),
  };
  const rows = [await measure(size, NODE), await measure(size, undefined)];
  const columns = Object.keys(rows[0] ?? {}).map((head) => ({
    head: head.toUpperCase(),
    cell: (row: Readonly<Record<string, string>>) => row[head] ?? "",
  }));
  console.log(renderTable(columns, rows));
}

async function measure(size: Size, node: string | undefined): Promise<Readonly<Record<string, string>>> {
  const compileMs = timed(() => void policiesOf(size));
  const policies = policiesOf(size);
  const pods = Array.from({ length: size.pods }, (_, index) => podAt(index, size));
  const firstMs = timed(() => void filled(size, policies, pods, node).take());
  const { resolver, bytes } = memoryOf(size, policies, node);
  const steps = changes(resolver, pods, size);
  const again = Array.from({ length: 5 }, () => timed(() => void filled(size, policies, pods, node).take()));
  const p50 = quantile(steps, 0.5);
  const kernel = await kernelChanges(filled(size, policies, pods, node), pods);
  return {
    "local pods": String(
      pods.filter((it) => it.cluster === OWN && (node === undefined || it.node === node)).length,
    ),
    "policies compiled": `${compileMs.toFixed(0)} ms`,
    "first result": `${firstMs.toFixed(0)} ms`,
    "change p50": `${p50.toFixed(3)} ms`,
    "change p99": `${quantile(steps, 0.99).toFixed(3)} ms`,
    "in the kernel p50": `${quantile(kernel, 0.5).toFixed(2)} ms`,
    "in the kernel p99": `${quantile(kernel, 0.99).toFixed(2)} ms`,
    "all again / change": (quantile(again, 0.5) / p50).toFixed(0),
    "bytes a remote pod": bytes.toFixed(0),
    "json of it": String(jsonOf(pods.at(-1)).length),
  };
}

function jsonOf(pod: PolicyPod | undefined): string {
  return JSON.stringify(pod, (_, it: unknown) => (typeof it === "bigint" ? it.toString(16) : it));
}

/** Changes a label that policies select by, of one pod after the other. */
function changes(resolver: Resolver, pods: readonly PolicyPod[], size: Size): readonly number[] {
  return Array.from({ length: size.changes }, (_, step) => {
    const pod = pods[(step * 7919) % pods.length];
    if (pod === undefined) return 0;
    const app = `app-${(step * 31) % WORKLOADS_PER_NAMESPACE}`;
    return timed(() => {
      resolver.upsertPod({ ...pod, labels: { ...pod.labels, app } });
      resolver.take();
    });
  });
}

/** Until the sets of nftables are written. Only changes that concern a set of the node count. */
async function kernelChanges(resolver: Resolver, pods: readonly PolicyPod[]): Promise<readonly number[]> {
  const folder = mkdtempSync(join(tmpdir(), "fairlead-bench-"));
  const netns = join(folder, "node");
  const signal = AbortSignal.timeout(300_000);
  await createNetns(netns, signal);
  try {
    using nft = createNft({ netns });
    const [table, draft] = [new PolicyTable(nft, () => {}), new PolicyDraft()];
    const sync = (): Promise<boolean> =>
      table.sync({ ...draft.table.takeChanges(), whole: draft.table.whole }, signal);
    draft.apply(resolver.take());
    await sync();
    const times: number[] = [];
    for (let step = 0; times.length < KERNEL_CHANGES && step < 50 * KERNEL_CHANGES; step++) {
      const pod = pods[(step * 7919) % pods.length];
      if (pod === undefined) continue;
      const start = process.hrtime.bigint();
      resolver.upsertPod({
        ...pod,
        labels: { ...pod.labels, app: `app-${(step * 31) % WORKLOADS_PER_NAMESPACE}` },
      });
      draft.apply(resolver.take());
      if (await sync()) times.push(Number(process.hrtime.bigint() - start) / 1e6);
    }
    return times;
  } finally {
    await deleteNetns(netns, signal);
    rmSync(folder, { recursive: true, force: true });
  }
}

function filled(
  { clusters, pods: count }: Size,
  policies: readonly CompiledPolicy[],
  pods: readonly PolicyPod[],
  node: string | undefined,
): Resolver {
  const resolver = new Resolver({ cluster: OWN, ...(node === undefined ? {} : { node }) });
  const namespaces = count / clusters / PODS_PER_WORKLOAD / WORKLOADS_PER_NAMESPACE;
  for (let cluster = 0; cluster < clusters; cluster++)
    for (let index = 0; index < namespaces; index++)
      resolver.upsertNamespace({
        cluster: `cluster-${cluster}`,
        name: `team-${index}`,
        labels: { team: `${index}` },
      });
  for (const it of policies) resolver.upsertPolicy(it);
  for (const it of pods) resolver.upsertPod(it);
  return resolver;
}

function memoryOf(size: Size, policies: readonly CompiledPolicy[], node: string | undefined) {
  const own = Array.from({ length: size.pods }, (_, index) => index).filter(
    (it) => podAt(it, size).cluster === OWN,
  );
  const remote = Array.from({ length: size.pods }, (_, index) => index).filter(
    (it) => podAt(it, size).cluster !== OWN,
  );
  const resolver = filled(
    size,
    policies,
    own.map((it) => podAt(it, size)),
    node,
  );
  resolver.take();
  const before = heapUsed();
  for (const it of remote) resolver.upsertPod(podAt(it, size));
  resolver.take();
  return { resolver, bytes: (heapUsed() - before) / remote.length };
}

function heapUsed(): number {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  for (let round = 0; round < 3; round++) collect();
  return process.memoryUsage().heapUsed;
}

/** As an informer would give it: every text is a string of its own. */
function podAt(index: number, { clusters, pods }: Size): PolicyPod {
  const cluster = index % clusters;
  const inCluster = Math.floor(index / clusters);
  const workload = Math.floor(inCluster / PODS_PER_WORKLOAD);
  const namespace = Math.floor(workload / WORKLOADS_PER_NAMESPACE);
  const text = JSON.stringify({
    cluster: `cluster-${cluster}`,
    namespace: `team-${namespace}`,
    name: `app-${workload}-7d9c5b8f6d-${inCluster}`,
    labels: {
      app: `app-${workload % WORKLOADS_PER_NAMESPACE}`,
      version: "v1",
      "pod-template-hash": "7d9c5b8f6d",
    },
    serviceAccount: "default",
    ports: [{ name: "http", protocol: "TCP", port: 8080 }],
    node: `node-${inCluster % NODES_PER_CLUSTER}`,
  });
  const v4 = 0x0a_00_00_00 + cluster * 0x01_00_00 + inCluster;
  const v6 = (0xfd00n << 112n) + (BigInt(cluster) << 64n) + BigInt(inCluster + pods);
  return { ...(JSON.parse(text) as PolicyPod), addresses: [v4, v6] };
}

/** For one workload each, from another workload of the same or another namespace, in one cluster or all. */
function policiesOf({ policies, pods, clusters }: Size): readonly CompiledPolicy[] {
  const namespaces = Math.max(1, pods / clusters / PODS_PER_WORKLOAD / WORKLOADS_PER_NAMESPACE);
  return Array.from({ length: policies }, (_, index) => {
    const matchLabels = { app: `app-${(index + 1) % WORKLOADS_PER_NAMESPACE}` };
    const cluster = { matchExpressions: [{ key: CLUSTER_LABEL, operator: "Exists" as const }] };
    const from = [
      { podSelector: { matchLabels, ...(index % 2 === 0 ? cluster : {}) } },
      {
        namespaceSelector: { matchLabels: { team: `${(index * 7) % namespaces}` } },
        podSelector: { matchLabels, ...cluster },
      },
    ];
    const spec = {
      podSelector: { matchLabels: { app: `app-${index % WORKLOADS_PER_NAMESPACE}` } },
      ingress: [{ from, ports: [{ port: 8000 + (index % 100) }] }],
    };
    const metadata = { name: `policy-${index}`, namespace: `team-${index % namespaces}` };
    return compileNetworkPolicy({ metadata, spec }, { cluster: OWN, isLocalByDefault: true }).policies;
  }).flat();
}

function timed(run_: () => void): number {
  const start = process.hrtime.bigint();
  run_();
  return Number(process.hrtime.bigint() - start) / 1e6;
}

function quantile(values: readonly number[], at: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * at))] ?? 0;
}
