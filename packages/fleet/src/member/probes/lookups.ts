import { Resolver } from "node:dns/promises";
import { type Clock, delay } from "@fairlead/base/clock.ts";
import type { Measurements } from "#api/fairlead.dev/v1alpha1/updates.ts";
import { FlowTally } from "./flow-tally.ts";

/** Asks a DNS server for the addresses of a name. @returns What is wrong; undefined: it has one. Never throws. */
export type Lookup = (server: string, name: string) => Promise<string | undefined>;

/** Gap between two lookups. Unit: milliseconds. */
const GAP_MS = 500;
const TIMEOUT_MS = 1000;
/** Fewer say nothing. */
const MIN_TRIED = 20;

export function dnsLookup(): Lookup {
  return async (server, name) => {
    const resolver = new Resolver({ timeout: TIMEOUT_MS, tries: 1 });
    try {
      resolver.setServers([server]);
      const found = await Promise.any([resolver.resolve4(name), resolver.resolve6(name)]);
      return found.length > 0 ? undefined : "no address";
    } catch (error) {
      return String(error);
    }
  };
}

export interface LookupsOptions {
  /** Addresses of the cluster's DNS: that of its Service, which does not answer everywhere, and those of the servers behind it. */
  readonly servers: () => readonly string[];
  readonly names: () => readonly string[];
  readonly lookup: Lookup;
  readonly clock: Clock;
}

/** Asks each address of the cluster's DNS, in turn, for each name, in turn, while the hub wants measurements. */
export class Lookups implements AsyncDisposable {
  readonly #options: LookupsOptions;
  #tally = new FlowTally();
  #stop: AbortController | undefined;
  #done: Promise<unknown> = Promise.resolve();

  constructor(options: LookupsOptions) {
    this.#options = options;
  }

  want(isWanted: boolean): void {
    if (isWanted === (this.#stop !== undefined)) return;
    this.#stop?.abort();
    this.#stop = isWanted ? new AbortController() : undefined;
    if (this.#stop === undefined) return;
    this.#tally = new FlowTally();
    this.#done = Promise.all([this.#done, this.#rounds(this.#tally, this.#stop.signal)]);
  }

  /** Nothing where no DNS of the cluster is known. */
  get measurements(): Measurements {
    if (this.#options.servers().length === 0) return {};
    const { tried, failed } = this.#tally.at(this.#options.clock.monotonic());
    if (tried < MIN_TRIED) return { lookups: tried };
    return { lookups: tried, failedLookupsPerMille: Math.round((1000 * failed) / tried) };
  }

  async #rounds(tally: FlowTally, signal: AbortSignal): Promise<void> {
    const { servers, names, lookup, clock } = this.#options;
    // Where it never answers, as in the network of a node without a proxy, it says nothing of the DNS.
    let answering: string | undefined;
    for (let turn = 0; !signal.aborted; turn += 1) {
      const from = servers();
      const all = names();
      const server = from[turn % from.length];
      const name = all[Math.floor(turn / from.length) % all.length];
      if (server !== undefined && name !== undefined) {
        const problem = await lookup(server, name);
        if (server === from[0] && problem === undefined) answering = server;
        const isCounted = server !== from[0] || server === answering || from.length === 1;
        if (!signal.aborted && isCounted) tally.note(problem, clock.monotonic());
      }
      await delay(clock, GAP_MS, signal).catch(() => {});
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.want(false);
    await this.#done;
  }
}
