import { badRequest } from "../status.ts";
import type { Entry } from "../storage/entry.ts";
import { parseLabelSelector } from "./label-selector.ts";
import type { ApiObject, ResourceDefinition } from "./types.ts";
import { viewOf } from "./write.ts";

/** Selectors as queries write them. Source: apimachinery, pkg/fields. */

export interface Selection {
  /** Absent: everything matches. */
  readonly matches: ((entry: Entry) => boolean) | undefined;
  /** The object named by `metadata.name=`, which narrows the scope. */
  readonly name: string | undefined;
  readonly namespace: string | undefined;
}

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
  const { fieldSelectors } = definition.strategy;
  const selectors = fieldSelectors ?? {};
  const read = Object.hasOwn(selectors, field) ? selectors[field] : undefined;
  if (read !== undefined) return read;
  if (definition.isCustom || fieldSelectors !== undefined)
    throw badRequest(`field label not supported: ${field}`);
  throw badRequest(
    `${JSON.stringify(field)} is not a known field selector: only "metadata.name", "metadata.namespace"`,
  );
}

/** Values escape backslash, comma and equals sign with a backslash. */
function* splitFieldTerms(text: string): Iterable<{ field: string; value: string; isEqual: boolean }> {
  for (const term of text.match(/(?:\\.|[^,\\])+/g) ?? []) {
    if (term.trim() === "") continue;
    const match = /^\s*([^=!\\]*?)\s*(==|=|!=)((?:\\.|[^\\])*)$/.exec(term);
    if (match === null) throw badRequest(`invalid selector: '${term}'; can't understand '${term}'`);
    const value = (match[3] ?? "").replaceAll(/\\(.)/g, "$1");
    yield { field: match[1] ?? "", value, isEqual: match[2] !== "!=" };
  }
}
