/** How much of something there is at a time, and how much of it one user gets. */
export interface RoomLimits {
  readonly total: number;
  /** Default: a quarter of all. */
  readonly perUser?: number;
  /** Whether a user who has nothing may take what he wants: for amounts of which one may be larger than a share. */
  readonly isElastic?: boolean;
}

/** The share that one user holds. Released as a whole; a second release has no effect. */
export interface Holding extends Disposable {
  /** Takes more. False where there is no room: then nothing is taken. */
  tryTake(amount: number): boolean;
}

/** Slots, or bytes. One user gets a share of them at most, so that what is left is there for others. */
export class Room {
  readonly #total: number;
  readonly #perUser: number;
  readonly #isElastic: boolean;
  #taken = 0;
  readonly #byUser = new Map<string, number>();
  readonly #waiting = new Map<string, Set<() => boolean>>();

  constructor({ total, perUser = Math.ceil(total / 4), isElastic = false }: RoomLimits) {
    this.#total = total;
    this.#perUser = perUser;
    this.#isElastic = isElastic;
  }

  get taken(): number {
    return this.#taken;
  }

  hasRoom(user: string, amount: number): boolean {
    const ofUser = this.#byUser.get(user) ?? 0;
    if (this.#isElastic && ofUser === 0) return true;
    return ofUser + amount <= this.#perUser && this.#taken + amount <= this.#total;
  }

  /** @param isExempt - Whether there is always room for this user. What he takes counts all the same. */
  hold(user: string, isExempt = false): Holding {
    let held = 0;
    return {
      tryTake: (amount) => {
        if (!isExempt && !this.hasRoom(user, amount)) return false;
        held += amount;
        this.#change(user, amount);
        return true;
      },
      [Symbol.dispose]: () => {
        const given = held;
        held = 0;
        if (given === 0) return;
        this.#change(user, -given);
        this.#wake(user);
      },
    };
  }

  #change(user: string, amount: number): void {
    this.#taken += amount;
    const ofUser = (this.#byUser.get(user) ?? 0) + amount;
    if (ofUser === 0) this.#byUser.delete(user);
    else this.#byUser.set(user, ofUser);
  }

  /**
   * Calls `retry` each time the user releases something, until `retry` returns true. Waiters are called in their order;
   * those behind a waiter that returns false keep waiting.
   */
  onceGivenBack(user: string, retry: () => boolean): Disposable {
    const waiting = this.#waiting.get(user) ?? new Set<() => boolean>();
    this.#waiting.set(user, waiting);
    waiting.add(retry);
    return {
      [Symbol.dispose]: () => {
        waiting.delete(retry);
        if (waiting.size === 0 && this.#waiting.get(user) === waiting) this.#waiting.delete(user);
      },
    };
  }

  #wake(user: string): void {
    const waiting = this.#waiting.get(user) ?? new Set();
    for (const retry of waiting) {
      if (!retry()) return;
      waiting.delete(retry);
    }
    if (this.#waiting.get(user) === waiting) this.#waiting.delete(user);
  }
}
