import type { PolicyRule } from "@fairlead/kube/api/rbac/v1/types.ts";
import { withoutTrailing } from "@fairlead/base/text.ts";
import { fullName } from "./denial.ts";
import type { Attributes, ResourceAttributes } from "#values/authorizer.ts";

const ANY = "*";

/** One rule of a role, made for being asked. */
export class CompiledRule {
  readonly source: PolicyRule;
  readonly #verbs: ReadonlySet<string>;
  readonly #groups: ReadonlySet<string>;
  readonly #resources: ReadonlySet<string>;
  readonly #names: ReadonlySet<string>;
  readonly #paths: readonly string[];

  constructor(source: PolicyRule) {
    this.source = source;
    this.#verbs = new Set(source.verbs);
    this.#groups = new Set(source.apiGroups);
    this.#resources = new Set(source.resources);
    this.#names = new Set(source.resourceNames);
    this.#paths = source.nonResourceURLs ?? [];
  }

  allows(attributes: Attributes): boolean {
    if (!has(this.#verbs, attributes.verb)) return false;
    if ("path" in attributes) return this.#paths.some((it) => matchesPath(it, attributes.path));
    const { resource } = attributes;
    return (
      has(this.#groups, resource.group) &&
      this.#hasResource(resource) &&
      (this.#names.size === 0 || this.#names.has(resource.name))
    );
  }

  /** "pods" says nothing of "pods/exec"; "*" says all, and "*" before a slash is any parent. */
  #hasResource(of: ResourceAttributes): boolean {
    if (has(this.#resources, fullName(of))) return true;
    return of.subresource !== "" && this.#resources.has(`*/${of.subresource}`);
  }
}

function has(set: ReadonlySet<string>, value: string): boolean {
  return set.has(value) || set.has(ANY);
}

/** "*" matches all; a star at the end matches any rest. */
function matchesPath(pattern: string, path: string): boolean {
  if (pattern === ANY || pattern === path) return true;
  return pattern.endsWith("*") && path.startsWith(withoutTrailing(pattern.slice(0, -1), "*"));
}

/**
 * The parts of `wanted` that `held` does not grant. Each rule is broken into single verb, group, resource and name, and
 * each of these must be granted by one rule. Source: k8s.io/component-helpers, auth/rbac/validation, `Covers`.
 */
export function uncoveredRules(held: readonly PolicyRule[], wanted: readonly PolicyRule[]): PolicyRule[] {
  return wanted
    .flatMap((rule) => [...atomsOf(rule)])
    .filter((atom) => !held.some((rule) => covers(rule, atom)));
}

function* atomsOf(rule: PolicyRule): Generator<PolicyRule> {
  for (const verb of rule.verbs ?? []) {
    for (const url of rule.nonResourceURLs ?? []) yield { verbs: [verb], nonResourceURLs: [url] };
    yield* resourceAtomsOf(rule, verb);
  }
}

function* resourceAtomsOf(rule: PolicyRule, verb: string): Generator<PolicyRule> {
  const names = rule.resourceNames ?? [];
  for (const group of rule.apiGroups ?? []) {
    for (const resource of rule.resources ?? []) {
      const atom = { verbs: [verb], apiGroups: [group], resources: [resource] };
      if (names.length === 0) yield atom;
      for (const name of names) yield { ...atom, resourceNames: [name] };
    }
  }
}

/** Whether one rule grants one atom. */
function covers(rule: PolicyRule, atom: PolicyRule): boolean {
  if (!grants(rule.verbs, atom.verbs)) return false;
  const [url] = atom.nonResourceURLs ?? [];
  if (url !== undefined) return (rule.nonResourceURLs ?? []).some((it) => matchesPath(it, url));
  return (
    grants(rule.apiGroups, atom.apiGroups) &&
    grantsResource(rule.resources ?? [], atom.resources?.[0] ?? "") &&
    grantsName(rule.resourceNames ?? [], atom.resourceNames?.[0])
  );
}

/** A rule without names grants all of them; a rule with names grants no atom that is for all. */
function grantsName(held: readonly string[], wanted: string | undefined): boolean {
  return held.length === 0 || (wanted !== undefined && held.includes(wanted));
}

function grants(held: readonly string[] | undefined, wanted: readonly string[] | undefined): boolean {
  const [value] = wanted ?? [];
  return held !== undefined && value !== undefined && (held.includes(ANY) || held.includes(value));
}

function grantsResource(held: readonly string[], wanted: string): boolean {
  if (held.includes(ANY) || held.includes(wanted)) return true;
  const slash = wanted.indexOf("/");
  return slash > 0 && held.includes(`*${wanted.slice(slash)}`);
}
