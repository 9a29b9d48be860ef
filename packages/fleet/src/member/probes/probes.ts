import type { EndpointSliceImport } from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { byText } from "@fairlead/base/text.ts";
import { delay } from "@fairlead/base/clock.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { MAX_REFUSED } from "#api/fairlead.dev/names.ts";
import type { LostCluster } from "#domain/lost-clusters.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { importedEndpoints, isImported } from "../imported-slices.ts";
import { serviceOfSliceImport } from "../informers.ts";
import type { Session } from "../session.ts";
import { isParallel } from "../fleet-addresses.ts";
import { readCutOff } from "./cut-off.ts";
import { Damping } from "./damping.ts";
import { PathWatch, PROMPT_MS } from "./path-watch.ts";
import { RefusedSlices } from "./refused-slices.ts";
import { ProbeTally } from "./tally.ts";
import { type KnownEndpoints, planTargets, type ProbeTarget, takeSample } from "./targets.ts";
import type { Probe } from "./tcp.ts";

/** Gap between two rounds while a cluster is suspect. Unit: milliseconds. */
const ROUND_MS = 1000;
/** Connections opened at a time, so that a large cluster does not fill our own connection table. */
const MAX_AT_A_TIME = 256;
/** How often results of one round are reported, at most. Unit: milliseconds. */
const REPORT_MS = 250;

/** Of a cluster whose data path is cut so many are asked in a round, in turn. */
const MAX_OF_CUT = 32;

/** After the hub is back it takes one lease to miss a cluster. Unit: leases. */
const LEASES_UNTIL_NAMED = 2;

/** A cluster that is probed. */
interface Suspect {
  readonly cluster: string;
  readonly tally: ProbeTally;
  readonly stop: AbortController;
  /** Whether the hub has lost it. */
  isNamed: boolean;
  /** Whether this member has missed what the hub reported: not before it has caught up is there no reason to doubt. */
  isDoubted: boolean;
  /** Whether the data path to it is cut, as far as this member sees. */
  isCut: boolean;
  /** How many endpoints were asked so far, one after the other and over again. */
  asked: number;
}

type Blame = Pick<Suspect, "isNamed" | "isDoubted" | "isCut">;

const UNBLAMED: Blame = { isNamed: false, isDoubted: false, isCut: false };

function isBlamed({ isNamed, isDoubted, isCut }: Blame): boolean {
  return isNamed || isDoubted || isCut;
}

/**
 * Asks the endpoints of other clusters whether they still answer, in three cases:
 *
 * - The hub *names* a cluster that it has lost. An endpoint is then dropped only if hub and member agree. A hub that lost
 *   a cluster does not stop traffic by itself: a cluster that is only cut off from the hub keeps serving.
 * - This member has not reached the hub for a whole lease period, so that it receives no changes: it *doubts* all
 *   other clusters. It probes a few endpoints of each, and all endpoints of a cluster if none of these answers. Doubt alone
 *   never removes the last endpoints of a service: see `aliveIn`. When the hub is back, doubt of a cluster ends
 *   with its last silent endpoint, or when the hub had the time to name the cluster; not because the hub named it for a
 *   while, and reports that before it reports which endpoints went in the meantime.
 * - In a flat network, none of the endpoints of a cluster that answered this member answers any more (see `PathWatch`): the data path is
 *   *cut*, although both clusters reach the hub. All of its endpoints are left out then, where others are left, until some have answered
 *   in several rounds: in twice as many after each cut that follows soon on another. In a parallel network, gateways report which clusters they reach.
 */
export class Probes implements AsyncDisposable {
  readonly #session: Session;
  readonly #probe: Probe;
  readonly #suspects = new Map<string, Suspect>();
  readonly #done = new Set<Promise<void>>();
  readonly #watch: PathWatch;
  readonly #damping = new Damping();
  readonly #refused = new RefusedSlices();
  /** The fastest answers, by cluster. */
  readonly #fastestMs = new Map<string, number>();
  readonly #subscriptions = new DisposableStack();
  #known: KnownEndpoints;
  #running = AbortSignal.abort();
  #isHubSilent = false;
  #findings = 0;
  /** When doubt ends at the latest, on the monotonic clock. */
  #trustedAtMs = 0;
  /** Called with a cluster when one of its endpoints changed sides, or all came back. */
  onChange: (cluster: string) => void = () => {};

  constructor(session: Session, probe: Probe) {
    this.#session = session;
    this.#probe = probe;
    this.#known = importedEndpoints(session);
    const { clock } = session.deps;
    this.#watch = new PathWatch(
      {
        clusters: () => {
          const known = this.#known.clusters();
          this.#forgetOthers(known);
          return isParallel(session) ? [] : known.filter((it) => !this.#suspects.has(it));
        },
        endpoint: (cluster, turn) => this.#endpointOf(cluster, turn),
        all: (cluster) => this.#targets(cluster),
        ask: (cluster, targets, signal) => this.#answers(cluster, targets, signal),
        onCut: (cluster) => this.#cut(cluster),
      },
      clock,
    );
  }

  /** The clusters to which the data path is cut. */
  get cutOff(): readonly string[] {
    return [...this.#suspects.values()].flatMap((it) => (it.isCut ? [it.cluster] : [])).toSorted(byText);
  }

  /** Clusters that the hub has lost, of which this member has endpoints. */
  get lost(): readonly LostCluster[] {
    return [...this.#suspects.values()]
      .flatMap(({ cluster, isNamed, tally }) => {
        const answers = isNamed ? tally.hasAnswer : undefined;
        return answers === undefined ? [] : [{ cluster, answers }];
      })
      .toSorted((a, b) => byText(a.cluster, b.cluster));
  }

  /** Services, as "cluster/namespace/name", whose endpoints in a slice refuse connections. Some of many. */
  get refused(): readonly string[] {
    const { sliceImports } = this.#session.fleet;
    const find = (slice: string): EndpointSliceImport | undefined =>
      sliceImports.get(objectKey(undefined, slice));
    const names = this.#refused
      .list(({ slice }) => find(slice)?.spec.endpoints.length ?? Number.POSITIVE_INFINITY)
      .flatMap(({ cluster, slice }) => {
        const found = find(slice);
        return found === undefined ? [] : [`${cluster}/${serviceOfSliceImport(found)}`];
      });
    return [...new Set(names)].toSorted(byText).slice(0, MAX_REFUSED);
  }

  /**
   * Resolves after the first round: an agent that starts while a cluster is suspect must not send traffic to endpoints
   * that its predecessor had dropped.
   */
  async start(signal: AbortSignal): Promise<void> {
    const { mailbox, fleet } = this.#session;
    this.#running = signal;
    this.#known = importedEndpoints(this.#session);
    this.#subscriptions.use(mailbox.internalMembers.subscribe(() => void this.#follow()));
    this.#subscriptions.use(
      fleet.sliceImports.subscribe(({ before, after }) => {
        const left = new Set(addressesOf(after));
        const gone = addressesOf(before).filter((it) => !left.has(it));
        const cluster = (after ?? before)?.spec.endpointSliceReference.clusterId;
        const { name } = (after ?? before)?.metadata ?? {};
        if (cluster === undefined) return;
        if (name !== undefined) this.#refused.forget(cluster, name);
        this.#watch.notice(cluster, gone);
      }),
    );
    const wereCut = (await readCutOff(this.#session, signal)).filter(
      (it) => !this.#suspects.has(it) && this.#known.clusters().includes(it),
    );
    const begun = wereCut.map((it) => this.#begin(it, { ...UNBLAMED, isCut: true }));
    await Promise.all([...begun, this.#follow(), ...(this.#isHubSilent ? [this.#catchUp(signal)] : [])]);
    this.#keep(this.#watch.run(signal));
  }

  /**
   * For a member that cannot read the hub since it began: doubts the clusters of what it remembers. `start` keeps what is found,
   * and doubt ends as after any other silence of the hub.
   */
  doubtRemembered(known: KnownEndpoints, signal: AbortSignal): void {
    const { deps } = this.#session;
    deps.log.warn("the hub cannot be read, probing the imported endpoints of all clusters");
    this.#running = signal;
    this.#known = known;
    this.#isHubSilent = true;
    void Promise.all(this.#doubtAll());
  }

  get isHubSilent(): boolean {
    return this.#isHubSilent;
  }

  /** Resolves when all endpoints were asked that were not remembered: the predecessor may have dropped them. */
  async #catchUp(signal: AbortSignal): Promise<void> {
    const asked = [...this.#suspects.values()].map(async (it) => {
      const unknown = this.#targets(it.cluster).filter(({ address }) => !it.tally.has(address));
      await this.#askAll(it, unknown, signal);
    });
    await Promise.all([...asked, ...this.#doubtAll()]);
  }

  isAlive(cluster: string, addresses: readonly string[]): boolean {
    return this.#suspects.get(cluster)?.tally.isAlive(addresses[0] ?? "") ?? true;
  }

  /** A number that grows with everything that the answers of the others may depend on. */
  get findings(): number {
    return this.#findings;
  }

  /** Whether this member alone thinks that a cluster may be gone. */
  isDoubted(cluster: string): boolean {
    return this.#suspects.get(cluster)?.isNamed === false;
  }

  get isInDoubt(): boolean {
    return [...this.#suspects.values()].some((it) => !it.isNamed);
  }

  /** The hub has not been reached for a whole lease. */
  doubt(): void {
    const { deps } = this.#session;
    deps.log.warn("lease not renewed for a whole lease period, probing the endpoints of all clusters");
    this.#isHubSilent = true;
    void Promise.all(this.#doubtAll());
  }

  /** @returns The first rounds of those that were not probed. */
  #doubtAll(): readonly Promise<void>[] {
    for (const suspect of this.#suspects.values()) suspect.isDoubted = true;
    const others = this.#known.clusters().filter((it) => !this.#suspects.has(it));
    return others.map((it) => this.#begin(it, { ...UNBLAMED, isDoubted: true }));
  }

  /** The hub is there again, and names within a lease the clusters that it misses. */
  trust(leaseMs: number): void {
    this.#isHubSilent = false;
    this.#trustedAtMs = this.#session.deps.clock.monotonic() + LEASES_UNTIL_NAMED * leaseMs;
  }

  /** Starts probing clusters that the hub names, and ends it for those that it no longer names. */
  async #follow(): Promise<void> {
    const { cluster, mailbox } = this.#session;
    const internalMember = mailbox.internalMembers.store.get(objectKey(mailboxOf(cluster), cluster));
    // An absent InternalMemberCluster does not end a suspicion.
    if (internalMember === undefined) return;
    const named = new Set((internalMember.spec.suspects ?? []).map((it) => it.cluster));
    named.delete(cluster);
    for (const it of this.#suspects.values()) {
      if (named.has(it.cluster) === it.isNamed) continue;
      it.isNamed = !it.isNamed;
      if (isBlamed(it)) {
        this.#findings += 1;
        this.onChange(it.cluster);
      } else this.#end(it);
    }
    const first = [...named].filter((name) => !this.#suspects.has(name));
    await Promise.all(
      first.map((name) => this.#begin(name, { ...UNBLAMED, isNamed: true, isDoubted: this.#isHubSilent })),
    );
  }

  /** What the watch saw counts at once. */
  #cut(cluster: string): void {
    if (this.#suspects.has(cluster) || this.#running.aborted) return;
    this.#session.deps.log.warn("no endpoint of a cluster answers any more: the data path is cut", {
      cluster,
    });
    void this.#begin(cluster, { ...UNBLAMED, isCut: true });
    this.onChange(cluster);
  }

  #begin(cluster: string, why: Blame): Promise<void> {
    const needed = why.isCut ? this.#damping.cut(cluster, this.#session.deps.clock.monotonic()) : undefined;
    const tally = new ProbeTally(needed);
    const suspect = { cluster, tally, stop: new AbortController(), ...why, asked: 0 };
    if (why.isCut) for (const it of this.#targets(cluster)) suspect.tally.note(it.address, false);
    this.#suspects.set(cluster, suspect);
    this.#findings += 1;
    const firstRound = Promise.withResolvers<void>();
    const signal = AbortSignal.any([this.#running, suspect.stop.signal]);
    this.#keep(this.#rounds(suspect, firstRound.resolve, signal).finally(() => firstRound.resolve()));
    return firstRound.promise;
  }

  /** Disposal waits for it. */
  #keep(work: Promise<void>): void {
    const done = work.finally(() => this.#done.delete(done));
    this.#done.add(done);
  }

  #end(suspect: Suspect): void {
    suspect.stop.abort();
    this.#suspects.delete(suspect.cluster);
    // Asked at once: until an endpoint has answered the watch, a cut would not be seen.
    this.#watch.notice(suspect.cluster, []);
    this.#findings += 1;
    this.onChange(suspect.cluster);
  }

  async #rounds(of: Suspect, onRound: () => void, signal: AbortSignal): Promise<void> {
    const { deps } = this.#session;
    deps.log.warn("probing the endpoints of a cluster", { suspect: of.cluster, isNamed: of.isNamed });
    while (!signal.aborted) {
      const targets = this.#targets(of.cluster);
      of.tally.keep(new Set(targets.map((it) => it.address)));
      await this.#round(of, targets, signal);
      onRound();
      if (of.isCut && of.tally.areAllAlive) {
        of.isCut = false;
        this.#damping.back(of.cluster, deps.clock.monotonic());
      }
      if (of.isDoubted && this.#isDispelled(of)) of.isDoubted = false;
      if (!isBlamed(of) && !signal.aborted) this.#end(of);
      try {
        await delay(deps.clock, ROUND_MS, signal);
      } catch (error) {
        if (!hasCode(error, "ABORTED")) throw error;
      }
    }
    deps.log.info("no longer probing a cluster", { suspect: of.cluster });
  }

  /** Whether there is no reason left to doubt a cluster. */
  #isDispelled({ tally }: Suspect): boolean {
    if (this.#isHubSilent) return false;
    return tally.areAllAlive || this.#session.deps.clock.monotonic() >= this.#trustedAtMs;
  }

  #targets(cluster: string): ProbeTarget[] {
    return planTargets(this.#known.slicesOf(cluster));
  }

  /** One slice after the other, and in the next cycle the next endpoint of each. */
  #endpointOf(cluster: string, turn: number): ProbeTarget | undefined {
    const slices = [...this.#session.fleet.sliceImports.byIndex("cluster", cluster)];
    const slice = slices[turn % slices.length];
    if (slice === undefined || !isImported(this.#session, slice)) return undefined;
    const targets = planTargets([slice]).filter((it) => it.ports.length > 0);
    const target = targets[Math.floor(turn / slices.length) % targets.length];
    return target && { ...target, of: { cluster, slice: slice.metadata.name } };
  }

  async #round(of: Suspect, targets: readonly ProbeTarget[], signal: AbortSignal): Promise<void> {
    if (of.isNamed) {
      await this.#askAll(of, targets, signal);
      return;
    }
    const askable = targets.filter((it) => it.ports.length > 0);
    const [sample, rest] = takeSample(askable, of.asked);
    of.asked += sample.length;
    if (!of.isDoubted) {
      const asked = [...sample, ...rest].slice(0, MAX_OF_CUT);
      const seenMs = asked.length === 0 ? 0 : await this.#answers(of.cluster, asked, signal);
      // An answer to the second try does not show that the path is there to stay.
      const lives = seenMs !== undefined && seenMs < PROMPT_MS;
      const changed = signal.aborted ? [] : targets.filter((it) => this.#note(of, it.address, lives));
      if (changed.length > 0) this.onChange(of.cluster);
      return;
    }
    const lives =
      (await this.#askAll(of, sample, signal)) ||
      (await this.#askAll(of, rest, signal)) ||
      askable.length === 0;
    // Those that cannot be asked are judged by the others: the hub is silent.
    const unreported = targets.filter((it) => it.ports.length === 0 && this.#note(of, it.address, lives));
    if (unreported.length > 0 && !signal.aborted) this.onChange(of.cluster);
  }

  /**
   * Reports results during the round: silent endpoints take until the timeout, and there may be many.
   *
   * @returns Whether one answered.
   */
  async #askAll(of: Suspect, targets: readonly ProbeTarget[], signal: AbortSignal): Promise<boolean> {
    const { clock } = this.#session.deps;
    let reportedAtMs = clock.monotonic();
    let isUnreported = false;
    let hasAnswer = false;
    const report = (): void => {
      if (isUnreported) this.onChange(of.cluster);
      isUnreported = false;
      reportedAtMs = clock.monotonic();
    };
    const waiting = targets.values();
    const work = async (): Promise<void> => {
      for (const target of waiting) {
        const answered = await this.#ask(target, signal);
        if (signal.aborted) return;
        hasAnswer ||= answered;
        if (this.#note(of, target.address, answered)) isUnreported = true;
        if (clock.monotonic() - reportedAtMs >= REPORT_MS) report();
      }
    };
    await Promise.all(Array.from({ length: Math.min(MAX_AT_A_TIME, targets.length) }, work));
    if (!signal.aborted) report();
    return hasAnswer;
  }

  /** By how much the first of a few endpoints answers later than the fastest ever; undefined: none does. Unit: milliseconds. */
  async #answers(
    cluster: string,
    targets: readonly ProbeTarget[],
    signal: AbortSignal,
  ): Promise<number | undefined> {
    const { clock } = this.#session.deps;
    const beganMs = clock.monotonic();
    let seenMs: number | undefined;
    const received = new AbortController();
    const either = AbortSignal.any([signal, received.signal]);
    const asked = targets.map(async (it) => {
      if (!(await this.#ask(it, either))) return;
      seenMs ??= clock.monotonic() - beganMs;
      received.abort();
    });
    await Promise.all(asked);
    if (seenMs === undefined) return undefined;
    const fastestMs = Math.min(seenMs, this.#fastestMs.get(cluster) ?? Infinity);
    this.#fastestMs.set(cluster, fastestMs);
    return seenMs - fastestMs;
  }

  /** A cluster without endpoints may have left the fleet. */
  #forgetOthers(known: readonly string[]): void {
    const left = new Set(known);
    for (const it of this.#fastestMs.keys()) if (!left.has(it)) this.#fastestMs.delete(it);
  }

  #note({ tally }: Suspect, address: string, answered: boolean): boolean {
    const isChanged = tally.note(address, answered);
    if (isChanged) this.#findings += 1;
    return isChanged;
  }

  /** One port that answers is proof enough. Without a port to probe, the hub decides. */
  async #ask({ address, ports, of }: ProbeTarget, signal: AbortSignal): Promise<boolean> {
    const answers = await Promise.all(ports.map((port) => this.#probe(address, port, signal)));
    if (of !== undefined && !signal.aborted)
      this.#refused.note(of, address, answers.length > 0 && answers.every((it) => it === "refused"));
    return answers.includes("connected");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#subscriptions.dispose();
    for (const { stop } of this.#suspects.values()) stop.abort();
    await Promise.all(this.#done);
  }
}

function addressesOf(slice: EndpointSliceImport | undefined): readonly string[] {
  return (slice?.spec.endpoints ?? []).flatMap((it) => it.addresses);
}
