import type { Resource } from "#api/meta/resource.ts";
import type { KubeObject } from "#api/meta/types.ts";
import { isObject, sameJson } from "@fairlead/base/json.ts";
import { ItemsByKey, keyIn } from "./list-items.ts";

/** Events about changes of others to objects that one controller writes. */

/** Records Events on objects; the `EventRecorder` of a program. */
export interface ChangeRecorder {
  record<T extends KubeObject>(
    of: Resource<T>,
    object: T,
    event: { readonly type: "Normal" | "Warning"; readonly reason: string; readonly message: string },
  ): void;
}

/** A field that another manager owns. */
export interface TakenField {
  readonly field: string;
  readonly manager: string;
}

/** The most fields that a message names. */
const MAX_FIELDS = 5;

interface Owner {
  readonly manager: string;
  /** `fieldsV1` at a place. */
  readonly owned: Record<string, unknown>;
}

interface Place {
  readonly field: string;
  readonly current: unknown;
  readonly desired: unknown;
  /** What the applier owns here; undefined: nothing. */
  readonly owned: unknown;
  readonly others: readonly Owner[];
}

/**
 * Finds the fields of `desired` that others have set to values of their own since `by` applied the object: those for which a server
 * refuses an apply without `force`. Read from `managedFields`, since that refusal would be one more request.
 */
export function takenFields(current: KubeObject, desired: object, by: string): readonly TakenField[] {
  const { managedFields = [] } = current.metadata;
  const own = managedFields.find(
    (it) => it.manager === by && it.operation === "Apply" && it.subresource === undefined,
  );
  if (own?.fieldsV1 === undefined) return [];
  const others = managedFields.flatMap(({ manager, fieldsV1 }) =>
    manager === undefined || manager === by || fieldsV1 === undefined ? [] : [{ manager, owned: fieldsV1 }],
  );
  return takenAt({ field: "", current, desired, owned: own.fieldsV1, others });
}

function takenAt(at: Place): TakenField[] {
  const { current, desired, owned, others } = at;
  if (others.length === 0 || desired === undefined) return [];
  // Without keys: a value, or a map or list that is owned as a whole.
  const taken =
    owned !== undefined || sameJson(current, desired)
      ? []
      : others
          .filter((it) => Object.keys(it.owned).length === 0)
          .map(({ manager }) => ({ field: at.field, manager }));
  return [...taken, ...partsOf(at).flatMap(takenAt)];
}

function partsOf({ field, current, desired, owned, others }: Place): Place[] {
  const inside = (part: string): Pick<Place, "owned" | "others"> => ({
    owned: isObject(owned) ? owned[part] : undefined,
    others: others.flatMap((it) => {
      const inner = it.owned[part];
      return isObject(inner) ? [{ manager: it.manager, owned: inner }] : [];
    }),
  });
  if (isObject(desired))
    return Object.entries(desired).map(([key, value]: [string, unknown]) => ({
      field: field === "" ? key : `${field}.${key}`,
      current: isObject(current) ? current[key] : undefined,
      desired: value,
      ...inside(`f:${key}`),
    }));
  if (!Array.isArray(desired)) return [];
  const parts = new Set(others.flatMap((it) => Object.keys(it.owned)));
  const [wanted, found] = [new ItemsByKey(desired), new ItemsByKey(current)];
  return [...parts].flatMap((part) => {
    const key = keyIn(part);
    const item = key && wanted.find(key);
    if (key === undefined || item === undefined) return [];
    return [
      { field: `${field}[${shownKey(key)}]`, current: found.find(key), desired: item, ...inside(part) },
    ];
  });
}

/** `port=80,protocol="TCP"`, as servers word it. */
function shownKey(key: Readonly<Record<string, unknown>>): string {
  return Object.entries(key)
    .map(([name, value]) => `${name}=${JSON.stringify(value)}`)
    .join(",");
}

export interface Reverted {
  readonly taken: readonly TakenField[];
  /** The manager that set them back. */
  readonly by: string;
}

export function recordReverted<T extends KubeObject>(
  events: ChangeRecorder,
  of: Resource<T>,
  object: T,
  { taken, by }: Reverted,
): void {
  if (taken.length === 0) return;
  const managers = [...new Set(taken.map((it) => it.manager))].toSorted().join(", ");
  const fields = [...new Set(taken.map((it) => it.field))].toSorted();
  const shown = fields.slice(0, MAX_FIELDS).join(", ");
  const more = fields.length > MAX_FIELDS ? ` and ${fields.length - MAX_FIELDS} more fields` : "";
  events.record(of, object, {
    type: "Warning",
    reason: "ChangeReverted",
    message: `${managers} changed ${shown}${more}, which ${by} writes: set back`,
  });
}
