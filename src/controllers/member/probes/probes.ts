import { delay } from "#base/clock.ts";
import { hasCode } from "#base/errors.ts";
import { objectKey } from "#api/meta/key.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import type { Session } from "../session.ts";
import { ProbeTally } from "./tally.ts";
import { planTargets, type ProbeTarget } from "./targets.ts";
import type { Probe } from "./tcp.ts";

/** Gap between two rounds while a cluster is suspect. Unit: milliseconds. */
const ROUND_MS = 1000;
/** Connections opened at a time, so that a large cluster does not fill our own connection table. */
const MAX_AT_A_TIME = 256;
/** Findings of one round are told at most this often. Unit: milliseconds. */
const TELL_MS = 250;

interface Suspect {
  readonly cluster: string;
  readonly tally: ProbeTally;
}

/**
 * Asks the endpoints of clusters that the hub has lost whether they still answer. The hub alone never stops traffic: a
 * cluster that is only cut off from the hub goes on serving, and a dead hub suspects nobody.
 */
export class Probes implements AsyncDisposable {
  readonly #session: Session;
  readonly #probe: Probe;
  readonly #running = new Map<string, { readonly stop: AbortController; readonly done: Promise<void> }>();
  readonly #tallies = new Map<string, ProbeTally>();
  #subscription: Disposable | undefined;
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
    const { orders } = this.#session.mailbox;
    this.#subscription = orders.subscribe(() => void this.#follow(signal));
    await this.#follow(signal);
  }

  isAlive(cluster: string, addresses: readonly string[]): boolean {
    const tally = this.#tallies.get(cluster);
    return tally === undefined || tally.isAlive(addresses[0] ?? "");
  }

  /** Starts probing clusters that became suspect, and ends it for those that no longer are. */
  async #follow(signal: AbortSignal): Promise<void> {
    const { cluster, mailbox } = this.#session;
    const orders = mailbox.orders.store.get(objectKey(mailboxOf(cluster), cluster));
    // Orders that cannot be seen lift no suspicion.
    if (orders === undefined) return;
    const suspects = new Set((orders.spec.suspects ?? []).map((it) => it.cluster));
    suspects.delete(cluster);
    for (const [name, { stop }] of this.#running)
      if (!suspects.has(name)) {
        stop.abort();
        this.#running.delete(name);
        this.#tallies.delete(name);
        this.onChange(name);
      }
    const first = [...suspects].filter((name) => !this.#running.has(name));
    await Promise.all(first.map((name) => this.#begin(name, signal)));
  }

  #begin(cluster: string, signal: AbortSignal): Promise<void> {
    const stop = new AbortController();
    const running = AbortSignal.any([signal, stop.signal]);
    const tally = new ProbeTally();
    this.#tallies.set(cluster, tally);
    const firstRound = Promise.withResolvers<void>();
    const done = this.#rounds({ cluster, tally, onRound: firstRound.resolve }, running).finally(
      firstRound.resolve,
    );
    this.#running.set(cluster, { stop, done });
    return firstRound.promise;
  }

  async #rounds(of: Suspect & { readonly onRound: () => void }, signal: AbortSignal): Promise<void> {
    const { deps, fleet } = this.#session;
    deps.log.warn("the hub has lost a cluster: probing its endpoints", { suspect: of.cluster });
    while (!signal.aborted) {
      const targets = planTargets(fleet.sliceImports.byIndex("cluster", of.cluster));
      of.tally.keep(new Set(targets.map((it) => it.address)));
      await this.#round(of, targets, signal);
      of.onRound();
      try {
        await delay(deps.clock, ROUND_MS, signal);
      } catch (error) {
        if (!hasCode(error, "ABORTED")) throw error;
      }
    }
    deps.log.info("no longer probing a cluster", { suspect: of.cluster });
  }

  /** What was found is told while the round goes on: silent endpoints take their time, and there may be many. */
  async #round(of: Suspect, targets: readonly ProbeTarget[], signal: AbortSignal): Promise<void> {
    const { clock } = this.#session.deps;
    let toldAtMs = clock.monotonic();
    let isUntold = false;
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
        if (of.tally.note(target.address, answered)) isUntold = true;
        if (clock.monotonic() - toldAtMs >= TELL_MS) tell();
      }
    };
    await Promise.all(Array.from({ length: Math.min(MAX_AT_A_TIME, targets.length) }, work));
    if (!signal.aborted) tell();
  }

  /** One port that answers is proof enough. Where there is none to ask, the hub's word counts. */
  async #ask({ address, ports }: ProbeTarget, signal: AbortSignal): Promise<boolean> {
    const answers = await Promise.all(ports.map((port) => this.#probe(address, port, signal)));
    return answers.includes(true);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#subscription?.[Symbol.dispose]();
    const running = [...this.#running.values()];
    for (const { stop } of running) stop.abort();
    await Promise.all(running.map((it) => it.done));
  }
}
