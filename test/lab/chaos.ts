/** Breaks and changes a lab at random; a seed decides what is done next. */

import { DEPLOYMENTS } from "@fairlead/kube/api/apps/v1/types.ts";
import { PODS } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { MCS_SERVICE_EXPORTS } from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import { delay, systemClock } from "@fairlead/base/clock.ts";
import { type Rng, seededRng } from "@fairlead/base/rng.ts";
import { cut, die, freeze, heal, revive } from "./fault-tools.ts";
import { pathFaults } from "./path-faults.ts";
import type { FlowChecker } from "./flow-checker.ts";
import type { Mark } from "./flow-judge.ts";
import { found, type TestLab } from "../support/lab-fixture.ts";

export interface ChaosPlan {
  readonly lab: TestLab;
  readonly exporters: readonly string[];
  readonly members: readonly string[];
  /** The service of each, by its name. */
  readonly checkers: ReadonlyMap<string, FlowChecker>;
  readonly namespace: string;
}

/** How long after a fault ended its effects may last: programs start, watches resume. Unit: milliseconds. */
const SETTLE_MS = 5000;
/** Longest that one call to a server that may be dead takes. Unit: milliseconds. */
const CALL_MS = 3000;

/** The log of what was done, printed with a violation. */
export type ChaosLog = readonly { readonly atMs: number; readonly what: string }[];

/** Breaks and changes the lab for a while. At the end everything broken is repaired; changes stay. */
export async function reign(plan: ChaosPlan, seed: number, lastsMs: number): Promise<ChaosLog> {
  const chaos = new Chaos(plan, systemClock.now() + lastsMs);
  await Promise.all([
    chaos.repeat(seededRng(seed), (rng) => chaos.breakProgram(rng)),
    chaos.repeat(seededRng(seed + 1), (rng) => chaos.cutLink(rng)),
    chaos.repeat(seededRng(seed + 2), (rng) => chaos.change(rng)),
    chaos.repeat(seededRng(seed + 3), () => chaos.look()),
    ...(plan.lab.topology.spec.topology === "nat"
      ? [chaos.repeat(seededRng(seed + 4), (rng) => chaos.breakPath(rng))]
      : []),
  ]);
  return chaos.log;
}

class Chaos {
  readonly log: { readonly atMs: number; readonly what: string }[] = [];
  readonly #plan: ChaosPlan;
  readonly #untilMs: number;

  constructor(plan: ChaosPlan, untilMs: number) {
    this.#plan = plan;
    this.#untilMs = untilMs;
  }

  async repeat(rng: Rng, act: (rng: Rng) => Promise<void>): Promise<void> {
    while (systemClock.now() < this.#untilMs) await act(rng);
  }

  /** Kills a program, or suspends it. */
  async breakProgram(rng: Rng): Promise<void> {
    const { lab } = this.#plan;
    const program = pick(rng, this.#programs());
    const isDeath = rng.random() < 0.6;
    const lastsMs = 300 + rng.random() * 3000;
    const end = this.#mark(marksOf(program, this.#plan.members));
    this.#note(`${isDeath ? "kill" : "stop"} ${program} for ${Math.round(lastsMs)} ms`);
    if (isDeath) {
      await die(lab, program);
      await wait(lastsMs);
      await revive(lab, program);
    } else {
      using _frozen = freeze(lab, program);
      await wait(lastsMs);
    }
    this.#note(`${program} is back`);
    end();
    await wait(rng.random() * 3000);
  }

  /** Cuts a cluster off from all others. */
  async cutLink(rng: Rng): Promise<void> {
    const { lab, members } = this.#plan;
    await wait(5000 + rng.random() * 10_000);
    const cluster = pick(rng, members);
    const end = this.#mark([
      ["unreachable", cluster],
      ["unheard", cluster],
    ]);
    this.#note(`cut ${cluster} off`);
    await cut(lab, { around: cluster });
    await wait(500 + rng.random() * 5000);
    await heal(lab);
    this.#note(`${cluster} is connected`);
    end();
  }

  /** Disturbs the tunnels between the clusters. */
  async breakPath(rng: Rng): Promise<void> {
    const { lab, members } = this.#plan;
    await wait(1000 + rng.random() * 4000);
    const fault = pick(rng, pathFaults(lab, members));
    const lastsMs = 500 + rng.random() * 3000;
    const end = this.#mark(fault.unreachable.map((it) => ["unreachable", it] as const));
    this.#note(`${fault.what} for ${Math.round(lastsMs)} ms`);
    await fault.begin();
    await wait(lastsMs);
    await fault.end();
    this.#note(`no more: ${fault.what}`);
    end();
  }

  /** Scales a Deployment, withdraws an export for a while, or deletes pods. */
  async change(rng: Rng): Promise<void> {
    const { exporters, checkers } = this.#plan;
    const cluster = pick(rng, exporters);
    const service = pick(rng, [...checkers.keys()]);
    const kind = rng.random();
    try {
      if (kind < 0.4) await this.#scale(cluster, service, Math.floor(rng.random() * 4));
      else if (kind < 0.7) await this.#deletePods(cluster, service, rng.random() < 0.4 ? 0 : 3);
      else await this.#withhold(cluster, service, 500 + rng.random() * 4000);
    } catch {
      // Its API server may be dead just now.
    }
    await wait(rng.random() * 2500);
  }

  /** What proxies have. */
  async look(): Promise<void> {
    const { checkers, members } = this.#plan;
    for (const checker of checkers.values())
      for (const member of members) await checker.endpointsOf(member).catch(() => []);
    await wait(300);
  }

  async #scale(cluster: string, name: string, replicas: number): Promise<void> {
    this.#note(`scale ${name} in ${cluster} to ${replicas}`);
    const { lab, namespace } = this.#plan;
    const client = await lab.client(cluster);
    const patch = { spec: { replicas } };
    await client.mergePatch(DEPLOYMENTS, objectKey(namespace, name), patch, { signal: soon() });
  }

  async #deletePods(cluster: string, name: string, gracePeriodSeconds: number): Promise<void> {
    this.#note(`delete pods of ${name} in ${cluster}, grace ${gracePeriodSeconds}`);
    const { lab, namespace } = this.#plan;
    const client = await lab.client(cluster);
    const options = { namespace, labelSelector: `app=${name}`, signal: soon() };
    for (const { metadata } of (await client.list(PODS, options)).items)
      await client.delete(PODS, objectKey(namespace, metadata.name), { gracePeriodSeconds, signal: soon() });
  }

  async #withhold(cluster: string, name: string, lastsMs: number): Promise<void> {
    this.#note(`withhold ${name} of ${cluster} for ${Math.round(lastsMs)} ms`);
    const { lab, namespace, checkers } = this.#plan;
    const client = await lab.client(cluster);
    const key = objectKey(namespace, name);
    const end = found(checkers.get(name)).mark("withheld", cluster);
    try {
      await client.delete(MCS_SERVICE_EXPORTS, key, { signal: soon() });
      await wait(lastsMs);
    } finally {
      await this.#exportAgain(cluster, name);
      void this.#settle([end]);
    }
  }

  /** Until it is so: the API server may be dead just now. */
  async #exportAgain(cluster: string, name: string): Promise<void> {
    const { lab, namespace } = this.#plan;
    const client = await lab.client(cluster);
    const options = { fieldManager: "chaos", signal: AbortSignal.timeout(60_000) };
    for (;;) {
      try {
        await client.apply(MCS_SERVICE_EXPORTS, { metadata: { namespace, name } }, options);
        return;
      } catch (error) {
        if (options.signal.aborted) throw error;
        await wait(200);
      }
    }
  }

  #programs(): readonly string[] {
    const isFlat = this.#plan.lab.topology.spec.topology === "flat";
    const agents = isFlat ? [] : ["node-1/node"];
    const ofMember = ["apiserver", "member", "lab-controllers", "node-1", ...agents];
    return [
      "hub/apiserver",
      "hub/hub",
      ...this.#plan.members.flatMap((it) => ofMember.map((of) => `${it}/${of}`)),
    ];
  }

  /** Says it to all checkers. @returns Says that it ended; for some time after it still counts. */
  #mark(marks: readonly (readonly [kind: Mark["kind"], cluster: string])[]): () => void {
    const ends = [...this.#plan.checkers.values()].flatMap((checker) =>
      marks.map(([kind, cluster]) => checker.mark(kind, cluster)),
    );
    return () => void this.#settle(ends);
  }

  async #settle(ends: readonly (() => void)[]): Promise<void> {
    await wait(SETTLE_MS);
    for (const end of ends) end();
  }

  #note(what: string): void {
    this.log.push({ atMs: systemClock.now(), what });
  }
}

/** The effects that a dead or suspended program may have on flows. */
function marksOf(
  program: string,
  members: readonly string[],
): readonly (readonly [kind: Mark["kind"], cluster: string])[] {
  const [cluster = "", what = ""] = program.split("/");
  if (cluster === "hub") return [["unheard", "hub"], ...members.map((it) => ["unheard", it] as const)];
  if (what === "member") return [["unmanaged", cluster]];
  return [
    ["stalled", cluster],
    ["unmanaged", cluster],
  ];
}

function pick<T>(rng: Rng, from: readonly T[]): T {
  return found(from[Math.floor(rng.random() * from.length)]);
}

function wait(ms: number): Promise<void> {
  return delay(systemClock, ms, AbortSignal.timeout(Math.ceil(ms) + 60_000));
}

function soon(): AbortSignal {
  return AbortSignal.timeout(CALL_MS);
}
