import type { Rng } from "#base/rng.ts";

/** The alphabet of generated names: no vowels, so that no words come up. Source: apimachinery, pkg/util/rand. */
export const NAME_ALPHABET = "bcdfghjklmnpqrstvwxz2456789";

export function randomSuffix(rng: Rng, length = 5): string {
  return Array.from({ length }, () => NAME_ALPHABET[Math.floor(rng.random() * NAME_ALPHABET.length)]).join(
    "",
  );
}
