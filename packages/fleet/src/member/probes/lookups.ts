import { Resolver } from "node:dns/promises";
import { type Clock, delay } from "@fairlead/base/clock.ts";
import type { Measurements } from "#api/fairlead.dev/v1alpha1/updates.ts";
import { FlowTally } from "./flow-tally.ts";

/** Asks a DNS server for the addresses of a name. @returns What is wrong; undefined: it has one. Never throws. */
export type Lookup = (server: string, name: string) => Promise<string | undefined>;

/** From one lookup of the Service, and of a server behind it, to the next. Unit: milliseconds. */
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

/** Asks the Service of the cluster's DNS, and each server behind it in turn, for each name, while the hub wants measurements. */
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
    const open = new Set<Promise<void>>();
    // Where it never answers, as in the network of a node without a proxy, it says nothing of the DNS.
    let answering: string | undefined;
    const ask = async (server: string, name: string, isOfService: boolean): Promise<void> => {
      const problem = await lookup(server, name);
      if (isOfService && problem === undefined) answering = server;
      if (!signal.aborted && (!isOfService || server === answering)) tally.note(problem, clock.monotonic());
    };
    for (let turn = 0; !signal.aborted; turn += 1) {
      const [service, ...behind] = servers();
      const all = names();
      const name = all[Math.floor(turn / (behind.length || 1)) % all.length];
      const next = behind[turn % behind.length];
      if (service !== undefined && name !== undefined)
        for (const server of next === undefined ? [service] : [service, next]) {
          // One that does not answer holds up no other.
          const asked = ask(server, name, next !== undefined && server === service).finally(() => {
            open.delete(asked);
          });
          open.add(asked);
        }
      await delay(clock, GAP_MS, signal).catch(() => {});
    }
    await Promise.all(open);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.want(false);
    await this.#done;
  }
}
