import {
  Composer,
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  type Node,
  type ParsedNode,
  Parser,
  type Scalar,
  type YAMLMap,
  type YAMLSeq,
} from "yaml";
import { fieldPath, FoundPaths } from "@fairlead/base/found-paths.ts";
import { MAX_NESTING } from "@fairlead/base/json.ts";

/**
 * Longest text that is parsed unless the caller trusts its author: the parser takes a microsecond or two per character, and blocks
 * all other work for that time. Unit: characters.
 */
export const MAX_YAML = 64 * 1024;
/** Longest text of a file that the user of a command names. Unit: characters. */
export const MAX_OWN_YAML = 4 * 1024 * 1024;
/**
 * What a document may stand for with its aliases: each node counts as its text and this much more, as often as it is read.
 * Unit: characters.
 */
const NODE = 8;
const MAX_EXPANDED = 2 * 1024 * 1024;

/** The text is not YAML, is longer than permitted, or stands for more than permitted. */
export class YamlError extends Error {
  readonly problem: "malformed" | "tooLong";

  constructor(message: string, problem: YamlError["problem"] = "malformed") {
    super(message);
    this.problem = problem;
  }
}

export interface YamlDocument {
  readonly value: unknown;
  /** Paths of keys that a mapping has more than once ("spec.ports[0].name"), up to a bound; the last value counts. */
  readonly duplicates: readonly string[];
}

/**
 * Parses YAML as Go's library does for Kubernetes: by version 1.1 (`yes` is true, `0777` is octal), but without base 60 and dates,
 * which stay text. Keys of other types become text. The cost is linear in the length of the text.
 *
 * @returns The first document; null if the text has none.
 * @throws {YamlError}
 */
export function readYaml(text: string, maxLength = MAX_YAML): YamlDocument {
  for (const document of readYamlDocuments(text, maxLength)) return document;
  return { value: null, duplicates: [] };
}

/**
 * As `readYaml`, of all documents of the text.
 *
 * @throws {YamlError}
 */
export function* readYamlDocuments(source: string, maxLength = MAX_YAML): Iterable<YamlDocument> {
  const text = source.startsWith("\uFEFF") ? source.slice(1) : source;
  // The parser takes it for blank; by the specification no token begins with it.
  if (/^[ \r\n]*\t\s*$/.test(text)) throw new YamlError("found character that cannot start any token");
  if (text.length > maxLength) throw new YamlError(`more than ${maxLength} characters`, "tooLong");
  for (const node of nodesIn(text)) {
    const reader = new Reader();
    const value = reader.read(node);
    yield { value, duplicates: reader.duplicates.all };
  }
}

/** The tags that Go resolves; the others of version 1.1 (`!!set`, `!!omap`, times) are decoded as a mapping, a list or text. */
const KNOWN_TAGS = new Set(["map", "seq", "str", "null", "bool", "int", "float", "binary", "merge"]);

/** An error at a place of the text. */
class ErrorAt extends Error {
  readonly offset: number;

  constructor(message: string, offset: number) {
    super(message);
    this.offset = offset;
  }
}

/** The content of each document. */
function* nodesIn(text: string): Iterable<Node | null> {
  try {
    for (const { contents } of compose(text)) yield contents;
  } catch (error) {
    if (error instanceof YamlError) throw error;
    // The parser is recursive, too: nesting without end exhausts the stack.
    const { message } = error as Error;
    const where = error instanceof ErrorAt ? ` at ${positionIn(text, error.offset)}` : "";
    throw new YamlError(`${message}${where}`);
  }
}

function* compose(text: string): Iterable<Document<ParsedNode>> {
  const composer = new Composer({
    version: "1.1",
    uniqueKeys: false,
    stringKeys: false,
    resolveKnownTags: false,
    customTags: (tags) =>
      tags.filter((tag) =>
        typeof tag === "string"
          ? KNOWN_TAGS.has(tag)
          : KNOWN_TAGS.has(tag.tag.replace("tag:yaml.org,2002:", "")) && tag.format !== "TIME",
      ),
  });
  // Of malformed text nothing counts but its first error: to collect all of them costs more than to read as much that is sound.
  let first: ErrorAt | undefined;
  const onError = (source: Source, _code: string, message: string, isWarning?: boolean): void => {
    if (isWarning === true) return;
    // The parser reports the same error again for the enclosing nodes.
    first ??= new ErrorAt(message, offsetOf(source));
    throw first;
  };
  Object.assign(composer, { onError });
  for (const token of new Parser().parse(text)) {
    if (token.type === "error") throw new ErrorAt(token.message, token.offset);
    yield* composer.next(token) as Iterable<Document<ParsedNode>>;
  }
  yield* composer.end(true, text.length) as Iterable<Document<ParsedNode>>;
}

type Source = number | readonly [number, ...number[]] | { readonly offset: number };

function offsetOf(source: Source): number {
  if (typeof source === "number") return source;
  return "offset" in source ? source.offset : source[0];
}

function positionIn(text: string, offset: number): string {
  const lines = text.slice(0, offset).split("\n");
  return `line ${lines.length}, column ${(lines.at(-1) ?? "").length + 1}`;
}

class Reader {
  readonly duplicates = new FoundPaths();
  readonly #anchors = new Map<string, Node>();
  readonly #open = new Set<Node>();
  #charged = 0;

  read(node: unknown, path = "", depth = 0): unknown {
    if (depth > MAX_NESTING) throw new YamlError(`exceeded max depth of ${MAX_NESTING}`);
    this.#charge(NODE + (isScalar(node) ? (node.source ?? "").length : 0));
    if (isAlias(node)) return this.#alias(node.source, path, depth);
    if (!isScalar(node) && !isMap(node) && !isSeq(node)) return null;
    if (node.anchor !== undefined) this.#anchors.set(node.anchor, node);
    return isScalar(node) ? scalarValue(node) : this.#collection(node, path, depth);
  }

  #collection(node: YAMLSeq | YAMLMap, path: string, depth: number): unknown {
    this.#open.add(node);
    const value = isSeq(node)
      ? node.items.map((item, at) => this.read(item, `${path}[${at}]`, depth + 1))
      : this.#map(node, path, depth);
    this.#open.delete(node);
    return value;
  }

  #charge(characters: number): void {
    this.#charged += characters;
    if (this.#charged > MAX_EXPANDED) {
      throw new YamlError("document contains excessive aliasing");
    }
  }

  #alias(name: string, path: string, depth: number): unknown {
    const target = this.#anchors.get(name);
    if (target === undefined) throw new YamlError(`unknown anchor '${name}' referenced`);
    if (this.#open.has(target)) throw new YamlError(`anchor '${name}' value contains itself`);
    return this.read(target, path, depth + 1);
  }

  #map(node: YAMLMap, path: string, depth: number): Record<string, unknown> {
    const own: Record<string, unknown> = {};
    const merged: Record<string, unknown> = {};
    for (const pair of node.items) {
      const key = keyText(this.read(pair.key, path, depth + 1));
      const at = fieldPath(path, key);
      const value = this.read(pair.value, at, depth + 1);
      if (isScalar(pair.key) && typeof pair.key.value === "symbol") mergeInto(merged, value);
      else {
        if (Object.hasOwn(own, key)) this.duplicates.add(() => at);
        own[key] = value;
      }
    }
    return { ...merged, ...own };
  }
}

function keyText(key: unknown): string {
  if (key === "__proto__") throw new YamlError("__proto__ is not taken as a key");
  if (typeof key === "string") return key;
  if (typeof key === "object" && key !== null) throw new YamlError("a key is not a scalar");
  return JSON.stringify(key);
}

/** "<<": the keys of one mapping, or of several, of which the first counts. */
function mergeInto(merged: Record<string, unknown>, value: unknown): void {
  for (const source of Array.isArray(value) ? (value as unknown[]) : [value]) {
    if (typeof source !== "object" || source === null || Array.isArray(source)) {
      throw new YamlError("map merge requires map or sequence of maps as the value");
    }
    for (const [key, item] of Object.entries(source)) if (!Object.hasOwn(merged, key)) merged[key] = item;
  }
}

function scalarValue(node: Scalar): string | number | boolean | null {
  const { value } = node;
  if (value === undefined || value === null) return null;
  if (typeof value === "number") return exactNumber(value, node.source ?? "");
  if (typeof value === "string" || typeof value === "boolean") return value;
  // The merge key, used as a value.
  if (typeof value === "symbol") return node.source ?? "<<";
  throw new YamlError(`unsupported value ${node.source ?? ""}`);
}

function exactNumber(value: number, source: string): number {
  if (!Number.isFinite(value)) throw new YamlError(`${source} is not a JSON number`);
  const isInteger = /^[-+]?[0-9]+$/.test(source) && !Number.isSafeInteger(value);
  if (isInteger && String(value) !== source.replace(/^\+/, "")) {
    throw new YamlError(`integer ${source.slice(0, 40)} would be rounded`);
  }
  return value;
}
