/** Objects as other programs may leave them: each of their optional fields in turn is null. */

import { readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { HUB_CRDS, MEMBER_CRDS } from "@fairlead/fleet/api/crds.ts";
import { apiVersionOf, type Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { builtinSchema, resolveDefinition } from "@fairlead/apiserver/schema/definitions.ts";
import type { Schema } from "@fairlead/apiserver/schema/types.ts";
import { cloneJson, isObject } from "@fairlead/base/json.ts";
import { parseResponse, readObject } from "@fairlead/kube/client/read.ts";
import { recordedObjects } from "../recorded-objects/recorded.ts";

export interface Seed {
  readonly of: Resource;
  readonly object: KubeObject;
}

/** Every kind that our types know. */
export async function knownKinds(): Promise<readonly Resource[]> {
  const folders = ["kube", "fleet"].map((it) =>
    fileURLToPath(new URL(`../../packages/${it}/src/api`, import.meta.url)),
  );
  const files = folders.flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: "utf8" }).map((it) => join(folder, it)),
  );
  const modules = await Promise.all(
    files
      .filter((it) => /(?<!\.test|\.fake)\.ts$/.test(it))
      .map(async (it) => (await import(it)) as Record<string, unknown>),
  );
  const isResource = (it: unknown): it is Resource => isObject(it) && "plural" in it && "namespaced" in it;
  return modules.flatMap((it) => Object.values(it).filter(isResource));
}

/** The recorded objects of these kinds. */
export function recordedOf(kinds: readonly Resource[]): readonly Seed[] {
  return recordedObjects().flatMap(({ text, object: { kind, apiVersion } }) => {
    const of = kinds.find((it) => it.kind === kind && apiVersionOf(it) === apiVersion);
    return of === undefined ? [] : [{ of, object: parseResponse(text) as KubeObject }];
  });
}

type Path = readonly (string | number)[];

/** An object, and one of its optional fields. */
export interface Variant extends Seed {
  readonly path: Path;
}

/** Each optional field of each kind, once for each role of its objects, which their labels show. */
export function variantsOf(seeds: readonly Seed[]): readonly Variant[] {
  const known = new Set<string>();
  return seeds
    .flatMap((it) => optional(it.object, schemaOf(it.of)).map((path) => ({ ...it, path })))
    .filter(({ of, object, path }) => {
      const role = Object.keys(object.metadata.labels ?? {}).toSorted();
      const id = JSON.stringify([of.group, of.kind, role, path]);
      return !known.has(id) && known.add(id);
    });
}

/** The object as a client reads it when the server has null in the place of the field. */
export function withoutField({ of, object, path }: Variant): KubeObject {
  const copy = cloneJson(object);
  let inner: unknown = copy;
  for (const key of path.slice(0, -1)) inner = (inner as Record<string | number, unknown>)[key];
  (inner as Record<string | number, unknown>)[path.at(-1) ?? ""] = null;
  return readObject(of, parseResponse(JSON.stringify(copy)) as KubeObject);
}

function schemaOf({ group, version, kind }: Resource): Schema | undefined {
  const own = [...HUB_CRDS, ...MEMBER_CRDS].find(
    (it) => it.spec.group === group && it.spec.names.kind === kind,
  );
  const custom = own?.spec.versions.find((it) => it.name === version)?.schema.openAPIV3Schema;
  return custom ?? builtinSchema(group, version, kind);
}

const IDENTITY = new Set(["name", "namespace", "uid", "resourceVersion"]);

/** The paths of the optional fields in a value. Of a list, only one item is examined: its items are alike. */
function optional(value: unknown, schema: Schema | undefined, path: Path = []): Path[] {
  const at = schema?.$ref === undefined ? schema : resolveDefinition(schema.$ref);
  // Only the client reads its content.
  if (path[1] === "managedFields") return [];
  if (Array.isArray(value)) return optional(value[0], at?.items, [...path, 0]);
  if (!isObject(value)) return [];
  return Object.entries(value).flatMap(([key, inner]) => {
    const here = [...path, key];
    const known = at?.properties?.[key] ?? at?.additionalProperties;
    const deeper = optional(inner, isObject(known) ? known : undefined, here);
    // Go does not distinguish an absent list from an empty one, and writes null for both.
    const isRequired = at?.required?.includes(key) === true && !(path.length === 0 && Array.isArray(inner));
    return isRequired || isIdentity(here) ? deeper : [here, ...deeper];
  });
}

function isIdentity([first, second, ...more]: Path): boolean {
  if (second === undefined) return first === "metadata" || first === "apiVersion" || first === "kind";
  return more.length === 0 && first === "metadata" && IDENTITY.has(String(second));
}
