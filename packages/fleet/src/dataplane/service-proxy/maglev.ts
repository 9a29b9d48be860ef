import { createHash } from "node:crypto";
import { TABLE_SIZES } from "./names.ts";

/** With ten slots for each backend their shares differ by a tenth at most. */
const SLOTS_PER_BACKEND = 10;

/** How many slots a table for `backends` has. */
export function tableSize(backends: number): number {
  return (
    TABLE_SIZES.find((it) => it >= backends * SLOTS_PER_BACKEND) ?? TABLE_SIZES[TABLE_SIZES.length - 1] ?? 0
  );
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
