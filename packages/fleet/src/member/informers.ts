import { defined } from "@fairlead/base/defined.ts";
import { MEMBER_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import {
  INTERNAL_MEMBER_CLUSTERS,
  type InternalMemberCluster,
} from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { NAMESPACES, type Namespace, type Service, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import {
  ENDPOINT_SLICES,
  type EndpointSlice,
  MANAGED_BY_LABEL as SLICE_MANAGER_LABEL,
  SERVICE_NAME_LABEL,
} from "@fairlead/kube/api/discovery/v1/types.ts";
import { GLOBAL_SLICE_SUFFIX, sliceExportName } from "#api/fairlead.dev/cluster-names.ts";
import { GLOBAL_SERVICE_LABEL, GLOBAL_SLICE_MANAGER, MCS_SLICE_MANAGER } from "#api/fairlead.dev/names.ts";
import {
  IMPORTED_SERVICES,
  type ImportedService,
  NAMESPACE_REPORTS,
  type NamespaceReport,
} from "#api/fairlead.dev/v1alpha1/types.ts";
import { type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import {
  MCS_SERVICE_NAME_LABEL,
  MCS_SERVICE_EXPORTS,
  MCS_SERVICE_IMPORTS,
  MCS_SOURCE_CLUSTER_LABEL,
  type ServiceExport,
  type ServiceImport,
} from "#api/multicluster.x-k8s.io/v1beta1/types.ts";
import {
  clusterOfMailbox,
  FLEET_SLICE_MANAGER,
  mailboxOf,
  MULTI_CLUSTER_SERVICE_NAME_LABEL,
  MULTI_CLUSTER_SERVICE_NAMESPACE_LABEL,
} from "#api/networking.fleet.azure.com/names.ts";
import {
  ENDPOINT_SLICE_EXPORTS,
  ENDPOINT_SLICE_IMPORTS,
  type EndpointSliceExport,
  type EndpointSliceImport,
  FLEET_SERVICE_IMPORTS,
  type FleetServiceImport,
  INTERNAL_SERVICE_EXPORTS,
  INTERNAL_SERVICE_IMPORTS,
  type InternalServiceExport,
  type InternalServiceImport,
  MULTI_CLUSTER_SERVICES,
  type MultiClusterService,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import {
  FLEET_SERVICE_EXPORTS,
  type FleetServiceExport,
} from "#api/networking.fleet.azure.com/v1beta1/types.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { Informer, InformerOptions, KubeClient } from "@fairlead/kube/types.ts";
import { globalIndex } from "./global-services.ts";
import { isLegacy } from "./session.ts";

/** What the member's controllers read in their own cluster. */
export interface LocalInformers {
  readonly namespaces: Informer<Namespace>;
  readonly services: Informer<Service>;
  readonly slices: Informer<EndpointSlice>;
  readonly fleetExports: Informer<FleetServiceExport>;
  readonly fleetImports: Informer<FleetServiceImport>;
  readonly multiClusterServices: Informer<MultiClusterService>;
  readonly mcsExports: Informer<ServiceExport>;
  readonly mcsImports: Informer<ServiceImport>;
}

/** What they read in their mailbox on any hub. */
export interface MailboxInformers {
  readonly internalMembers: Informer<InternalMemberCluster>;
  readonly exports: Informer<InternalServiceExport>;
  readonly imports: Informer<InternalServiceImport>;
  readonly sliceExports: Informer<EndpointSliceExport>;
  readonly sliceImports: Informer<EndpointSliceImport>;
}

interface Place {
  readonly cluster: string;
  /** Whether to do without what fleet-networking's installation does not know. */
  readonly isFleetOnly: boolean;
}

export function createLocalInformers(
  client: KubeClient,
  { cluster, isFleetOnly }: Place,
  deps: RuntimeDeps,
): LocalInformers {
  const optional = { isOptional: () => isFleetOnly };
  const make = <T extends KubeObject>(of: Resource<T>, options: InformerOptions<T> = {}): Informer<T> =>
    createInformer(client, of, { fieldManager: MEMBER_MANAGER, ...options }, deps);
  return {
    namespaces: make(NAMESPACES, { ...optional, indexes: { mailbox: mailboxIndex } }),
    services: make(SERVICES, {
      indexes: { multiClusterService: (it) => multiClusterServiceOf(it), global: (it) => globalIndex(it) },
    }),
    slices: make(ENDPOINT_SLICES, {
      indexes: {
        service: (it) => serviceOfLocalSlice(it),
        exportName: (it) => exportNameOf(it, cluster),
        imported: (it) => (isImported(it) ? [sourceNameOf(it)] : []),
        importedService: (it) => serviceOfImportedSlice(it),
        balancer: (it) => balancerOfSlice(it),
      },
    }),
    fleetExports: make(FLEET_SERVICE_EXPORTS),
    fleetImports: make(FLEET_SERVICE_IMPORTS, {
      indexes: { multiClusterService: (it) => multiClusterServiceOfImport(it) },
    }),
    multiClusterServices: make(MULTI_CLUSTER_SERVICES, { indexes: { import: (it) => importOf(it) } }),
    mcsExports: make(MCS_SERVICE_EXPORTS, optional),
    mcsImports: make(MCS_SERVICE_IMPORTS, optional),
  };
}

export function createMailboxInformers(
  client: KubeClient,
  {
    cluster,
    isFleetOnly,
    onInternalMemberDeleted,
  }: Place & { readonly onInternalMemberDeleted?: () => void },
  deps: RuntimeDeps,
): MailboxInformers {
  const namespace = mailboxOf(cluster);
  const make = <T extends KubeObject>(of: Resource<T>, options: InformerOptions<T> = {}): Informer<T> =>
    createInformer(client, of, { namespace, fieldManager: MEMBER_MANAGER, ...options }, deps);
  const internalMembers = make(INTERNAL_MEMBER_CLUSTERS, {
    isOptional: () => isFleetOnly,
    ...defined({ onDeleted: onInternalMemberDeleted }),
  });
  // KubeFleet's hub serves the kinds of services only if fleet-networking is installed there.
  const isOptional = (): boolean => {
    const internalMember = internalMembers.store.get(objectKey(namespace, cluster));
    return internalMember !== undefined && isLegacy(internalMember);
  };
  return {
    internalMembers,
    exports: make(INTERNAL_SERVICE_EXPORTS, {
      isOptional,
      indexes: { service: (it) => serviceOfExport(it) },
    }),
    imports: make(INTERNAL_SERVICE_IMPORTS, {
      isOptional,
      indexes: { service: (it) => [serviceOfImport(it)] },
    }),
    sliceExports: make(ENDPOINT_SLICE_EXPORTS, {
      isOptional,
      indexes: { source: (it) => [sourceOfSliceExport(it)], service: (it) => [serviceOfSliceExport(it)] },
    }),
    sliceImports: createSliceImportInformer(client, { namespace, isOptional }, deps),
  };
}

/** The MultiClusterService that made a ServiceImport. */
export function multiClusterServiceOfImport({
  metadata: { namespace, ownerReferences = [] },
}: FleetServiceImport): ObjectKey[] {
  return ownerReferences
    .filter((it) => it.kind === "MultiClusterService")
    .map((it) => objectKey(namespace, it.name));
}

/** In the mailbox. Legacy hubs do not have this kind. */
export function createReportInformer(
  client: KubeClient,
  namespace: string,
  deps: RuntimeDeps,
): Informer<NamespaceReport> {
  return createInformer(client, NAMESPACE_REPORTS, { namespace, fieldManager: MEMBER_MANAGER }, deps);
}

/**
 * How long an object that the hub deleted still counts, because it may be recreated at once: after a deletion by hand, or
 * while it moves between view and mailbox, which two watches report. Unit: milliseconds. Endpoints: requests may fail for
 * this long if they are really deleted. Services: they go after their endpoints, and keep their address if they come back.
 */
const LINGER_MS = { endpoints: 300, services: 1000 };

/** What is read in the mailbox or in the view, and which part of it. */
export type Scope = Pick<InformerOptions<KubeObject>, "namespace" | "labelSelector" | "isOptional">;

export function createImportedServiceInformer(
  client: KubeClient,
  scope: Scope,
  deps: RuntimeDeps,
): Informer<ImportedService> {
  const indexes = {
    service: (it: ImportedService) => [serviceOfImported(it)],
    namespace: (it: ImportedService) => [it.spec.service.namespace],
  };
  return createInformer(client, IMPORTED_SERVICES, { ...scope, indexes, lingerMs: LINGER_MS.services }, deps);
}

export function createSliceImportInformer(
  client: KubeClient,
  scope: Scope,
  deps: RuntimeDeps,
): Informer<EndpointSliceImport> {
  const indexes = {
    service: (it: EndpointSliceImport) => [serviceOfSliceImport(it)],
    cluster: (it: EndpointSliceImport) => [it.spec.endpointSliceReference.clusterId],
  };
  return createInformer(
    client,
    ENDPOINT_SLICE_IMPORTS,
    { ...scope, indexes, lingerMs: LINGER_MS.endpoints },
    deps,
  );
}

/** For the index `mailbox` of namespaces: a hub has one for each member. */
export function mailboxIndex({ metadata }: Namespace): string[] {
  return clusterOfMailbox(metadata.name) === undefined ? [] : [""];
}

export function serviceOfExport(it: InternalServiceExport): ObjectKey[] {
  const reference = it.spec?.serviceReference;
  return reference === undefined ? [] : [objectKey(reference.namespace, reference.name)];
}
export function serviceOfImport(it: InternalServiceImport): ObjectKey {
  const { namespace, name } = it.spec.serviceImportReference;
  return objectKey(namespace, name);
}
export function serviceOfImported(it: ImportedService): ObjectKey {
  return objectKey(it.spec.service.namespace, it.spec.service.name);
}
export function serviceOfSliceImport(it: EndpointSliceImport): ObjectKey {
  const { namespace, name } = it.spec.ownerServiceReference;
  return objectKey(namespace, name);
}
export function serviceOfSliceExport(it: EndpointSliceExport): ObjectKey {
  const { namespace, name } = it.spec.ownerServiceReference;
  return objectKey(namespace, name);
}
export function sourceOfSliceExport(it: EndpointSliceExport): ObjectKey {
  const { namespace, name } = it.spec.endpointSliceReference;
  return objectKey(namespace, name);
}

/** Whether a slice came from another cluster, or was made by us for the fleet. */
export function isImported(slice: EndpointSlice): boolean {
  const manager = slice.metadata.labels?.[SLICE_MANAGER_LABEL];
  return manager === MCS_SLICE_MANAGER || manager === FLEET_SLICE_MANAGER || manager === GLOBAL_SLICE_MANAGER;
}

/** The name, on the hub, of what an imported slice is made from. */
export function sourceNameOf({ metadata: { name, labels } }: EndpointSlice): string {
  return labels?.[SLICE_MANAGER_LABEL] === GLOBAL_SLICE_MANAGER && name.endsWith(GLOBAL_SLICE_SUFFIX)
    ? name.slice(0, -GLOBAL_SLICE_SUFFIX.length)
    : name;
}

/** The Service that a slice of this cluster's own belongs to; none for imported ones, also those of other programs. */
export function serviceOfLocalSlice(slice: EndpointSlice): ObjectKey[] {
  const { namespace, labels } = slice.metadata;
  const service = labels?.[SERVICE_NAME_LABEL];
  const isCopy = isImported(slice) || labels?.[MCS_SOURCE_CLUSTER_LABEL] !== undefined;
  return service === undefined || isCopy ? [] : [objectKey(namespace, service)];
}

/** The service of the fleet that an imported slice is of; none for those behind load balancers. */
export function serviceOfImportedSlice({ metadata }: EndpointSlice): ObjectKey[] {
  const name = metadata.labels?.[MCS_SERVICE_NAME_LABEL];
  return name === undefined ? [] : [objectKey(metadata.namespace, name)];
}

/** The global Service that an imported slice is next to those of. */
export function globalServiceOfSlice({ metadata: { namespace, labels } }: EndpointSlice): ObjectKey[] {
  const name = labels?.[GLOBAL_SERVICE_LABEL];
  return name === undefined ? [] : [objectKey(namespace, name)];
}

/** The LoadBalancer Service that an imported slice belongs to. */
export function balancerOfSlice({ metadata: { namespace, labels } }: EndpointSlice): string[] {
  const balancer = labels?.[SERVICE_NAME_LABEL];
  const isBalanced = labels?.[SLICE_MANAGER_LABEL] === FLEET_SLICE_MANAGER;
  return isBalanced && balancer !== undefined ? [objectKey(namespace, balancer)] : [];
}

function exportNameOf(slice: EndpointSlice, cluster: string): string[] {
  if (serviceOfLocalSlice(slice).length === 0) return [];
  return [sliceExportName(cluster, slice.metadata.namespace ?? "", slice.metadata.name)];
}

/** The MultiClusterService that a derived Service belongs to. */
export function multiClusterServiceOf(service: Service): ObjectKey[] {
  const namespace = service.metadata.labels?.[MULTI_CLUSTER_SERVICE_NAMESPACE_LABEL];
  const name = service.metadata.labels?.[MULTI_CLUSTER_SERVICE_NAME_LABEL];
  return namespace === undefined || name === undefined ? [] : [objectKey(namespace, name)];
}

/** The ServiceImport that a MultiClusterService asks for. */
export function importOf(it: MultiClusterService): ObjectKey[] {
  const name = it.spec.serviceImport?.name;
  return name === undefined ? [] : [objectKey(it.metadata.namespace, name)];
}
