/**
 * Every member has a global Service of the same name, and a pod that policies of all others name: the most that members can know of each
 * other. How long until a change of one endpoint, or of one pod, is in all other members, and what does it cost the hub and a member?
 */
import { delay, systemClock } from "@fairlead/base/clock.ts";
import { exec } from "@fairlead/base/exec.ts";
import { renderTable } from "@fairlead/fleet/cli/table.ts";
import { loadKubeconfig } from "@fairlead/kube/config/kubeconfig.ts";
import { quantile } from "../lab/lab.ts";
import { startApi, startProgram, usageOfAll } from "./programs.ts";
import { addressIn, shapeOfEveryone } from "./shape.ts";
import { startWorkers, type Workers } from "./workers.ts";

const WORKERS = 2;
/** Changes of each kind, one after another. */
const CHANGES = 20;
/** Unit: milliseconds. */
const IDLE_MS = 15_000;
const SEEN_MS = 60_000;

interface Cost {
  readonly apiMs: number;
  readonly hubMs: number;
  /** Of all members with their API servers. */
  readonly membersMs: number;
  /** What the hub's API server has sent. */
  readonly bytes: number;
  readonly atMs: number;
}

interface Figures {
  readonly members: number;
  readonly what: string;
  readonly changes: number;
  /** From a change until one of the others has it. Unit: milliseconds. */
  readonly latencies: readonly number[];
  /** Until the last one has it. */
  readonly last: readonly number[];
  /** For one change, without what is spent when nothing changes. */
  readonly cost: Cost;
}

export async function measureEveryone(sizes: readonly number[]): Promise<void> {
  const rows: Figures[] = [];
  for (const members of sizes) {
    rows.push(...(await measure(members)));
    print(rows);
  }
}

async function measure(members: number): Promise<Figures[]> {
  await using api = await startApi("hub");
  await using hub = await startProgram(["hub", "--kubeconfig", api.kubeconfig]);
  const shape = shapeOfEveryone(members);
  await using workers = await startWorkers(shape, WORKERS);
  const { server } = await loadKubeconfig(api.kubeconfig);
  const cost = async (): Promise<Cost> => {
    const all = await Promise.all([api.pids, [hub.pid], workers.pids].map(usageOfAll));
    const [apiMs = 0, hubMs = 0, membersMs = 0] = all.map((it) => it.cpuMs);
    const atMs = systemClock.monotonic();
    return { apiMs, hubMs, membersMs, bytes: await bytesSent(new URL(server).port), atMs };
  };
  const startedMs = systemClock.monotonic();
  await workers.all({ do: "join", hubKubeconfig: api.kubeconfig });
  const [ofApi, ofHub] = await Promise.all([usageOfAll(api.pids), usageOfAll([hub.pid])]);
  const mib = (bytes: number): string => (bytes / 2 ** 20).toFixed(0);
  console.log(
    `${members} members know each other after ${((systemClock.monotonic() - startedMs) / 1000).toFixed(1)} s; ` +
      `the hub's API server has ${mib(ofApi.memory)} MiB, fairlead hub ${mib(ofHub.memory)} MiB`,
  );
  await delay(systemClock, IDLE_MS, AbortSignal.timeout(IDLE_MS * 2));
  const before = await cost();
  await delay(systemClock, IDLE_MS, AbortSignal.timeout(IDLE_MS * 2));
  const idle = perMs(before, await cost());
  const rows: Figures[] = [];
  for (const what of ["endpoint", "pod"] as const)
    rows.push(await measureChanges({ members, what, workers, idle, cost }));
  return rows;
}

interface Series {
  readonly members: number;
  readonly what: "endpoint" | "pod";
  readonly workers: Workers;
  readonly idle: Cost;
  readonly cost: () => Promise<Cost>;
}

async function measureChanges({ members, what, workers, idle, cost }: Series): Promise<Figures> {
  const latencies: number[] = [];
  const last: number[] = [];
  const before = await cost();
  for (let at = 0; at < CHANGES; at += 1) {
    const changing = (at * 7) % members;
    const member = `member-${String(changing).padStart(3, "0")}`;
    const address = addressIn(changing, (what === "pod" ? 100 : 50) + at);
    const seen = new Map<string, number>();
    const all = Promise.withResolvers<void>();
    using _seen = workers.onSeen((it) => {
      if (it.address !== address || it.member === member) return;
      seen.set(it.member, it.atMs);
      if (seen.size === members - 1) all.resolve();
    });
    const atMs = await workers.change(
      what === "pod" ? { do: "changePod", member, address } : { do: "change", member, service: 0, address },
    );
    await Promise.race([all.promise, delay(systemClock, SEEN_MS, new AbortController().signal)]);
    if (seen.size < members - 1) console.log(`  a change was seen by ${seen.size} of ${members - 1} members`);
    latencies.push(...[...seen.values()].map((it) => it - atMs));
    last.push(Math.max(...seen.values()) - atMs);
  }
  const spent = difference(before, await cost());
  const ofOne = (read: (it: Cost) => number): number =>
    Math.max(0, read(spent) - read(idle) * spent.atMs) / CHANGES;
  return {
    members,
    what,
    changes: CHANGES,
    latencies,
    last,
    cost: {
      apiMs: ofOne((it) => it.apiMs),
      hubMs: ofOne((it) => it.hubMs),
      membersMs: ofOne((it) => it.membersMs),
      bytes: ofOne((it) => it.bytes),
      atMs: spent.atMs,
    },
  };
}

function difference(before: Cost, after: Cost): Cost {
  return {
    apiMs: after.apiMs - before.apiMs,
    hubMs: after.hubMs - before.hubMs,
    membersMs: after.membersMs - before.membersMs,
    bytes: after.bytes - before.bytes,
    atMs: after.atMs - before.atMs,
  };
}

function perMs(before: Cost, after: Cost): Cost {
  const { apiMs, hubMs, membersMs, bytes, atMs } = difference(before, after);
  return { apiMs: apiMs / atMs, hubMs: hubMs / atMs, membersMs: membersMs / atMs, bytes: bytes / atMs, atMs };
}

/** Of the open connections of the server at this port; source: ss(8). */
async function bytesSent(port: string): Promise<number> {
  const { stdout } = await exec("ss", ["-tinH", "state", "established", `( sport = :${port} )`]);
  return [...stdout.matchAll(/\bbytes_sent:(\d+)/g)].reduce((sum, [, bytes]) => sum + Number(bytes), 0);
}

function print(rows: readonly Figures[]): void {
  const columns: [string, (it: Figures) => string][] = [
    ["MEMBERS", (it) => String(it.members)],
    ["CHANGE OF", (it) => it.what],
    ["P50 MS", (it) => quantile(it.latencies, 0.5).toFixed(0)],
    ["P99 MS", (it) => quantile(it.latencies, 0.99).toFixed(0)],
    ["IN ALL, P50 MS", (it) => quantile(it.last, 0.5).toFixed(0)],
    ["LONGEST", (it) => Math.max(...it.last).toFixed(0)],
    ["CPU MS: HUB API", (it) => it.cost.apiMs.toFixed(1)],
    ["HUB", (it) => it.cost.hubMs.toFixed(1)],
    ["A MEMBER", (it) => (it.cost.membersMs / it.members).toFixed(2)],
    ["HUB SENDS KB", (it) => (it.cost.bytes / 1000).toFixed(1)],
    ["TO A MEMBER, BYTES", (it) => (it.cost.bytes / it.members).toFixed(0)],
  ];
  console.log(
    `\n${renderTable(
      columns.map(([head, cell]) => ({ head, cell })),
      rows,
    )}\n`,
  );
}
