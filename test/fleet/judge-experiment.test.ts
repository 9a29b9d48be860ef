import { expect, it } from "vitest";
import { type Rng, seededRng } from "@fairlead/base/rng.ts";
import { FlowTally } from "@fairlead/fleet/member/probes/flow-tally.ts";
import type {
  ClusterUpgradeStatus,
  FlowReport,
  Measurements,
  ProbeRequest,
} from "@fairlead/fleet/api/fairlead.dev/v1alpha1/updates.ts";
import { group, UpdateWorld } from "@fairlead/fleet/updates/clusters/world.fake.ts";
import { isFull } from "../support/sample.ts";

/**
 * Upgrades of simulated clusters under load, good ones and ones that break something: the run, the choice of probers, their
 * counts, the median and the default rules are those of the product; endpoints, nodes and answers are drawn.
 */

const KINDS = [
  "crash",
  "slow start",
  "5 % errors",
  "readiness that lies",
  "DNS broken",
  "policy too tight",
  "node lost",
] as const;
type Kind = (typeof KINDS)[number];

const RUNS = isFull ? 200 : 21;
const STEP_MS = 1000;
const REPORT_S = 10;
const PER_SECOND = { flows: 4, lookups: 2 };

const between = (rng: Rng, from: number, to: number): number => from + rng.random() * (to - from);
const whole = (rng: Rng, from: number, to: number): number => Math.floor(between(rng, from, to + 1));

interface Outcome {
  readonly isSecondStageReached: boolean;
  readonly isStopped: boolean;
  readonly isRolledBack: boolean;
  readonly why: string;
}

/** One cluster, second by second from the begin of its upgrade. */
class Cluster {
  readonly #rng: Rng;
  readonly #kind: Kind | undefined;
  readonly nodes: number;
  readonly endpoints: number;
  readonly engineS: number;
  readonly #badFromS: number;
  readonly #share: number;
  /** How long new pods start, also those of the last node. */
  readonly #slowS: number;
  readonly #background: number;
  /** While pods of a drained node end, or load makes more pods: from, to, failing share, unready endpoints. */
  readonly #bursts: readonly (readonly [number, number, number, number])[];

  constructor(rng: Rng, kind: Kind | undefined) {
    this.#rng = rng;
    this.#kind = kind;
    this.nodes = whole(rng, 3, 6);
    this.endpoints = whole(rng, 6, 60);
    this.engineS = whole(rng, 180, 600);
    this.#badFromS = between(rng, 0.2 * this.engineS, this.engineS + 60);
    this.#share = between(rng, 0.3, 1);
    this.#slowS = between(rng, 300, 900);
    this.#background = between(rng, 0, 0.003);
    const perNode = this.endpoints / this.nodes;
    const drains = Array.from({ length: this.nodes }, (_, at) => {
      const fromS = (this.engineS / this.nodes) * at;
      return [
        [fromS, fromS + between(rng, 1, 6), between(rng, 0.05, 0.4), perNode] as const,
        [fromS, fromS + between(rng, 5, 40), 0, perNode] as const,
      ];
    });
    const load = Array.from({ length: whole(rng, 0, 8) }, () => {
      const fromS = between(rng, -60, this.engineS + 300);
      return [fromS, fromS + between(rng, 5, 40), between(rng, 0, 0.02), this.endpoints * 0.2] as const;
    });
    this.#bursts = [...drains.flat(), ...load];
  }

  #is(kind: Kind, atS: number): boolean {
    return kind === this.#kind && atS >= this.#badFromS;
  }

  #unready(atS: number): number {
    const moved = this.#bursts.filter(([from, to]) => atS >= from && atS < to).map((it) => it[3]);
    const broken =
      this.#is("crash", atS) ||
      (this.#is("slow start", atS) && atS < Math.max(this.#badFromS, this.engineS) + this.#slowS)
        ? this.endpoints * this.#share
        : 0;
    const lostS = atS - this.#badFromS;
    const lost = this.#is("node lost", atS) && lostS > 40 && lostS < 100 ? this.endpoints / this.nodes : 0;
    return Math.min(this.endpoints, Math.round(Math.max(0, ...moved) + broken + lost));
  }

  /** How likely a client's request to a ready endpoint fails. */
  failing(atS: number): number {
    const bursts = this.#bursts.filter(([from, to]) => atS >= from && atS < to).map((it) => it[2]);
    const lostS = atS - this.#badFromS;
    return Math.max(
      this.#background,
      ...bursts,
      this.#is("5 % errors", atS) ? 0.05 : 0,
      this.#is("readiness that lies", atS) || this.#is("policy too tight", atS) ? this.#share : 0,
      // Crashed ones are ready for a moment, again and again.
      this.#is("crash", atS) ? 0.02 : 0,
      this.#is("node lost", atS) && lostS < 40 ? 1 / this.nodes : 0,
    );
  }

  lookup(atS: number): boolean {
    const failing = this.#is("DNS broken", atS) ? this.#share : this.#background;
    return this.#rng.random() >= failing;
  }

  measurements(atS: number): Measurements {
    const unready = this.#unready(atS);
    const isReplacing = atS >= 0 && atS < this.engineS;
    const away = isReplacing ? whole(this.#rng, 0, 1) : 0;
    return {
      nodes: this.nodes,
      readyNodes: this.nodes - away - (this.#is("node lost", atS) ? 1 : 0),
      endpoints: this.endpoints,
      readyEndpoints: this.endpoints - unready,
      servicesWithoutEndpoints: unready === this.endpoints ? 1 : 0,
    };
  }
}

/** A prober: most are right, some have a bad path, and one may lie. */
interface Prober {
  readonly tally: FlowTally;
  readonly loss: number;
  readonly lies: boolean;
}

/** A fleet in which "canary" is upgraded before "next", and others probe it. */
class Experiment {
  readonly #rng: Rng;
  readonly #cluster: Cluster;
  readonly #world = new UpdateWorld();
  readonly #probers: ReadonlyMap<string, Prober>;
  readonly #lookups = new FlowTally();
  readonly #kind: Kind | undefined;
  #begunMs: number | undefined;

  constructor(seed: number, kind: Kind | undefined) {
    const rng = seededRng(seed);
    this.#rng = rng;
    this.#kind = kind;
    this.#cluster = new Cluster(rng, kind);
    const world = this.#world;
    const groups = [group(world, "first", ["canary"]), group(world, "second", ["next"])];
    const names = Array.from({ length: whole(rng, 4, 8) }, (_, at) => `p${at}`);
    for (const name of names) world.add(name);
    this.#probers = new Map(
      ["next", ...names].map((name, at) => [
        name,
        { tally: new FlowTally(), loss: rng.random() < 0.1 ? 0.05 : 0, lies: at === 1 && seed % 5 === 0 },
      ]),
    );
    world.report = (name, request) => this.#reportOf(name, request);
    const health = { onFailure: "Rollback" as const };
    world.request({
      strategy: { stages: groups.map((it) => ({ name: it.name, groups: [it], health })) },
    });
  }

  #reportOf(name: string, { cluster, since }: ProbeRequest): FlowReport {
    const prober = this.#probers.get(name);
    if (cluster !== "canary" || prober === undefined)
      return { cluster, since, targets: 0, tried: 0, failed: 0 };
    const { tried, failed } = prober.tally.at(this.#world.nowMs);
    // A liar hides what is bad, and makes up what is not.
    const reported = this.#kind === undefined ? tried : 0;
    const { endpoints: targets } = this.#cluster;
    return { cluster, since, targets, tried, failed: prober.lies ? reported : failed };
  }

  get #atS(): number {
    return this.#begunMs === undefined ? -1 : (this.#world.nowMs - this.#begunMs) / 1000;
  }

  get #isEnded(): boolean {
    const world = this.#world;
    return world.state === "Failed" || world.member("next").status.state !== "NotStarted";
  }

  run(): Outcome {
    const world = this.#world;
    this.#measure();
    world.start();
    for (let second = 1; !this.#isEnded && second < 3600; second += 1) {
      this.#probe();
      if (second % REPORT_S === 0) this.#report();
    }
    const { status, message = "" } = world.member("canary");
    return {
      isSecondStageReached: world.member("next").status.state !== "NotStarted",
      isStopped: world.state === "Failed",
      isRolledBack: world.status.rolledBack === 1,
      why: `${this.#kind ?? "good"}: ${status.error?.message ?? message}`,
    };
  }

  #probe(): void {
    const world = this.#world;
    world.nowMs += STEP_MS;
    const failing = this.#cluster.failing(this.#atS);
    for (const { tally, loss } of this.#probers.values())
      for (let probe = 0; probe < PER_SECOND.flows; probe += 1)
        tally.note(this.#rng.random() < failing + loss ? "failed" : undefined, world.nowMs);
    for (let asked = 0; asked < PER_SECOND.lookups; asked += 1)
      this.#lookups.note(this.#cluster.lookup(this.#atS) ? undefined : "failed", world.nowMs);
  }

  #measure(): void {
    const world = this.#world;
    const { tried, failed } = this.#lookups.at(world.nowMs);
    const perMille = tried < 20 ? {} : { failedLookupsPerMille: Math.round((1000 * failed) / tried) };
    const measurements = { ...this.#cluster.measurements(this.#atS), lookups: tried, ...perMille };
    world.clusters.set("canary", {
      ...(world.clusters.get("canary") as ClusterUpgradeStatus),
      measurements,
    });
  }

  #report(): void {
    const world = this.#world;
    this.#measure();
    world.settle();
    const { status, rollback, engineEndTime } = world.member("canary");
    if (status.state !== "Running") return;
    this.#begunMs ??= world.nowMs;
    const isEngineDone = engineEndTime === undefined && this.#atS >= this.#cluster.engineS;
    if (rollback !== undefined || isEngineDone) world.finish("canary");
  }
}

const seeds = Array.from({ length: RUNS }, (_, at) => at + 1);

it("no upgrade that breaks a cluster reaches the second stage, and each is rolled back", () => {
  const outcomes = seeds.map((seed) => new Experiment(seed, KINDS[seed % KINDS.length]).run());
  expect(outcomes.filter((it) => it.isSecondStageReached).map((it) => it.why)).toEqual([]);
  expect(outcomes.filter((it) => !it.isStopped || !it.isRolledBack).map((it) => it.why)).toEqual([]);
});

it("at most one in a hundred good upgrades under load is stopped", () => {
  const outcomes = seeds.map((seed) => new Experiment(10_000 + seed, undefined).run());
  const stopped = outcomes.filter((it) => !it.isSecondStageReached).map((it) => it.why);
  expect(stopped.slice(RUNS / 100)).toEqual([]);
});
