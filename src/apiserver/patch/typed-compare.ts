import { isObject, own, sameJson } from "#base/json.ts";
import { impliedValue } from "../schema/go-types.ts";
import type { Schema, SchemaResolver } from "../schema/types.ts";
import { EMPTY, fieldElement, makeNode, unionNodes, type FieldSet } from "./field-set.ts";
import {
  elementOfItem,
  fieldSchema,
  shapeOf,
  type ListShape,
  type MapShape,
  type SetShape,
  type Shape,
} from "./shapes.ts";

/** The paths in which two objects differ. */
export interface Comparison {
  readonly added: FieldSet;
  readonly modified: FieldSet;
  readonly removed: FieldSet;
}

interface Change {
  readonly added?: FieldSet | undefined;
  readonly modified?: FieldSet | undefined;
  readonly removed?: FieldSet | undefined;
}

const LEAF: FieldSet = {};

/** Compares two objects of one schema. Source: structured-merge-diff, typed/compare.go. */
export function compareTyped(
  before: unknown,
  after: unknown,
  schema: Schema,
  resolve: SchemaResolver,
): Comparison {
  const change = new Comparer(resolve).values(before, after, schema);
  return {
    added: change?.added ?? EMPTY,
    modified: change?.modified ?? EMPTY,
    removed: change?.removed ?? EMPTY,
  };
}

class Comparer {
  readonly #resolve: SchemaResolver;

  constructor(resolve: SchemaResolver) {
    this.#resolve = resolve;
  }

  /** Undefined where nothing differs. An absent value is `undefined`. */
  values(before: unknown, after: unknown, schema: Schema | undefined): Change | undefined {
    if (before === after) return undefined;
    // A field that the schema no longer has was stored under an older one: it counts as a whole.
    if (schema === undefined) return leafChange(before, after);
    const oldShape = shapeOf(schema, before ?? after, this.#resolve);
    const newShape = shapeOf(schema, after ?? before, this.#resolve);
    if (oldShape.kind === newShape.kind) return this.#shaped(before, after, newShape);
    return merge(this.#shaped(before, after, oldShape), this.#shaped(before, after, newShape));
  }

  #shaped(before: unknown, after: unknown, shape: Shape): Change | undefined {
    if (shape.kind === "leaf" || (isVoid(before) && isVoid(after))) return leafChange(before, after);
    const below = shape.kind === "map" ? this.#maps(before, after, shape) : this.#lists(before, after, shape);
    const [added, modified, removed] = below;
    return changeOf(
      makeNode(before === undefined, added),
      makeNode(false, modified),
      makeNode(after === undefined, removed),
    );
  }

  #maps(before: unknown, after: unknown, shape: MapShape): Below {
    const [old, now] = [isObject(before) ? before : NOTHING, isObject(after) ? after : NOTHING];
    const below: Below = [{}, {}, {}];
    const ref = before === undefined || after === undefined ? undefined : shape.ref;
    const compareField = (name: string): void => {
      const implied = ref === undefined ? undefined : impliedValue(ref, name);
      // A null is a value, and not what is implied.
      const [was, is] = [own(old, name), own(now, name)].map((it) => (it === undefined ? implied : it));
      const change = this.values(was, is, fieldSchema(shape, name));
      if (change !== undefined) collect(below, fieldElement(name), change);
    };
    for (const name of Object.keys(old)) compareField(name);
    for (const name of Object.keys(now)) if (own(old, name) === undefined) compareField(name);
    return below;
  }

  #lists(before: unknown, after: unknown, shape: SetShape | ListShape): Below {
    const [old, now] = [this.#byElement(before, shape), this.#byElement(after, shape)];
    const below: Below = [{}, {}, {}];
    for (const element of new Set([...old.keys(), ...now.keys()])) {
      collect(below, element, this.#items(old.get(element) ?? [], now.get(element) ?? [], shape));
    }
    return below;
  }

  /** Items of one key: one at most on each side, unless an older schema let duplicates in; then all count as one. */
  #items(old: readonly unknown[], now: readonly unknown[], shape: SetShape | ListShape): Change | undefined {
    const compare = (a: unknown, b: unknown): Change | undefined =>
      shape.kind === "set" ? leafChange(a, b) : this.values(a, b, shape.item);
    if (old.length <= 1 && now.length <= 1) return compare(old[0], now[0]);
    if (old.length > 1 && now.length > 1) return sameJson(old, now) ? undefined : { modified: LEAF };
    if (old.length > 1) return merge(compare(undefined, now[0]), { removed: LEAF });
    return merge(compare(old[0], undefined), { added: LEAF });
  }

  #byElement(list: unknown, shape: SetShape | ListShape): Map<string, unknown[]> {
    const items = new Map<string, unknown[]>();
    for (const item of Array.isArray(list) ? (list as unknown[]) : []) {
      const element = elementOfItem(shape, item, this.#resolve);
      const same = items.get(element);
      if (same === undefined) items.set(element, [item]);
      else same.push(item);
    }
    return items;
  }
}

const NOTHING: Readonly<Record<string, unknown>> = {};

/** Added, modified, removed: what is below one node. */
type Below = readonly [Record<string, FieldSet>, Record<string, FieldSet>, Record<string, FieldSet>];

function collect([added, modified, removed]: Below, element: string, change: Change | undefined): void {
  if (change?.added !== undefined) added[element] = change.added;
  if (change?.modified !== undefined) modified[element] = change.modified;
  if (change?.removed !== undefined) removed[element] = change.removed;
}

/** Empty and null values are leaves: that keeps the difference between them. */
function isVoid(value: unknown): boolean {
  if (value === undefined || value === null) return true;
  return typeof value === "object" && Object.keys(value).length === 0;
}

function leafChange(before: unknown, after: unknown): Change | undefined {
  if (before === undefined) return after === undefined ? undefined : { added: LEAF };
  if (after === undefined) return { removed: LEAF };
  return sameJson(before, after) ? undefined : { modified: LEAF };
}

function changeOf(
  added: FieldSet | undefined,
  modified: FieldSet | undefined,
  removed: FieldSet | undefined,
): Change | undefined {
  if (added === undefined && modified === undefined && removed === undefined) return undefined;
  return { added, modified, removed };
}

function merge(a: Change | undefined, b: Change | undefined): Change | undefined {
  return changeOf(
    unionNodes(a?.added, b?.added),
    unionNodes(a?.modified, b?.modified),
    unionNodes(a?.removed, b?.removed),
  );
}
