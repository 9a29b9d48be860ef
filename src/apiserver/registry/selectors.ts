import { badRequest } from "../status.ts";
import type { Entry } from "../storage/entry.ts";
import { checkLabelValue, checkQualifiedName } from "./names.ts";
import type { ApiObject, ResourceDefinition } from "./types.ts";
import { viewOf } from "./write.ts";

/** Label and field selectors as queries write them. Source: apimachinery, pkg/labels and pkg/fields. */

export interface Selection {
  /** Absent: everything matches. */
  readonly matches: ((entry: Entry) => boolean) | undefined;
  /** The object named by `metadata.name=`, which narrows the scope. */
  readonly name: string | undefined;
  readonly namespace: string | undefined;
}

type Labels = Readonly<Record<string, string>>;
type LabelTest = (labels: Labels) => boolean;

export function parseSelection(
  definition: ResourceDefinition,
  labelSelector: string,
  fieldSelector: string,
): Selection {
  const labels = labelSelector.trim() === "" ? undefined : parseLabelSelector(labelSelector);
  const fields = parseFieldSelector(fieldSelector, definition);
  const { tests } = fields;
  if (labels === undefined && tests.length === 0) return { ...fields, matches: undefined };
  const matches = (entry: Entry): boolean => {
    const { object } = entry;
    if (labels !== undefined && !labels(object.metadata.labels ?? {})) return false;
    if (tests.length === 0) return true;
    // Fields are those of the version that is asked for.
    const seen = definition.isCustom ? viewOf(definition, entry) : object;
    return tests.every((test) => test(seen));
  };
  return { matches, name: fields.name, namespace: fields.namespace };
}

const NO_LABELS: Labels = {};

/** @throws {StatusError} 400 when the selector cannot be read. */
export function parseLabelSelector(text: string): LabelTest {
  const tests = splitRequirements(text).map(parseRequirement);
  return (labels) => tests.every((test) => test(labels ?? NO_LABELS));
}

/** Splits at commas outside of parentheses. */
function splitRequirements(text: string): string[] {
  const parts: string[] = [];
  let depth = 0;
  let from = 0;
  for (let at = 0; at < text.length; at += 1) {
    if (text[at] === "(") depth += 1;
    if (text[at] === ")") depth -= 1;
    if (text[at] !== "," || depth !== 0) continue;
    parts.push(text.slice(from, at));
    from = at + 1;
  }
  parts.push(text.slice(from));
  return parts.map((it) => it.trim());
}

const SET_REQUIREMENT = /^(\S+)\s+(in|notin)\s*\(([^()]*)\)$/;
const EXISTS_REQUIREMENT = /^(!?)\s*([^\s=!<>(),]+)$/;
const COMPARE_REQUIREMENT = /^([^\s=!<>(),]+)\s*(==|=|!=|<|>)\s*([^\s=!<>(),]*)$/;

function parseRequirement(text: string): LabelTest {
  const set = SET_REQUIREMENT.exec(text);
  if (set !== null) {
    const key = checkedKey(set[1] ?? "", text);
    const values = new Set((set[3] ?? "").split(",").map((it) => checkedValue(it.trim(), text)));
    if (set[2] === "in") return (labels) => Object.hasOwn(labels, key) && values.has(labels[key] ?? "");
    return (labels) => !Object.hasOwn(labels, key) || !values.has(labels[key] ?? "");
  }
  const compare = COMPARE_REQUIREMENT.exec(text);
  if (compare !== null) return parseComparison(compare, text);
  const exists = EXISTS_REQUIREMENT.exec(text);
  if (exists === null) throw badLabelSelector(text);
  const key = checkedKey(exists[2] ?? "", text);
  const isWanted = exists[1] !== "!";
  return (labels) => Object.hasOwn(labels, key) === isWanted;
}

function parseComparison(match: RegExpExecArray, text: string): LabelTest {
  const key = checkedKey(match[1] ?? "", text);
  const value = checkedValue(match[3] ?? "", text);
  switch (match[2]) {
    case "!=":
      return (labels) => !Object.hasOwn(labels, key) || labels[key] !== value;
    case "<":
    case ">": {
      if (!/^-?[0-9]+$/.test(value)) throw badLabelSelector(text);
      const sign = match[2] === "<" ? -1 : 1;
      const bound = Number(value);
      return (labels) => Object.hasOwn(labels, key) && (Number(labels[key]) - bound) * sign > 0;
    }
    default:
      return (labels) => Object.hasOwn(labels, key) && labels[key] === value;
  }
}

function checkedKey(key: string, text: string): string {
  const wrong = checkQualifiedName(key);
  if (wrong !== undefined) throw badRequest(`unable to parse requirement ${JSON.stringify(text)}: ${wrong}`);
  return key;
}

function checkedValue(value: string, text: string): string {
  const wrong = checkLabelValue(value);
  if (wrong !== undefined) throw badRequest(`unable to parse requirement ${JSON.stringify(text)}: ${wrong}`);
  return value;
}

function badLabelSelector(text: string): Error {
  return badRequest(`unable to parse requirement: found ${JSON.stringify(text)}`);
}

interface FieldTests {
  readonly tests: readonly ((object: ApiObject) => boolean)[];
  readonly name: string | undefined;
  readonly namespace: string | undefined;
}

/** @throws {StatusError} 400 when the selector cannot be read or the kind does not offer the field. */
function parseFieldSelector(text: string, definition: ResourceDefinition): FieldTests {
  const tests: ((object: ApiObject) => boolean)[] = [];
  let name: string | undefined;
  let namespace: string | undefined;
  for (const { field, value, isEqual } of splitFieldTerms(text)) {
    const read = fieldReader(field, definition);
    if (isEqual && field === "metadata.namespace") namespace ??= value;
    if (isEqual && field === "metadata.name" && name === undefined) {
      // The scope sees to it.
      name = value;
      continue;
    }
    tests.push((object) => (read(object) === value) === isEqual);
  }
  return { tests, name, namespace };
}

function fieldReader(field: string, definition: ResourceDefinition): (object: ApiObject) => string {
  if (field === "metadata.name") return (object) => object.metadata.name;
  if (field === "metadata.namespace" && definition.namespaced) {
    return (object) => object.metadata.namespace ?? "";
  }
  const selectors = definition.strategy.fieldSelectors ?? {};
  const read = Object.hasOwn(selectors, field) ? selectors[field] : undefined;
  if (read === undefined) throw badRequest(`field label not supported: ${field}`);
  return read;
}

/** Values escape backslash, comma and equals sign with a backslash. */
function* splitFieldTerms(text: string): Iterable<{ field: string; value: string; isEqual: boolean }> {
  for (const term of text.match(/(?:\\.|[^,\\])+/g) ?? []) {
    if (term.trim() === "") continue;
    const match = /^\s*([^=!\\]+?)\s*(==|=|!=)((?:\\.|[^\\])*)$/.exec(term);
    if (match === null) throw badRequest(`invalid selector: '${term}'; can't understand '${term}'`);
    const value = (match[3] ?? "").replaceAll(/\\(.)/g, "$1");
    yield { field: match[1] ?? "", value, isEqual: match[2] !== "!=" };
  }
}
