import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { DEFAULT_TIMEOUT_MS, type JoinDeps, type JoinOptions } from "./join-options.ts";
import type { Side } from "./steps.ts";

/** What the steps of a join know of each other. */

export interface Joining {
  readonly options: JoinOptions;
  readonly deps: JoinDeps;
  readonly hub: Side;
  readonly member: Side;
  /** The member's: by which a cluster is known again. */
  readonly uid: string;
  /** As the hub had it before. */
  readonly present: MemberCluster | undefined;
  /** The addresses of the member that the hub stores. */
  readonly annotations: Readonly<Record<string, string>>;
  /** Whether the authorities that the member knows the hub by are the hub's own. */
  readonly followCa: boolean;
  readonly signal: AbortSignal;
}

export function timeoutOf({ options }: Joining): number {
  return options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
}
