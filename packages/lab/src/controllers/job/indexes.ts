/** Sets of completion indexes as a Job's status writes them: "1,3-5,7". Source: the API documentation of JobStatus. */

interface Interval {
  readonly first: number;
  readonly last: number;
}

/** Immutable, in order, without overlaps; neighbours are one interval. Costs what the intervals are, not the indexes. */
export class IndexSet {
  readonly #intervals: readonly Interval[];

  private constructor(intervals: readonly Interval[]) {
    this.#intervals = intervals;
  }

  static of(indexes: Iterable<number>): IndexSet {
    return new IndexSet(merged([...indexes].map((at) => ({ first: at, last: at }))));
  }

  /** @param below - Indexes from here on are left out: `completions` of an elastic Job may have shrunk. */
  static parse(text: string | undefined, below: number): IndexSet {
    const intervals = (text ?? "").split(",").flatMap((part) => {
      const [, first, last] = /^(\d{1,10})(?:-(\d{1,10}))?$/v.exec(part) ?? [];
      if (first === undefined || Number(first) >= below) return [];
      return [{ first: Number(first), last: Math.min(Number(last ?? first), below - 1) }];
    });
    return new IndexSet(merged(intervals));
  }

  get size(): number {
    return this.#intervals.reduce((sum, it) => sum + it.last - it.first + 1, 0);
  }

  has(index: number): boolean {
    return this.#intervals.some((it) => it.first <= index && index <= it.last);
  }

  union(other: IndexSet): IndexSet {
    return new IndexSet(merged([...this.#intervals, ...other.#intervals]));
  }

  /** How many indexes both have. */
  overlap(other: IndexSet): number {
    let sum = 0;
    for (const a of this.#intervals)
      for (const b of other.#intervals)
        sum += Math.max(0, Math.min(a.last, b.last) - Math.max(a.first, b.first) + 1);
    return sum;
  }

  /** The first `count` indexes below `below` that are not in the set. */
  missing(count: number, below: number): number[] {
    const result: number[] = [];
    let candidate = 0;
    for (const { first, last } of [...this.#intervals, { first: below, last: below }]) {
      for (; candidate < Math.min(first, below) && result.length < count; candidate++) result.push(candidate);
      candidate = Math.max(candidate, last + 1);
    }
    return result;
  }

  toString(): string {
    return this.#intervals
      .map(({ first, last }) =>
        first === last ? `${first}` : last === first + 1 ? `${first},${last}` : `${first}-${last}`,
      )
      .join(",");
  }
}

function merged(intervals: readonly Interval[]): Interval[] {
  const result: Interval[] = [];
  for (const next of intervals.toSorted((a, b) => a.first - b.first)) {
    const last = result.at(-1);
    if (last !== undefined && next.first <= last.last + 1)
      result[result.length - 1] = { first: last.first, last: Math.max(last.last, next.last) };
    else result.push(next);
  }
  return result;
}
