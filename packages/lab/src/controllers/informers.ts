import type { CountedObject } from "@fairlead/kube/quota/types.ts";
import {
  CUSTOM_RESOURCE_DEFINITIONS,
  type CustomResourceDefinition,
} from "@fairlead/kube/api/apiextensions/v1/types.ts";
import {
  CONTROLLER_REVISIONS,
  type ControllerRevision,
  DAEMON_SETS,
  type DaemonSet,
  DEPLOYMENTS,
  type Deployment,
  REPLICA_SETS,
  type ReplicaSet,
  STATEFUL_SETS,
  type StatefulSet,
} from "@fairlead/kube/api/apps/v1/types.ts";
import { type Job, JOBS } from "@fairlead/kube/api/batch/v1/types.ts";
import { LEASES, type Lease } from "@fairlead/kube/api/coordination/v1/types.ts";
import {
  CONFIG_MAPS,
  type ConfigMap,
  type Endpoints,
  ENDPOINTS,
  NAMESPACES,
  type Namespace,
  NODES,
  type Node,
  PODS,
  type Pod,
  SERVICE_ACCOUNTS,
  type ServiceAccount,
  SERVICES,
  type Service,
} from "@fairlead/kube/api/core/v1/types.ts";
import {
  ENDPOINT_SLICES,
  type EndpointSlice,
  MANAGED_BY_LABEL,
  SERVICE_NAME_LABEL,
} from "@fairlead/kube/api/discovery/v1/types.ts";
import {
  type PersistentVolume,
  type PersistentVolumeClaim,
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
} from "@fairlead/kube/api/core/v1/volumes.ts";
import { type Resource, resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { POD_DISRUPTION_BUDGETS, type PodDisruptionBudget } from "@fairlead/kube/api/policy/v1/types.ts";
import {
  VOLUME_ATTRIBUTES_CLASSES,
  type VolumeAttributesClass,
} from "@fairlead/kube/api/storage/v1/types.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { Informer, KubeClient } from "@fairlead/kube/types.ts";
import { MANAGED_BY } from "./endpointslice/plan.ts";
import { MIRRORED_BY } from "./endpointslice-mirroring/plan.ts";
import { controllerOf } from "./pods.ts";
import { claimsOf, classesOfClaim, classesOfVolume } from "./storage-protection/plan.ts";

/** The informers of the controllers: one for each kind, shared by all its readers. */
export interface LabInformers {
  /** Indexes: node (by name; "" for pods without one), controller (by uid), namespace, claim ("namespace/name"). */
  readonly pods: Informer<Pod>;
  readonly nodes: Informer<Node>;
  /** Index: selector, by the first pair of the selector: "namespace/key=value". */
  readonly services: Informer<Service>;
  /** Those of the lab's controllers. Index: service ("namespace/name"). */
  readonly slices: Informer<EndpointSlice>;
  /** Index: namespace. */
  readonly deployments: Informer<Deployment>;
  /** Indexes: controller (by uid), namespace. */
  readonly replicaSets: Informer<ReplicaSet>;
  /** Index: namespace. */
  readonly statefulSets: Informer<StatefulSet>;
  /** Index: namespace. */
  readonly daemonSets: Informer<DaemonSet>;
  /** Index: namespace. */
  readonly jobs: Informer<Job>;
  /** Index: namespace. */
  readonly disruptionBudgets: Informer<PodDisruptionBudget>;
  /** Index: controller (by uid). */
  readonly controllerRevisions: Informer<ControllerRevision>;
  readonly endpoints: Informer<Endpoints>;
  readonly namespaces: Informer<Namespace>;
  readonly serviceAccounts: Informer<ServiceAccount>;
  /** Those named kube-root-ca.crt. */
  readonly rootCas: Informer<ConfigMap>;
  /** Those of nodes. */
  readonly leases: Informer<Lease>;
  /** Index: class, every VolumeAttributesClass that it has or is to have. */
  readonly claims: Informer<PersistentVolumeClaim>;
  /** Index: class. */
  readonly volumes: Informer<PersistentVolume>;
  readonly attributesClasses: Informer<VolumeAttributesClass>;
  /** Index: namespace. */
  readonly quotas: Informer<CountedObject>;
  /** Without the schemas of their versions. */
  readonly definitions: Informer<CustomResourceDefinition>;
}

/** As the API server's admission reads them: both count by the same rules. */
export const RESOURCE_QUOTAS: Resource<CountedObject> = resource("v1", "ResourceQuota", "resourcequotas");
export const ROOT_CA_NAME = "kube-root-ca.crt";

const namespaceOf = (object: KubeObject): string[] => [object.metadata.namespace ?? ""];
const controllerUid = (object: KubeObject): string[] => {
  const owner = controllerOf(object);
  return owner === undefined ? [] : [owner.uid];
};

export function createLabInformers(client: KubeClient, deps: RuntimeDeps): LabInformers {
  return {
    pods: createInformer(
      client,
      PODS,
      {
        indexes: {
          node: (pod) => [pod.spec?.nodeName ?? ""],
          controller: controllerUid,
          namespace: namespaceOf,
          claim: (pod) => claimsOf(pod),
        },
      },
      deps,
    ),
    nodes: createInformer(client, NODES, {}, deps),
    services: createInformer(client, SERVICES, { indexes: { selector: selectorIndex } }, deps),
    slices: createInformer(
      client,
      ENDPOINT_SLICES,
      {
        labelSelector: `${MANAGED_BY_LABEL} in (${MANAGED_BY},${MIRRORED_BY})`,
        indexes: {
          service: (slice) => [`${slice.metadata.namespace}/${slice.metadata.labels?.[SERVICE_NAME_LABEL]}`],
        },
      },
      deps,
    ),
    deployments: createInformer(client, DEPLOYMENTS, { indexes: { namespace: namespaceOf } }, deps),
    replicaSets: createInformer(
      client,
      REPLICA_SETS,
      { indexes: { controller: controllerUid, namespace: namespaceOf } },
      deps,
    ),
    statefulSets: createInformer(client, STATEFUL_SETS, { indexes: { namespace: namespaceOf } }, deps),
    daemonSets: createInformer(client, DAEMON_SETS, { indexes: { namespace: namespaceOf } }, deps),
    jobs: createInformer(client, JOBS, { indexes: { namespace: namespaceOf } }, deps),
    disruptionBudgets: createInformer(
      client,
      POD_DISRUPTION_BUDGETS,
      { indexes: { namespace: namespaceOf } },
      deps,
    ),
    controllerRevisions: createInformer(
      client,
      CONTROLLER_REVISIONS,
      { indexes: { controller: controllerUid } },
      deps,
    ),
    endpoints: createInformer(client, ENDPOINTS, {}, deps),
    namespaces: createInformer(client, NAMESPACES, {}, deps),
    serviceAccounts: createInformer(
      client,
      SERVICE_ACCOUNTS,
      { fieldSelector: "metadata.name=default" },
      deps,
    ),
    rootCas: createInformer(client, CONFIG_MAPS, { fieldSelector: `metadata.name=${ROOT_CA_NAME}` }, deps),
    leases: createInformer(client, LEASES, { namespace: "kube-node-lease" }, deps),
    claims: createInformer(client, PERSISTENT_VOLUME_CLAIMS, { indexes: { class: classesOfClaim } }, deps),
    volumes: createInformer(client, PERSISTENT_VOLUMES, { indexes: { class: classesOfVolume } }, deps),
    attributesClasses: createInformer(client, VOLUME_ATTRIBUTES_CLASSES, {}, deps),
    quotas: createInformer(client, RESOURCE_QUOTAS, { indexes: { namespace: namespaceOf } }, deps),
    definitions: createInformer(
      client,
      CUSTOM_RESOURCE_DEFINITIONS,
      { trim: ({ spec, ...rest }) => ({ ...rest, spec: { ...spec, versions: [] } }) },
      deps,
    ),
  };
}

/** A pod can only match a Service whose first pair is one of its labels. */
function selectorIndex(service: Service): string[] {
  const [first] = Object.entries(service.spec?.selector ?? {});
  return first === undefined ? [] : [selectorKey(service.metadata.namespace, first[0], first[1])];
}

export function selectorKey(namespace: string | undefined, label: string, value: string): string {
  return `${namespace ?? ""}/${label}=${value}`;
}
