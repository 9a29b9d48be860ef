import { isObject } from "./json.ts";

/**
 * Reads and fills objects that are known only by their schema. The types of their fields were checked against the schema
 * before; an absent field reads as undefined or empty.
 */
export type Fields = Record<string, unknown>;

export function fieldsAt(of: Fields | undefined, key: string): Fields | undefined {
  const value = of?.[key];
  return isObject(value) ? value : undefined;
}

/** The object under `key`, made when absent. */
export function ensureFields(of: Fields, key: string): Fields {
  const found = fieldsAt(of, key);
  if (found !== undefined) return found;
  const made: Fields = {};
  of[key] = made;
  return made;
}

/** The objects of the list under `key`. */
export function itemsAt(of: Fields | undefined, key: string): readonly Fields[] {
  const value = of?.[key];
  return Array.isArray(value) ? value.filter(isObject) : [];
}

export function stringAt(of: Fields | undefined, key: string): string | undefined {
  const value = of?.[key];
  return typeof value === "string" ? value : undefined;
}

/** Same as `stringAt`, with "" for an absent field. */
export function textAt(of: Fields | undefined, key: string): string {
  return stringAt(of, key) ?? "";
}

export function numberAt(of: Fields | undefined, key: string): number | undefined {
  const value = of?.[key];
  return typeof value === "number" ? value : undefined;
}

export function stringsAt(of: Fields | undefined, key: string): readonly string[] {
  const value = of?.[key];
  return Array.isArray(value) ? value.filter((it) => typeof it === "string") : [];
}

/** Nothing is copied, however many there are. */
export function isStringMap(value: Fields): value is Record<string, string> {
  for (const key of Object.keys(value)) if (typeof value[key] !== "string") return false;
  return true;
}

/** A map from string to string, as labels are. */
export function stringMapAt(of: Fields | undefined, key: string): Readonly<Record<string, string>> {
  const value = fieldsAt(of, key);
  if (value === undefined) return {};
  if (isStringMap(value)) return value;
  return Object.fromEntries(
    Object.entries(value).filter((it): it is [string, string] => typeof it[1] === "string"),
  );
}

/** Sets a field that is absent or an empty string, which a Go client cannot distinguish. */
export function setDefault(of: Fields, key: string, value: unknown): void {
  const present = of[key];
  if (present === undefined || present === null || present === "") of[key] = value;
}

/** As `setDefault` for several fields, in order. */
export function setDefaults(of: Fields, values: Readonly<Fields>): void {
  for (const key of Object.keys(values)) setDefault(of, key, values[key]);
}
