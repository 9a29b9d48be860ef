import { DEAD_MS, PROBE_MS, STABLE_ANSWERS } from "./path-choice.ts";

/** Whether a probed target answers, and how often it is probed. Pure. */

/** Interval of probes of a target that answers and carries little traffic, and the longest for one that does not answer. Unit: milliseconds. */
export const IDLE_PROBE_MS = 2000;
/** How long a target that does not answer is probed often. Unit: milliseconds. */
const SEARCH_MS = 10_000;
/** Share of one sample in the smoothed round trip (RFC 6298) and in the loss. */
const RTT_SHARE = 1 / 8;
const LOSS_SHARE = 1 / 40;
/** Of which a slow path makes its failure known later. Unit: milliseconds. */
const LONGEST_RTT_MS = 2000;
/** A target that dies again within this time after it came back is less trusted. Unit: milliseconds. */
const MEMORY_MS = 300_000;
/** How long it has to answer then before it counts as alive, after each death twice as long, and at most. Unit: milliseconds. */
const FIRST_HOLD_MS = 2000;
const LONGEST_HOLD_MS = 60_000;
/** A time step that counts in full at most: that of a turn that is a little late. Two of them end nothing. Unit: milliseconds. */
const LONGEST_STEP_MS = DEAD_MS / 2;

/**
 * Time in which the program had processor time. A turn that begins late has not read the answers that wait in the socket, so that its
 * delay must not make targets dead: of a longer step, only LONGEST_STEP_MS count.
 */
export class RunningTime {
  #nowMs = 0;
  #turnedAtMs: number | undefined;

  /** Begins a turn. @returns The time. Unit: milliseconds. */
  turn(monotonicMs: number): number {
    this.#nowMs = this.at(monotonicMs);
    this.#turnedAtMs = monotonicMs;
    return this.#nowMs;
  }

  at(monotonicMs: number): number {
    return this.#nowMs + Math.min(monotonicMs - (this.#turnedAtMs ?? monotonicMs), LONGEST_STEP_MS);
  }
}

/** The state of one target. Times are those of RunningTime. */
export class Liveness {
  isAlive = false;
  rttMs: number | undefined;
  loss = 0;
  readonly #sentAtMs = new Map<number, number>();
  #lastSentMs = Number.NEGATIVE_INFINITY;
  /** When the first of the requests was sent after which no answer has come; undefined after an answer. */
  #silentSinceMs: number | undefined;
  /** When it was last probed often for the reason that it does not answer. */
  #searchesSinceMs: number | undefined;
  /** When it died last. */
  #diedAtMs = Number.NEGATIVE_INFINITY;
  /** Answers since it died. Undefined: it never did. */
  #answersAfterDeath: number | undefined;
  /** Since when it has answered every request, after a death. */
  #answersSinceMs = 0;
  #aliveSinceMs = Number.NEGATIVE_INFINITY;
  #holdMs = 0;
  #hasDied = false;

  /** It has answered since it died, but not often enough to be alive: better than one that does not answer. */
  get isAnswering(): boolean {
    return this.isAlive || (this.#answersAfterDeath ?? 0) > 0;
  }

  /** @param isUsed - Whether it carries traffic. */
  isDue(nowMs: number, isUsed: boolean): boolean {
    return nowMs - this.#lastSentMs >= this.#intervalMs(nowMs, isUsed) - PROBE_MS / 2;
  }

  sent(request: number, nowMs: number): void {
    this.#sentAtMs.set(request, nowMs);
    this.#lastSentMs = nowMs;
    this.#silentSinceMs ??= nowMs;
    this.#searchesSinceMs ??= nowMs;
  }

  /** @returns Whether the target came alive. */
  answered(request: number, nowMs: number): boolean {
    const sentAtMs = this.#sentAtMs.get(request);
    if (sentAtMs === undefined) return false;
    const isGap = this.#giveUp((_, earlier) => earlier !== request);
    this.#sentAtMs.delete(request);
    const rttMs = nowMs - sentAtMs;
    this.rttMs = this.rttMs === undefined ? rttMs : this.rttMs + (rttMs - this.rttMs) * RTT_SHARE;
    this.loss -= this.loss * LOSS_SHARE;
    this.#silentSinceMs = undefined;
    // Answers to what was sent before its death may come all at once.
    if (this.isAlive || sentAtMs < this.#diedAtMs) return false;
    const before = this.#answersAfterDeath ?? STABLE_ANSWERS;
    this.#answersAfterDeath = isGap && (before < STABLE_ANSWERS || this.#holdMs > 0) ? 1 : before + 1;
    if (this.#answersAfterDeath === 1) this.#answersSinceMs = nowMs;
    const isHeld = nowMs - this.#answersSinceMs < this.#holdMs;
    this.isAlive = this.#answersAfterDeath >= STABLE_ANSWERS && !isHeld;
    if (this.isAlive) this.#aliveSinceMs = nowMs;
    return this.isAlive;
  }

  /** @returns Whether the target died. */
  judge(nowMs: number): boolean {
    this.#giveUp((sentAtMs) => nowMs - sentAtMs >= this.#patienceMs());
    if (this.#silentMs(nowMs) < this.#patienceMs()) return false;
    if (!this.isAlive) {
      this.#answersAfterDeath &&= 0;
      return false;
    }
    this.isAlive = false;
    this.#diedAtMs = nowMs;
    this.#answersAfterDeath = 0;
    this.#searchesSinceMs = nowMs;
    const isSoon = nowMs - this.#aliveSinceMs < MEMORY_MS;
    this.#holdMs =
      isSoon && this.#hasDied ? Math.min(LONGEST_HOLD_MS, Math.max(FIRST_HOLD_MS, 2 * this.#holdMs)) : 0;
    this.#hasDied = true;
    return true;
  }

  /** Takes the oldest requests for lost, as long as the condition holds. @returns Whether there was one. */
  #giveUp(isLost: (sentAtMs: number, request: number) => boolean): boolean {
    let isAny = false;
    for (const [request, sentAtMs] of this.#sentAtMs) {
      if (!isLost(sentAtMs, request)) break;
      this.#sentAtMs.delete(request);
      this.loss += (1 - this.loss) * LOSS_SHARE;
      isAny = true;
    }
    return isAny;
  }

  #intervalMs(nowMs: number, isUsed: boolean): number {
    if (!this.isAlive) return nowMs - (this.#searchesSinceMs ?? nowMs) < SEARCH_MS ? PROBE_MS : IDLE_PROBE_MS;
    const isDoubtful = this.#silentMs(nowMs) >= Math.max(PROBE_MS / 2, 2 * (this.rttMs ?? 0));
    return isUsed || isDoubtful ? PROBE_MS : IDLE_PROBE_MS;
  }

  #silentMs(nowMs: number): number {
    return this.#silentSinceMs === undefined ? 0 : nowMs - this.#silentSinceMs;
  }

  /** How long an answer may take. */
  #patienceMs(): number {
    return DEAD_MS + Math.min(this.rttMs ?? 0, LONGEST_RTT_MS);
  }
}
