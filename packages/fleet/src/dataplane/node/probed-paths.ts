import type { UdpEndpoint } from "../control/datagram.ts";
import { IDLE_PROBE_MS } from "./liveness.ts";
import {
  type DirectPath,
  HOLD_OFF_MS,
  isLivingPath,
  isSameEndpoint,
  PROBE_MS,
  STABLE_ANSWERS,
} from "./path-choice.ts";

/** Probes of candidates that do not answer: often at first, because both sides have to open their NATs. Unit: milliseconds. */
const SEARCH_MS = { first: 500, longest: 10_000 };
/** Share of a new round trip in the smoothed one (RFC 6298). */
const RTT_SHARE = 1 / 8;

interface ProbedPath extends DirectPath {
  readonly probedAtMs: number;
}

/** The direct paths of one pair of gateways: which candidates answer, and when each is due for a probe. Pure. */
export class ProbedPaths {
  candidates: readonly UdpEndpoint[] = [];
  readonly #paths = new Map<string, ProbedPath>();
  #searchMs = SEARCH_MS.first;
  #searchedAtMs = Number.NEGATIVE_INFINITY;
  /** Candidates that the present search has not come to. */
  #unasked: UdpEndpoint[] = [];

  /** @param before - Paths of the same gateway: however often it has another key, it is not searched for more often. */
  constructor(before?: ProbedPaths) {
    if (before !== undefined) this.#searchedAtMs = before.#searchedAtMs;
  }

  list(): readonly DirectPath[] {
    return [...this.#paths.values()];
  }

  /** @returns Whether the choice of a path may change. */
  answered(endpoint: UdpEndpoint, sentAtMs: number, nowMs: number): boolean {
    const id = idOf(endpoint);
    const before = this.#paths.get(id);
    const isAlive = before !== undefined && isLivingPath(before, nowMs);
    const rttMs = nowMs - sentAtMs;
    const answers = isAlive ? before.answers + 1 : 1;
    this.#paths.set(id, {
      ...before,
      endpoint,
      silentSinceMs: undefined,
      probedAtMs: before?.probedAtMs ?? sentAtMs,
      answers,
      rttMs: isAlive ? before.rttMs + (rttMs - before.rttMs) * RTT_SHARE : rttMs,
    });
    // The counts at which the choice may change.
    return answers <= STABLE_ANSWERS;
  }

  /** So long the program did not run, so that answers may wait in the socket: the delay does not make paths dead. */
  forgive(delayMs: number): void {
    for (const [id, { silentSinceMs, ...path }] of this.#paths)
      if (silentSinceMs !== undefined)
        this.#paths.set(id, { ...path, silentSinceMs: silentSinceMs + delayMs });
  }

  /** Ends paths that do not answer, and the time in which a path that failed is not used. @returns Whether there was one. */
  judge(nowMs: number): boolean {
    let isAny = false;
    for (const [id, path] of this.#paths)
      if (path.answers > 0 && !isLivingPath(path, nowMs)) {
        if (path.answers >= STABLE_ANSWERS) this.#paths.set(id, { ...path, answers: 0, failedAtMs: nowMs });
        else this.#paths.delete(id);
        isAny = true;
      } else if (path.failedAtMs !== undefined && nowMs - path.failedAtMs >= HOLD_OFF_MS) {
        const { failedAtMs: _, ...rest } = path;
        if (path.answers > 0) this.#paths.set(id, rest);
        else this.#paths.delete(id);
        isAny = true;
      }
    return isAny;
  }

  /** The paths that are probed now: one that answers is kept, whatever candidates the other gateway names. */
  due(nowMs: number, isUsed: (endpoint: UdpEndpoint) => boolean): readonly UdpEndpoint[] {
    const due = this.#living().filter(
      (it) => nowMs - it.probedAtMs >= intervalMs(it, nowMs, isUsed) - PROBE_MS / 2,
    );
    for (const path of due)
      this.#paths.set(idOf(path.endpoint), {
        ...path,
        probedAtMs: nowMs,
        silentSinceMs: path.silentSinceMs ?? nowMs,
      });
    return due.map((it) => it.endpoint);
  }

  /** The next candidate, of those that do not answer, that is due; undefined: none is. */
  search(nowMs: number): UdpEndpoint | undefined {
    if (this.#unasked.length === 0 && nowMs - this.#searchedAtMs >= this.#searchMs) {
      this.#searchedAtMs = nowMs;
      this.#searchMs = Math.min(2 * this.#searchMs, SEARCH_MS.longest);
      this.#unasked = [...this.candidates];
    }
    for (let next = this.#unasked.shift(); next !== undefined; next = this.#unasked.shift())
      if (this.#isSilentCandidate(next)) return next;
    return undefined;
  }

  #isSilentCandidate(endpoint: UdpEndpoint): boolean {
    const isSame = (it: UdpEndpoint): boolean => isSameEndpoint(it, endpoint);
    return this.candidates.some(isSame) && !this.#living().some((it) => isSame(it.endpoint));
  }

  #living(): readonly ProbedPath[] {
    return [...this.#paths.values()].filter((it) => it.answers > 0);
  }
}

/** Often while a path proves itself, carries traffic or is in doubt. */
function intervalMs(
  { endpoint, answers, silentSinceMs, rttMs }: DirectPath,
  nowMs: number,
  isUsed: (endpoint: UdpEndpoint) => boolean,
): number {
  const isDoubtful =
    silentSinceMs !== undefined && nowMs - silentSinceMs >= Math.max(PROBE_MS / 2, 2 * rttMs);
  return answers < STABLE_ANSWERS || isDoubtful || isUsed(endpoint) ? PROBE_MS : IDLE_PROBE_MS;
}

function idOf({ address, port }: UdpEndpoint): string {
  return `${address} ${port}`;
}
