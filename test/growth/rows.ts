import { type Hostile, numbered, repeated } from "./measure.ts";

export interface Decoder extends Hostile<string | Buffer> {
  readonly run: (input: string | Buffer) => unknown;
  /** Whether another decoder of the same text has these rows, too: taken by `npm run test:full`. */
  readonly isRepeated?: boolean;
}

export const BODY = 3 * 1024 * 1024;
/** Of a request line with all headers. */
export const HEAD = 15_000;

/** Rows of one decoder: name and input. */
export function rows(
  decoder: string,
  limit: number,
  run: (input: string) => unknown,
  inputs: Readonly<Record<string, (length: number) => string>>,
): Decoder[] {
  return Object.entries(inputs).map(([name, make]) => ({
    name: `${decoder}: ${name}`,
    limit,
    make,
    run: (input) => run(String(input)),
  }));
}

export const of =
  (part: string, before = "", after = "") =>
  (length: number): string =>
    before + repeated(part, length) + after;
export const list =
  (make: (at: number) => string, before = "", after = "") =>
  (length: number): string =>
    before + numbered(make, length) + after;

/** Keys up to 7 digits are hashed as numbers (V8: kMaxCachedArrayIndexLength), of which a table uses the low bits: runs of 152 have them in common. */
export const indexOfOneHash = (at: number): number => (at % 152) * 65_536 + Math.floor(at / 152);
