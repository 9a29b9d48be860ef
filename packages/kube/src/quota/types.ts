import type { KubeObject } from "#api/meta/types.ts";
import type { Amounts } from "./amounts.ts";
import type { Scope } from "./scopes.ts";

export interface GroupResource {
  readonly group: string;
  readonly plural: string;
}

/** An object that a quota may count: metadata typed, the rest read by field. */
export interface CountedObject extends KubeObject {
  apiVersion: string;
  kind: string;
  [field: string]: unknown;
}

/** A request that may change what is used. */
export interface UsageChange {
  readonly operation: "CREATE" | "UPDATE" | "DELETE" | "CONNECT";
  readonly subresource: string;
  readonly object: CountedObject | undefined;
  readonly old: CountedObject | undefined;
}

export interface Evaluator {
  /** Whether what is used can change. */
  handles(change: UsageChange): boolean;
  isInScope(scope: Scope, object: CountedObject): boolean;
  /** Why `object` cannot be counted in `names`, resources of a quota. */
  problem?(names: readonly string[], object: CountedObject): string | undefined;
  usage(object: CountedObject, nowMs: number): Amounts;
}
