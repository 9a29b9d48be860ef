import type { Fields } from "@fairlead/base/fields.ts";
import { isObject } from "@fairlead/base/json.ts";

/** A value inside a policy object with its path. No API server needs to have checked it: what is not understood is refused. */
export interface Part {
  readonly path: string;
  readonly value: unknown;
}

/** Records that a field is not enforced as written; what that means for the rule is up to the caller. */
export type Refuse = (field: string, reason: string) => undefined;

/** An object without fields other than `known`; else a refusal, since an unknown field may narrow what the object matches. */
export function open(part: Part, known: readonly string[], refuse: Refuse): Fields | undefined {
  const { value } = part;
  if (!isObject(value)) return refuse(part.path, `${part.path} is not an object.`);
  const unknown = Object.keys(value).find((it) => isPresent(value[it]) && !known.includes(it));
  if (unknown === undefined) return value;
  return refuse(`${part.path}.${shown(unknown)}`, `Fairlead does not know this field. Remove it.`);
}

/** As in Go, null is absent. */
export function isPresent(value: unknown): boolean {
  return value !== undefined && value !== null;
}

export function partAt(fields: Fields, path: string, name: string): Part | undefined {
  return isPresent(fields[name]) ? { path: `${path}.${name}`, value: fields[name] } : undefined;
}

/** The items of a list, undefined if it is absent. What is not a list yields one item that no reader accepts. */
export function partsAt(fields: Fields, path: string, name: string): readonly Part[] | undefined {
  const value = fields[name];
  if (!isPresent(value)) return undefined;
  if (!Array.isArray(value)) return [{ path: `${path}.${name}`, value: undefined }];
  return value.map((item: unknown, index) => ({ path: `${path}.${name}[${index}]`, value: item }));
}

export function textOf(part: Part, refuse: Refuse): string | undefined {
  return typeof part.value === "string" ? part.value : refuse(part.path, `${part.path} is not a text.`);
}

/** Text out of a policy, cut, for messages. */
export function shown(text: unknown): string {
  const plain = typeof text === "string" ? text : (JSON.stringify(text) ?? "nothing");
  return plain.length > 64 ? `${plain.slice(0, 64)}…` : plain;
}

/**
 * What `read` makes of the parts. An allowing rule does without those that are refused; a denying one has to match more instead, so that
 * undefined is returned, which stands for everything.
 */
export function readAll<T>(
  parts: readonly Part[],
  isDenying: boolean,
  read: (part: Part) => T | undefined,
): readonly T[] | undefined {
  const results = parts.map(read);
  const found = results.filter((it) => it !== undefined);
  return isDenying && found.length < results.length ? undefined : found;
}
