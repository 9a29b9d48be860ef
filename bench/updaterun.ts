/**
 * Staged update runs: one over many clusters in 3 stages with 50 % at a time, and many at once. Members are mailboxes that answer each
 * Work at once, so that what is measured is the hub: its controllers and its API server are separate programs.
 *
 * Compared with a placement that rolls the same change out to the same clusters all at once, by maxUnavailable 100 %.
 *
 *   npm run bench -- updaterun [--clusters 100] [--runs 100] [--repeat 5]
 */
import { parseArgs } from "node:util";
import { HUB_CRDS } from "@fairlead/fleet/api/crds.ts";
import {
  CLUSTER_RESOURCE_BINDINGS,
  CLUSTER_RESOURCE_PLACEMENTS,
  CLUSTER_RESOURCE_SNAPSHOTS,
  type RolloutStrategy,
} from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import {
  CLUSTER_STAGED_UPDATE_RUNS,
  CLUSTER_STAGED_UPDATE_STRATEGIES,
  type StagedUpdateRun,
} from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/staged.ts";
import { WORKS } from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { renderTable } from "@fairlead/fleet/cli/table.ts";
import { systemClock } from "@fairlead/base/clock.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { inParallel } from "@fairlead/base/parallel.ts";
import { CONFIG_MAPS, NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import { installCrds } from "@fairlead/kube/definitions/crds.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { isConditionTrue } from "@fairlead/kube/objects/conditions.ts";
import type { Informer, KubeClient } from "@fairlead/kube/types.ts";
import { answerWorks, joinMailboxes, keepAlive } from "./fleet/mailboxes.ts";
import { startApi, startProgram, type Usage, usageOfAll } from "./fleet/programs.ts";
import { until } from "./fleet/until.ts";
import { quantile } from "./lab/lab.ts";
import { countWrites } from "./lab/writes.ts";

const AT_A_TIME = 16;
const deps = systemDeps(silentLogger);
/** Of the clusters, by stage. */
const STAGES = [
  ["canary", 0.1],
  ["some", 0.4],
  ["rest", 1],
] as const;
const KINDS = [
  CLUSTER_STAGED_UPDATE_RUNS,
  CLUSTER_RESOURCE_BINDINGS,
  CLUSTER_RESOURCE_PLACEMENTS,
  CLUSTER_RESOURCE_SNAPSHOTS,
  WORKS,
] as const;

interface World {
  readonly client: KubeClient;
  readonly pids: { readonly hub: readonly number[]; readonly api: readonly number[] };
  readonly clusters: number;
  readonly signal: AbortSignal;
}

interface Figures {
  readonly what: string;
  readonly tookMs: readonly number[];
  readonly writes: ReadonlyMap<string, number>;
  readonly hub: Usage;
  readonly api: Usage;
}

export async function run(argv: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      clusters: { type: "string", default: "100" },
      runs: { type: "string", default: "100" },
      repeat: { type: "string", default: "5" },
    },
  });
  const [clusters, runs, repeat] = [values.clusters, values.runs, values.repeat].map(Number);
  const signal = AbortSignal.timeout(3_600_000);
  await using api = await startApi("updaterun");
  const config = await loadKubeconfig(api.kubeconfig);
  await using client = connect(config, deps);
  await installCrds(client, { crds: HUB_CRDS, fieldManager: "bench" }, deps, signal);
  await using hub = await startProgram(["hub", "--kubeconfig", api.kubeconfig]);
  const world: World = { client, pids: { hub: [hub.pid], api: api.pids }, clusters: clusters ?? 0, signal };
  const members = membersOf(world.clusters);
  await joinMailboxes(client, members, signal);
  await using _beats = keepAlive(client, [...members.keys()]);
  await using _answers = await answerWorks(client, deps, signal);
  await client.create(CLUSTER_STAGED_UPDATE_STRATEGIES, {
    metadata: { name: "by-stage" },
    spec: {
      stages: STAGES.map(([name]) => ({
        name,
        labelSelector: { matchLabels: { stage: name } },
        maxConcurrency: "50%",
      })),
    },
  });
  print([
    await measureRollout(world, repeat ?? 1),
    await measureRuns(world, { runs: 1, repeat: repeat ?? 1 }),
    await measureRuns(world, { runs: runs ?? 1, repeat: 1 }),
  ]);
}

function membersOf(clusters: number): Map<string, Record<string, string>> {
  const width = String(clusters - 1).length;
  return new Map(
    Array.from({ length: clusters }, (_, at) => {
      const stage = STAGES.find(([, upTo]) => at < upTo * clusters)?.[0] ?? "";
      return [`c${String(at).padStart(width, "0")}`, { stage }];
    }),
  );
}

/** The same change by a rolling update that waits for nothing. */
async function measureRollout(world: World, repeat: number): Promise<Figures> {
  const { client, signal } = world;
  const rollingUpdate = { maxUnavailable: "100%", maxSurge: "100%" };
  await place(world, "rolling", { type: "RollingUpdate", rollingUpdate });
  await using placements = await follow(client, CLUSTER_RESOURCE_PLACEMENTS, signal);
  const isDone = (index: number) => (): boolean => {
    const status = placements.store.get(objectKey(undefined, "rolling"))?.status;
    return (
      status?.observedResourceIndex === String(index) &&
      isConditionTrue(status.conditions, "ClusterResourcePlacementAvailable")
    );
  };
  await until(isDone(0), signal);
  const tookMs: number[] = [];
  return await measured(world, "rolling update, all clusters at once", tookMs, async () => {
    for (let change = 1; change <= repeat; change += 1) {
      await edit(client, "rolling", change);
      // A placement gathers changes for 15 s: counted from its snapshot on.
      await until(async () => {
        const key = objectKey(undefined, `rolling-${change}-snapshot`);
        return (await client.find(CLUSTER_RESOURCE_SNAPSHOTS, key, { signal })) !== undefined;
      }, signal);
      const startedMs = systemClock.monotonic();
      await until(isDone(change), signal);
      tookMs.push(systemClock.monotonic() - startedMs);
    }
  });
}

async function measureRuns(
  world: World,
  { runs, repeat }: { runs: number; repeat: number },
): Promise<Figures> {
  const { client, signal } = world;
  const names = Array.from({ length: runs }, (_, at) => `staged-${runs}-${at}`);
  await inParallel(names, AT_A_TIME, (name) => place(world, name, { type: "External" }));
  await using followed = await follow(client, CLUSTER_STAGED_UPDATE_RUNS, signal);
  const tookMs: number[] = [];
  const what = runs === 1 ? "one staged run, 3 stages, 50 %" : `${runs} staged runs at once`;
  // The first run places everything; the others change it.
  await runAll(world, followed, names, 0);
  return await measured(world, what, tookMs, async () => {
    for (let change = 1; change <= repeat; change += 1) {
      await inParallel(names, AT_A_TIME, (name) => edit(client, name, change));
      const startedMs = systemClock.monotonic();
      await runAll(world, followed, names, change);
      tookMs.push(systemClock.monotonic() - startedMs);
    }
  });
}

/** Creates a run of each placement and waits until all have succeeded. */
async function runAll(
  { client, signal }: World,
  { store }: Informer<StagedUpdateRun>,
  placements: readonly string[],
  change: number,
): Promise<void> {
  const runOf = (placement: string): string => `${placement}-run${change}`;
  await inParallel(placements, AT_A_TIME, async (placementName) => {
    const metadata = { name: runOf(placementName) };
    const spec = { placementName, stagedRolloutStrategyName: "by-stage", state: "Run" as const };
    await client.create(CLUSTER_STAGED_UPDATE_RUNS, { metadata, spec }, { signal });
  });
  const hasSucceeded = (placement: string): boolean => {
    const conditions = store.get(objectKey(undefined, runOf(placement)))?.status?.conditions;
    const failed = conditions?.find((it) => it.status === "False" && it.reason.endsWith("Failed"));
    if (failed !== undefined) throw new Error(`${placement}: ${failed.message}`);
    return isConditionTrue(conditions, "Succeeded");
  };
  await until(() => placements.every(hasSucceeded), signal);
}

/** A namespace with a ConfigMap, placed on all clusters. */
async function place(
  { client, clusters, signal }: World,
  name: string,
  strategy: RolloutStrategy,
): Promise<void> {
  await client.create(NAMESPACES, { metadata: { name } }, { signal });
  await client.create(
    CONFIG_MAPS,
    { metadata: { namespace: name, name: "app" }, data: { change: "0" } },
    { signal },
  );
  const resourceSelectors = [{ group: "", version: "v1", kind: "Namespace", name }];
  await client.create(
    CLUSTER_RESOURCE_PLACEMENTS,
    { metadata: { name }, spec: { resourceSelectors, strategy } },
    { signal },
  );
  await until(async () => {
    const placement = await client.get(CLUSTER_RESOURCE_PLACEMENTS, objectKey(undefined, name), { signal });
    return (
      (placement.status?.placementStatuses ?? []).length === clusters &&
      isConditionTrue(placement.status?.conditions, "ClusterResourcePlacementScheduled")
    );
  }, signal);
}

async function edit(client: KubeClient, namespace: string, change: number): Promise<void> {
  await client.mergePatch(CONFIG_MAPS, objectKey(namespace, "app"), { data: { change: String(change) } });
}

async function follow<T extends { metadata: { name: string } }>(
  client: KubeClient,
  of: Resource<T>,
  signal: AbortSignal,
): Promise<Informer<T>> {
  const informer = createInformer(client, of, {}, deps);
  informer.start(signal);
  await informer.synced(signal);
  return informer;
}

async function measured(
  { client, pids, signal }: World,
  what: string,
  tookMs: readonly number[],
  work: () => Promise<void>,
): Promise<Figures> {
  await using writes = await countWrites(
    KINDS.map((it) => [client, it as Resource]),
    signal,
  );
  const [hub0, api0] = await Promise.all([usageOfAll(pids.hub), usageOfAll(pids.api)]);
  await work();
  const [hub, api] = await Promise.all([usageOfAll(pids.hub), usageOfAll(pids.api)]);
  return {
    what,
    tookMs,
    writes: new Map(writes.counts()),
    hub: { ...hub, cpuMs: hub.cpuMs - hub0.cpuMs },
    api: { ...api, cpuMs: api.cpuMs - api0.cpuMs },
  };
}

function print(rows: readonly Figures[]): void {
  const seconds = (ms: number): string => (ms / 1000).toFixed(2);
  const megabytes = ({ memory }: Usage): string => (memory / 2 ** 20).toFixed(0);
  console.log(
    renderTable<Figures>(
      [
        { head: "", cell: (it) => it.what },
        { head: "p50, s", cell: (it) => seconds(quantile(it.tookMs, 0.5)) },
        { head: "max, s", cell: (it) => seconds(Math.max(...it.tookMs)) },
        { head: "hub's CPU, s", cell: (it) => seconds(it.hub.cpuMs / it.tookMs.length) },
        { head: "API server's CPU, s", cell: (it) => seconds(it.api.cpuMs / it.tookMs.length) },
        { head: "hub, MB", cell: (it) => megabytes(it.hub) },
        { head: "API server, MB", cell: (it) => megabytes(it.api) },
      ],
      rows,
    ),
  );
  for (const { what, tookMs, writes } of rows)
    console.log(
      `${what}: writes ${[...writes].map(([kind, count]) => `${kind} ${(count / tookMs.length).toFixed(0)}`).join(", ")}`,
    );
}
