import { cloneJson, isObject } from "@fairlead/base/json.ts";
import type { Rng } from "@fairlead/base/rng.ts";

/** Choices and changes made by chance: the same generator makes the same. */

/** Numbers that JSON.stringify would round. */
const LARGE = "<9007199254740993>";

export function textOf(value: unknown): string {
  return JSON.stringify(value).replaceAll(`"${LARGE}"`, LARGE.slice(1, -1));
}

export const VALUES: readonly unknown[] = [
  null,
  "",
  "a b",
  "A_b",
  "x",
  "30s",
  "-1",
  "10.0.0.300",
  "fd00::1/64",
  "100Mi",
  "1.5e3x",
  "2026-02-30T00:00:00Z",
  "é",
  "x".repeat(64),
  "x".repeat(300),
  -1,
  0,
  1,
  1.5,
  70_000,
  3_000_000_000,
  LARGE,
  true,
  false,
  {},
  [],
  [null],
  [{}],
  ["x", "x"],
  { x: "y" },
];

/** A copy with one value changed, sometimes two. */
export function change(rng: Rng, object: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const copy = cloneJson(object) as Record<string, unknown>;
  const times = rng.random() < 0.2 ? 2 : 1;
  for (let it = 0; it < times; it++) changeOne(rng, copy);
  return copy;
}

function changeOne(rng: Rng, object: Record<string, unknown>): void {
  const places = placesOf(object);
  if (places.length === 0) {
    object["unknownField"] = pick(rng, VALUES);
    return;
  }
  const { of, key } = pick(rng, places);
  const holder = of as Record<string | number, unknown>;
  const value = holder[key];
  const kind = rng.random();
  if (kind < 0.15) delete holder[key];
  else if (kind < 0.25 && Array.isArray(value) && value.length > 0) value.push(cloneJson(value[0]));
  else if (kind < 0.32 && isObject(value)) value["unknownField"] = pick(rng, VALUES);
  else if (kind < 0.45) {
    const other = pick(rng, places);
    holder[key] = cloneJson((other.of as Record<string | number, unknown>)[other.key]);
  } else holder[key] = cloneJson(pick(rng, VALUES));
}

interface Place {
  readonly of: object;
  readonly key: string | number;
}

/** Where there is a value, but for the name and what says the kind. */
function placesOf(value: object, isTop = true): readonly Place[] {
  return Object.entries(value).flatMap(([key, it]) => {
    if (isTop && (key === "apiVersion" || key === "kind")) return [];
    const inside = typeof it === "object" && it !== null ? placesOf(it as object, false) : [];
    if (isTop && key === "metadata") return inside.filter((place) => place.key !== "name");
    return [{ of: value, key }, ...inside];
  });
}

export function pick<T>(rng: Rng, from: readonly T[]): T {
  const found = from[Math.floor(rng.random() * from.length)];
  if (found === undefined) throw new Error("nothing to pick from");
  return found;
}

export function hashOf(text: string): number {
  let hash = 0;
  for (const char of text) hash = (Math.imul(hash, 31) + (char.codePointAt(0) ?? 0)) | 0;
  return hash;
}
