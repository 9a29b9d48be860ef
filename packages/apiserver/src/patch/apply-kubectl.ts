import { isObject } from "@fairlead/base/json.ts";
import { byText } from "@fairlead/base/text.ts";
import type { ApiObject } from "#values/object.ts";
import { difference, union, type FieldSet } from "./field-set.ts";
import { withoutManagers, type Typed } from "./ownership.ts";

/** Where client-side apply keeps what it applied last. */
const LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration";
/** All annotations of an object together. Unit: bytes. */
const MAX_ANNOTATIONS = 256 * 1024;
const SELF = ".";

/**
 * Which fields kubectl may take without force although another manager has them: those that its client-side apply set
 * and that still hold that value. Undefined where client-side apply never was.
 */
export function conflictsAllowedByLastApplied(
  live: ApiObject,
  typed: Typed,
): ((path: readonly string[]) => boolean) | undefined {
  const text = live.metadata.annotations?.[LAST_APPLIED];
  const lastApplied = text === undefined ? undefined : parse(text);
  if (lastApplied === undefined || lastApplied["apiVersion"] !== live.apiVersion) return undefined;
  const { added, modified, removed } = typed.compare(lastApplied, withoutManagers(live));
  const set = difference(
    typed.sets.fieldSet(lastApplied, typed.schema),
    union(added, union(modified, removed)),
  );
  return (path) => hasPath(set, path);
}

function parse(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function hasPath(set: FieldSet, path: readonly string[]): boolean {
  let node: FieldSet | undefined = set;
  for (const element of path) {
    if (node === undefined) return false;
    node = Object.hasOwn(node, element) ? node[element] : undefined;
  }
  return node !== undefined && (SELF in node || Object.keys(node).length === 0);
}

/**
 * Keeps the annotation of client-side apply, where there is one, up to date with what kubectl applies on the server, so
 * that going back to client-side apply removes the right fields.
 */
export function syncLastApplied(object: ApiObject, manager: string, applied: ApiObject): ApiObject {
  const annotations = object.metadata.annotations;
  if (manager !== "kubectl" || annotations?.[LAST_APPLIED] === undefined) return object;
  const { [LAST_APPLIED]: _, ...own } = applied.metadata.annotations ?? {};
  const { annotations: __, ...metadata } = applied.metadata;
  const annotated = Object.keys(own).length === 0 ? metadata : { ...metadata, annotations: own };
  const text = `${render({ ...applied, metadata: annotated })}\n`;
  const others = Object.entries(annotations).filter(([key]) => key !== LAST_APPLIED);
  const size = others.reduce((sum, [key, value]) => sum + key.length + value.length, LAST_APPLIED.length);
  const value = size + Buffer.byteLength(text) > MAX_ANNOTATIONS ? "" : text;
  if (annotations[LAST_APPLIED] === value) return object;
  return {
    ...object,
    metadata: { ...object.metadata, annotations: { ...annotations, [LAST_APPLIED]: value } },
  };
}

/** JSON with keys in order, as Go writes it: the same configuration is the same text. */
function render(value: unknown): string {
  return JSON.stringify(value, (_, item: unknown) =>
    isObject(item) ? Object.fromEntries(Object.entries(item).toSorted(([a], [b]) => byText(a, b))) : item,
  );
}
