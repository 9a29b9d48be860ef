import { badRequest } from "#status.ts";
import type { Entry } from "#storage/entry.ts";
import { type FieldSelector, isOfName } from "./field-selector.ts";
import { parseLabelSelector } from "./label-selector.ts";
import type { ResourceDefinition } from "./types.ts";
import type { ApiObject } from "#values/object.ts";
import { viewOf } from "./write.ts";

/** The selectors of a query for one kind. */

export interface Selection {
  /** Absent: everything matches. */
  readonly matches: ((entry: Entry) => boolean) | undefined;
  /** Of the one object that may be selected, which narrows the scope. */
  readonly name: string | undefined;
  readonly namespace: string | undefined;
}

export function parseSelection(
  definition: ResourceDefinition,
  labelSelector: string,
  fieldSelector: FieldSelector,
): Selection {
  const labels = labelSelector.trim() === "" ? undefined : parseLabelSelector(labelSelector);
  const fields = fieldTests(fieldSelector, definition);
  const { tests } = fields;
  if (labels === undefined && tests.length === 0) return { ...fields, matches: undefined };
  const matches = (entry: Entry): boolean => {
    if (labels !== undefined && !labels(entry.labels)) return false;
    if (tests.length === 0) return true;
    const { object } = entry;
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

/** @throws {StatusError} 400 when the kind does not offer a field. */
function fieldTests({ terms, name }: FieldSelector, definition: ResourceDefinition): FieldTests {
  const tests: ((object: ApiObject) => boolean)[] = [];
  let namespace: string | undefined;
  for (const term of terms) {
    const { field, value, isEqual } = term;
    const read = fieldReader(field, definition);
    if (isEqual && field === "metadata.namespace") namespace ??= value;
    // The scope sees to the name.
    if (!isOfName(term) || value !== name) tests.push((object) => (read(object) === value) === isEqual);
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
