import type {
  ResourceBinding,
  ResourceBindingSpec,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import type {
  ApprovalRequest,
  StagedUpdateRun,
  StagedUpdateRunStatus,
} from "#api/placement.kubernetes-fleet.io/v1beta1/staged.ts";
import type { Moment } from "./conditions.ts";
import type { Targets } from "./targets.ts";

/** What a run changes of a binding. */
export interface BindingChange {
  readonly binding: ResourceBinding;
  readonly spec: Partial<ResourceBindingSpec>;
  /** What its cluster had, to be remembered with it. Null: nothing. Undefined: as it is. */
  readonly previous?: string | null;
}

/** What a pass wants written before the status. */
export interface Effects {
  readonly bind: BindingChange[];
  readonly remove: ResourceBinding[];
  readonly request: ApprovalRequest[];
  readonly accept: ApprovalRequest[];
  /** When time alone makes another pass due. Unit: milliseconds since the Unix epoch. */
  readonly wakeMs: number[];
}

/** What the steps of one pass share. */
export interface Pass extends Moment, Effects {
  readonly run: StagedUpdateRun;
  /** As it was when the pass began. */
  readonly before: StagedUpdateRunStatus;
  readonly targets: Targets;
  readonly resourceSnapshotName: string;
  readonly approval: (name: string) => ApprovalRequest | undefined;
  readonly isStopped: boolean;
}

/** The outcome of a step: what the whole run says of itself while it is there. */
export type Step =
  | { readonly at: "done" }
  | { readonly at: "progressing" }
  | { readonly at: "waiting"; readonly message: string }
  | { readonly at: "stuck"; readonly message: string }
  | { readonly at: "stopping" }
  | { readonly at: "stopped" }
  | { readonly at: "failed"; readonly message: string };

/** Ends a run for good. */
export class Abort extends Error {}

/** A cluster that takes longer makes the run stuck. Unit: milliseconds. */
export const STUCK_AFTER_MS = 5 * 60_000;
