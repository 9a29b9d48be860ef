/**
 * A hub without a cluster as its fleet grows: what `fairlead hub --embedded`, which is API server, journal and controllers in one process,
 * costs with members that watch their mailboxes as agents do, renew their Leases and report every minute; how long until all have joined, and until
 * one placement is available on 100 of them. Members are mailboxes in the process of the bench, not clusters.
 *
 * Each size is a hub of its own: time and memory for each member should be those of the smaller sizes.
 *
 *   npm run bench -- embedded [--members 250,500,1000] [--clusters 100] [--repeat 10]
 */
import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { mailboxOf } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import { CLUSTER_RESOURCE_PLACEMENTS } from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { renderTable } from "@fairlead/fleet/cli/table.ts";
import { delay, systemClock } from "@fairlead/base/clock.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { inParallel } from "@fairlead/base/parallel.ts";
import { LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import { connect } from "@fairlead/kube/client/client.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { isConditionTrue, microTimestamp } from "@fairlead/kube/objects/conditions.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { answerWorks, joinMailboxes, keepAlive } from "./fleet/mailboxes.ts";
import { isAvailable, membersOf, place, stage } from "./fleet/placements.ts";
import { peakMemory, shareOfCpu, startProgram, usageOfAll } from "./fleet/programs.ts";
import { until } from "./fleet/until.ts";
import { openWatches } from "./fleet/watches.ts";
import { quantile } from "./lab/lab.ts";

const AT_A_TIME = 16;
/** Three times in a Lease of 60 s, as agents do. Unit: milliseconds. */
const RENEWAL_MS = 20_000;
/** Unit: milliseconds. */
const IDLE_MS = 30_000;
const deps = systemDeps(silentLogger);

interface Figures {
  readonly members: number;
  readonly readyMs: number;
  readonly joinedMs: number;
  readonly joinCpuMs: number;
  /** Unit: bytes. */
  readonly memory: number;
  readonly peak: number;
  readonly journal: number;
  /** Share of one processor while nothing changes but Leases and heartbeats. */
  readonly idle: number;
  readonly placed: readonly number[];
  /** Of the hub for one placement. */
  readonly placeCpuMs: number;
}

export async function run(argv: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      members: { type: "string", default: "250,500,1000" },
      clusters: { type: "string", default: "100" },
      repeat: { type: "string", default: "10" },
    },
  });
  const rows: Figures[] = [];
  for (const members of values.members.split(",").map(Number))
    rows.push(await measure(members, Number(values.clusters), Number(values.repeat)));
  print(rows);
}

async function measure(count: number, clusters: number, repeat: number): Promise<Figures> {
  const signal = AbortSignal.timeout(3_600_000);
  const data = await mkdtemp(join(tmpdir(), "fairlead-bench-embedded-"));
  try {
    await using hub = await startProgram(["hub", "--embedded", "--data", data, "--port", "0"]);
    const config = await loadKubeconfig(join(data, "admin.kubeconfig"));
    await using client = connect(config, deps);
    const usage = () => usageOfAll([hub.pid]);
    const members = membersOf(count, clusters);
    const names = [...members.keys()];
    const ended = new AbortController();
    const open = AbortSignal.any([signal, ended.signal]);
    await using stack = new AsyncDisposableStack();
    stack.defer(() => ended.abort());
    const before = await usage();
    const startedMs = systemClock.monotonic();
    await joinMailboxes(client, members, signal);
    await inParallel(names, AT_A_TIME, (name) => openWatches(config, { name, user: `member-${name}` }, open));
    await untilJoined(client, count, signal);
    const joinedMs = systemClock.monotonic() - startedMs;
    const joined = await usage();
    stack.use(keepAlive(client, names));
    stack.use(renewLeases(client, names));
    stack.use(await answerWorks(client, deps, signal));
    await delay(systemClock, RENEWAL_MS, signal);
    const idle = await shareOfCpu([hub.pid], IDLE_MS);
    const { memory } = await usage();
    const placements = stack.use(createInformer(client, CLUSTER_RESOURCE_PLACEMENTS, {}, deps));
    placements.start(signal);
    await placements.synced(signal);
    const placing = { client, placements, picked: names.slice(0, clusters), signal };
    const placed: number[] = [];
    const atRest = await usage();
    const fromMs = systemClock.monotonic();
    for (let at = 0; at < repeat; at += 1) {
      await stage(placing, `one-${at}`);
      const askedMs = systemClock.monotonic();
      await place(placing, `one-${at}`);
      await until(() => isAvailable(placing, `one-${at}`), signal);
      placed.push(systemClock.monotonic() - askedMs);
    }
    const idleCpuMs = idle * (systemClock.monotonic() - fromMs);
    return {
      members: count,
      readyMs: hub.readyMs,
      joinedMs,
      joinCpuMs: joined.cpuMs - before.cpuMs,
      memory,
      peak: await peakMemory(hub.pid),
      journal: (await stat(join(data, "journal.db"))).size,
      idle,
      placed,
      placeCpuMs: ((await usage()).cpuMs - atRest.cpuMs - idleCpuMs) / repeat,
    };
  } finally {
    await rm(data, { recursive: true, force: true });
  }
}

/** By the hub's word. */
async function untilJoined(client: KubeClient, count: number, signal: AbortSignal): Promise<void> {
  await using members = createInformer(client, MEMBER_CLUSTERS, {}, deps);
  members.start(signal);
  await members.synced(signal);
  const joined = () =>
    [...members.store.list()].filter((it) => isConditionTrue(it.status?.conditions, "Joined")).length;
  await until(() => joined() === count, signal);
}

/** One after another, as agents that began at different times. */
function renewLeases(client: KubeClient, members: readonly string[]): AsyncDisposable {
  const stop = new AbortController();
  const renewals = async (): Promise<void> => {
    while (!stop.signal.aborted)
      for (const name of members) {
        const spec = { holderIdentity: name, renewTime: microTimestamp(systemClock.now()) };
        await client.apply(
          LEASES,
          { metadata: { namespace: mailboxOf(name), name }, spec },
          { fieldManager: "bench", signal: stop.signal },
        );
        await delay(systemClock, RENEWAL_MS / members.length, stop.signal);
      }
  };
  const done = renewals().catch((error: unknown) => {
    if (!stop.signal.aborted) throw error;
  });
  return {
    async [Symbol.asyncDispose]() {
      stop.abort();
      await done;
    },
  };
}

function print(rows: readonly Figures[]): void {
  const mib = (bytes: number): string => (bytes / 2 ** 20).toFixed(0);
  const columns: [string, (it: Figures) => string][] = [
    ["MEMBERS", (it) => String(it.members)],
    ["READY S", (it) => (it.readyMs / 1000).toFixed(1)],
    ["JOINED S", (it) => (it.joinedMs / 1000).toFixed(1)],
    ["CPU S", (it) => (it.joinCpuMs / 1000).toFixed(1)],
    ["CPU MS/MEMBER", (it) => (it.joinCpuMs / it.members).toFixed(1)],
    ["MIB", (it) => mib(it.memory)],
    ["PEAK MIB", (it) => mib(it.peak)],
    ["KIB/MEMBER", (it) => (it.memory / it.members / 1024).toFixed(0)],
    ["JOURNAL MIB", (it) => mib(it.journal)],
    ["IDLE CPU", (it) => `${(100 * it.idle).toFixed(1)} %`],
    ["PLACED P50 MS", (it) => quantile(it.placed, 0.5).toFixed(0)],
    ["P90 MS", (it) => quantile(it.placed, 0.9).toFixed(0)],
    ["CPU MS", (it) => it.placeCpuMs.toFixed(0)],
  ];
  console.log(
    renderTable(
      columns.map(([head, cell]) => ({ head, cell })),
      rows,
    ),
  );
}
