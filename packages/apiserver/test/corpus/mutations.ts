import { cloneJson, isObject } from "@fairlead/base/json.ts";
import { type Rng, seededRng } from "@fairlead/base/rng.ts";
import { KINDS, manifest, pathOf } from "./manifests.ts";
import refusals from "./refusals.json" with { type: "json" };
import { area, del, given, patch, post, put, scenario, type Scenario, type Step } from "./scenario.ts";

/** Requests that no scenario has: objects of all built-in kinds, each with one or two values changed at random. */

export interface MutationOptions {
  readonly seed: number;
  /** Requests for each kind. */
  readonly count: number;
}

interface Base {
  readonly title: string;
  /** Path of the collection. */
  readonly path: string;
  readonly object: Readonly<Record<string, unknown>>;
}

/** Their names say what they are, or others would notice them. */
const NOT_HERE = new Set(["ipaddress", "servicecidr", "apiservice"]);

function bases(): readonly Base[] {
  const whole = Object.entries(refusals as unknown as Readonly<Record<string, Pick<Base, "path" | "object">>>)
    .filter(([name]) => !NOT_HERE.has(name))
    .map(([title, { path, object }]) => ({ title, path, object }));
  const covered = new Set(whole.map(({ path }) => path));
  const least = KINDS.map((kind) => ({
    title: kind.kind.toLowerCase(),
    path: pathOf(kind),
    object: manifest(kind, { name: "a" }),
  }));
  return [...whole, ...least.filter(({ path }) => !covered.has(path))];
}

/** For each kind one scenario. The same seed makes the same requests. */
export function mutationScenarios(options: MutationOptions): readonly Scenario[] {
  return area(
    "mutations",
    bases().map((base) => mutationsOf(base, options)),
  );
}

function mutationsOf(base: Base, { seed, count }: MutationOptions): Omit<Scenario, "area"> {
  const { title, path } = base;
  const rng = seededRng(seed ^ hashOf(title));
  const name = path.includes("$ns") ? "a" : "$id";
  const object = withName(base.object, name);
  const steps = Array.from({ length: count }, () => ({
    ...mutated(rng, { ...base, object }, name),
    mayBeCut: true,
  }));
  return scenario(title, [given(post(path, object)), steps, given(del(`${path}/${name}`))], {
    namespaced: path.includes("$ns"),
  });
}

/** Some labels are there to be changed. */
function withName(object: Readonly<Record<string, unknown>>, name: string): Record<string, unknown> {
  const { metadata } = object;
  return { ...object, metadata: { ...(isObject(metadata) ? metadata : { labels: { l: "1" } }), name } };
}

const APPLY = "fieldManager=mutator&force=true";

function mutated(rng: Rng, { path, object }: Base, name: string): Step {
  const changed = change(rng, object);
  const item = `${path}/${name}`;
  const create = withName(changed, `${name}-b`);
  switch (pick(rng, ["post", "put", "strategic", "merge", "apply"])) {
    case "post":
      return post(`${path}?dryRun=All`, textOf(create), { type: "application/json" });
    case "put":
      return put(`${item}?dryRun=All`, textOf(changed), { type: "application/json" });
    case "apply":
      return patch("apply", `${item}?dryRun=All&${APPLY}`, textOf(changed));
    case "strategic":
      return patch("strategic", `${item}?dryRun=All`, textOf(part(rng, changed)));
    default:
      return patch("merge", `${item}?dryRun=All`, textOf(part(rng, changed)));
  }
}

/** Numbers that JSON.stringify would round. */
const LARGE = "<9007199254740993>";

function textOf(value: unknown): string {
  return JSON.stringify(value).replaceAll(`"${LARGE}"`, LARGE.slice(1, -1));
}

/** A patch has one of the fields of the object, or all. */
function part(rng: Rng, object: Readonly<Record<string, unknown>>): unknown {
  const { apiVersion: _, kind: __, ...fields } = object;
  const keys = Object.keys(fields);
  if (rng.random() < 0.3) return object;
  const key = pick(rng, keys);
  return { [key]: fields[key] };
}

const VALUES: readonly unknown[] = [
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
function change(rng: Rng, object: Readonly<Record<string, unknown>>): Record<string, unknown> {
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

function pick<T>(rng: Rng, from: readonly T[]): T {
  const found = from[Math.floor(rng.random() * from.length)];
  if (found === undefined) throw new Error("nothing to pick from");
  return found;
}

function hashOf(text: string): number {
  let hash = 0;
  for (const char of text) hash = (Math.imul(hash, 31) + (char.codePointAt(0) ?? 0)) | 0;
  return hash;
}
