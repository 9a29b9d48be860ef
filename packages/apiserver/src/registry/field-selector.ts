import { byText } from "@fairlead/base/text.ts";
import { badRequest } from "#status.ts";
import { checkPathSegment } from "#values/names.ts";

/**
 * Field selectors as queries write them. Each is read once: what is selected is what was authorized.
 * Source: apimachinery, pkg/fields.
 */
export interface FieldSelector {
  readonly terms: readonly FieldTerm[];
  /** No object of another name is selected. */
  readonly name: string | undefined;
}

export interface FieldTerm {
  readonly field: string;
  readonly value: string;
  readonly isEqual: boolean;
}

/** @throws {StatusError} 400 when the selector cannot be read. */
export function parseFieldSelector(text: string): FieldSelector {
  const texts = splitTerms(text).filter((it) => it !== "");
  // Of several names, the first in this order counts, as upstream.
  const parsed = texts.toSorted(byText).map((it) => parseTerm(it, text));
  // A term without a field and a value selects nothing in particular.
  const terms = parsed.filter((it) => it.field !== "" || it.value !== "");
  return { terms, name: terms.find(isOfName)?.value };
}

/** The name that a request for a collection is authorized by; empty where it has none. */
export function authorizedName({ name = "" }: FieldSelector): string {
  return checkPathSegment(name) === undefined ? name : "";
}

/**
 * `selector` where the path names one object.
 *
 * @throws {StatusError} 400 unless the selector is empty or asks for that name.
 */
export function narrowedTo(name: string | undefined, selector: FieldSelector): FieldSelector {
  if (name === undefined || selector.name === name) return selector;
  if (selector.terms.length === 0) return { terms: [], name };
  throw badRequest("fieldSelector metadata.name doesn't match requested name");
}

export function isOfName({ field, isEqual }: FieldTerm): boolean {
  return isEqual && field === "metadata.name";
}

/** Commas part terms, but those behind a backslash. */
function splitTerms(text: string): readonly string[] {
  const terms: string[] = [];
  let start = 0;
  for (let at = 0; at < text.length; at++) {
    if (text[at] === "\\") at += 1;
    else if (text[at] === ",") {
      terms.push(text.slice(start, at));
      start = at + 1;
    }
  }
  return [...terms, text.slice(start)];
}

function parseTerm(term: string, selector: string): FieldTerm {
  const equals = term.indexOf("=");
  if (equals < 0) throw badRequest(`invalid selector: '${selector}'; can't understand '${term}'`);
  const isEqual = term[equals - 1] !== "!";
  const field = term.slice(0, isEqual ? equals : equals - 1);
  const isDouble = isEqual && term[equals + 1] === "=";
  return { field, value: unescape(term.slice(equals + (isDouble ? 2 : 1))), isEqual };
}

/** Backslashes, commas and equals signs of a value have a backslash before them. */
function unescape(text: string): string {
  let value = "";
  for (let at = 0; at < text.length; at++) {
    const char = text.charAt(at);
    if (char === "=")
      throw badRequest(`invalid field selector: unescaped character in value: ${char.charCodeAt(0)}`);
    if (char === "\\") {
      at += 1;
      const escaped = text.charAt(at);
      if (escaped === "" || !"\\,=".includes(escaped))
        throw badRequest(`invalid field selector: invalid escape sequence: \\${escaped}`);
      value += escaped;
    } else value += char;
  }
  return value;
}
