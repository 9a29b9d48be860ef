import type { LabelSelector, LabelSelectorRequirement } from "#api/meta/types.ts";
import { FleetError } from "@fairlead/base/errors.ts";

/** Label selectors, as objects and as texts. Source: Kubernetes documentation, "Labels and Selectors". */

export type Labels = Readonly<Record<string, string>> | undefined;
export type Matcher = (labels: Labels) => boolean;

interface Requirement {
  readonly key: string;
  readonly operator: "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt";
  readonly values: readonly string[];
}

/** A matcher of a LabelSelector. An empty selector matches all; an absent one nothing, as the API has it. */
export function matcherOf(selector: LabelSelector | undefined): Matcher {
  if (selector === undefined) return () => false;
  const requirements: Requirement[] = [
    ...Object.entries(selector.matchLabels ?? {}).map(([key, value]) => requirement(key, "In", [value])),
    ...(selector.matchExpressions ?? []).map(parseExpression),
  ];
  return matchAll(requirements);
}

/** A matcher of the map form, as Services have it: every pair must be there. An empty or absent map matches nothing. */
export function matcherOfPairs(pairs: Labels): Matcher {
  const requirements = Object.entries(pairs ?? {}).map(([key, value]) => requirement(key, "In", [value]));
  return requirements.length === 0 ? () => false : matchAll(requirements);
}

/**
 * A matcher of the text form: `app=web,tier in (a,b),!legacy`. An empty text matches all.
 *
 * @throws {FleetError} `API_BAD_REQUEST` where it cannot be read.
 */
export function parseSelector(text: string): Matcher {
  return matchAll(splitTerms(text).map((term) => parseTerm(term, text)));
}

/** The text form of a LabelSelector, for list and watch calls. */
export function formatSelector(selector: LabelSelector): string {
  const pairs = Object.entries(selector.matchLabels ?? {}).map(([key, value]) => `${key}=${value}`);
  return [...pairs, ...(selector.matchExpressions ?? []).map(formatExpression)].join(",");
}

function formatExpression(expression: LabelSelectorRequirement): string {
  const { key, operator, values = [] } = expression;
  switch (operator) {
    case "In":
      return `${key} in (${values.join(",")})`;
    case "NotIn":
      return `${key} notin (${values.join(",")})`;
    case "Exists":
      return key;
    case "DoesNotExist":
      return `!${key}`;
    default:
      return operator satisfies never;
  }
}

function requirement(
  key: string,
  operator: Requirement["operator"],
  values: readonly string[] = [],
): Requirement {
  return { key, operator, values };
}

function matchAll(requirements: readonly Requirement[]): Matcher {
  return (labels = {}) => requirements.every((it) => isMet(it, labels));
}

function isMet(it: Requirement, labels: Readonly<Record<string, string>>): boolean {
  const value = Object.hasOwn(labels, it.key) ? labels[it.key] : undefined;
  switch (it.operator) {
    case "In":
      return value !== undefined && it.values.includes(value);
    case "NotIn":
      return value === undefined || !it.values.includes(value);
    case "Exists":
      return value !== undefined;
    case "DoesNotExist":
      return value === undefined;
    case "Gt":
      return isWhole(value) && Number(value) > Number(it.values[0]);
    case "Lt":
      return isWhole(value) && Number(value) < Number(it.values[0]);
    default:
      return it.operator satisfies never;
  }
}

function isWhole(value: string | undefined): value is string {
  return value !== undefined && /^-?\d+$/.test(value);
}

function parseExpression(expression: LabelSelectorRequirement): Requirement {
  const { key, operator, values = [] } = expression;
  const needsValues = operator === "In" || operator === "NotIn";
  if (needsValues !== values.length > 0) {
    const message = `label selector: ${operator} on ${key} ${needsValues ? "needs values" : "takes no values"}`;
    throw new FleetError("API_INVALID", message, { detail: { expression } });
  }
  return { key, operator, values };
}

/** Terms are parted by commas outside parentheses. */
function splitTerms(text: string): string[] {
  const terms = [""];
  let isWithin = false;
  for (const char of text) {
    if (char === "(" || char === ")") isWithin = char === "(";
    if (char === "," && !isWithin) terms.push("");
    else terms[terms.length - 1] += char;
  }
  return terms.map((term) => term.trim()).filter((term) => term !== "");
}

const KEY = String.raw`(?:[A-Za-z0-9][-A-Za-z0-9_.]*/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?`;
const VALUE = String.raw`(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?`;
const SET_TERM = new RegExp(String.raw`^(${KEY})\s+(in|notin)\s*\(([^()]*)\)$`);
const COMPARE_TERM = new RegExp(String.raw`^(${KEY})\s*(==|=|!=|>|<)\s*(${VALUE}|-?\d+)$`);
const EXISTS_TERM = new RegExp(String.raw`^(!?)\s*(${KEY})$`);
const COMPARISONS = { "=": "In", "==": "In", "!=": "NotIn", ">": "Gt", "<": "Lt" } as const;

function parseTerm(term: string, text: string): Requirement {
  const set = SET_TERM.exec(term);
  if (set?.[1] !== undefined && set[3] !== undefined) {
    const values = set[3].split(",").map((value) => value.trim());
    return requirement(set[1], set[2] === "in" ? "In" : "NotIn", values);
  }
  const comparison = COMPARE_TERM.exec(term);
  if (comparison?.[1] !== undefined && comparison[3] !== undefined)
    return requirement(comparison[1], COMPARISONS[comparison[2] as keyof typeof COMPARISONS], [
      comparison[3],
    ]);
  const exists = EXISTS_TERM.exec(term);
  if (exists?.[2] !== undefined) return requirement(exists[2], exists[1] === "!" ? "DoesNotExist" : "Exists");
  throw new FleetError("API_BAD_REQUEST", `label selector "${text}": cannot read "${term}"`, {
    detail: { text },
  });
}
