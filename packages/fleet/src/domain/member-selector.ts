import { FleetError } from "@fairlead/base/errors.ts";
import { formatSelector, type Matcher, matcherOf, matcherOfPairs } from "@fairlead/kube/objects/selector.ts";
import type { MemberSelector } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { isLabelValue, isQualifiedName, shown } from "./formats.ts";

/** The labels by which a profile selects members: a label selector, or the text of Azure's API. */

/** @throws {FleetError} `API_INVALID` if it cannot be read. */
export function memberMatcher({ byLabel, ...selector }: MemberSelector): Matcher {
  if (byLabel === undefined) return matcherOf(selector);
  if (selector.matchLabels !== undefined || selector.matchExpressions !== undefined)
    throw new FleetError("API_INVALID", "byLabel cannot be used with matchLabels or matchExpressions");
  return matcherOfPairs(parsePairs(byLabel));
}

/**
 * Parses "key=value,key=value". An empty text has no pairs.
 *
 * @throws {FleetError} `API_INVALID` where a pair cannot be read, or a key has two values.
 */
export function parsePairs(text: string): Record<string, string> {
  const pairs = new Map<string, string>();
  for (const pair of text.trim() === "" ? [] : text.split(",")) {
    const [key = "", value = "", ...rest] = pair.split("=").map((it) => it.trim());
    const isPair = pair.includes("=") && rest.length === 0 && isQualifiedName(key);
    if (!isPair || !isLabelValue(value))
      throw new FleetError("API_INVALID", `${shown(pair)} is not a pair "key=value" of a label`);
    if ((pairs.get(key) ?? value) !== value)
      throw new FleetError("API_INVALID", `label ${shown(key)} has two values: no member can match`);
    pairs.set(key, value);
  }
  return Object.fromEntries(pairs);
}

/** Returns the text of a selector, for people. */
export function formatMemberSelector({ byLabel, ...selector }: MemberSelector): string {
  return byLabel ?? formatSelector(selector);
}
