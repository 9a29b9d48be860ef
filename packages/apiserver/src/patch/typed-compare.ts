import { isObject, own, sameJson } from "@fairlead/base/json.ts";
import { impliedValue } from "#schema/go-types.ts";
import type { Schema, SchemaResolver } from "#schema/types.ts";
import { EMPTY, fieldElement, NodeBuilder, unionNodes, type FieldSet } from "./field-set.ts";
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
    if (shape.kind === "leaf") return leafChange(before, after);
    // Looked through once, however many there are.
    const [old, now] = [keysOf(before), keysOf(after)];
    if (old.length === 0 && now.length === 0) return leafChange(before, after);
    const below = new Below(before, after);
    if (shape.kind === "map") this.#maps(below, { before, after, shape }, [old, now]);
    else this.#lists(below, { before, after, shape });
    return below.change;
  }

  #maps(
    below: Below,
    { before, after, shape }: Compared<MapShape>,
    [oldKeys, newKeys]: readonly [readonly string[], readonly string[]],
  ): void {
    const [old, now] = [isObject(before) ? before : NOTHING, isObject(after) ? after : NOTHING];
    const ref = before === undefined || after === undefined ? undefined : shape.ref;
    const compareField = (name: string): void => {
      const implied = ref === undefined ? undefined : impliedValue(ref, name);
      // A null is a value, and not what is implied.
      const was = own(old, name);
      const is = own(now, name);
      const change = this.values(
        was === undefined ? implied : was,
        is === undefined ? implied : is,
        fieldSchema(shape, name),
      );
      if (change !== undefined) below.collect(fieldElement(name), change);
    };
    if (old !== NOTHING) for (const name of oldKeys) compareField(name);
    if (now === NOTHING) return;
    for (const name of newKeys) if (own(old, name) === undefined) compareField(name);
  }

  #lists(below: Below, { before, after, shape }: Compared<SetShape | ListShape>): void {
    const [old, now] = [this.#byElement(before, shape), this.#byElement(after, shape)];
    for (const element of new Set([...old.keys(), ...now.keys()])) {
      below.collect(element, this.#items(old.get(element) ?? [], now.get(element) ?? [], shape));
    }
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

interface Compared<S> {
  readonly before: unknown;
  readonly after: unknown;
  readonly shape: S;
}

/** The paths below one node. */
class Below {
  readonly #added: NodeBuilder;
  readonly #modified = new NodeBuilder(false);
  readonly #removed: NodeBuilder;

  constructor(before: unknown, after: unknown) {
    this.#added = new NodeBuilder(before === undefined);
    this.#removed = new NodeBuilder(after === undefined);
  }

  collect(element: string, change: Change | undefined): void {
    this.#added.set(element, change?.added);
    this.#modified.set(element, change?.modified);
    this.#removed.set(element, change?.removed);
  }

  get change(): Change | undefined {
    return changeOf(this.#added.node, this.#modified.node, this.#removed.node);
  }
}

/** Empty and null values are leaves: that keeps the difference between them. A scalar in their place is not. */
function keysOf(value: unknown): readonly string[] {
  if (value === undefined || value === null) return [];
  return typeof value === "object" ? Object.keys(value) : SCALAR;
}

const SCALAR = [""];

const LEAF_ADDED: Change = { added: LEAF };

function leafChange(before: unknown, after: unknown): Change | undefined {
  if (before === undefined) return after === undefined ? undefined : LEAF_ADDED;
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
