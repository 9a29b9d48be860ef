import type { Rng } from "@fairlead/base/rng.ts";

/** Makes new inputs of known ones, as mutational fuzzers do: of bytes, or of text with words that mean something. */
export interface Material {
  readonly seeds: readonly (string | Uint8Array)[];
  /** Words of the format, which chance would not find. */
  readonly words?: readonly string[];
}

const NUMBERS = ["0", "-1", "255", "65536", "2147483648", "9223372036854775808", "1e999", "0.1", "-0", "00"];
const NASTY = ["\0", "\u{1F600}", "é", "\uFEFF", "__proto__", "constructor", '"', "'", "\\", "\n", "%", "$"];
const MAX_SIZE = 4096;

/** One input: a seed, changed once or a few times. */
export function mutate({ seeds, words = [] }: Material, rng: Rng): Buffer {
  let bytes: Buffer = Buffer.from(pick(seeds, rng) as string);
  const changes = 1 + below(rng, 6);
  for (let count = 0; count < changes; count++) {
    bytes = change(
      bytes,
      { pick: () => pick([...words, ...NUMBERS, ...NASTY], rng), other: () => pick(seeds, rng) },
      rng,
    );
  }
  return bytes.subarray(0, MAX_SIZE);
}

interface Source {
  readonly pick: () => string;
  readonly other: () => string | Uint8Array;
}

function change(bytes: Buffer, source: Source, rng: Rng): Buffer {
  const at = below(rng, bytes.length + 1);
  const end = Math.min(bytes.length, at + 1 + below(rng, 16));
  const [before, within, after] = [bytes.subarray(0, at), bytes.subarray(at, end), bytes.subarray(end)];
  switch (below(rng, 8)) {
    case 0:
      return Buffer.concat([before, after]);
    case 1:
      return Buffer.concat([before, within, within, within, after]);
    case 2:
      return Buffer.concat([before, Buffer.from(source.pick()), within, after]);
    case 3:
      return Buffer.concat([before, Buffer.from(source.pick()), after]);
    case 4:
      return Buffer.concat([before, Buffer.of(below(rng, 256)), after]);
    case 5:
      return Buffer.concat([before, Buffer.from(source.other() as string).subarray(at)]);
    case 6:
      return Buffer.concat([before, Buffer.from(within).fill(below(rng, 256)), after]);
    default:
      return before;
  }
}

function pick<T>(from: readonly T[], rng: Rng): T {
  const found = from[below(rng, from.length)];
  if (found === undefined) throw new RangeError("there is nothing to choose from");
  return found;
}

/** A whole number from 0 up to, and without, `limit`. */
function below(rng: Rng, limit: number): number {
  return Math.floor(rng.random() * limit);
}

const VALUES: readonly unknown[] = [
  null,
  true,
  0,
  -1,
  1.5,
  2 ** 60,
  "",
  "x",
  [],
  {},
  [null],
  [[]],
  { a: null },
];

/** JSON in which some values are changed, some fields renamed, and some items duplicated or removed. */
export function mutateJson({ seeds, words = [] }: Material, rng: Rng): Buffer {
  const seed: unknown = JSON.parse(pick(seeds, rng) as string);
  const other: unknown = JSON.parse(pick(seeds, rng) as string);
  const exchange = (value: unknown): unknown => {
    const chance = rng.random();
    if (chance < 0.05) return pick(VALUES, rng);
    if (chance < 0.08) return other;
    if (Array.isArray(value)) {
      const items = value.map(exchange);
      return chance < 0.12 ? [...items, ...items] : chance < 0.15 ? items.slice(1) : items;
    }
    if (typeof value !== "object" || value === null) return chance < 0.15 ? pick(words, rng) : value;
    const entries = Object.entries(value).flatMap(([key, it]): [string, unknown][] => {
      if (rng.random() < 0.05) return [];
      return [[rng.random() < 0.06 ? pick([...words, ...NASTY], rng) : key, exchange(it)]];
    });
    return Object.fromEntries(entries);
  };
  return Buffer.from(JSON.stringify(exchange(seed)));
}
