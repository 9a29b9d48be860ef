import type { Condition } from "@fairlead/kube/api/meta/types.ts";
import { findCondition, type NewCondition } from "@fairlead/kube/objects/conditions.ts";
import type { ResourceBinding } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import type { Work } from "#api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import {
  APPLIED,
  AVAILABLE,
  currentCondition,
  DIFF_REPORTED,
  OVERRIDDEN,
  ROLLOUT_STARTED,
  WORK_SYNCHRONIZED,
} from "../conditions.ts";
import { NOT_TRACKABLE } from "../rollout/readiness.ts";

/** How the last attempt to make the Works of a binding ended. */
export type SyncOutcome =
  | { readonly kind: "synced" }
  | { readonly kind: "overrideFailed" | "workFailed"; readonly message: string };

/** Unit: characters. */
const MAX_MESSAGE = 2048;
/** Reasons of Available of a Work that says "True" for objects whose availability is not known; the second is that of older agents. */
const UNTRACKABLE_WORK = new Set(["SomeManifestsAreNotAvailabilityTrackable", "WorkNotTrackable"]);

/**
 * The conditions of a binding, each only if the one before it is True. RolloutStarted stays if it is about the present spec: a
 * rollout says False while the binding waits for others.
 */
export function bindingConditions(
  binding: ResourceBinding,
  outcome: SyncOutcome,
  works: readonly Work[],
): NewCondition[] {
  const started = currentCondition(binding, ROLLOUT_STARTED) ?? rolloutStarted;
  const { lastTransitionTime: _, ...rollout } = { lastTransitionTime: "", ...started };
  if (outcome.kind === "overrideFailed")
    return [rollout, condition(OVERRIDDEN, "False", "OverriddenFailed", outcome.message)];
  const overridden = overriddenOf(binding);
  if (outcome.kind === "workFailed")
    return [rollout, overridden, condition(WORK_SYNCHRONIZED, "False", "SyncWorkFailed", outcome.message)];
  const synchronized = condition(WORK_SYNCHRONIZED, "True", "AllWorkSynced", "All Works are up to date");
  const isReport = binding.spec.applyStrategy?.type === "ReportDiff";
  return [rollout, overridden, synchronized, ...(isReport ? reported(works) : applied(works))];
}

const rolloutStarted = condition(
  ROLLOUT_STARTED,
  "True",
  "RolloutStarted",
  "The rollout of the selected resources to the cluster has started",
);

function overriddenOf({ spec }: ResourceBinding): NewCondition {
  const count =
    (spec.clusterResourceOverrideSnapshots ?? []).length + (spec.resourceOverrideSnapshots ?? []).length;
  return count === 0
    ? condition(
        OVERRIDDEN,
        "True",
        "NoOverrideSpecified",
        "No override applies to the resources in the cluster",
      )
    : condition(
        OVERRIDDEN,
        "True",
        "OverriddenSucceeded",
        "The overrides of the cluster are applied to the resources",
      );
}

function applied(works: readonly Work[]): NewCondition[] {
  const open = without(works, APPLIED);
  if (open.length > 0)
    return [
      condition(
        APPLIED,
        "Unknown",
        "ApplyInProgress",
        `The cluster has not reported that it applied ${some(open)}`,
      ),
    ];
  const failed = works.filter((it) => currentCondition(it, APPLIED)?.status === "False");
  if (failed.length > 0)
    return [
      condition(
        APPLIED,
        "False",
        "NotAllWorkHaveBeenApplied",
        `The cluster could not apply all of ${some(failed)}`,
      ),
    ];
  return [
    condition(APPLIED, "True", "AllWorkHaveBeenApplied", "The cluster has applied all Works"),
    available(works),
  ];
}

function available(works: readonly Work[]): NewCondition {
  const open = without(works, AVAILABLE);
  if (open.length > 0)
    return condition(
      AVAILABLE,
      "Unknown",
      "ResourceAvailableUnknown",
      `The cluster has not reported the availability of ${some(open)}`,
    );
  const states = works.map((it) => currentCondition(it, AVAILABLE));
  const missing = works.filter((_, at) => states[at]?.status === "False");
  if (missing.length > 0)
    return condition(
      AVAILABLE,
      "False",
      "NotAllWorkAreAvailable",
      `Not all objects of ${some(missing)} are available in the cluster`,
    );
  const untrackable = works.filter((_, at) => UNTRACKABLE_WORK.has(states[at]?.reason ?? ""));
  if (untrackable.length > 0)
    return condition(
      AVAILABLE,
      "True",
      NOT_TRACKABLE,
      `The availability of some objects of ${some(untrackable)} cannot be determined`,
    );
  return condition(AVAILABLE, "True", "AllWorkAreAvailable", "All objects are available in the cluster");
}

function reported(works: readonly Work[]): NewCondition[] {
  const open = without(works, DIFF_REPORTED);
  if (open.length > 0)
    return [
      condition(
        DIFF_REPORTED,
        "Unknown",
        "DiffReportInProgress",
        `The cluster has not reported the differences of ${some(open)}`,
      ),
    ];
  const failed = works.filter((it) => currentCondition(it, DIFF_REPORTED)?.status === "False");
  return failed.length > 0
    ? [
        condition(
          DIFF_REPORTED,
          "False",
          "NotAllWorkHaveDiffReported",
          `The cluster could not report all differences of ${some(failed)}`,
        ),
      ]
    : [
        condition(
          DIFF_REPORTED,
          "True",
          "AllWorkHaveDiffReported",
          "The cluster has reported the differences of all Works",
        ),
      ];
}

/** Works that say nothing yet of the condition in their present version. */
function without(works: readonly Work[], type: string): readonly Work[] {
  return works.filter((it) => (currentCondition(it, type)?.status ?? "Unknown") === "Unknown");
}

/** The first of the Works and how many more there are, for a message. */
function some(works: readonly Work[]): string {
  const [first] = works;
  const more = works.length - 1;
  return `Work "${first?.metadata.name ?? ""}"${more > 0 ? ` and ${more} more` : ""}`;
}

function condition(type: string, status: Condition["status"], reason: string, message: string): NewCondition {
  return { type, status, reason, message: message.slice(0, MAX_MESSAGE) };
}

/** Conditions that a next one may be compared with: Available starts again with each version of the resources. */
export function comparableConditions(binding: ResourceBinding): Condition[] {
  return (binding.status?.conditions ?? []).filter(
    (it) => it.type !== AVAILABLE || it.observedGeneration === binding.metadata.generation,
  );
}

/** True if the cluster has answered for the Work as it is, whatever the answer. */
export function isAnswered(work: Work): boolean {
  return [APPLIED, DIFF_REPORTED].some((type) => {
    const found = findCondition(work.status?.conditions, type);
    return found?.observedGeneration === work.metadata.generation && found?.status !== "Unknown";
  });
}
