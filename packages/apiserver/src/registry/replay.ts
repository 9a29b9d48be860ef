import type { Clock } from "@fairlead/base/clock.ts";
import { finish, type Steps } from "@fairlead/base/turn.ts";
import type { Transaction } from "#storage/store.ts";
import { Pending } from "./pending.ts";
import { Slices } from "./slices.ts";
import type { WriteEnvironment } from "./write.ts";

/** Something to ask of the outside: the same key has the same answer for the whole of a request. */
export interface Question<T> {
  readonly key: string;
  /** Rejects only if the request as a whole cannot continue. */
  ask(signal: AbortSignal): Promise<T>;
}

/**
 * What the attempts of one write have in common: the answers that were given, and what was left to chance and to the
 * clock, so that an attempt on the same state asks the same questions. On another state it asks others.
 */
export class Replay {
  readonly #answers = new Map<string, unknown>();
  readonly #chance: number[] = [];
  readonly #uids: string[] = [];
  readonly #slices: Slices | undefined;
  #nowMs: number | undefined;

  /** @param clock - Of a write of a large object, which is worked out in slices. */
  constructor(clock?: Clock) {
    this.#slices = clock === undefined ? undefined : new Slices(clock);
  }

  /** Whether the attempt before was cut: then it has done nothing but such work as `inSlices` does. */
  get isContinued(): boolean {
    return this.#slices?.isContinued === true;
  }

  /**
   * The result of work that depends on nothing but the request and one state of the object. On a large one, each attempt does
   * a slice of it, and other requests and writes come between. The result is that of all attempts until none is cut any more:
   * it must not be changed, but for what an attempt changes in the same way again.
   *
   * @param name - Of the work; each is asked for in the same order.
   * @param state - The stored object: where another one has taken its place, the work begins again.
   * @throws {Pending} where the work is not done yet.
   */
  inSlices<T>(name: string, state: object | undefined, start: () => Steps<T>): T {
    return this.#slices === undefined ? finish(start()) : this.#slices.resultOf(name, state, start);
  }

  /**
   * The answers to `questions`, in their order.
   *
   * @throws {Pending} when one of them was not given yet; all that are missing are asked at once.
   */
  answersTo<T>(questions: readonly Question<T>[]): readonly T[] {
    const missing = questions.filter((it) => !this.#answers.has(it.key));
    if (missing.length === 0) return questions.map((it) => this.#answers.get(it.key) as T);
    throw new Pending(async (signal) => {
      await Promise.all(missing.map(async (it) => this.#answers.set(it.key, await it.ask(signal))));
    });
  }

  /** `env` and `tx` for one attempt: the nth number and the nth uid are those of the attempts before. */
  attempt(env: WriteEnvironment, tx: Transaction): { env: WriteEnvironment; tx: Transaction } {
    this.#nowMs ??= tx.nowMs;
    this.#slices?.beginAttempt();
    const repeat = <T>(known: T[], draw: () => T): (() => T) => {
      let at = 0;
      return () => {
        if (at === known.length) known.push(draw());
        at += 1;
        return known[at - 1] as T;
      };
    };
    return {
      env: { ...env, random: repeat(this.#chance, env.random), newUid: repeat(this.#uids, env.newUid) },
      tx: { ...tx, nowMs: this.#nowMs },
    };
  }
}
