/** The least and the most that something costs, or how large it is. Without bound: `Infinity`. */
export interface Range {
  readonly min: number;
  readonly max: number;
}

export const NOTHING: Range = { min: 0, max: 0 };
export const ONE: Range = { min: 1, max: 1 };
export const UNKNOWN: Range = { min: 0, max: Infinity };

export function exactly(value: number): Range {
  return { min: value, max: value };
}

export function add(...ranges: readonly Range[]): Range {
  let [min, max] = [0, 0];
  for (const it of ranges) {
    min += it.min;
    max += it.max;
  }
  return { min, max };
}

/** Nothing of what has no bound is nothing. */
function product(a: number, b: number): number {
  return a === 0 || b === 0 ? 0 : a * b;
}

export function multiply(a: Range, b: Range): Range {
  return { min: product(a.min, b.min), max: product(a.max, b.max) };
}

/** Rounded up. */
export function scale({ min, max }: Range, factor: number): Range {
  return { min: Math.ceil(product(min, factor)), max: Math.ceil(product(max, factor)) };
}

export function union(a: Range, b: Range): Range {
  return { min: Math.min(a.min, b.min), max: Math.max(a.max, b.max) };
}
