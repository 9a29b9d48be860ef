import {
  Composer,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  type Node,
  Parser,
  type Scalar,
  type YAMLMap,
  type YAMLSeq,
} from "yaml";
import { MAX_NESTING } from "@fairlead/base/json.ts";
import { finish, type Steps } from "@fairlead/base/turn.ts";
import { badRequest, tooLarge } from "#status.ts";
import { fieldPath, FoundPaths } from "./found-paths.ts";
import { parseJsonSteps, type Parsed } from "./json.ts";

/**
 * Longest text that is parsed as YAML: the parser takes a microsecond or two per character, and blocks other requests for
 * that time. Clients that apply send JSON under YAML's media type, to which this limit does not apply. Unit: characters.
 */
const MAX_YAML = 64 * 1024;
/**
 * What a document may stand for with its aliases: each node counts as its text and this much more, as often as it is read.
 * Unit: characters.
 */
const NODE = 8;
const MAX_EXPANDED = 2 * 1024 * 1024;

/**
 * Parses the YAML text of a request as Go's library does: by version 1.1 of YAML (`yes` is true, `0777` is octal), but
 * without base 60 and dates, which stay text. Keys of other types become text. Only the first document counts.
 *
 * @throws {StatusError} 400 for malformed text, excessive aliases, and what `parseJson` refuses; 413 for YAML beyond
 * 64 Ki characters.
 */
export function parseYaml(source: string): Parsed {
  return finish(parseYamlSteps(source));
}

export function* parseYamlSteps(source: string): Steps<Parsed> {
  const text = source.startsWith("\uFEFF") ? source.slice(1) : source;
  if (/^\s*\{/.test(text)) {
    const canBeJson = isJson(text);
    yield;
    if (canBeJson) return yield* parseJsonSteps(text);
  }
  // The parser takes it for blank; by the specification no token begins with it.
  if (/^[ \r\n]*\t\s*$/.test(text))
    throw badRequest("error decoding YAML: found character that cannot start any token");
  if (text.length > MAX_YAML)
    throw tooLarge(`YAML of more than ${MAX_YAML} characters is not taken: send JSON`);
  const reader = new Reader();
  const value = reader.read(parseNode(text));
  return { value, duplicates: reader.duplicates.all };
}

/** Most bodies of this type are JSON; a flow mapping of YAML looks like it at first. */
function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** The tags that Go resolves; the others of version 1.1 (`!!set`, `!!omap`, times) are decoded as a mapping, a list or text. */
const KNOWN_TAGS = new Set(["map", "seq", "str", "null", "bool", "int", "float", "binary", "merge"]);

class YamlError extends Error {
  readonly offset: number;

  constructor(message: string, offset: number) {
    super(message);
    this.offset = offset;
  }
}

/** The first document. */
function parseNode(text: string): Node | null {
  try {
    return compose(text);
  } catch (error) {
    // The parser is recursive, too: what nests without end exhausts the stack.
    const { message } = error as Error;
    const where = error instanceof YamlError ? ` at ${positionIn(text, error.offset)}` : "";
    throw badRequest(`error decoding YAML: ${message}${where}`);
  }
}

function compose(text: string): Node | null {
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
  let first: YamlError | undefined;
  const onError = (source: Source, _code: string, message: string, isWarning?: boolean): void => {
    if (isWarning === true) return;
    // The parser reports the same error again for the enclosing nodes.
    first ??= new YamlError(message, offsetOf(source));
    throw first;
  };
  Object.assign(composer, { onError });
  for (const token of new Parser().parse(text)) {
    if (token.type === "error") throw new YamlError(token.message, token.offset);
    for (const document of composer.next(token)) return document.contents;
  }
  for (const document of composer.end(true, text.length)) return document.contents;
  return null;
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
    if (depth > MAX_NESTING) throw badRequest(`error decoding YAML: exceeded max depth of ${MAX_NESTING}`);
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
      throw badRequest("error decoding YAML: document contains excessive aliasing");
    }
  }

  #alias(name: string, path: string, depth: number): unknown {
    const target = this.#anchors.get(name);
    if (target === undefined) throw badRequest(`error decoding YAML: unknown anchor '${name}' referenced`);
    if (this.#open.has(target))
      throw badRequest(`error decoding YAML: anchor '${name}' value contains itself`);
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
  if (key === "__proto__") throw badRequest("error decoding YAML: __proto__ is not taken as a key");
  if (typeof key === "string") return key;
  if (typeof key === "object" && key !== null) throw badRequest("error decoding YAML: a key is not a scalar");
  return JSON.stringify(key);
}

/** "<<": the keys of one mapping, or of several, of which the first counts. */
function mergeInto(merged: Record<string, unknown>, value: unknown): void {
  for (const source of Array.isArray(value) ? (value as unknown[]) : [value]) {
    if (typeof source !== "object" || source === null || Array.isArray(source)) {
      throw badRequest("error decoding YAML: map merge requires map or sequence of maps as the value");
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
  throw badRequest(`error decoding YAML: unsupported value ${node.source ?? ""}`);
}

function exactNumber(value: number, source: string): number {
  if (!Number.isFinite(value)) throw badRequest(`error decoding YAML: ${source} is not a JSON number`);
  const isInteger = /^[-+]?[0-9]+$/.test(source) && !Number.isSafeInteger(value);
  if (isInteger && String(value) !== source.replace(/^\+/, "")) {
    throw badRequest(`error decoding YAML: integer ${source.slice(0, 40)} would be rounded`);
  }
  return value;
}
