import { isObject } from "@fairlead/base/json.ts";
import { type Rng, seededRng } from "@fairlead/base/rng.ts";
import { change, hashOf, pick, textOf } from "./chance.ts";
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

/** A patch has one of the fields of the object, or all. */
function part(rng: Rng, object: Readonly<Record<string, unknown>>): unknown {
  const { apiVersion: _, kind: __, ...fields } = object;
  const keys = Object.keys(fields);
  if (rng.random() < 0.3) return object;
  const key = pick(rng, keys);
  return { [key]: fields[key] };
}
