import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { PolicyRule } from "@fairlead/kube/api/rbac/v1/types.ts";

/**
 * What programs ask of API servers, declared by the constants that their code calls them with. Roles, charts and the
 * reference are made from these declarations; tests hold them against what programs were seen to ask for.
 */

export type Verb =
  | "get"
  | "list"
  | "watch"
  | "create"
  | "update"
  | "patch"
  | "delete"
  | "approve"
  | "sign"
  | "bind"
  | "impersonate"
  | "administer";

export interface Access {
  readonly of: Pick<Resource, "group" | "plural">;
  /** Empty for the objects themselves. */
  readonly subresource: string;
  readonly verbs: readonly Verb[];
  /** Objects by name; empty: all. A `create` by POST names none, so that it must not be narrowed. */
  readonly names: readonly string[];
}

export function allow(
  of: Access["of"],
  verbs: readonly Verb[],
  only: { readonly subresource?: string; readonly names?: readonly string[] } = {},
): Access {
  return { of, verbs, subresource: only.subresource ?? "", names: only.names ?? [] };
}

/** The verbs of an informer: `list` is for servers that do not stream the initial state. */
export const WATCH: readonly Verb[] = ["list", "watch"];

/** The fewest rules that say the same: kinds with equal verbs share one. */
export function rulesOf(accesses: readonly Access[]): PolicyRule[] {
  const byKind = new Map<string, { readonly access: Access; readonly verbs: Set<Verb> }>();
  for (const access of accesses) {
    const key = [access.of.group, fullName(access), ...access.names.toSorted()].join(" ");
    const entry = byKind.get(key) ?? { access, verbs: new Set() };
    for (const verb of access.verbs) entry.verbs.add(verb);
    byKind.set(key, entry);
  }
  const rules = new Map<string, PolicyRule & { resources: string[] }>();
  for (const { access, verbs } of byKind.values()) {
    const names = access.names.toSorted();
    const sorted = ORDER.filter((it) => verbs.has(it));
    const key = [access.of.group, sorted.join(), names.join()].join(" ");
    const rule = rules.get(key) ?? {
      apiGroups: [access.of.group],
      resources: [],
      ...(names.length === 0 ? {} : { resourceNames: names }),
      verbs: [...sorted],
    };
    rule.resources.push(fullName(access));
    rules.set(key, rule);
  }
  return [...rules.values()].map((it) => ({ ...it, resources: it.resources.toSorted() }));
}

const ORDER: readonly Verb[] = [
  "get",
  "list",
  "watch",
  "create",
  "update",
  "patch",
  "delete",
  "approve",
  "sign",
  "bind",
  "impersonate",
  "administer",
];

function fullName({ of, subresource }: Access): string {
  return subresource === "" ? of.plural : `${of.plural}/${subresource}`;
}
