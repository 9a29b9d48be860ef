import { isObject } from "@fairlead/base/json.ts";
import { FleetError } from "@fairlead/base/errors.ts";

/**
 * The part of JSONPath that CRDs use for printer columns, selectable fields and scale: fields, quoted fields, indexes,
 * unions of these, `[*]`, `..name` and filters that compare a field with a literal. Source: client-go, util/jsonpath.
 */
export type JsonPath = (value: unknown) => readonly unknown[];

type Step = (values: readonly unknown[]) => readonly unknown[];

const TOKENS =
  /\.\.(?<deep>[^.[\]'"()\s]+|\*)|\.?\[(?<index>-?\d+)\]|\.?\[(?<all>\*)\]|\.?\[(?<slice>-?\d*:-?\d*)\]|\.?\[(?<quote>['"])(?<quoted>(?:\\.|(?!\k<quote>).)*)\k<quote>\]|\.?\[(?<union>[^,[\]()]+(?:,[^,[\]()]+)+)\]|\.?\[\?\((?<filter>(?:[^()'"]|'[^']*'|"[^"]*")*)\)\]|\.(?<field>(?:\\.|[^.[\]'"(){}\s\\])+)/y;

/** @throws {FleetError} `OPTION_INVALID` for a path that cannot be read. */
export function parseJsonPath(path: string): JsonPath {
  const text = path
    .trim()
    .replace(/^\{(.*)\}$/s, "$1")
    .replace(/^\$/, "");
  const steps: Step[] = [];
  // A copy: paths inside filters are parsed while this one is.
  const tokens = new RegExp(TOKENS);
  const source = text === "" || text.startsWith(".") || text.startsWith("[") ? text : `.${text}`;
  while (tokens.lastIndex < source.length) {
    const from = tokens.lastIndex;
    const match = tokens.exec(source);
    if (match === null) {
      // A single dot is the object itself.
      if (source === ".") break;
      throw new FleetError(
        "OPTION_INVALID",
        `cannot read JSONPath ${JSON.stringify(path)} at ${JSON.stringify(source.slice(from))}`,
      );
    }
    steps.push(toStep(match.groups ?? {}));
  }
  return (value) => steps.reduce<readonly unknown[]>((values, step) => step(values), [value]);
}

function toStep(groups: Readonly<Record<string, string | undefined>>): Step {
  const { deep, index, all, slice, quoted, union, filter, field } = groups;
  if (deep !== undefined) return (values) => values.flatMap((it) => descend(it, deep));
  if (index !== undefined) return (values) => values.flatMap((it) => itemAt(it, Number(index)));
  if (all !== undefined) return (values) => values.flatMap(childrenOf);
  if (slice !== undefined) return sliceStep(slice);
  if (union !== undefined) return unionStep(union);
  if (filter !== undefined) return filterStep(filter);
  const name = (quoted ?? field ?? "").replaceAll(/\\(.)/g, "$1");
  if (name === "*" && quoted === undefined) return (values) => values.flatMap(childrenOf);
  return (values) => values.flatMap((it) => fieldOf(it, name));
}

function fieldOf(value: unknown, name: string): unknown[] {
  if (!isObject(value) || !Object.hasOwn(value, name)) return [];
  const found = value[name];
  return found === undefined || found === null ? [] : [found];
}

function itemAt(value: unknown, index: number): unknown[] {
  if (!Array.isArray(value)) return [];
  const item: unknown = value.at(index);
  return item === undefined ? [] : [item];
}

function childrenOf(value: unknown): unknown[] {
  if (Array.isArray(value)) return value;
  return isObject(value) ? Object.values(value) : [];
}

function descend(value: unknown, name: string): unknown[] {
  const here = name === "*" ? childrenOf(value) : fieldOf(value, name);
  return [...here, ...childrenOf(value).flatMap((it) => descend(it, name))];
}

function sliceStep(slice: string): Step {
  const [from = "", to = ""] = slice.split(":");
  const start = from === "" ? 0 : Number(from);
  const end = to === "" ? undefined : Number(to);
  return (values) => values.flatMap((it) => (Array.isArray(it) ? (it.slice(start, end) as unknown[]) : []));
}

/** `['a','b']`: what the first finds in all values, then the second. */
function unionStep(union: string): Step {
  const parts = union.split(",").map((it) => parseJsonPath(`[${it.trim()}]`));
  return (values) => parts.flatMap((read) => values.flatMap(read));
}

const FILTER = /^@(?<path>\.[^=!<>\s]+)(?:\s*(?<operator>==|!=|<=|>=|<|>)\s*(?<literal>\S.*))?$/s;

/** `[?(@.type=="Ready")]`; without a comparison: items that have the field. */
function filterStep(text: string): Step {
  const { path, operator, literal } = FILTER.exec(text.trim())?.groups ?? {};
  if (path === undefined)
    throw new FleetError("OPTION_INVALID", `cannot read the JSONPath filter ${JSON.stringify(text)}`);
  const read = parseJsonPath(path);
  if (operator === undefined || literal === undefined) {
    return (values) => values.flatMap(childrenOf).filter((it) => read(it).length > 0);
  }
  const wanted = parseLiteral(literal);
  return (values) =>
    values.flatMap(childrenOf).filter((it) => read(it).some((found) => compare(found, operator, wanted)));
}

function parseLiteral(text: string): unknown {
  const quoted = /^(['"])(.*)\1$/s.exec(text);
  if (quoted !== null) return quoted[2];
  if (text === "true" || text === "false") return text === "true";
  const number = Number(text);
  if (Number.isNaN(number))
    throw new FleetError("OPTION_INVALID", `cannot read the JSONPath literal ${text}`);
  return number;
}

function compare(found: unknown, operator: string, wanted: unknown): boolean {
  if (operator === "==") return found === wanted;
  if (operator === "!=") return found !== wanted;
  if (typeof found !== typeof wanted || (typeof found !== "number" && typeof found !== "string"))
    return false;
  const [a, b] = [found, wanted as typeof found];
  if (operator === "<") return a < b;
  if (operator === "<=") return a <= b;
  return operator === ">" ? a > b : a >= b;
}
