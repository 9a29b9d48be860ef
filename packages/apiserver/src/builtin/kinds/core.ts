import type { SecretTokenOptions } from "../config/secret-tokens.ts";
import type { ResourceDefinition } from "#registry/types.ts";
import type { ApiObject } from "#values/object.ts";
import {
  claimColumns,
  configMapColumns,
  nameAndAge,
  namespaceColumns,
  nodeColumns,
  quotaColumns,
  secretColumns,
  volumeColumns,
} from "../columns/core.ts";
import { endpointsColumns, serviceColumns } from "../columns/network.ts";
import { podColumns, podRowConditions } from "../columns/pod.ts";
import { podTemplateColumns, replicationControllerColumns } from "../columns/workloads.ts";
import { configMapStrategy, secretStrategy } from "../config/strategy.ts";
import { withStatus } from "../workload/status.ts";
import { tlsWarnings } from "../config/warnings.ts";
import { fieldsAt, itemsAt, numberAt, textAt } from "@fairlead/base/fields.ts";
import { podWarnings } from "../pod/warnings.ts";
import { define } from "../define.ts";
import { endpointsStrategy } from "../endpoints/strategy.ts";
import { namespaceStrategy } from "../namespace.ts";
import { nodeStrategy } from "../node.ts";
import type { PodAdmission } from "../pod/admission.ts";
import { podStrategy, podTemplateStrategy } from "../pod/strategy.ts";
import type { ServiceAllocations } from "../service/allocations.ts";
import { serviceStrategy } from "../service/strategy.ts";
import { serviceWarnings } from "../service/warnings.ts";
import { limitRangeStrategy, quotaStrategy } from "../quota.ts";
import { claimWarnings } from "../storage/claim-spec.ts";
import { claimStrategy, volumeStrategy } from "../storage/volume.ts";
import { defaultReplicationController } from "../workload/defaults.ts";
import { validateReplicationController } from "../workload/validate.ts";

/** Of the Secrets of an account the names count alone: they are of its namespace. */
function cleanSecrets(account: ApiObject): void {
  if (account["secrets"] === undefined) return;
  account["secrets"] = itemsAt(account, "secrets").map((it) => ({ name: textAt(it, "name") }));
}

/** The core group. */
export function coreResources(
  allocations: ServiceAllocations,
  secretTokens: SecretTokenOptions,
  podAdmission: PodAdmission,
): readonly ResourceDefinition[] {
  return [
    define("v1", "Namespace", {
      plural: "namespaces",
      clusterScoped: true,
      shortNames: ["ns"],
      verbs: ["create", "delete", "get", "list", "patch", "update", "watch"],
      columns: namespaceColumns,
      hasStatus: true,
      strategy: namespaceStrategy,
    }),
    define("v1", "Service", {
      plural: "services",
      shortNames: ["svc"],
      categories: ["all"],
      columns: serviceColumns,
      hasStatus: true,
      strategy: serviceStrategy(allocations),
      warnings: serviceWarnings,
    }),
    define("v1", "Endpoints", {
      plural: "endpoints",
      singular: "endpoints",
      shortNames: ["ep"],
      columns: endpointsColumns,
      strategy: endpointsStrategy,
      deprecationWarning: "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    }),
    define("v1", "ConfigMap", {
      plural: "configmaps",
      shortNames: ["cm"],
      columns: configMapColumns,
      strategy: configMapStrategy,
    }),
    define("v1", "Secret", {
      plural: "secrets",
      columns: secretColumns,
      strategy: secretStrategy(secretTokens),
      warnings: tlsWarnings,
    }),
    define("v1", "ServiceAccount", {
      plural: "serviceaccounts",
      shortNames: ["sa"],
      columns: nameAndAge,
      strategy: { generation: "none", prepareForCreate: cleanSecrets, prepareForUpdate: cleanSecrets },
    }),
    define("v1", "Pod", {
      plural: "pods",
      shortNames: ["po"],
      categories: ["all"],
      columns: podColumns,
      rowConditions: podRowConditions,
      hasStatus: true,
      strategy: podStrategy(podAdmission),
      warnings: (object) => podWarnings(fieldsAt(object, "spec"), "spec"),
    }),
    define("v1", "PodTemplate", {
      plural: "podtemplates",
      columns: podTemplateColumns,
      strategy: podTemplateStrategy,
      warnings: (object) => podWarnings(fieldsAt(fieldsAt(object, "template"), "spec"), "template.spec"),
    }),
    define("v1", "Node", {
      plural: "nodes",
      clusterScoped: true,
      shortNames: ["no"],
      columns: nodeColumns,
      hasStatus: true,
      strategy: nodeStrategy,
    }),
    define("v1", "PersistentVolume", {
      plural: "persistentvolumes",
      clusterScoped: true,
      shortNames: ["pv"],
      columns: volumeColumns,
      hasStatus: true,
      strategy: volumeStrategy,
    }),
    define("v1", "PersistentVolumeClaim", {
      plural: "persistentvolumeclaims",
      shortNames: ["pvc"],
      columns: claimColumns,
      hasStatus: true,
      strategy: claimStrategy,
      warnings: (object) => claimWarnings(fieldsAt(object, "spec"), "spec"),
    }),
    define("v1", "ResourceQuota", {
      plural: "resourcequotas",
      shortNames: ["quota"],
      columns: quotaColumns,
      hasStatus: true,
      strategy: quotaStrategy,
    }),
    define("v1", "LimitRange", {
      plural: "limitranges",
      shortNames: ["limits"],
      strategy: limitRangeStrategy,
    }),
    define("v1", "ReplicationController", {
      plural: "replicationcontrollers",
      shortNames: ["rc"],
      categories: ["all"],
      columns: replicationControllerColumns,
      hasStatus: true,
      hasScale: true,
      strategy: {
        defaultPropagation: "Orphan",
        applyDefaults: defaultReplicationController,
        validateCreate: validateReplicationController,
        validateUpdate: withStatus("ReplicationController", validateReplicationController),
        fieldSelectors: {
          "status.replicas": (object) => String(numberAt(fieldsAt(object, "status"), "replicas") ?? 0),
        },
      },
    }),
  ];
}
