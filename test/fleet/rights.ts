import type { Access } from "@fairlead/fleet/authz/access.ts";
import { rulesOf } from "@fairlead/fleet/authz/access.ts";
import type { PolicyRule } from "@fairlead/kube/api/rbac/v1/types.ts";
import { CompiledRule, uncoveredRules } from "@fairlead/apiserver/auth/rules.ts";
import type { AskedFor } from "../support/access.ts";

/** Compares permissions with requests. A permission is one verb on one kind, of one name if names are given. */

export interface Held {
  /** For messages: where the right holds. */
  readonly where: string;
  readonly accesses: readonly Access[];
  readonly isIn: (namespace: string | undefined) => boolean;
}

export interface Right {
  readonly text: string;
  readonly source: PolicyRule;
  allows(asked: AskedFor): boolean;
}

export function rightsOf(held: readonly Held[]): Right[] {
  return held.flatMap(({ where, accesses, isIn }) =>
    rulesOf(accesses)
      .flatMap(split)
      .map((source) => {
        const rule = new CompiledRule(source);
        const { verbs, apiGroups = [], resources = [], resourceNames = [] } = source;
        return {
          text: [
            where,
            verbs[0],
            apiGroups[0] === "" ? "core" : apiGroups[0],
            resources[0],
            ...resourceNames,
          ].join(" "),
          source,
          allows: (asked) => isIn(asked.namespace) && rule.allows(attributesOf(asked)),
        };
      }),
  );
}

function split({ verbs, apiGroups = [], resources = [], resourceNames }: PolicyRule): PolicyRule[] {
  return verbs.flatMap((verb) =>
    resources.flatMap((resource) => {
      const single = { verbs: [verb], apiGroups, resources: [resource] };
      return resourceNames === undefined
        ? [single]
        : resourceNames.map((name) => ({ ...single, resourceNames: [name] }));
    }),
  );
}

function attributesOf(asked: AskedFor): Parameters<CompiledRule["allows"]>[0] {
  const [resource = "", subresource = ""] = asked.resource.split("/");
  const { user, verb, group, namespace, name } = asked;
  return {
    user: { name: user, groups: [] },
    verb,
    resource: { group, resource, subresource, namespace, name },
  };
}

/** Rights without which everything would have gone as it did: each is one too many. */
export function superfluous(
  rights: readonly Right[],
  asked: readonly AskedFor[],
  granted: readonly PolicyRule[] = [],
): string[] {
  const requests = asked.map((it) => rights.filter((right) => right.allows(it)));
  return rights
    .filter((right) => {
      const isOnly = requests.some((allowing) => allowing.length === 1 && allowing[0] === right);
      if (isOnly) return false;
      const others = rights.filter((it) => it !== right).map((it) => it.source);
      return uncoveredRules(others, granted).length === 0;
    })
    .map((it) => it.text);
}
