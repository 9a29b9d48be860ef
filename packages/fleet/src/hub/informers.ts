import { HUB_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import {
  FLEET_RESOURCE_LABEL,
  INTERNAL_MEMBER_CLUSTERS,
  type InternalMemberCluster,
  MEMBER_CLUSTERS,
  MEMBER_NAME_LABEL,
  type MemberCluster,
} from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { LEASES, type Lease } from "@fairlead/kube/api/coordination/v1/types.ts";
import { RESOURCE_QUOTAS, type ResourceQuota } from "@fairlead/kube/api/core/v1/quota.ts";
import { NAMESPACES, type Namespace } from "@fairlead/kube/api/core/v1/types.ts";
import {
  IMPORTED_SERVICES,
  type ImportedService,
  NAMESPACE_REPORTS,
  type NamespaceReport,
} from "#api/fairlead.dev/v1alpha1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
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
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { allowedImporters, type Members } from "#domain/audience.ts";
import { clusterOfMailbox, mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { ROLE_BINDINGS, ROLES, type Role, type RoleBinding } from "@fairlead/kube/api/rbac/v1/types.ts";
import { drainModeOf } from "#domain/drain.ts";
import { type ServiceKey, serviceKey } from "#domain/keys.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import type { Informer, InformerOptions, KubeClient } from "@fairlead/kube/types.ts";

import { createIdentitiesInformers, type IdentitiesInformers } from "./identities/informers.ts";
import { createIdentityInformers, type IdentityInformers } from "./identity/informers.ts";
import { createUpdateInformers, type UpdateInformers } from "./updates/clusters/informers.ts";
import { createMemberships, type Memberships } from "./memberships.ts";
import { createMeshInformers, type MeshInformers } from "./mesh/informers.ts";
import { createReadViews, type ReadViews } from "./view-readers.ts";

/**
 * How long an object that a member no longer has still counts: if it was deleted by hand, the member writes it again at
 * once. A withdrawn export goes after its endpoints, so no traffic is sent there in this time. Unit: milliseconds.
 */
const LINGER_MS = 300;

/** Everything that the hub's controllers read, each kind watched once. */
export interface HubInformers extends IdentityInformers, IdentitiesInformers, MeshInformers, UpdateInformers {
  readonly members: Informer<MemberCluster>;
  readonly namespaces: Informer<Namespace>;
  readonly roles: Informer<Role>;
  readonly roleBindings: Informer<RoleBinding>;
  readonly quotas: Informer<ResourceQuota>;
  readonly internalMembers: Informer<InternalMemberCluster>;
  readonly leases: Informer<Lease>;
  readonly reports: Informer<NamespaceReport>;
  readonly importedServices: Informer<ImportedService>;
  readonly serviceImports: Informer<FleetServiceImport>;
  readonly exports: Informer<InternalServiceExport>;
  readonly imports: Informer<InternalServiceImport>;
  readonly sliceExports: Informer<EndpointSliceExport>;
  readonly sliceImports: Informer<EndpointSliceImport>;
  /** The namespace that a member is to read, and in which its services are shown. */
  readonly viewOf: (cluster: string) => string;
  readonly memberships: Memberships;
  readonly readViews: ReadViews;
  /** Returns true if members are known only by the objects in their mailboxes, because namespaces cannot be read. */
  readonly areMembersByMailbox: () => boolean;
}

/** Of mailboxes that make a member by being there: the member. */
const MAILBOX_OF = "mailboxOf";

interface Membership {
  /** Whether a mailbox makes a member, with or without a MemberCluster. Default: false. */
  readonly areMembersByNamespace?: boolean;
  /**
   * Whether KubeFleet's hub agent looks after members: what fleet-networking does without need not be there. Default: false.
   */
  readonly isBesideOthers?: boolean;
}

export function createHubInformers(
  client: KubeClient,
  { areMembersByNamespace = false, isBesideOthers = false }: Membership,
  deps: RuntimeDeps,
): HubInformers {
  const optional = { isOptional: () => isBesideOthers };
  const make = <T extends KubeObject>(of: Resource<T>, options: InformerOptions<T> = {}): Informer<T> =>
    createInformer(client, of, { fieldManager: HUB_MANAGER, ...options }, deps);
  const ofFleet = { labelSelector: `${FLEET_RESOURCE_LABEL}=true` };
  const namespaces = make(NAMESPACES, {
    ...optional,
    indexes: {
      [MAILBOX_OF]: ({ metadata: { name } }) => {
        const cluster = areMembersByNamespace ? clusterOfMailbox(name) : undefined;
        return cluster === undefined ? [] : [cluster];
      },
      names: (it) => allowedImporters(it) ?? [],
    },
  });
  const members = make(MEMBER_CLUSTERS, {
    ...optional,
    indexes: { drained: (it) => (drainModeOf(it) === undefined ? [] : [""]) },
  });
  const mesh = createMeshInformers(client, optional, deps);
  const reports = make(NAMESPACE_REPORTS, {
    lingerMs: LINGER_MS,
    ...optional,
    indexes: { namespace: (it) => it.spec.namespaces },
  });
  const memberships = createMemberships(mesh.profiles, members);
  const { viewOf } = memberships;
  return {
    ...createIdentityInformers(client, deps),
    ...createIdentitiesInformers(client, deps),
    ...createUpdateInformers(client, deps),
    ...mesh,
    ...memberships,
    // KubeFleet's hub agent names none.
    readViews: createReadViews({
      reports,
      members,
      profiles: mesh.profiles,
      viewOf,
      namesViews: !isBesideOthers,
    }),
    members,
    namespaces,
    // Every cluster has namespaces: none are seen only where they may not be read.
    areMembersByMailbox: () => areMembersByNamespace && namespaces.store.size === 0,
    roles: make(ROLES, ofFleet),
    roleBindings: make(ROLE_BINDINGS, ofFleet),
    quotas: make(RESOURCE_QUOTAS, ofFleet),
    internalMembers: make(INTERNAL_MEMBER_CLUSTERS),
    leases: make(LEASES, { labelSelector: MEMBER_NAME_LABEL }),
    reports,
    importedServices: make(IMPORTED_SERVICES, {
      ...optional,
      indexes: { service: (it) => [serviceOfImported(it)], in: namespaceOf },
    }),
    serviceImports: make(FLEET_SERVICE_IMPORTS),
    exports: make(INTERNAL_SERVICE_EXPORTS, {
      lingerMs: LINGER_MS,
      indexes: {
        service: (it) => serviceOfExport(it),
        namespace: (it) => namespaceOfExport(it),
        in: namespaceOf,
        names: (it) => it.spec?.exportTo ?? [],
      },
    }),
    imports: make(INTERNAL_SERVICE_IMPORTS, {
      indexes: { service: (it) => [serviceOfImport(it)], in: namespaceOf },
    }),
    sliceExports: make(ENDPOINT_SLICE_EXPORTS, {
      indexes: { name: (it) => [it.metadata.name], service: (it) => [serviceOfSlice(it)], in: namespaceOf },
    }),
    sliceImports: make(ENDPOINT_SLICE_IMPORTS, {
      indexes: { name: (it) => [it.metadata.name], service: (it) => [serviceOfSlice(it)], in: namespaceOf },
    }),
  };
}

/** What a hub reads that looks after members itself. */
const OF_MEMBERSHIP: ReadonlySet<string> = new Set<keyof HubInformers>([
  "signingRequests",
  "bootstrapAccounts",
  "roles",
  "roleBindings",
  "quotas",
  "internalMembers",
  "leases",
  "gateways",
  "networks",
  "relays",
  "identitySlices",
  "identityDemands",
  "clusterUpgrades",
]);

/** Informers of update runs, which begin with the first of these. */
export function informersOfUpdates(all: UpdateInformers): readonly Informer<KubeObject>[] {
  const { updateRuns, updateStrategies, updateGates, upgradeProfiles, releaseCatalogs } = all;
  return [updateRuns, updateStrategies, updateGates, upgradeProfiles, releaseCatalogs];
}

/** Those that are read by what runs. All others must not be started: their kinds need not be there, nor be allowed. */
export function neededInformers(
  all: HubInformers,
  { isBesideOthers }: { readonly isBesideOthers: boolean },
): readonly Informer<KubeObject>[] {
  const { areMembersByMailbox: _rule, viewOf: _views, memberships: _memberships, ...others } = all;
  const { readViews: _readViews, ...informers } = others;
  const later = new Set(informersOfUpdates(all));
  const needed = Object.entries(informers).filter(([name]) => !(isBesideOthers && OF_MEMBERSHIP.has(name)));
  return needed.map(([, informer]) => informer).filter((it) => !later.has(it));
}

/** Members that belong to the fleet, as things are when it is asked: those that are leaving do no longer. */
export function currentMembers(informers: HubInformers): Members {
  const { members, namespaces } = informers;
  return {
    has(cluster) {
      const member = members.store.get(objectKey(undefined, cluster));
      if (member !== undefined) return !isDeleting(member);
      if (informers.areMembersByMailbox()) return isMailboxUsed(informers, mailboxOf(cluster));
      const [mailbox] = namespaces.store.byIndex(MAILBOX_OF, cluster);
      return mailbox !== undefined && !isDeleting(mailbox);
    },
  };
}

/** Whether an agent put something into a mailbox. */
function isMailboxUsed(
  { exports, imports, sliceExports, sliceImports }: HubInformers,
  namespace: string,
): boolean {
  return [exports, imports, sliceExports, sliceImports].some(
    (it: Informer<KubeObject>) => !it.store.byIndex("in", namespace)[Symbol.iterator]().next().done,
  );
}

/** Keys of services, "namespace/name". References are read by their parts: the joined text is the sender's word. */
export function serviceOfExport(it: InternalServiceExport): ServiceKey[] {
  const reference = it.spec?.serviceReference;
  return reference === undefined ? [] : [serviceKey(reference.namespace, reference.name)];
}
function namespaceOf(it: KubeObject): string[] {
  return [it.metadata.namespace ?? ""];
}
export function namespaceOfExport(it: InternalServiceExport): string[] {
  return it.spec === undefined ? [] : [it.spec.serviceReference.namespace];
}
export function serviceOfImport(it: InternalServiceImport): ServiceKey {
  const { namespace, name } = it.spec.serviceImportReference;
  return serviceKey(namespace, name);
}
export function serviceOfImported(it: ImportedService): ServiceKey {
  return serviceKey(it.spec.service.namespace, it.spec.service.name);
}
export function serviceOfSlice(it: EndpointSliceExport | EndpointSliceImport): ServiceKey {
  const { namespace, name } = it.spec.ownerServiceReference;
  return serviceKey(namespace, name);
}
