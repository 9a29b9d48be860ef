import type { Operation } from "../../../registry/admission.ts";
import type { ApiObject } from "../../../registry/types.ts";
import type { Amounts } from "./amounts.ts";
import type { Scope } from "./scopes.ts";

export interface GroupResource {
  readonly group: string;
  readonly plural: string;
}

/** A request that may change what is used. */
export interface UsageChange {
  readonly operation: Operation;
  readonly subresource: string;
  readonly object: ApiObject | undefined;
  readonly old: ApiObject | undefined;
}

export interface Evaluator {
  /** Whether what is used can change. */
  handles(change: UsageChange): boolean;
  isInScope(scope: Scope, object: ApiObject): boolean;
  /** What keeps `object` from being counted in `names`, resources of a quota. */
  problem?(names: readonly string[], object: ApiObject): string | undefined;
  usage(object: ApiObject, nowMs: number): Amounts;
}
