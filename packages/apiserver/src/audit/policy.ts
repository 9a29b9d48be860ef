import { isObject } from "@fairlead/base/json.ts";
import { withoutTrailing } from "@fairlead/base/text.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { type Fields, itemsAt, stringsAt, textAt } from "@fairlead/base/fields.ts";
import type { Attributes } from "#values/authorizer.ts";

/** Which requests are logged, and how. Source: audit.k8s.io/v1 Policy; k8s.io/apiserver, pkg/audit/policy. */

export type AuditStage = "RequestReceived" | "ResponseStarted" | "ResponseComplete" | "Panic";
const STAGES: ReadonlySet<string> = new Set([
  "RequestReceived",
  "ResponseStarted",
  "ResponseComplete",
  "Panic",
]);

interface PolicyRule {
  readonly isLogged: boolean;
  readonly users: readonly string[];
  readonly userGroups: readonly string[];
  readonly verbs: readonly string[];
  readonly resources: readonly GroupResources[];
  readonly namespaces: readonly string[];
  readonly nonResourceURLs: readonly string[];
  readonly omitStages: readonly string[];
}

interface GroupResources {
  readonly group: string;
  readonly resources: readonly string[];
  readonly resourceNames: readonly string[];
}

export interface AuditPolicy {
  readonly rules: readonly PolicyRule[];
}

/** Everything, at level Metadata. */
export const LOG_ALL: AuditPolicy = parseAuditPolicy({
  apiVersion: "audit.k8s.io/v1",
  kind: "Policy",
  rules: [{ level: "Metadata" }],
});

/**
 * Reads a Policy. Levels above Metadata, which would put bodies into the log, are not served.
 *
 * @throws {FleetError} `OPTION_INVALID` for anything else.
 */
export function parseAuditPolicy(value: unknown): AuditPolicy {
  if (!isObject(value) || value["kind"] !== "Policy" || value["apiVersion"] !== "audit.k8s.io/v1") {
    throw invalidPolicy("it must be an object of apiVersion audit.k8s.io/v1 and kind Policy");
  }
  const common = stagesOf(value);
  const rules = itemsAt(value, "rules").map((it, index) => parseRule(it, index, common));
  if (rules.length === 0) throw invalidPolicy("it has no rules, so that nothing would be written");
  return { rules };
}

function parseRule(rule: Fields, index: number, common: readonly string[]): PolicyRule {
  const level = textAt(rule, "level");
  if (level !== "None" && level !== "Metadata") {
    throw invalidPolicy(
      `rules[${index}].level must be None or Metadata (other levels are not supported), got "${level}"`,
    );
  }
  return {
    isLogged: level === "Metadata",
    users: stringsAt(rule, "users"),
    userGroups: stringsAt(rule, "userGroups"),
    verbs: stringsAt(rule, "verbs"),
    resources: itemsAt(rule, "resources").map((it) => ({
      group: textAt(it, "group"),
      resources: stringsAt(it, "resources"),
      resourceNames: stringsAt(it, "resourceNames"),
    })),
    namespaces: stringsAt(rule, "namespaces"),
    nonResourceURLs: stringsAt(rule, "nonResourceURLs"),
    omitStages: [...common, ...stagesOf(rule)],
  };
}

function stagesOf(of: Fields): readonly string[] {
  const stages = stringsAt(of, "omitStages");
  const unknown = stages.find((it) => !STAGES.has(it));
  if (unknown !== undefined) throw invalidPolicy(`omitStages: unknown stage ${unknown}`);
  return stages;
}

function invalidPolicy(why: string): FleetError {
  return new FleetError("OPTION_INVALID", `invalid audit policy: ${why}`);
}

/** Stages that are left out for a request; undefined when none is written. The first rule that matches decides. */
export function omittedStages(policy: AuditPolicy, attributes: Attributes): readonly string[] | undefined {
  const rule = policy.rules.find((it) => matches(it, attributes));
  return rule?.isLogged === true ? rule.omitStages : undefined;
}

function matches(rule: PolicyRule, attributes: Attributes): boolean {
  const { user, verb } = attributes;
  const isMeant =
    isAmong(rule.users, [user.name]) && isAmong(rule.userGroups, user.groups) && isAmong(rule.verbs, [verb]);
  if (!isMeant) return false;
  if (rule.namespaces.length > 0 || rule.resources.length > 0) return matchesResource(rule, attributes);
  if (rule.nonResourceURLs.length === 0) return true;
  return "path" in attributes && rule.nonResourceURLs.some((it) => matchesPath(it, attributes.path));
}

/** Nothing named means all. */
function isAmong(named: readonly string[], values: readonly string[]): boolean {
  return named.length === 0 || values.some((it) => named.includes(it));
}

function matchesPath(pattern: string, path: string): boolean {
  if (pattern === "*" || pattern === path) return true;
  return pattern.endsWith("*") && path.startsWith(withoutTrailing(pattern, "*"));
}

function matchesResource(rule: PolicyRule, attributes: Attributes): boolean {
  if ("path" in attributes) return false;
  const { group, resource, subresource, namespace = "", name } = attributes.resource;
  if (!isAmong(rule.namespaces, [namespace])) return false;
  if (rule.resources.length === 0) return true;
  const full = subresource === "" ? resource : `${resource}/${subresource}`;
  const forms = ["*", full, `${resource}/*`, ...(subresource === "" ? [] : [`*/${subresource}`])];
  return rule.resources.some((it) => {
    if (it.group !== group && it.group !== "*") return false;
    if (it.resources.length === 0) return true;
    return isAmong(it.resourceNames, [name]) && forms.some((form) => it.resources.includes(form));
  });
}
