import { byText } from "@fairlead/base/text.ts";

/** How long changes of other members took to arrive at one, as the text of an annotation of its Lease. Pure. */

export interface Propagation {
  /** The member whose changes they were. */
  readonly from: string;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Of how many changes. */
  readonly count: number;
}

/** Those of one member, by nearest rank. @param tookMs - Not empty. */
export function propagationOf(from: string, tookMs: readonly number[]): Propagation {
  const sorted = tookMs.toSorted((a, b) => a - b);
  const at = (share: number): number =>
    Math.round(sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? 0);
  return { from, p50Ms: at(0.5), p99Ms: at(0.99), count: sorted.length };
}

/** "a=12/40/100,b=…": p50, p99 and count. */
export function formatPropagation(all: readonly Propagation[]): string {
  return all
    .toSorted((a, b) => byText(a.from, b.from))
    .map((it) => `${it.from}=${it.p50Ms}/${it.p99Ms}/${it.count}`)
    .join(",");
}

/** Members write it themselves: what is longer than 255 members need is not read, and what has another form is left out. */
export function parsePropagation(text: string): readonly Propagation[] {
  return text
    .slice(0, MAX_TEXT)
    .split(",")
    .flatMap((part) => {
      const [, from, p50, p99, count] = FORM.exec(part) ?? [];
      if (from === undefined) return [];
      return [{ from, p50Ms: Number(p50), p99Ms: Number(p99), count: Number(count) }];
    });
}

const MAX_TEXT = 32_768;
const FORM = /^([a-z0-9][a-z0-9.-]{0,62})=(\d{1,6})\/(\d{1,6})\/(\d{1,6})$/;
