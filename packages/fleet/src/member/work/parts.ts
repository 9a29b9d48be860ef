import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { Informer, KubeClient, Source } from "@fairlead/kube/types.ts";
import type { PlacedOnLeave } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import type { ApplyStrategy } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import type { AppliedWork, Work } from "#api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import type { CompileHealth, HealthRules } from "#placement/work/health.ts";
import type { Manifest } from "#placement/work/manifest.ts";
import type { Kinds } from "./kinds.ts";
import type { PlacingProblems } from "./problems.ts";
import type { Requests } from "./requests.ts";

/** What the applier of Works is given. */
export interface WorkSession {
  readonly local: KubeClient;
  readonly hub: KubeClient;
  /** In the mailbox of this member. */
  readonly works: Informer<Work>;
  /** In this cluster. */
  readonly appliedWorks: Informer<AppliedWork>;
  /** What the hub wants of this member. "none": unknown, so that nothing is changed. */
  readonly membership: () => "join" | "leave" | "none";
  /** What becomes of placed objects when it leaves. Default: Keep. */
  readonly placedOnLeave?: () => PlacedOnLeave;
  /** What else makes Works due: changes of the membership. */
  readonly sources: readonly Source[];
  /** Told why Works cannot be left. */
  readonly problems?: PlacingProblems;
  readonly deps: RuntimeDeps;
  /** Undefined: health rules are not evaluated. */
  readonly compileHealth?: CompileHealth | undefined;
  /** Longest wait for a response of this cluster. Unit: milliseconds. Default: 35 s. */
  readonly requestTimeoutMs?: number;
  /** How long the objects of a deleted Work may take to go. Unit: milliseconds. Default: 5 min. */
  readonly deletionWaitMs?: number;
}

/** What the steps of a pass share. */
export interface PassParts {
  readonly session: WorkSession;
  readonly kinds: Kinds;
  readonly requests: Requests;
  readonly health: HealthRules;
  readonly signal: AbortSignal;
}

/** A pass over one Work. */
export interface WorkPass extends PassParts {
  readonly work: Work;
  /** The owner of what the Work applies. */
  readonly owner: AppliedWork;
  readonly strategy: ApplyStrategy;
}

/** A manifest whose kind this cluster serves. */
export interface Target {
  readonly manifest: Manifest;
  readonly of: Resource;
}

export function keyOfTarget({ manifest: { namespace, name } }: Pick<Target, "manifest">): ObjectKey {
  return objectKey(namespace, name);
}

/** Writes that may meet the same admission webhooks. */
export function laneOf({ of, manifest }: Target): string {
  return `${of.group}/${of.plural} ${manifest.namespace ?? ""}`;
}
