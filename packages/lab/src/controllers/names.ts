import { createHash } from "node:crypto";
import type { PodTemplateSpec } from "@fairlead/kube/api/core/v1/types.ts";
import { isObject } from "@fairlead/base/json.ts";
import type { Rng } from "@fairlead/base/rng.ts";
import { byText } from "@fairlead/base/text.ts";

/** The alphabet of generated names: no vowels, so that no words come up. Source: apimachinery, pkg/util/rand. */
export const NAME_ALPHABET = "bcdfghjklmnpqrstvwxz2456789";

export function randomSuffix(rng: Rng, length = 5): string {
  return Array.from({ length }, () => NAME_ALPHABET[Math.floor(rng.random() * NAME_ALPHABET.length)]).join(
    "",
  );
}

/** Says the same for the same template, whatever the order of its keys. */
export function templateHash(template: PodTemplateSpec): string {
  const bytes = createHash("sha256").update(canonical(template)).digest().subarray(0, 10);
  return [...bytes].map((byte) => NAME_ALPHABET[byte % NAME_ALPHABET.length]).join("");
}

function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (!isObject(value)) return JSON.stringify(value) ?? "null";
  const keys = Object.keys(value).filter((key) => value[key] !== undefined);
  return `{${keys
    .toSorted(byText)
    .map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`)
    .join(",")}}`;
}
