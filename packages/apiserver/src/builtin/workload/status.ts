import type { Strategy } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import type { FieldError } from "#status.ts";
import { invalid } from "#values/field-errors.ts";
import { type Fields, fieldsAt, numberAt } from "@fairlead/base/fields.ts";
import { nonNegative } from "../rules.ts";

/** Validates status updates of workloads. Source: k8s.io/kubernetes, pkg/apis/apps/validation and others. */

interface StatusRules {
  readonly counts: readonly string[];
  /** Counts of pods that cannot exceed the count of all pods. */
  readonly parts?: readonly string[];
  /** The error if more pods are available than ready; undefined if this is not validated. */
  readonly unready?: string;
}

const COMMON = ["observedGeneration", "collisionCount"];
const PODS = ["replicas", "readyReplicas", "availableReplicas"];
const UNREADY = "cannot be greater than readyReplicas";

const REPLICA_SET: StatusRules = {
  counts: [...COMMON, ...PODS, "fullyLabeledReplicas", "terminatingReplicas"],
  parts: ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
  unready: UNREADY,
};

const RULES: Readonly<Record<string, StatusRules>> = {
  Deployment: {
    counts: [...COMMON, ...PODS, "updatedReplicas", "unavailableReplicas", "terminatingReplicas"],
    parts: ["updatedReplicas", "readyReplicas", "availableReplicas"],
    unready: UNREADY,
  },
  ReplicaSet: REPLICA_SET,
  ReplicationController: REPLICA_SET,
  StatefulSet: {
    counts: [...COMMON, ...PODS, "currentReplicas", "updatedReplicas"],
    parts: ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"],
    unready: "cannot be greater than status.readyReplicas",
  },
  DaemonSet: {
    counts: [
      ...COMMON,
      "currentNumberScheduled",
      "numberMisscheduled",
      "desiredNumberScheduled",
      "numberReady",
      "updatedNumberScheduled",
      "numberAvailable",
      "numberUnavailable",
    ],
  },
  HorizontalPodAutoscaler: { counts: ["currentReplicas", "desiredReplicas"] },
  PodDisruptionBudget: {
    counts: ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"],
  },
};

type ValidateUpdate = NonNullable<Strategy["validateUpdate"]>;

/** A status update validates only the status. */
export function withStatus(kind: string, validateUpdate: ValidateUpdate): ValidateUpdate {
  return (object, old, context) =>
    context.subresource === "status"
      ? validateStatus(RULES[kind] ?? { counts: [] }, object, old)
      : validateUpdate(object, old, context);
}

function validateStatus(
  { counts, parts = [], unready }: StatusRules,
  object: ApiObject,
  old: ApiObject,
): FieldError[] {
  const status = fieldsAt(object, "status");
  const countOf = (field: string, of: Fields | undefined = status): number => numberAt(of, field) ?? 0;
  const above = (field: string, limit: string, detail: string): FieldError[] =>
    countOf(field) > countOf(limit) ? [invalid(`status.${field}`, countOf(field), detail)] : [];
  const isFewer = countOf("collisionCount") < countOf("collisionCount", fieldsAt(old, "status"));
  return [
    ...counts.flatMap((it) => nonNegative(status?.[it], `status.${it}`)),
    ...parts.flatMap((it) => above(it, "replicas", "cannot be greater than status.replicas")),
    ...(unready === undefined ? [] : above("availableReplicas", "readyReplicas", unready)),
    ...(isFewer
      ? [invalid("status.collisionCount", countOf("collisionCount"), "cannot be decremented")]
      : []),
  ];
}
