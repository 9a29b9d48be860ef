import { sameJson } from "@fairlead/base/json.ts";
import { isObject } from "@fairlead/base/json.ts";
import type { NameProblems } from "#values/names.ts";
import type { FieldError } from "#status.ts";
import { duplicate, IMMUTABLE, invalid, notSupported, required } from "#values/field-errors.ts";
import { type Fields } from "@fairlead/base/fields.ts";

/**
 * Validation as data: a rule looks at one value and says what is wrong with it; the functions here put rules together
 * to those of whole objects. What is absent reaches a rule as undefined.
 */
export type Rule = (value: unknown, path: string) => readonly FieldError[];

/** Every rule, in order. */
export function all(...rules: readonly Rule[]): Rule {
  return (value, path) => rules.flatMap((rule) => rule(value, path));
}

/** The first rule that finds something. */
export function firstOf(...rules: readonly Rule[]): Rule {
  return (value, path) => {
    for (const rule of rules) {
      const errors = rule(value, path);
      if (errors.length > 0) return errors;
    }
    return [];
  };
}

/** Rules of an object's fields, in order; an absent object is one without fields. */
export function fields(rules: Readonly<Record<string, Rule>>): Rule {
  const entries = Object.entries(rules);
  return (value, path) => {
    const of = isObject(value) ? value : {};
    return entries.flatMap(([key, rule]) => rule(of[key] ?? undefined, path === "" ? key : `${path}.${key}`));
  };
}

/** A rule for the object as a whole, where its fields depend on each other. */
export function whole(check: (of: Fields, path: string) => readonly FieldError[]): Rule {
  return (value, path) => check(isObject(value) ? value : {}, path);
}

/** Only where there is something. */
export function optional(...rules: readonly Rule[]): Rule {
  const rule = all(...rules);
  return (value, path) => (value === undefined || value === null || value === "" ? [] : rule(value, path));
}

/** Only where there is something, be it empty: pointers. */
export function present(...rules: readonly Rule[]): Rule {
  const rule = all(...rules);
  return (value, path) => (value === undefined || value === null ? [] : rule(value, path));
}

/** Each item of a list. */
export function each(...rules: readonly Rule[]): Rule {
  const rule = all(...rules);
  return (value, path) =>
    Array.isArray(value) ? value.flatMap((it: unknown, at) => rule(it, `${path}[${at}]`)) : [];
}

/** There must be something; `rules` look at what there is. */
export function filled(detail = "", ...rules: readonly Rule[]): Rule {
  const rule = all(...rules);
  return (value, path) => (isEmpty(value) ? [required(path, detail)] : rule(value, path));
}

function isEmpty(value: unknown): boolean {
  if (value === undefined || value === null || value === "" || value === 0) return true;
  return Array.isArray(value) && value.length === 0;
}

/** A text of a certain form; what is absent is the empty text. */
export function text(problemsOf: (text: string) => NameProblems): Rule {
  return (value, path) => {
    const read = typeof value === "string" ? value : "";
    return problemsOf(read).map((it) => invalid(path, read, it));
  };
}

/** One of these texts; what is absent is the empty text. */
export function oneOf(...supported: readonly string[]): Rule {
  return (value, path) => {
    const read = typeof value === "string" ? value : "";
    return supported.includes(read) ? [] : [notSupported(path, read, supported)];
  };
}

/** A number in a range; what is absent is 0. */
export function between(min: number, max: number): Rule {
  return number((it) => it >= min && it <= max, `must be between ${min} and ${max}, inclusive`);
}

export const nonNegative: Rule = number((it) => it >= 0, "must be greater than or equal to 0");
export const positive: Rule = number((it) => it > 0, "must be greater than 0");

export function number(isRight: (value: number) => boolean, detail: string): Rule {
  return (value, path) => {
    const read = typeof value === "number" ? value : 0;
    return isRight(read) ? [] : [invalid(path, read, detail)];
  };
}

/** No two items of a list with the same key; what has no key counts for nothing. */
export function distinct(keyOf: (item: unknown) => unknown, field = ""): Rule {
  return (value, path) => {
    const seen = new Set<unknown>();
    return (Array.isArray(value) ? value : []).flatMap((item: unknown, at) => {
      const key = keyOf(item);
      if (key === undefined || key === "") return [];
      if (seen.has(key)) return [duplicate(`${path}[${at}]${field}`, key)];
      seen.add(key);
      return [];
    });
  };
}

/** Exactly one of some fields must be set. */
export interface Choice {
  readonly of: readonly string[];
  /** Where none is. */
  readonly none: (path: string, value: Fields) => FieldError;
  /** At the second one that is. */
  readonly several: (path: string, field: string) => FieldError;
}

/** Holds exactly one of these fields, each of its own form. */
export function choice({ of, none, several }: Choice, rules: Readonly<Record<string, Rule>>): Rule {
  return whole((value, path) => {
    const set = of.filter((it) => value[it] !== undefined && value[it] !== null);
    if (set.length === 0) return [none(path, value)];
    return set.flatMap((it, at) =>
      at === 0 ? (rules[it]?.(value[it], `${path}.${it}`) ?? []) : [several(path, it)],
    );
  });
}

/** Fields that stay as they are once the object is stored. */
export function immutable(
  after: Fields | undefined,
  before: Fields | undefined,
  path: string,
  ...keys: readonly string[]
): FieldError[] {
  return keys
    .filter((it) => !sameJson(after?.[it], before?.[it]))
    .map((it) => unchanged(`${path}${it}`, after?.[it]));
}

export function unchanged(path: string, value: unknown): FieldError {
  return invalid(path, value, IMMUTABLE);
}
