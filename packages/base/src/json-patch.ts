import { cloneJson, isObject, MAX_NESTING, nestsDeeperThan, sameJson } from "./json.ts";

/** `copy` may double an object with each operation: what all of them add is bounded, as in Kubernetes. Unit: bytes. */
const MAX_COPIED_BYTES = 3 * 1024 * 1024;
/** An operation of a few bytes may look at a whole object: what all of them look at is bounded. Unit: values. */
const MAX_VISITED = 1_000_000;
/** Items of a list that make room for another, or close up, cost this much less than values that are looked at. */
const SHIFTED_PER_VISIT = 16;

type Operation =
  | { readonly op: "add" | "replace" | "test"; readonly path: Pointer; readonly value: unknown }
  | { readonly op: "remove"; readonly path: Pointer }
  | { readonly op: "move" | "copy"; readonly path: Pointer; readonly from: Pointer };

type Pointer = readonly string[];

/** The patch cannot be read, does not fit the value, or costs too much to apply. */
export type JsonPatchProblem = "malformed" | "inapplicable" | "tooLarge";

export class JsonPatchError extends Error {
  readonly problem: JsonPatchProblem;
  constructor(problem: JsonPatchProblem, message: string) {
    super(message);
    this.problem = problem;
  }
}

/**
 * Applies a JSON patch (RFC 6902), with the liberties of the library that Kubernetes uses (evanphx/json-patch): negative
 * array indices count from the end, and `add` at an index one past the end appends. `target` is not changed.
 *
 * @throws {JsonPatchError}
 */
export function applyJsonPatch(
  target: unknown,
  patch: readonly Readonly<Record<string, unknown>>[],
): unknown {
  const operations = patch.map(parseOperation);
  const document = new Document(cloneJson(target));
  for (const operation of operations) document.apply(operation);
  return document.root;
}

function parseOperation(raw: Readonly<Record<string, unknown>>): Operation {
  const path = parsePointer(raw["path"], "path");
  switch (raw["op"]) {
    case "add":
    case "replace":
    case "test":
      return { op: raw["op"], path, value: raw["value"] ?? null };
    case "remove":
      return { op: "remove", path };
    case "move":
    case "copy":
      return { op: raw["op"], path, from: parsePointer(raw["from"], "from") };
    default:
      throw inapplicable(`unexpected kind of operation: ${JSON.stringify(raw["op"])}`);
  }
}

function parsePointer(raw: unknown, of: string): Pointer {
  if (typeof raw !== "string") throw inapplicable(`an operation has no ${of}`);
  // As in Go's library, text before the first slash of a pointer is ignored.
  const steps = raw
    .split("/")
    .slice(1)
    .map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
  if (steps.includes("__proto__")) throw new JsonPatchError("malformed", "__proto__ is not taken as a key");
  return steps;
}

function inapplicable(message: string): JsonPatchError {
  return new JsonPatchError("inapplicable", message);
}

class Document {
  root: unknown;
  #copied = 0;
  #visited = 0;

  constructor(root: unknown) {
    this.root = root;
  }

  apply(operation: Operation): void {
    const { op, path } = operation;
    switch (op) {
      case "add":
        return this.#add(path, operation.value);
      case "replace":
        return this.#replace(path, operation.value);
      case "remove":
        return this.#remove(path);
      case "test":
        return this.#test(path, operation.value);
      case "move":
        return this.#move(operation.from, path);
      case "copy":
        return this.#copy(operation.from, path);
      default:
        return op satisfies never;
    }
  }

  #add(path: Pointer, value: unknown): void {
    this.#refuseDepth(path, value);
    this.#put(path, cloneJson(value));
  }

  /** `value` becomes part of the document. */
  #put(path: Pointer, value: unknown): void {
    const at = path.at(-1);
    if (at === undefined) {
      this.root = value;
      return;
    }
    const parent = this.#parent(path, "add");
    if (!Array.isArray(parent)) parent[at] = value;
    else {
      const index = insertionIndex(parent, at, path);
      this.#shift(parent, index);
      parent.splice(index, 0, value);
    }
  }

  #refuseDepth(path: Pointer, value: unknown): void {
    if (nestsDeeperThan(value, MAX_NESTING - path.length)) {
      throw inapplicable(`add operation does not apply: ${render(path)}: nested deeper than ${MAX_NESTING}`);
    }
  }

  #shift(list: readonly unknown[], from: number): void {
    this.#visit((list.length - from) / SHIFTED_PER_VISIT);
  }

  #visit(values: number): void {
    this.#visited += values;
    if (this.#visited > MAX_VISITED)
      throw new JsonPatchError(
        "tooLarge",
        `the operations of a JSON patch look at more than ${MAX_VISITED} values`,
      );
  }

  #replace(path: Pointer, value: unknown): void {
    const at = path.at(-1);
    if (at !== undefined) {
      const parent = this.#parent(path, "replace");
      // Go's library takes a member that is not there for one to be added.
      if (Array.isArray(parent)) {
        existing(parent, at, path, "replace");
        this.#remove(path);
      }
    }
    this.#add(path, value);
  }

  #remove(path: Pointer): void {
    const at = path.at(-1);
    if (at === undefined) throw inapplicable("the whole document cannot be removed");
    const parent = this.#parent(path, "remove");
    const index = existing(parent, at, path, "remove");
    if (!Array.isArray(parent)) delete parent[index];
    else {
      this.#shift(parent, Number(index));
      parent.splice(Number(index), 1);
    }
  }

  #test(path: Pointer, value: unknown): void {
    // A missing member equals null, as in the Go library.
    const found = this.#find(path) ?? null;
    this.#visit(countValues(found));
    if (!sameJson(found, value)) throw inapplicable(`testing path ${render(path)} failed`);
  }

  #move(from: Pointer, path: Pointer): void {
    if (from.length < path.length && from.every((step, at) => path[at] === step)) {
      throw inapplicable(`${render(from)} cannot be moved into itself`);
    }
    const value = this.#get(from, "move");
    this.#visit(countValues(value));
    this.#remove(from);
    this.#refuseDepth(path, value);
    this.#put(path, value);
  }

  #copy(from: Pointer, path: Pointer): void {
    const value = this.#get(from, "copy");
    this.#visit(countValues(value));
    this.#copied += JSON.stringify(value).length;
    if (this.#copied > MAX_COPIED_BYTES) {
      throw new JsonPatchError(
        "tooLarge",
        `the copy operations of a JSON patch add more than ${MAX_COPIED_BYTES} bytes`,
      );
    }
    this.#add(path, value);
  }

  #get(path: Pointer, op: string): unknown {
    const value = this.#find(path);
    if (value === undefined) throw missing(op, path);
    return value;
  }

  #find(path: Pointer): unknown {
    let node = this.root;
    for (const step of path) {
      if (Array.isArray(node)) node = node[indexOf(node.length, step) ?? node.length] as unknown;
      else if (isObject(node) && Object.hasOwn(node, step)) node = node[step];
      else return undefined;
    }
    return node;
  }

  #parent(path: Pointer, op: string): unknown[] | Record<string, unknown> {
    const parent = this.#find(path.slice(0, -1));
    if (Array.isArray(parent)) return parent as unknown[];
    if (!isObject(parent)) throw missing(op, path);
    return parent;
  }
}

function countValues(value: unknown): number {
  if (typeof value !== "object" || value === null) return 1;
  let count = 1;
  for (const item of Object.values(value)) count += countValues(item);
  return count;
}

function missing(op: string, path: Pointer): JsonPatchError {
  return inapplicable(`${op} operation does not apply: doc is missing path: ${render(path)}: missing value`);
}

function render(path: Pointer): string {
  return JSON.stringify(path.map((it) => `/${it.replaceAll("~", "~0").replaceAll("/", "~1")}`).join(""));
}

/** Which of `length` positions `step` names, negative ones from the end; undefined when it names none. */
function indexOf(length: number, step: string): number | undefined {
  if (!/^(0|-?[1-9]\d{0,8})$/.test(step)) return undefined;
  const index = Number(step);
  const fromStart = index < 0 ? length + index : index;
  return fromStart >= 0 && fromStart < length ? fromStart : undefined;
}

function insertionIndex(list: readonly unknown[], step: string, path: Pointer): number {
  if (step === "-") return list.length;
  // One more than the list has: the position past the end is one too.
  const index = indexOf(list.length + 1, step);
  if (index === undefined) {
    throw inapplicable(`add operation does not apply: ${render(path)}: invalid index referenced`);
  }
  return index;
}

function existing(
  parent: unknown[] | Record<string, unknown>,
  step: string,
  path: Pointer,
  op: string,
): string {
  if (Array.isArray(parent)) {
    const index = indexOf(parent.length, step);
    if (index === undefined) throw missing(op, path);
    return String(index);
  }
  if (!Object.hasOwn(parent, step)) throw missing(op, path);
  return step;
}
