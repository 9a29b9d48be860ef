import { type Rng, seededRng } from "@fairlead/base/rng.ts";

/** Choices of a generator of cases. */
export class Chance {
  readonly #rng: Rng;
  constructor(seed: number) {
    this.#rng = seededRng(seed);
  }
  /** 0 to `below` - 1. */
  int(below: number): number {
    return Math.floor(this.#rng.random() * below);
  }
  is(probability: number): boolean {
    return this.#rng.random() < probability;
  }
  one<T>(of: readonly T[]): T {
    const found = of[this.int(of.length)];
    if (found === undefined) throw new TypeError("nothing to choose from");
    return found;
  }
  /** A list of `least` to `most` items. */
  some<T>(least: number, most: number, make: () => T): T[] {
    return Array.from({ length: least + this.int(most - least + 1) }, make);
  }
  /** The field, or none. */
  maybe<T extends object>(probability: number, make: () => T): Partial<T> {
    return this.is(probability) ? make() : {};
  }
}
