/** The writes that are allowed to a compromised member: each field of each kind in turn, with malicious values. */

import type { CustomResourceDefinition, JsonSchema } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { isObject } from "@fairlead/base/json.ts";

type Path = readonly (string | 0)[];

export interface Hostility {
  /** "spec.ports[0].name = ...". */
  readonly what: string;
  readonly object: object;
}

const BREAKOUT = 'x" } ; flush ruleset\n';
const TEXTS = ["", BREAKOUT, "a".repeat(20_000)];
const NUMBERS = [-1, 1.5, 2_147_483_647];
const TIMES = ["1970-01-01T00:00:00Z", "2099-01-01T00:00:00Z", "never"];
const FOREIGN = ["a", "fleet-member-a"];

/** Values of every type, those of other types among them. */
function valuesFor(schema: JsonSchema, now: unknown): unknown[] {
  const other = [null, {}];
  const { type } = schema;
  if (schema.format === "date-time") return [...TIMES, ...other];
  if (schema["x-kubernetes-int-or-string"] === true) return [...TEXTS, ...NUMBERS, ...other];
  if (type === "string") return [...TEXTS, ...FOREIGN, ...other];
  if (type === "integer" || type === "number") return [...NUMBERS, ...other];
  if (type === "array") return [Array.from({ length: 1100 }, () => firstOf(now)), ...other];
  if (schema.additionalProperties !== undefined) return [...MAPS, ...other];
  return other;
}

const MAPS = [
  { "not/a/valid/label!": "\u001B[31m" },
  { ok: "not a value of a label\n" },
  { [BREAKOUT]: "x" },
  { ["a".repeat(64)]: "x" },
  Object.fromEntries(Array.from({ length: 4000 }, (_, index) => [`key-${index}`, "x".repeat(20)])),
];

function firstOf(value: unknown): unknown {
  return Array.isArray(value) ? (value[0] as unknown) : "x";
}

/** Every way in which one field of `sound` is not as it should be. Fields are those of the schema. */
export function hostilities(sound: object, schema: JsonSchema, only: readonly string[]): Hostility[] {
  return pathsOf(schema, [])
    .filter(({ path }) => only.includes(String(path[0])))
    .flatMap(({ path, schema: of }) =>
      valuesFor(of, at(sound, path)).map((value) => ({
        what: `${show(path)} = ${(JSON.stringify(value) ?? "").slice(0, 40)}`,
        object: withValue(sound, path, value) as object,
      })),
    );
}

export function schemaOf(crds: readonly CustomResourceDefinition[], kind: string): JsonSchema {
  const crd = crds.find((it) => it.spec.names.kind === kind);
  const schema = crd?.spec.versions.find((it) => it.storage)?.schema?.openAPIV3Schema;
  if (schema === undefined) throw new Error(`no schema of ${kind}`);
  return schema;
}

function pathsOf(schema: JsonSchema, path: Path): { path: Path; schema: JsonSchema }[] {
  const own = path.length === 0 ? [] : [{ path, schema }];
  const { items, properties = {} } = schema;
  return [
    ...own,
    ...(items === undefined ? [] : pathsOf(items, [...path, 0])),
    ...Object.entries(properties).flatMap(([name, of]) => pathsOf(of, [...path, name])),
  ];
}

function at(value: unknown, [key, ...rest]: Path): unknown {
  if (key === undefined) return value;
  if (Array.isArray(value)) return at(value[Number(key)], rest);
  return isObject(value) ? at(value[key], rest) : undefined;
}

function withValue(value: unknown, [key, ...rest]: Path, wanted: unknown): unknown {
  if (key === undefined) return wanted;
  if (key === 0) {
    const [, ...others] = Array.isArray(value) ? (value as readonly unknown[]) : [];
    return [withValue(Array.isArray(value) ? (value[0] as unknown) : {}, rest, wanted), ...others];
  }
  const fields = isObject(value) ? value : {};
  return { ...fields, [key]: withValue(fields[key], rest, wanted) };
}

function show(path: Path): string {
  return path
    .map((it) => (it === 0 ? "[0]" : `.${it}`))
    .join("")
    .slice(1);
}
