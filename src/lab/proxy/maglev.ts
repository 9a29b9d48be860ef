import { createHash } from "node:crypto";

/**
 * Table sizes for affinity: primes, so that every step walks the whole table, and some ten times the backends, so that
 * their shares differ by a tenth at most.
 */
const SIZES = [61, 509, 4093, 32_749] as const;
const SLOTS_PER_BACKEND = 10;

/** How many slots a table for `backends` has. Few sizes: each is a chain of its own. */
export function slotCount(backends: number): number {
  return SIZES.find((it) => it >= backends * SLOTS_PER_BACKEND) ?? SIZES[SIZES.length - 1] ?? 0;
}

/**
 * Which backend each of `size` slots belongs to. Shares differ by one slot at most, the order of `backends` does not
 * matter, and a backend that comes or goes moves few slots of the others.
 *
 * Source: Eisenbud et al., "Maglev: A Fast and Reliable Software Network Load Balancer", NSDI 2016, section 3.4.
 *
 * @param size - A prime.
 */
export function assignSlots(backends: readonly string[], size: number): readonly string[] {
  const walkers = backends
    .slice(0, size)
    .map((backend) => ({ backend, ...permutation(backend, size) }))
    .toSorted((a, b) => a.offset - b.offset || (a.backend < b.backend ? -1 : 1));
  const slots = Array.from<string | undefined>({ length: size });
  let filled = 0;
  while (filled < size) {
    for (const walker of walkers) {
      if (filled === size) break;
      while (slots[walker.offset] !== undefined) walker.offset = (walker.offset + walker.skip) % size;
      slots[walker.offset] = walker.backend;
      filled++;
    }
  }
  return slots.map((it) => it ?? "");
}

/** The order in which a backend wants slots: where it begins, and its step. */
function permutation(backend: string, size: number): { offset: number; readonly skip: number } {
  const hash = createHash("sha256").update(backend).digest();
  return { offset: hash.readUInt32BE(0) % size, skip: (hash.readUInt32BE(4) % (size - 1)) + 1 };
}
