import type { ClusterRole } from "@fairlead/kube/api/rbac/v1/types.ts";
import { sameJson } from "@fairlead/base/json.ts";
import type { FollowUp } from "#registry/registry.ts";
import type { ApiObject } from "#values/object.ts";
import type { Store, StoreChange, Transaction } from "#storage/store.ts";
import type { RbacAuthorizer } from "./rbac.ts";

const TABLE = "clusterroles.rbac.authorization.k8s.io";

/**
 * Writes into aggregated ClusterRoles the rules of their parts, so that people see what the authorizer goes by.
 * Source: k8s.io/kubernetes, pkg/controller/clusterroleaggregation.
 */
export class RoleAggregation implements FollowUp {
  readonly #store: Store;
  readonly #authorizer: RbacAuthorizer;
  #isDue = false;

  constructor(store: Store, authorizer: RbacAuthorizer) {
    this.#store = store;
    this.#authorizer = authorizer;
  }

  get isIdle(): boolean {
    return !this.#isDue;
  }

  observe({ table, before, after }: StoreChange): void {
    if (table.id !== TABLE) return;
    if (!sameJson(decisiveParts(before?.object), decisiveParts(after?.object))) this.#isDue = true;
  }

  /** A role that changes here may be a part of another: each round makes the next one due until nothing changes. */
  collect(tx: Transaction): void {
    while (this.#isDue) {
      this.#isDue = false;
      const table = this.#store.table(TABLE);
      const aggregated = [...table.entries()].filter((it) => it.object["aggregationRule"] !== undefined);
      for (const { key, object } of aggregated) {
        const role: ClusterRole = object;
        const rules = this.#authorizer.aggregatedRules(role);
        if (!sameJson(rules, role.rules))
          tx.put(table, key, { ...object, metadata: { ...object.metadata }, rules });
      }
    }
  }
}

/** The parts of a role that determine aggregated roles. */
function decisiveParts(role: ApiObject | undefined): unknown {
  return { rules: role?.["rules"], aggregation: role?.["aggregationRule"], labels: role?.metadata.labels };
}
