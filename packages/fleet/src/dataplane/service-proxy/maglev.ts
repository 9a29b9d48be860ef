import { createHash } from "node:crypto";
import { byText } from "@fairlead/base/text.ts";
import { TABLE_SIZES } from "./names.ts";

/** With ten slots for each backend their shares differ by a tenth at most. */
const SLOTS_PER_BACKEND = 10;

/** How many slots a table for `backends` has. */
export function tableSize(backends: number): number {
  return (
    TABLE_SIZES.find((it) => it >= backends * SLOTS_PER_BACKEND) ?? TABLE_SIZES[TABLE_SIZES.length - 1] ?? 0
  );
}

/** Shares of requests by backend. */
export type Weights = ReadonlyMap<string, number>;

/** The longest table that weights are worth: each element costs memory and time, for shares of a few per mille. */
const MAX_WEIGHED_BACKENDS = 800;

/** The same for backends of unequal weight: the smallest one has as many slots as others have of an even table. */
export function weighedTableSize(weights: Weights): number {
  const all = [...weights.values()].filter((it) => it > 0);
  const shares = all.reduce((sum, it) => sum + it, 0) / Math.min(...all);
  return tableSize(Math.max(weights.size, Math.min(MAX_WEIGHED_BACKENDS, shares)));
}

/**
 * Which backend each of `size` slots belongs to. Shares differ by one slot at most, the order of `backends` does not
 * matter, and a backend that comes or goes moves few slots of the others.
 *
 * With weights, each backend takes as many slots as its share comes to, and one at least.
 *
 * Source: Eisenbud et al., "Maglev: A Fast and Reliable Software Network Load Balancer", NSDI 2016, section 3.4.
 *
 * @param size - A prime.
 */
export function assignSlots(backends: readonly string[], size: number, weights?: Weights): readonly string[] {
  const quotas = weights === undefined ? undefined : quotasOf(backends.slice(0, size), size, weights);
  const walkers = backends
    .slice(0, size)
    .map((backend) => ({ backend, left: quotas?.get(backend) ?? size, ...permutation(backend, size) }))
    .toSorted((a, b) => a.offset - b.offset || (a.backend < b.backend ? -1 : 1));
  const slots = Array.from<string | undefined>({ length: size });
  let filled = 0;
  while (filled < size) {
    for (const walker of walkers) {
      if (filled === size) break;
      if (walker.left === 0) continue;
      walker.left--;
      while (slots[walker.offset] !== undefined) walker.offset = (walker.offset + walker.skip) % size;
      slots[walker.offset] = walker.backend;
      filled++;
    }
  }
  return slots.map((it) => it ?? "");
}

/** How many of the slots each backend has: the largest remainders are rounded up. */
function quotasOf(backends: readonly string[], size: number, weights: Weights): ReadonlyMap<string, number> {
  const weightOf = (it: string): number => weights.get(it) ?? 0;
  const total = backends.reduce((sum, it) => sum + weightOf(it), 0);
  // One for each first, so that they never come to more than there are.
  const rest = size - backends.length;
  const exact = backends.map((it) => ({ backend: it, share: (weightOf(it) * rest) / total }));
  const quotas = new Map(exact.map(({ backend, share }) => [backend, 1 + Math.floor(share)]));
  const left = size - [...quotas.values()].reduce((sum, it) => sum + it, 0);
  const ordered = exact.toSorted((a, b) => (b.share % 1) - (a.share % 1) || byText(a.backend, b.backend));
  for (const { backend } of ordered.slice(0, left)) quotas.set(backend, (quotas.get(backend) ?? 0) + 1);
  return quotas;
}

/** The order in which a backend wants slots: where it begins, and its step. */
function permutation(backend: string, size: number): { offset: number; readonly skip: number } {
  const hash = createHash("sha256").update(backend).digest();
  return { offset: hash.readUInt32BE(0) % size, skip: (hash.readUInt32BE(4) % (size - 1)) + 1 };
}
