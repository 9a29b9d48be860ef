import type { Condition } from "@fairlead/kube/api/meta/types.ts";
import type { ApplyStrategy } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";

/** The stages of a placement after scheduling, in the order in which they are judged: types of conditions of bindings and of clusters. */
export type Stage =
  | "RolloutStarted"
  | "Overridden"
  | "WorkSynchronized"
  | "Applied"
  | "Available"
  | "DiffReported";

const APPLYING: readonly Stage[] = [
  "RolloutStarted",
  "Overridden",
  "WorkSynchronized",
  "Applied",
  "Available",
];
const REPORTING: readonly Stage[] = ["RolloutStarted", "Overridden", "WorkSynchronized", "DiffReported"];
export const ALL_STAGES: readonly Stage[] = [...APPLYING, "DiffReported"];

export function stagesOf(strategy: ApplyStrategy | undefined): readonly Stage[] {
  return strategy?.type === "ReportDiff" ? REPORTING : APPLYING;
}

/** What a condition of a whole placement says, for `count` of its clusters. */
interface Wording {
  readonly reason: string;
  readonly message: (count: number) => string;
}
type ByStatus = Readonly<Record<Condition["status"], Wording>>;

const clusters = (count: number): string => `${count} ${count === 1 ? "cluster" : "clusters"}`;

export const OVERALL: Readonly<Record<Stage, ByStatus>> = {
  RolloutStarted: {
    True: {
      reason: "RolloutStarted",
      message: (n) => `The latest resources are being rolled out to all ${clusters(n)}`,
    },
    False: {
      reason: "RolloutNotStartedYet",
      message: (n) => `The rollout of the latest resources has not started on ${clusters(n)}`,
    },
    Unknown: {
      reason: "RolloutStartedUnknown",
      message: (n) => `It is not decided yet whether to roll out the latest resources to ${clusters(n)}`,
    },
  },
  Overridden: {
    True: {
      reason: "OverriddenSucceeded",
      message: (n) => `The overrides are applied to the resources for ${clusters(n)}`,
    },
    False: {
      reason: "OverriddenFailed",
      message: (n) => `The overrides cannot be applied to the resources for ${clusters(n)}`,
    },
    Unknown: {
      reason: "OverriddenPending",
      message: (n) => `The overrides are not applied yet to the resources for ${clusters(n)}`,
    },
  },
  WorkSynchronized: {
    True: { reason: "WorkSynchronized", message: (n) => `The Works of all ${clusters(n)} are up to date` },
    False: {
      reason: "WorkNotSynchronizedYet",
      message: (n) => `The Works of ${clusters(n)} are not up to date`,
    },
    Unknown: {
      reason: "WorkSynchronizedUnknown",
      message: (n) => `The Works of ${clusters(n)} are being written`,
    },
  },
  Applied: {
    True: { reason: "ApplySucceeded", message: (n) => `The resources are applied on all ${clusters(n)}` },
    False: { reason: "ApplyFailed", message: (n) => `The resources cannot be applied on ${clusters(n)}` },
    Unknown: {
      reason: "ApplyPending",
      message: (n) => `${clusters(n)} did not report yet whether the resources are applied`,
    },
  },
  Available: {
    True: {
      reason: "ResourceAvailable",
      message: (n) => `The resources are available on all ${clusters(n)}`,
    },
    False: {
      reason: "ResourceNotAvailableYet",
      message: (n) => `The resources are not available yet on ${clusters(n)}`,
    },
    Unknown: {
      reason: "ResourceAvailableUnknown",
      message: (n) => `${clusters(n)} did not report yet whether the resources are available`,
    },
  },
  DiffReported: {
    True: {
      reason: "DiffReportingCompleted",
      message: (n) => `All ${clusters(n)} reported how their objects differ from the resources`,
    },
    False: {
      reason: "DiffReportingIncompleteOrFailed",
      message: (n) => `${clusters(n)} cannot report how their objects differ from the resources`,
    },
    Unknown: {
      reason: "DiffReportingPending",
      message: (n) => `${clusters(n)} did not report yet how their objects differ from the resources`,
    },
  },
};

/** What a cluster's condition says that its binding does not have yet. */
export const PENDING: Readonly<Record<Stage, { readonly reason: string; readonly message: string }>> = {
  RolloutStarted: {
    reason: "RolloutStartedUnknown",
    message: "It is not decided yet whether to roll out the latest resources",
  },
  Overridden: { reason: "OverriddenPending", message: "The overrides are not applied yet" },
  WorkSynchronized: { reason: "WorkSynchronizedUnknown", message: "The Works are being written" },
  Applied: {
    reason: "ApplyPending",
    message: "The cluster did not report yet whether the resources are applied",
  },
  Available: {
    reason: "ResourceAvailableUnknown",
    message: "The cluster did not report yet whether the resources are available",
  },
  DiffReported: {
    reason: "DiffReportingPending",
    message: "The cluster did not report yet how its objects differ from the resources",
  },
};
