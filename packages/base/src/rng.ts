/** A source of chance, injected so that tests can fix it. Not for secrets: those come from `node:crypto`. */
export interface Rng {
  /** Uniform in [0, 1). */
  random(): number;
}

export const systemRng: Rng = { random: () => Math.random() };

/** A small deterministic generator (mulberry32) for tests and simulations. */
export function seededRng(seed: number): Rng {
  let state = seed >>> 0;
  return {
    random() {
      state = (state + 0x6d2b79f5) >>> 0;
      let mixed = Math.imul(state ^ (state >>> 15), state | 1);
      mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
      return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
    },
  };
}
