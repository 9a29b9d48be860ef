import type { ResourceDefinition } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import {
  autoscalerColumns,
  controllerRevisionColumns,
  cronJobColumns,
  daemonSetColumns,
  deploymentColumns,
  disruptionBudgetColumns,
  jobColumns,
  replicaSetColumns,
  statefulSetColumns,
} from "../columns/workloads.ts";
import { define } from "../define.ts";
import { fieldsAt, itemsAt } from "@fairlead/base/fields.ts";
import { podWarnings } from "../pod/warnings.ts";
import { claimWarnings } from "../storage/claim-spec.ts";
import { autoscalerStrategy } from "../autoscaling.ts";
import { disruptionBudgetStrategy } from "../policy.ts";
import {
  defaultDaemonSet,
  defaultDeployment,
  defaultReplicaSet,
  defaultStatefulSet,
} from "../workload/defaults.ts";
import { cronJobStrategy, jobStrategy } from "../workload/job.ts";
import { daemonSetGenerations, startGeneration } from "../workload/generations.ts";
import { revisionStrategy } from "../workload/revision.ts";
import { withStatus } from "../workload/status.ts";
import {
  validateDaemonSet,
  validateDeployment,
  validateReplicaSet,
  validateStatefulSet,
  validateStatefulSetUpdate,
  validateWorkloadUpdate,
} from "../workload/validate.ts";

function templateWarnings(object: ApiObject): readonly string[] {
  return podWarnings(fieldsAt(fieldsAt(fieldsAt(object, "spec"), "template"), "spec"), "spec.template.spec");
}

/** Upstream leaves out the spec of a template in its path. */
function templatedClaimWarnings(object: ApiObject): readonly string[] {
  return itemsAt(fieldsAt(object, "spec"), "volumeClaimTemplates").flatMap((it, at) =>
    claimWarnings(fieldsAt(it, "spec"), `spec.volumeClaimTemplates[${at}]`),
  );
}

/** Groups apps, batch, autoscaling and policy. */
export function workloadResources(): readonly ResourceDefinition[] {
  return [
    define("apps/v1", "Deployment", {
      plural: "deployments",
      shortNames: ["deploy"],
      categories: ["all"],
      columns: deploymentColumns,
      hasStatus: true,
      hasScale: true,
      warnings: templateWarnings,
      strategy: {
        generation: "spec-and-annotations",
        keptByStatus: ["labels"],
        applyDefaults: defaultDeployment,
        validateCreate: validateDeployment,
        validateUpdate: withStatus("Deployment", validateWorkloadUpdate(validateDeployment)),
      },
    }),
    define("apps/v1", "ReplicaSet", {
      plural: "replicasets",
      shortNames: ["rs"],
      categories: ["all"],
      columns: replicaSetColumns,
      hasStatus: true,
      hasScale: true,
      warnings: templateWarnings,
      strategy: {
        applyDefaults: defaultReplicaSet,
        validateCreate: validateReplicaSet,
        validateUpdate: withStatus("ReplicaSet", validateWorkloadUpdate(validateReplicaSet)),
      },
    }),
    define("apps/v1", "StatefulSet", {
      plural: "statefulsets",
      shortNames: ["sts"],
      categories: ["all"],
      columns: statefulSetColumns,
      hasStatus: true,
      hasScale: true,
      warnings: (object) => [...templateWarnings(object), ...templatedClaimWarnings(object)],
      strategy: {
        validateCreate: validateStatefulSet,
        validateUpdate: withStatus("StatefulSet", validateStatefulSetUpdate),
        applyDefaults: defaultStatefulSet,
      },
    }),
    define("apps/v1", "DaemonSet", {
      plural: "daemonsets",
      shortNames: ["ds"],
      categories: ["all"],
      columns: daemonSetColumns,
      hasStatus: true,
      warnings: templateWarnings,
      strategy: {
        ...daemonSetGenerations,
        applyDefaults: (object) => {
          defaultDaemonSet(object);
          startGeneration(object);
        },
        validateCreate: validateDaemonSet,
        validateUpdate: withStatus("DaemonSet", validateWorkloadUpdate(validateDaemonSet)),
      },
    }),
    define("apps/v1", "ControllerRevision", {
      plural: "controllerrevisions",
      columns: controllerRevisionColumns,
      strategy: revisionStrategy,
    }),
    define("batch/v1", "Job", {
      plural: "jobs",
      categories: ["all"],
      columns: jobColumns,
      hasStatus: true,
      strategy: jobStrategy,
      warnings: templateWarnings,
    }),
    define("batch/v1", "CronJob", {
      plural: "cronjobs",
      shortNames: ["cj"],
      categories: ["all"],
      columns: cronJobColumns,
      hasStatus: true,
      strategy: cronJobStrategy,
    }),
    define("autoscaling/v2", "HorizontalPodAutoscaler", {
      plural: "horizontalpodautoscalers",
      shortNames: ["hpa"],
      categories: ["all"],
      columns: autoscalerColumns,
      hasStatus: true,
      strategy: autoscalerStrategy,
    }),
    define("policy/v1", "PodDisruptionBudget", {
      plural: "poddisruptionbudgets",
      shortNames: ["pdb"],
      columns: disruptionBudgetColumns,
      hasStatus: true,
      strategy: disruptionBudgetStrategy,
    }),
  ];
}
