import { PROBE_MS } from "./path-choice.ts";

/**
 * Which packets pass a tunnel, found by echo requests of chosen size that no one fragments; their answers are as large, so both directions
 * are measured. No message about sizes is trusted: routers may send none, and others may forge them. Pure.
 */

/** WireGuard pads packets to a multiple of this. Unit: bytes. */
const STEP = 16;
/** Of IPv6, which has no smaller links (RFC 8200, section 5). Unit: bytes. */
export const MIN_MTU = 1280;
/** A size in use is probed so often, and more often once an answer is missing. Unit: milliseconds. */
const CHECK_MS = { used: 1000, idle: 5000, doubtful: PROBE_MS };
/** Missing answers in a row after which it is searched for a smaller size. */
const MISSES = 3;
/** A search has so many turns: a size passes if it was answered in one of them. */
const SEARCH_TURNS = 3;
/** How often it is searched for a larger size. Unit: milliseconds. */
const GROW_MS = 10_000;
/** An answer that is later than this is missing. Unit: milliseconds. */
const PATIENCE_MS = 1.5 * PROBE_MS;

interface Search {
  turns: number;
  passed: number | undefined;
  lastMs: number;
}

export interface MtuView {
  readonly nowMs: number;
  /** Whether small requests are answered: without that, no size is at fault. */
  readonly isAlive: boolean;
  readonly isUsed: boolean;
  readonly rttMs: number;
}

/** The MTU of one tunnel. Times are those of RunningTime. */
export class PathMtu {
  readonly #max: number;
  readonly #sizes: readonly number[];
  readonly #pending = new Map<number, { readonly size: number; readonly sentAtMs: number }>();
  #mtu: number;
  #misses = 0;
  #checkedAtMs = Number.NEGATIVE_INFINITY;
  #searchedAtMs = Number.NEGATIVE_INFINITY;
  #search: Search | undefined;
  #path: string | undefined;

  /** @param max - Of the device. Unit: bytes. */
  constructor(max: number) {
    this.#max = max;
    this.#mtu = max;
    const count = Math.floor((max - MIN_MTU) / STEP) + 1;
    this.#sizes = Array.from({ length: count }, (_, at) => MIN_MTU + at * STEP);
  }

  /** Of packets inside the tunnel. Range: MIN_MTU to that of the device. Unit: bytes. */
  get mtu(): number {
    return this.#mtu;
  }

  /** The tunnel takes this path now: another one may have another MTU. */
  use(path: string): void {
    if (path !== this.#path) this.#search = { turns: 0, passed: undefined, lastMs: Number.NEGATIVE_INFINITY };
    this.#path = path;
  }

  /** Sizes of the requests that are due. */
  due(view: MtuView): readonly number[] {
    if (!view.isAlive) return [];
    const { nowMs, isUsed } = view;
    if (this.#mtu < this.#max && nowMs - this.#searchedAtMs >= GROW_MS)
      this.#search ??= { turns: 0, passed: undefined, lastMs: Number.NEGATIVE_INFINITY };
    const search = this.#search;
    if (search !== undefined) {
      if (search.turns >= SEARCH_TURNS || nowMs - search.lastMs < PROBE_MS / 2) return [];
      search.turns += 1;
      search.lastMs = nowMs;
      return this.#sizes;
    }
    const everyMs = this.#misses > 0 ? CHECK_MS.doubtful : isUsed ? CHECK_MS.used : CHECK_MS.idle;
    if (nowMs - this.#checkedAtMs < everyMs - PROBE_MS / 2) return [];
    this.#checkedAtMs = nowMs;
    return [this.#mtu];
  }

  sent(request: number, size: number, nowMs: number): void {
    this.#pending.set(request, { size, sentAtMs: nowMs });
  }

  /** @param bytes - Size of the answer as an IP packet: that to a request of another size proves nothing. */
  answered(request: number, bytes: number): void {
    const asked = this.#pending.get(request);
    if (asked === undefined || asked.size !== bytes) return;
    this.#pending.delete(request);
    if (asked.size >= this.#mtu) this.#misses = 0;
    if (this.#search !== undefined) this.#search.passed = Math.max(this.#search.passed ?? 0, asked.size);
  }

  /** @returns Whether the MTU changed. */
  judge({ nowMs, isAlive, rttMs }: MtuView): boolean {
    for (const [request, { size, sentAtMs }] of this.#pending) {
      if (nowMs - sentAtMs < PATIENCE_MS + rttMs) continue;
      this.#pending.delete(request);
      if (isAlive && size === this.#mtu) this.#misses += 1;
    }
    if (!isAlive) {
      this.#misses = 0;
      return false;
    }
    if (this.#search === undefined) {
      if (this.#misses >= MISSES)
        this.#search = { turns: 0, passed: undefined, lastMs: Number.NEGATIVE_INFINITY };
      return false;
    }
    const { turns, lastMs, passed } = this.#search;
    const isDone = passed === this.#max || (turns >= SEARCH_TURNS && nowMs - lastMs >= PATIENCE_MS + rttMs);
    if (!isDone) return false;
    this.#search = undefined;
    this.#searchedAtMs = nowMs;
    this.#checkedAtMs = nowMs;
    this.#misses = 0;
    const before = this.#mtu;
    this.#mtu = passed ?? MIN_MTU;
    return this.#mtu !== before;
  }
}
