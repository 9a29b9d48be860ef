import { applyJsonPatch, JsonPatchError } from "@fairlead/base/json-patch.ts";
import { isObject, own, sameJson } from "@fairlead/base/json.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { ENVELOPE_CONFIG_MAP_ANNOTATION } from "#api/placement.kubernetes-fleet.io/names.ts";
import { OverrideError, type ResolvedOverride, type ResolvedPatch, type SelectedObject } from "./resolve.ts";

/**
 * The objects as a cluster gets them: in order, without those that an override deletes. Objects that no override selects are the
 * same ones.
 *
 * @throws {OverrideError} A patch does not fit an object.
 */
export function applyOverrides(
  objects: readonly KubeObject[],
  overrides: readonly ResolvedOverride[],
): readonly KubeObject[] {
  const active = overrides.filter((it) => it.steps.length > 0);
  if (active.length === 0) return objects;
  const bySelected = new Map<string, ResolvedOverride[]>();
  for (const override of active)
    for (const selected of override.selected) {
      const key = keyOfSelected(selected);
      const present = bySelected.get(key);
      if (present === undefined) bySelected.set(key, [override]);
      else if (!present.includes(override)) present.push(override);
    }
  return objects.flatMap((object) => {
    const selecting = selectingKeys(object).map((key) => bySelected.get(key) ?? []);
    // An override may name a Namespace and an object in it: it applies once, and in its place among the others.
    const applied =
      selecting.flat().length === 0 ? [] : active.filter((it) => selecting.some((list) => list.includes(it)));
    return overridden(object, applied) ?? [];
  });
}

/** How selectors name the object. */
export function placedObject({
  apiVersion,
  kind = "",
  metadata: { namespace, name },
}: KubeObject): SelectedObject {
  return { ...groupVersionOf(apiVersion), kind, name, namespace };
}

/** The keys of the selectors that select the object: its own, and that of its namespace. */
export function selectingKeys(object: KubeObject): readonly string[] {
  const { namespace } = object.metadata;
  const key = keyOfSelected(placedObject(object));
  return namespace === undefined ? [key] : [key, namespaceKey(namespace)];
}

export function keyOfSelected({ group, version, kind, namespace, name }: SelectedObject): string {
  return JSON.stringify([group, version, kind, namespace ?? "", name]);
}

function namespaceKey(name: string): string {
  return keyOfSelected({ group: "", version: "v1", kind: "Namespace", name, namespace: undefined });
}

function groupVersionOf(apiVersion = ""): { readonly group: string; readonly version: string } {
  const slash = apiVersion.indexOf("/");
  return { group: apiVersion.slice(0, Math.max(0, slash)), version: apiVersion.slice(slash + 1) };
}

/** @returns Undefined if the object is deleted, whatever else was to be done with it. */
function overridden(object: KubeObject, overrides: readonly ResolvedOverride[]): KubeObject | undefined {
  if (overrides.some(({ steps }) => steps.includes("delete"))) return undefined;
  let result = object;
  for (const { snapshot, steps } of overrides)
    // All at once: each patch copies the object.
    result = patched(
      result,
      steps.flatMap((step) => (step === "delete" ? [] : step)),
      snapshot,
    );
  return result;
}

function patched(object: KubeObject, patch: readonly ResolvedPatch[], snapshot: string): KubeObject {
  const { namespace, name } = object.metadata;
  const where = `${object.kind} "${namespace === undefined ? name : `${namespace}/${name}`}"`;
  let result: KubeObject;
  try {
    result = applyJsonPatch(object, patch.flatMap(strict)) as KubeObject;
  } catch (error) {
    if (!(error instanceof JsonPatchError)) throw error;
    throw new OverrideError(`${snapshot} does not fit ${where}: ${error.message}`);
  }
  if (!sameJson(identityOf(result), identityOf(object)))
    throw new OverrideError(
      `${snapshot} makes ${where} another object, or an envelope of it, or changes the annotation ${ENVELOPE_CONFIG_MAP_ANNOTATION}: overrides cannot`,
    );
  return result;
}

/** What no override may change, however its path is written: which object it is, and whether it stands for others. */
function identityOf(object: Partial<KubeObject>): unknown {
  const metadata: unknown = object.metadata;
  const { annotations, ...rest } = isObject(metadata) ? metadata : {};
  const envelope = isObject(annotations) ? own(annotations, ENVELOPE_CONFIG_MAP_ANNOTATION) : undefined;
  return { apiVersion: object.apiVersion, kind: object.kind, ...rest, labels: null, envelope };
}

/** RFC 6902 replaces what is there only; our patches add it otherwise, as the API server's library does. */
function strict(patch: ResolvedPatch): Record<string, unknown>[] {
  const { op, path } = patch;
  return op === "replace"
    ? [
        { op: "remove", path },
        { ...patch, op: "add" },
      ]
    : [{ ...patch }];
}
