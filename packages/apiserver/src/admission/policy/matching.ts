import { matchRules, type Match, matchesNamespace, matchesObject, type Request } from "../match.ts";
import type { MatchResources } from "./types.ts";

/**
 * Whether a request is one that a policy or a binding speaks of; without rules, it speaks of all.
 *
 * @throws {StatusError} when the labels of its namespace cannot be known.
 */
export function matchResources(of: MatchResources, request: Request): Match | undefined {
  const { attributes } = request;
  const { resourceRules = [], excludeResourceRules = [], matchPolicy = "Equivalent" } = of;
  const isEquivalentToo = matchPolicy === "Equivalent";
  if (!matchesObject(of, attributes)) return undefined;
  if (matchRules(excludeResourceRules, isEquivalentToo, request) !== undefined) return undefined;
  const match =
    resourceRules.length === 0
      ? { resource: attributes.definition, kind: attributes.kind }
      : matchRules(resourceRules, isEquivalentToo, request);
  return match !== undefined && matchesNamespace(of, attributes) ? match : undefined;
}
