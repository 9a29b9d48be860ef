/** Faults that `fairlead lab kill` does not offer, and their repair. */

import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { systemClock } from "@fairlead/base/clock.ts";
import { exec } from "@fairlead/base/exec.ts";
import { HOST_DEVICE } from "@fairlead/lab/network.ts";
import { endProcesses } from "@fairlead/lab/processes.ts";
import { FABRIC_NETNS } from "@fairlead/lab/places.ts";
import { inNetns } from "@fairlead/os/netns/netns.ts";
import type { TestLab } from "../support/lab-fixture.ts";
import { pidOf, startStopped } from "../support/lab-programs.ts";

/** Kills programs at once and without warning; `revive` starts them again. */
export async function die(lab: TestLab, ...programs: readonly string[]): Promise<void> {
  const pids = programs.map((it) => pidOf(lab, it));
  await endProcesses(pids, 0, systemClock, AbortSignal.timeout(10_000));
}

/** Starts what does not run; given a name, that program only. */
export async function revive(lab: TestLab, program?: string): Promise<void> {
  await startStopped(lab, (it) => program === undefined || it.name === program);
}

/** Suspends a program, as on a machine that hangs: its connections stay, and it receives nothing. */
export function freeze(lab: TestLab, program: string): Disposable {
  const pid = pidOf(lab, program);
  process.kill(pid, "SIGSTOP");
  return { [Symbol.dispose]: () => void process.kill(pid, "SIGCONT") };
}

/** Suspends a program most of the time: each request takes up to two seconds and a bit. */
export function slowDown(lab: TestLab, program: string): Disposable {
  const pid = pidOf(lab, program);
  let timer: Disposable | undefined;
  const suspend = (): void => {
    process.kill(pid, "SIGSTOP");
    timer = systemClock.after(2000, run);
  };
  const run = (): void => {
    process.kill(pid, "SIGCONT");
    timer = systemClock.after(300, suspend);
  };
  suspend();
  return {
    [Symbol.dispose]() {
      timer?.[Symbol.dispose]();
      process.kill(pid, "SIGCONT");
    },
  };
}

/**
 * Makes a dead API server lose its history, not its objects, as if its watch cache or etcd had been compacted:
 * when it is back, every watch that resumes from an earlier version gets 410 Gone.
 */
export function forgetPast(lab: TestLab, cluster: string): void {
  const db = new DatabaseSync(join(lab.layout.cluster(cluster), "apiserver", "journal.db"), {
    // A process that was killed holds its locks for a moment yet.
    timeout: 5000,
  });
  try {
    db.exec(
      "UPDATE meta SET value = max(value, (SELECT max(rv) FROM log)) WHERE name = 'floor'; DELETE FROM log;",
    );
  } finally {
    db.close();
  }
}

/** Where packets are dropped silently. */
export type Cut =
  /** From one cluster to the other, in this direction only. */
  | { readonly from: string; readonly to: string }
  /** Between a cluster and all others. The test itself still reaches its API server. */
  | { readonly around: string };

/** Drops packets, also those of established connections, until `heal`. */
export async function cut(lab: TestLab, ...cuts: readonly Cut[]): Promise<void> {
  const rules = cuts.flatMap((it) => rulesOf(lab, it)).map((it) => `    ${it} drop`);
  const table = [
    "table inet faults {",
    "  chain forward {",
    "    type filter hook forward priority filter;",
    ...rules,
    "  }",
    "}",
  ];
  await nft(lab, `${table.join("\n")}\n`);
}

export async function heal(lab: TestLab): Promise<void> {
  await nft(lab, "add table inet faults; delete table inet faults\n");
}

function rulesOf(lab: TestLab, it: Cut): readonly string[] {
  const link = (cluster: string): string => lab.cluster(cluster).link;
  if ("from" in it) return [`iifname "${link(it.from)}" oifname "${link(it.to)}"`];
  const device = link(it.around);
  return [
    `iifname "${device}" oifname != "${HOST_DEVICE}"`,
    `iifname != "${HOST_DEVICE}" oifname "${device}"`,
  ];
}

async function nft(lab: TestLab, input: string): Promise<void> {
  const { command, args } = inNetns(lab.layout.netnsOf(FABRIC_NETNS), "nft", ["-f", "-"]);
  await exec(command, args, { input });
}
