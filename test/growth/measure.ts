/** How what takes text from outside grows with it. */

export interface Hostile<Input = string> {
  readonly name: string;
  /** The longest input that is taken, or that is sent at all. Unit: characters. */
  readonly limit: number;
  /** An input of about `length` characters. */
  readonly make: (length: number) => Input;
}

/** Of the thread: what else the machine does counts little. Unit: milliseconds. */
export async function cpuMs(run: () => unknown): Promise<number> {
  const before = process.threadCpuUsage();
  await run();
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1000;
}

export interface Growth {
  /** Unit: milliseconds of CPU. */
  readonly quarterMs: number;
  readonly wholeMs: number;
}

/**
 * What an input of `length` characters takes, and one that is a quarter as long. Where that does not look linear, the best of
 * three tries: other programs may have run at the same time.
 */
export async function growthOf<Input>(
  { make }: Hostile<Input>,
  length: number,
  run: (input: Input) => unknown,
): Promise<Growth> {
  const [quarter, whole] = [make(Math.floor(length / 4)), make(length)];
  let best: Growth = { quarterMs: Infinity, wholeMs: Infinity };
  for (let tries = 0; tries < 3 && (tries === 0 || !isLinear(best)); tries++) {
    const [quarterMs, wholeMs] = [await cpuMs(() => run(quarter)), await cpuMs(() => run(whole))];
    best = { quarterMs: Math.min(best.quarterMs, quarterMs), wholeMs: Math.min(best.wholeMs, wholeMs) };
  }
  return best;
}

/** What is linear grows to 4 times, what is quadratic to 16 times. */
const MAX_RATIO = 8;
/** A shorter time cannot be measured well, and does no harm. Unit: milliseconds. */
const FLOOR_MS = 30;

export function isLinear({ quarterMs, wholeMs }: Growth): boolean {
  return wholeMs <= FLOOR_MS + MAX_RATIO * quarterMs;
}

export function repeated(part: string, length: number): string {
  return part.repeat(Math.ceil(length / part.length));
}

/** Parts that are made by their number, one after the other, up to `length` characters. */
export function numbered(make: (at: number) => string, length: number, between = ","): string {
  const parts: string[] = [];
  for (let at = 0, size = 0; size < length; at++) {
    const part = make(at);
    parts.push(part);
    size += part.length + between.length;
  }
  return parts.join(between);
}
