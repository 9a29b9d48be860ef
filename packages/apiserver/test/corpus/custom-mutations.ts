import { type Rng, seededRng } from "@fairlead/base/rng.ts";
import { isOfFormat } from "#schema/formats.ts";
import { matches } from "#schema/patterns.ts";
import type { Schema } from "#schema/types.ts";
import type { Crd } from "#crd/types.ts";
import { change, hashOf, pick, textOf, VALUES } from "./chance.ts";
import { DEFINITIONS, served } from "./definitions.ts";
import type { MutationOptions } from "./mutations.ts";
import { del, given, patch, post, scenario, type Scenario, type Step } from "./scenario.ts";

/**
 * Requests to custom kinds: objects made by chance of the schemas of their definitions, half of them with a value changed. Each object is
 * written twice. All versions write the same objects, so that managers own fields in several.
 */

/** The part of a CustomResourceDefinition that counts. */
export type CustomDefinition = Pick<Crd, "spec">;

/** For each definition one scenario, in a group of its own. The same seed makes the same requests. */
export function customScenarios(
  definitions: readonly CustomDefinition[],
  options: MutationOptions,
): readonly Omit<Scenario, "area">[] {
  return definitions.map((it) => scenarioOf(it, options));
}

const GROUP = "$id.example.com";

function scenarioOf({ spec }: CustomDefinition, { seed, count }: MutationOptions): Omit<Scenario, "area"> {
  const { names, scope, versions } = spec;
  const rng = seededRng(seed ^ hashOf(`${spec.group}/${names.plural}`));
  const name = `${names.plural}.${GROUP}`;
  const manifest = {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name },
    // Webhooks that convert are not there.
    spec: { group: GROUP, names, scope, versions },
  };
  const place = scope === "Namespaced" ? "namespaces/$ns/" : "";
  const steps = versions
    .filter((it) => it.served)
    .flatMap((version) => {
      const path = `/apis/${GROUP}/${version.name}/${place}${names.plural}`;
      const schema = version.schema?.openAPIV3Schema ?? {};
      const make = (): Record<string, unknown> =>
        objectOf(rng, { schema, version: version.name, kind: names.kind });
      const writes = Array.from({ length: count }, (_, at) => writesOf(rng, { path, name: `a${at}`, make }));
      return [...served(path), ...writes.flat()];
    });
  return scenario(`${names.plural} of ${spec.group}, seed ${seed}`, [
    given(post(DEFINITIONS, manifest)),
    steps,
    given(del(`${DEFINITIONS}/${name}`)),
  ]);
}

interface Kind {
  readonly schema: Schema;
  readonly version: string;
  readonly kind: string;
}

/** Fields by the schema, without a name. */
function objectOf(rng: Rng, { schema, version, kind }: Kind): Record<string, unknown> {
  const fields = Object.entries(schema.properties ?? {})
    .filter(([name]) => !["apiVersion", "kind", "metadata"].includes(name))
    .map(([name, field]): [string, unknown] => [name, valueOf(rng, field, 1)]);
  const object = { apiVersion: `${GROUP}/${version}`, kind, metadata: { labels: { l: "1" } } };
  const whole = { ...object, ...Object.fromEntries(fields) };
  return rng.random() < 0.5 ? change(rng, whole) : whole;
}

interface Place {
  /** Path of the collection. */
  readonly path: string;
  readonly name: string;
  readonly make: () => Record<string, unknown>;
}

function writesOf(rng: Rng, { path, name, make }: Place): readonly Step[] {
  const named = ({ metadata, ...object }: Record<string, unknown>): unknown => ({
    ...object,
    metadata: { ...(metadata as object | undefined), name },
  });
  const create = post(path, textOf(named(make())), { type: "application/json" });
  const other = make();
  const again = secondWrite(rng, `${path}/${name}`, { ...other, whole: named(other) });
  return [create, again].map((it) => ({ ...it, mayBeCut: true }));
}

function secondWrite(
  rng: Rng,
  item: string,
  { whole, spec = null, status = null }: Record<string, unknown>,
): Step {
  switch (pick(rng, ["apply", "apply", "conflict", "merge", "status"])) {
    case "apply":
      return patch("apply", `${item}?fieldManager=m&force=true`, textOf(whole));
    case "conflict":
      return patch("apply", `${item}?fieldManager=n`, textOf(whole));
    case "status":
      return patch("merge", `${item}/status`, textOf({ status }));
    default:
      return patch("merge", item, textOf({ spec }));
  }
}

const WORDS: readonly string[] = [
  "a",
  "x",
  "web",
  "10.0.0.1",
  "10.0.0.0/16",
  "example.com",
  "*.example.com",
  "a b",
  "",
  "A_b",
  "30s",
  "1h",
  "100m",
  "2026-01-01T00:00:00Z",
  "https://a.b/c",
  "/x",
  "x".repeat(70),
  "é",
  "80",
  "v1",
  "100%",
];
const NUMBERS: readonly number[] = [0, 1, 5, 80, 443, 1000];
/** The chance of what a schema asks for. */
const LIKELY = 0.95;
/** Fields below this depth are rare. */
const DEEP = 5;

function valueOf(rng: Rng, schema: Schema, depth: number): unknown {
  if (schema.default !== undefined && rng.random() < 0.3) return schema.default;
  if (schema.enum !== undefined && schema.enum.length > 0) return pick(rng, schema.enum);
  if (schema["x-kubernetes-int-or-string"] === true)
    return rng.random() < 0.3 ? pick(rng, [1, "50%", "x"]) : wordOf(rng, schema);
  return ofType(rng, schema, depth);
}

function ofType(rng: Rng, schema: Schema, depth: number): unknown {
  switch (schema.type) {
    case "object":
      return mapOf(rng, schema, depth);
    case "array":
      return listOf(rng, schema, depth);
    case "integer":
    case "number":
      return Math.max(schema.minimum ?? 0, pick(rng, NUMBERS));
    case "boolean":
      return rng.random() < 0.5;
    case "string":
      return wordOf(rng, schema);
    default:
      return pick(rng, VALUES);
  }
}

function mapOf(rng: Rng, schema: Schema, depth: number): Record<string, unknown> {
  const { properties, additionalProperties: additional } = schema;
  const map = structOf(rng, schema, depth);
  if (schema["x-kubernetes-embedded-resource"] === true && rng.random() < LIKELY)
    Object.assign(map, { apiVersion: "v1", kind: "Pod" });
  if (typeof additional === "object")
    for (const _ of [1, 2]) map[pick(rng, ["a", "b", "app"])] = valueOf(rng, additional, depth + 1);
  if (properties === undefined && additional === undefined) map["any"] = pick(rng, VALUES);
  return map;
}

function structOf(rng: Rng, schema: Schema, depth: number): Record<string, unknown> {
  const map: Record<string, unknown> = {};
  const { required, excluded } = choiceOf(rng, schema);
  const optional = depth > DEEP ? 0.1 : 0.35;
  for (const [name, field] of Object.entries(schema.properties ?? {})) {
    const chance = excluded.includes(name) ? 1 - LIKELY : optional;
    if (rng.random() < (required.includes(name) ? LIKELY : chance))
      map[name] = valueOf(rng, field, depth + 1);
  }
  return map;
}

/** Fields that are required, and those that may not be there then: of several alternatives, the fields of one. */
function choiceOf(
  rng: Rng,
  { required = [], oneOf = [] }: Schema,
): { readonly required: readonly string[]; readonly excluded: readonly string[] } {
  if (oneOf.length === 0) return { required, excluded: [] };
  const chosen = pick(rng, oneOf).required ?? [];
  const others = oneOf.flatMap((it) => it.required ?? []).filter((it) => !chosen.includes(it));
  return { required: [...required, ...chosen], excluded: others };
}

function listOf(rng: Rng, { minItems = 0, items = {} }: Schema, depth: number): unknown[] {
  const length = Math.max(minItems, Math.floor(rng.random() * 3));
  return Array.from({ length }, () => valueOf(rng, items, depth + 1));
}

function wordOf(rng: Rng, { pattern, format, minLength = 0, oneOf = [] }: Schema): string {
  const formats = [...(format === undefined ? [] : [format]), ...oneOf.flatMap((it) => it.format ?? [])];
  const fits = (word: string): boolean =>
    (pattern === undefined || matches(pattern, word)) &&
    (formats.length === 0 || formats.some((it) => isOfFormat(word, it))) &&
    word.length >= minLength;
  const fitting = WORDS.filter(fits);
  return pick(rng, fitting.length > 0 && rng.random() < LIKELY ? fitting : WORDS);
}
