import { parseExact } from "@fairlead/base/exact-json.ts";
import { isObject } from "@fairlead/base/json.ts";
import { byText } from "@fairlead/base/text.ts";

/**
 * A set of field paths, in the form in which managedFields stores it (FieldsV1): a tree of path elements, "f:<name>" for
 * a field, `k:{"<key>":<value>}` for an item of a list of type map, `v:<json>` for one of type set. A node that is in the
 * set and has children holds "."; one without children is in the set. The stored form is worked on as it is: the sets
 * of most writes are read once and written back unchanged. Sets are never changed in place.
 * Source: structured-merge-diff, fieldpath.
 */
export interface FieldSet {
  readonly [element: string]: FieldSet;
}

type Node = FieldSet | undefined;

const SELF = ".";
const LEAF: FieldSet = {};

/** The set with nothing in it. At the root an empty tree is the empty set; below it is a member. */
export const EMPTY: FieldSet = {};

export function isEmpty(set: FieldSet): boolean {
  // The loop lists all of a large set before it begins, and most of those hold themselves.
  if (SELF in set) return false;
  for (const _ in set) return false;
  return true;
}

function isMember(node: FieldSet): boolean {
  return SELF in node || isEmpty(node);
}

/** A node from what it is and what is below it; undefined when that is nothing. */
export function makeNode(isIn: boolean, children: Record<string, FieldSet> | undefined): Node {
  if (children === undefined || isEmpty(children)) return isIn ? LEAF : undefined;
  return isIn ? { [SELF]: LEAF, ...children } : children;
}

/** As `makeNode`, child by child: nothing is copied, nor looked through, however many there are. */
export class NodeBuilder {
  readonly #isIn: boolean;
  #children: Record<string, FieldSet> | undefined;

  constructor(isIn: boolean) {
    this.#isIn = isIn;
  }

  set(element: string, child: Node): void {
    if (child === undefined) return;
    this.#children ??= this.#isIn ? { [SELF]: LEAF } : {};
    this.#children[element] = child;
  }

  get node(): Node {
    return this.#children ?? (this.#isIn ? LEAF : undefined);
  }
}

function rootOf(node: Node): FieldSet {
  return node ?? EMPTY;
}

function nodeOf(root: FieldSet): Node {
  return isEmpty(root) ? undefined : root;
}

/** The union of `a` and `b`. */
export function union(a: FieldSet, b: FieldSet): FieldSet {
  return rootOf(unionNodes(nodeOf(a), nodeOf(b)));
}

export function unionNodes(a: Node, b: Node): Node {
  if (a === undefined || a === b) return b;
  if (b === undefined) return a;
  const united = new NodeBuilder(isMember(a) || isMember(b));
  for (const element of Object.keys(a)) {
    if (element !== SELF) united.set(element, unionNodes(a[element], b[element]));
  }
  for (const element of Object.keys(b)) {
    if (element !== SELF && a[element] === undefined) united.set(element, b[element]);
  }
  return united.node;
}

/** The intersection. */
export function intersection(a: FieldSet, b: FieldSet): FieldSet {
  return rootOf(intersect(nodeOf(a), nodeOf(b)));
}

function intersect(a: Node, b: Node): Node {
  if (a === undefined || b === undefined) return undefined;
  const shared = new NodeBuilder(isMember(a) && isMember(b));
  for (const element of Object.keys(a)) {
    if (element !== SELF) shared.set(element, intersect(a[element], b[element]));
  }
  return shared.node;
}

/** The difference of `a` and `b`, path by path: children of a removed path stay. */
export function difference(a: FieldSet, b: FieldSet): FieldSet {
  return rootOf(subtract(nodeOf(a), nodeOf(b)));
}

function subtract(a: Node, b: Node): Node {
  if (a === undefined || b === undefined) return a;
  const rest = new NodeBuilder(isMember(a) && !isMember(b));
  for (const element of Object.keys(a)) {
    if (element !== SELF) rest.set(element, subtract(a[element], b[element]));
  }
  return rest.node;
}

/** Only paths below those top-level fields for which `keeps` is true. */
export function filterTopLevel(set: FieldSet, keeps: (field: string) => boolean): FieldSet {
  return Object.fromEntries(Object.entries(set).filter(([element]) => keeps(element.slice(2))));
}

export function sameSet(a: FieldSet, b: FieldSet): boolean {
  if (a === b) return true;
  const elements = Object.keys(a);
  return (
    elements.length === Object.keys(b).length &&
    elements.every((element) => {
      const [one, other] = [a[element], b[element]];
      return one !== undefined && other !== undefined && sameSet(one, other);
    })
  );
}

/** The deepest paths of the set, each as its elements, in a stable order. */
export function* leaves(set: FieldSet, above: readonly string[] = []): Generator<readonly string[]> {
  for (const element of Object.keys(set).toSorted(byText)) {
    if (element === SELF) continue;
    const path = [...above, element];
    const child = set[element] ?? LEAF;
    if (Object.keys(child).every((it) => it === SELF)) yield path;
    else yield* leaves(child, path);
  }
}

/** A path as messages write it: `.spec.containers[name="a"].image`. */
export function renderPath(path: readonly string[]): string {
  return path.map(renderElement).join("");
}

function renderElement(element: string): string {
  const text = element.slice(2);
  if (element.startsWith("f:")) return `.${text}`;
  if (element.startsWith("i:")) return `[${text}]`;
  if (element.startsWith("v:")) return `[=${text}]`;
  const key = parseExact(text) as Record<string, unknown>;
  const parts = Object.entries(key).map(([name, value]) => `${name}=${renderValue(value)}`);
  return `[${parts.join(",")}]`;
}

/** Source: structured-merge-diff, value/value.go, `ToString`. */
function renderValue(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(renderValue).join(",")}]`;
  if (!isObject(value)) return JSON.stringify(value);
  const fields = Object.entries(value).map(([name, it]) => `${name}=${renderValue(it)}`);
  return fields.join("");
}

/** The element of a list item that is known by `key`; names in order, so that equal keys are equal texts. */
export function keyElement(key: Readonly<Record<string, unknown>>): string {
  const names = Object.keys(key).toSorted(byText);
  return `k:${JSON.stringify(Object.fromEntries(names.map((name) => [name, key[name]])))}`;
}

export function valueElement(value: unknown): string {
  return `v:${JSON.stringify(value)}`;
}

export function fieldElement(name: string): string {
  return `f:${name}`;
}

/** Parses FieldsV1 from a client; undefined if malformed. Normalizes keys, so that texts compare. */
export function parseFieldSet(raw: unknown): FieldSet | undefined {
  if (!isObject(raw)) return undefined;
  let set: Record<string, FieldSet> | undefined;
  for (const element of Object.keys(raw)) {
    const uniform = parseElement(element);
    const below = parseFieldSet(raw[element]);
    if (uniform === undefined || below === undefined) return undefined;
    set ??= {};
    set[uniform] = below;
  }
  return set ?? LEAF;
}

function parseElement(element: string): string | undefined {
  if (element === SELF || element.startsWith("f:") || /^i:\d+$/.test(element)) return element;
  try {
    if (element.startsWith("v:")) return valueElement(parseExact(element.slice(2)));
    if (!element.startsWith("k:")) return undefined;
    const key = parseExact(element.slice(2));
    return isObject(key) ? keyElement(key) : undefined;
  } catch {
    return undefined;
  }
}
