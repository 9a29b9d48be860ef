import type { UdpEndpoint } from "../control/datagram.ts";
import type { ProbedPaths } from "./probed-paths.ts";

/**
 * Datagrams to addresses of one member that do not answer: so many at once, for a first search by all of its gateways, and so many each
 * second for good. A member may name addresses of others, and all gateways of the fleet ask there.
 */
export const SEARCH_BURST = 64;
export const SEARCHES_PER_SECOND = 1;

interface Searched {
  readonly paths: Pick<ProbedPaths, "search">;
}

interface DueAddress<T> {
  readonly gateway: T;
  readonly endpoint: UdpEndpoint;
}

/** The search for direct paths to the gateways of one member, within bounds, whatever they name, and how often they change it. Pure. */
export class CandidateSearch<T extends Searched> {
  /** Its gateways, by key. */
  gateways: readonly T[] = [];
  #left = SEARCH_BURST;
  #filledAtMs: number;
  /** The gateway whose turn it is. */
  #next = 0;

  constructor(nowMs: number) {
    this.#filledAtMs = nowMs;
  }

  /** Whether nothing has to be remembered of it. */
  isOver(nowMs: number): boolean {
    this.#fill(nowMs);
    return this.gateways.length === 0 && this.#left === SEARCH_BURST;
  }

  /** The addresses that are asked now. */
  due(nowMs: number): readonly DueAddress<T>[] {
    this.#fill(nowMs);
    const found: DueAddress<T>[] = [];
    for (const _ of this.gateways) {
      const gateway = this.gateways[this.#next % this.gateways.length];
      if (gateway !== undefined) found.push(...this.#of(gateway, nowMs));
      if (this.#left < 1) break;
      this.#next = (this.#next + 1) % this.gateways.length;
    }
    return found;
  }

  *#of(gateway: T, nowMs: number): Generator<DueAddress<T>> {
    while (this.#left >= 1) {
      const endpoint = gateway.paths.search(nowMs);
      if (endpoint === undefined) return;
      this.#left -= 1;
      yield { gateway, endpoint };
    }
  }

  #fill(nowMs: number): void {
    const added = ((nowMs - this.#filledAtMs) / 1000) * SEARCHES_PER_SECOND;
    this.#left = Math.min(SEARCH_BURST, this.#left + added);
    this.#filledAtMs = nowMs;
  }
}
