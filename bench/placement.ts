/**
 * Placements on a large fleet: how long one takes until it is available on many clusters, what many cost, and how long a hub that restarts
 * takes until it has caught up. Members are mailboxes that answer each Work at once, so that what is measured is the hub: its controllers
 * and its API server are separate programs.
 *
 * Compared with as many Works written to and watched from the API server by one client, in the same run.
 *
 *   npm run bench -- placement [--members 1000] [--clusters 100] [--placements 1000] [--repeat 20]
 */
import { parseArgs } from "node:util";
import { HUB_CRDS } from "@fairlead/fleet/api/crds.ts";
import { mailboxOf } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import {
  CLUSTER_RESOURCE_BINDINGS,
  CLUSTER_RESOURCE_PLACEMENTS,
  CLUSTER_RESOURCE_SNAPSHOTS,
  CLUSTER_SCHEDULING_POLICY_SNAPSHOTS,
} from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { WORKS } from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { delay, systemClock } from "@fairlead/base/clock.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { inParallel } from "@fairlead/base/parallel.ts";
import { CONFIG_MAPS } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import { installCrds } from "@fairlead/kube/definitions/crds.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { answerWorks, joinMailboxes, keepAlive } from "./fleet/mailboxes.ts";
import {
  peakMemory,
  type Program,
  shareOfCpu,
  startApi,
  startProgram,
  usageOfAll,
} from "./fleet/programs.ts";
import {
  isAvailable,
  membersOf,
  observedIndex,
  place,
  type Placing,
  stage,
  untilAvailable,
} from "./fleet/placements.ts";
import { until } from "./fleet/until.ts";
import { quantile } from "./lab/lab.ts";
import { countWrites } from "./lab/writes.ts";

const AT_A_TIME = 16;
/** Unit: milliseconds. */
const IDLE_MS = 60_000;
/** A hub that uses less of a processor has caught up: the heartbeats of 1,000 members cost about half of it. */
const IDLE_SHARE = 0.1;
const KINDS = [
  CLUSTER_RESOURCE_PLACEMENTS,
  CLUSTER_SCHEDULING_POLICY_SNAPSHOTS,
  CLUSTER_RESOURCE_SNAPSHOTS,
  CLUSTER_RESOURCE_BINDINGS,
  WORKS,
] as const;
const deps = systemDeps(silentLogger);

interface World extends Placing {
  readonly kubeconfig: string;
  readonly api: readonly number[];
}

export async function run(argv: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      members: { type: "string", default: "1000" },
      clusters: { type: "string", default: "100" },
      placements: { type: "string", default: "1000" },
      repeat: { type: "string", default: "20" },
    },
  });
  const signal = AbortSignal.timeout(3_600_000);
  const members = membersOf(Number(values.members), Number(values.clusters));
  const picked = [...members].flatMap(([name, labels]) => (labels["place"] === "here" ? [name] : []));
  await using api = await startApi("placement");
  await using client = connect(await loadKubeconfig(api.kubeconfig), deps);
  await installCrds(client, { crds: HUB_CRDS, fieldManager: "bench" }, deps, signal);
  let hub = await startHub(api.kubeconfig);
  try {
    await joinMailboxes(client, members, signal);
    await using _beats = keepAlive(client, [...members.keys()]);
    await using _answers = await answerWorks(client, deps, signal);
    await using placements = createInformer(client, CLUSTER_RESOURCE_PLACEMENTS, {}, deps);
    placements.start(signal);
    await placements.synced(signal);
    const world: World = { client, placements, kubeconfig: api.kubeconfig, api: api.pids, picked, signal };
    const rawMs = await measureRaw(world);
    await measureOne(world, hub, { repeat: Number(values.repeat), rawMs });
    // Of one alone, for small fleets.
    if (values.placements === "0") return;
    await measureMany(world, hub, Number(values.placements));
    hub = await measureRestart(world, hub);
  } finally {
    await hub.stop();
  }
}

function startHub(kubeconfig: string): Promise<Program> {
  return startProgram(["hub", "--kubeconfig", kubeconfig, "--no-leader-elect"]);
}

/** As many Works as one placement makes, created by one client until a watch has delivered all. */
async function measureRaw({ client, picked, signal }: World): Promise<number> {
  await using writes = await countWrites([[client, WORKS]], signal);
  const startedMs = systemClock.monotonic();
  const manifests = [{ apiVersion: "v1", kind: "Namespace", metadata: { name: "raw" } }];
  const spec = { workload: { manifests } };
  await inParallel(picked, AT_A_TIME, async (it) => {
    await client.create(WORKS, { metadata: { namespace: mailboxOf(it), name: "raw" }, spec }, { signal });
  });
  await until(() => (writes.counts().get("Work") ?? 0) >= picked.length, signal);
  const tookMs = systemClock.monotonic() - startedMs;
  await inParallel(picked, AT_A_TIME, (it) =>
    client.delete(WORKS, objectKey(mailboxOf(it), "raw"), { signal }),
  );
  console.log(`${picked.length} Works written and watched by one client: ${tookMs.toFixed(0)} ms`);
  return tookMs;
}

async function measureOne(
  world: World,
  hub: Program,
  { repeat, rawMs }: { readonly repeat: number; readonly rawMs: number },
): Promise<void> {
  await using writes = await countWrites(
    KINDS.map((it) => [world.client, it] as const),
    world.signal,
  );
  const before = await cpuOf(world, hub);
  const tookMs: number[] = [];
  for (let at = 0; at < repeat; at += 1) {
    await stage(world, `one-${at}`);
    const startedMs = systemClock.monotonic();
    await place(world, `one-${at}`);
    await untilAvailable(world, `one-${at}`);
    tookMs.push(systemClock.monotonic() - startedMs);
  }
  const after = await cpuOf(world, hub);
  const [p50, p90] = [quantile(tookMs, 0.5), quantile(tookMs, 0.9)];
  const clusters = world.picked.length;
  console.log(
    `one placement on ${clusters} clusters, until available: p50 ${p50.toFixed(0)} ms, p90 ${p90.toFixed(0)} ms, ` +
      `best ${Math.min(...tookMs).toFixed(0)} ms: ${(p50 / rawMs).toFixed(1)} times the Works alone; ` +
      `CPU: hub ${((after.hub - before.hub) / repeat).toFixed(0)} ms, API server ${((after.api - before.api) / repeat).toFixed(0)} ms`,
  );
  console.log(`  writes of each: ${perItem(writes.counts(), repeat)}`);
}

function perItem(counts: ReadonlyMap<string, number>, items: number): string {
  return [...counts].map(([kind, count]) => `${kind} ${(count / items).toFixed(1)}`).join(", ");
}

/** Unit: milliseconds. */
async function cpuOf({ api }: World, hub: Program): Promise<{ readonly hub: number; readonly api: number }> {
  const [own, server] = await Promise.all([usageOfAll([hub.pid]), usageOfAll(api)]);
  return { hub: own.cpuMs, api: server.cpuMs };
}

async function measureMany(world: World, hub: Program, count: number): Promise<void> {
  const names = Array.from({ length: count }, (_, at) => `many-${at}`);
  await using writes = await countWrites(
    KINDS.map((it) => [world.client, it] as const),
    world.signal,
  );
  const before = await cpuOf(world, hub);
  const startedMs = systemClock.monotonic();
  await inParallel(names, AT_A_TIME, async (it) => {
    await stage(world, it);
    await place(world, it);
  });
  await until(() => names.every((it) => isAvailable(world, it)), world.signal);
  const seconds = (systemClock.monotonic() - startedMs) / 1000;
  const after = await cpuOf(world, hub);
  await untilIdle(hub, world.signal);
  const idle = await Promise.all([shareOfCpu([hub.pid], IDLE_MS), shareOfCpu(world.api, IDLE_MS)]);
  const [ownIdle, apiIdle] = idle.map((it) => `${(100 * it).toFixed(1)} %`);
  const bindings = count * world.picked.length;
  console.log(
    `${count} placements, ${bindings} bindings: ${seconds.toFixed(1)} s, ${(bindings / seconds).toFixed(0)} bindings a second; ` +
      `${await memory(world, hub)}; at rest, for ${IDLE_MS / 1000} s: hub ${ownIdle}, API server ${apiIdle} of a processor`,
  );
  const inSeconds = (ms: number): string => (ms / 1000).toFixed(1);
  console.log(
    `  CPU: hub ${inSeconds(after.hub - before.hub)} s, API server ${inSeconds(after.api - before.api)} s; ` +
      `writes of each: ${perItem(writes.counts(), count)}`,
  );
}

/** While it is away, a new placement is made, and the content of another one changes. */
async function measureRestart(world: World, former: Program): Promise<Program> {
  const { client, signal } = world;
  await former.stop("SIGKILL");
  await stage(world, "new");
  await place(world, "new");
  await client.mergePatch(CONFIG_MAPS, objectKey("one-0", "app"), { data: { change: "2" } }, { signal });
  const startedMs = systemClock.monotonic();
  const hub = await startHub(world.kubeconfig);
  const since = (): string => `${((systemClock.monotonic() - startedMs) / 1000).toFixed(1)} s`;
  await until(() => isAvailable(world, "new"), signal);
  const placed = since();
  await until(() => isAvailable(world, "one-0") && observedIndex(world, "one-0") === "1", signal);
  const changed = since();
  await untilIdle(hub, signal);
  const { cpuMs } = await usageOfAll([hub.pid]);
  console.log(
    `restart: what was new is available after ${placed}, what had changed after ${changed}; ` +
      `nothing is left to do after ${since()}, ${(cpuMs / 1000).toFixed(1)} s of CPU; ${await memory(world, hub)}`,
  );
  return hub;
}

async function untilIdle(hub: Program, signal: AbortSignal): Promise<void> {
  while ((await shareOfCpu([hub.pid], 1000)) > IDLE_SHARE) await delay(systemClock, 0, signal);
}

async function memory({ api }: World, hub: Program): Promise<string> {
  const [own, server] = await Promise.all([usageOfAll([hub.pid]), usageOfAll(api)]);
  const megabytes = (bytes: number): string => (bytes / 2 ** 20).toFixed(0);
  const peak = await peakMemory(hub.pid);
  return `hub ${megabytes(own.memory)} MiB (at most ${megabytes(peak)}), API server ${megabytes(server.memory)} MiB`;
}
