import { type Clock, delay } from "@fairlead/base/clock.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import { hash32 } from "@fairlead/base/text.ts";
import type { FlowReport, ProbeRequest } from "#api/fairlead.dev/v1alpha1/updates.ts";
import type { FlowTarget } from "./flow-targets.ts";
import { FlowTally } from "./flow-tally.ts";

/** Asks a target as a client would. @returns What is wrong; undefined: it answered. */
export type FlowProbe = (target: FlowTarget, signal: AbortSignal) => Promise<string | undefined>;

/** How often a cluster is asked, and all clusters together. */
const PER_SECOND = { cluster: 4, all: 20 };
/** Those that do not answer are not waited for, up to so many of a cluster. */
const MAX_OPEN = 16;
/** How long a list of targets is used. Unit: milliseconds. */
const TARGETS_MS = 2000;
/** A service has failed when half of its probes have, of so many at least. */
const MIN_OF_SERVICE = 4;
const MAX_MESSAGE = 200;

interface Probed {
  readonly request: ProbeRequest;
  readonly stop: AbortController;
  readonly all: FlowTally;
  readonly services: Map<string, FlowTally>;
  targets: readonly FlowTarget[];
}

export interface FlowProbesOptions {
  /** This cluster: others begin with other targets. */
  readonly cluster: string;
  readonly targets: (request: ProbeRequest) => readonly FlowTarget[];
  readonly probe: FlowProbe;
  readonly clock: Clock;
}

/** Probes services of other clusters while the hub asks for it, at a bounded rate, and counts what failed. */
export class FlowProbes implements AsyncDisposable {
  readonly #options: FlowProbesOptions;
  readonly #probed = new Map<string, Probed>();
  readonly #done = new Set<Promise<void>>();

  constructor(options: FlowProbesOptions) {
    this.#options = options;
  }

  /** Probes these clusters, and no others. */
  want(requests: readonly ProbeRequest[]): void {
    const wanted = new Map(requests.map((it) => [it.cluster, it]));
    for (const [cluster, it] of this.#probed)
      if (wanted.get(cluster)?.since !== it.request.since) {
        it.stop.abort();
        this.#probed.delete(cluster);
      }
    for (const [cluster, request] of wanted) if (!this.#probed.has(cluster)) this.#begin(request);
  }

  report(): FlowReport[] {
    const nowMs = this.#options.clock.monotonic();
    return [...this.#probed.values()].map(({ request, all, services, targets }) => ({
      cluster: request.cluster,
      since: request.since,
      targets: targets.length,
      ...all.at(nowMs),
      failedServices: [...services.values()].filter((it) => hasFailed(it, nowMs)).length,
    }));
  }

  #begin(request: ProbeRequest): void {
    const probed: Probed = {
      request,
      stop: new AbortController(),
      all: new FlowTally(),
      services: new Map(),
      targets: this.#options.targets(request),
    };
    this.#probed.set(request.cluster, probed);
    this.#keep(this.#rounds(probed));
  }

  async #rounds(of: Probed): Promise<void> {
    const { clock, targets, cluster } = this.#options;
    const { signal } = of.stop;
    let turn = hash32(cluster);
    let open = 0;
    let refreshMs = clock.monotonic() + TARGETS_MS;
    while (!signal.aborted) {
      if (clock.monotonic() >= refreshMs) {
        of.targets = targets(of.request);
        forgetOthers(of);
        refreshMs = clock.monotonic() + TARGETS_MS;
      }
      const target = of.targets[turn++ % of.targets.length];
      if (target !== undefined && open < MAX_OPEN) {
        open += 1;
        this.#keep(this.#ask(of, target).finally(() => (open -= 1)));
      }
      const gapMs = 1000 * Math.max(1 / PER_SECOND.cluster, this.#probed.size / PER_SECOND.all);
      await delay(clock, gapMs, signal).catch(() => {});
    }
  }

  async #ask(of: Probed, target: FlowTarget): Promise<void> {
    const { probe, clock } = this.#options;
    const { signal } = of.stop;
    const problem = await probe(target, signal).catch(messageOf);
    if (signal.aborted) return;
    const { service, address, port } = target;
    const message = problem === undefined ? undefined : `${service} ${address} port ${port}: ${problem}`;
    const nowMs = clock.monotonic();
    of.all.note(message?.slice(0, MAX_MESSAGE), nowMs);
    const tally = of.services.get(service) ?? new FlowTally();
    of.services.set(service, tally);
    tally.note(message, nowMs);
  }

  /** Disposal waits for it. */
  #keep(work: Promise<void>): void {
    const done = work.finally(() => this.#done.delete(done));
    this.#done.add(done);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.want([]);
    await Promise.all(this.#done);
  }
}

function hasFailed(tally: FlowTally, nowMs: number): boolean {
  const { tried, failed } = tally.at(nowMs);
  return tried >= MIN_OF_SERVICE && 2 * failed >= tried;
}

/** Services whose endpoints are all gone say nothing any more: the member itself reports those without endpoints. */
function forgetOthers({ services, targets }: Probed): void {
  const left = new Set(targets.map((it) => it.service));
  for (const it of services.keys()) if (!left.has(it)) services.delete(it);
}
