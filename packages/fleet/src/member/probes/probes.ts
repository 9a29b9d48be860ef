import { delay } from "@fairlead/base/clock.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { fleetImportOf } from "../hub-cluster.ts";
import { serviceOfSliceImport } from "../informers.ts";
import type { Session } from "../session.ts";
import { ProbeTally } from "./tally.ts";
import { planTargets, type ProbeTarget, takeSample } from "./targets.ts";
import type { Probe } from "./tcp.ts";

/** Gap between two rounds while a cluster is suspect. Unit: milliseconds. */
const ROUND_MS = 1000;
/** Connections opened at a time, so that a large cluster does not fill our own connection table. */
const MAX_AT_A_TIME = 256;
/** How often results of one round are reported, at most. Unit: milliseconds. */
const TELL_MS = 250;

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
  /** How many endpoints were asked so far, one after the other and over again. */
  asked: number;
}

/**
 * Asks the endpoints of other clusters whether they still answer, in two cases:
 *
 * - The hub *names* a cluster that it has lost. An endpoint is then dropped only if hub and member agree. A hub that lost
 *   a cluster does not stop traffic by itself: a cluster that is only cut off from the hub keeps serving.
 * - This member has not reached the hub for a whole lease period, so that it receives no changes: it *doubts* all
 *   other clusters. It probes a few endpoints of each, and all endpoints of a cluster if none of these answers. Doubt alone
 *   never removes the last endpoints of a service: see `aliveIn`. When the hub is back, doubt of a cluster ends
 *   with its last silent endpoint, or when the hub had the time to name the cluster; not because the hub named it for a
 *   while, and reports that before it reports which endpoints went in the meantime.
 */
export class Probes implements AsyncDisposable {
  readonly #session: Session;
  readonly #probe: Probe;
  readonly #suspects = new Map<string, Suspect>();
  readonly #done = new Set<Promise<void>>();
  #subscription: Disposable | undefined;
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
  }

  /**
   * Resolves after the first round: an agent that starts while a cluster is suspect must not send traffic to endpoints
   * that its predecessor had dropped.
   */
  async start(signal: AbortSignal): Promise<void> {
    const { internalMembers } = this.#session.mailbox;
    this.#running = signal;
    this.#subscription = internalMembers.subscribe(() => void this.#follow());
    await this.#follow();
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
    const { deps, fleet, cluster } = this.#session;
    deps.log.warn("lease not renewed for a whole lease period, probing the endpoints of all clusters");
    this.#isHubSilent = true;
    const others = new Set<string>();
    for (const { spec } of fleet.sliceImports.list()) others.add(spec.endpointSliceReference.clusterId);
    others.delete(cluster);
    for (const suspect of this.#suspects.values()) suspect.isDoubted = true;
    for (const name of others)
      if (!this.#suspects.has(name)) void this.#begin(name, { isNamed: false, isDoubted: true });
  }

  /** The hub is there again, and names within a lease whom it misses. */
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
      if (it.isNamed || it.isDoubted) {
        this.#findings += 1;
        this.onChange(it.cluster);
      } else this.#end(it);
    }
    const first = [...named].filter((name) => !this.#suspects.has(name));
    await Promise.all(
      first.map((name) => this.#begin(name, { isNamed: true, isDoubted: this.#isHubSilent })),
    );
  }

  #begin(cluster: string, why: Pick<Suspect, "isNamed" | "isDoubted">): Promise<void> {
    const suspect = { cluster, tally: new ProbeTally(), stop: new AbortController(), ...why, asked: 0 };
    this.#suspects.set(cluster, suspect);
    this.#findings += 1;
    const firstRound = Promise.withResolvers<void>();
    const signal = AbortSignal.any([this.#running, suspect.stop.signal]);
    const done = this.#rounds(suspect, firstRound.resolve, signal).finally(() => {
      firstRound.resolve();
      this.#done.delete(done);
    });
    this.#done.add(done);
    return firstRound.promise;
  }

  #end(suspect: Suspect): void {
    suspect.stop.abort();
    this.#suspects.delete(suspect.cluster);
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
      if (of.isDoubted && this.#isDispelled(of)) {
        of.isDoubted = false;
        if (!of.isNamed) this.#end(of);
      }
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
    const { fleet, here } = this.#session;
    const slices = [...fleet.sliceImports.byIndex("cluster", cluster)];
    return planTargets(
      slices.filter((it) => {
        const service = serviceOfSliceImport(it);
        const isOfMcs = here.mcsImports.store.get(service) !== undefined;
        return isOfMcs || fleetImportOf(this.#session, service) !== undefined;
      }),
    );
  }

  async #round(of: Suspect, targets: readonly ProbeTarget[], signal: AbortSignal): Promise<void> {
    if (of.isNamed) {
      await this.#askAll(of, targets, signal);
      return;
    }
    const askable = targets.filter((it) => it.ports.length > 0);
    const [sample, rest] = takeSample(askable, of.asked);
    of.asked += sample.length;
    const lives =
      (await this.#askAll(of, sample, signal)) ||
      (await this.#askAll(of, rest, signal)) ||
      askable.length === 0;
    // Of those that cannot be asked the others tell: the hub says nothing.
    const untold = targets.filter((it) => it.ports.length === 0 && this.#note(of, it.address, lives));
    if (untold.length > 0 && !signal.aborted) this.onChange(of.cluster);
  }

  /**
   * Reports results during the round: silent endpoints take until the timeout, and there may be many.
   *
   * @returns Whether one answered.
   */
  async #askAll(of: Suspect, targets: readonly ProbeTarget[], signal: AbortSignal): Promise<boolean> {
    const { clock } = this.#session.deps;
    let toldAtMs = clock.monotonic();
    let isUntold = false;
    let hasAnswer = false;
    const tell = (): void => {
      if (isUntold) this.onChange(of.cluster);
      isUntold = false;
      toldAtMs = clock.monotonic();
    };
    const waiting = targets.values();
    const work = async (): Promise<void> => {
      for (const target of waiting) {
        const answered = await this.#ask(target, signal);
        if (signal.aborted) return;
        hasAnswer ||= answered;
        if (this.#note(of, target.address, answered)) isUntold = true;
        if (clock.monotonic() - toldAtMs >= TELL_MS) tell();
      }
    };
    await Promise.all(Array.from({ length: Math.min(MAX_AT_A_TIME, targets.length) }, work));
    if (!signal.aborted) tell();
    return hasAnswer;
  }

  #note({ tally }: Suspect, address: string, answered: boolean): boolean {
    const isChanged = tally.note(address, answered);
    if (isChanged) this.#findings += 1;
    return isChanged;
  }

  /** One port that answers is proof enough. Without a port to probe, the hub decides. */
  async #ask({ address, ports }: ProbeTarget, signal: AbortSignal): Promise<boolean> {
    const answers = await Promise.all(ports.map((port) => this.#probe(address, port, signal)));
    return answers.includes(true);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#subscription?.[Symbol.dispose]();
    for (const { stop } of this.#suspects.values()) stop.abort();
    await Promise.all(this.#done);
  }
}
