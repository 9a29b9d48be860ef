import { ENDPOINT_SLICES, type EndpointSlice } from "#api/discovery/v1/types.ts";
import { sliceExportName } from "#api/fairlead.dev/model/names.ts";
import type { ImportedService } from "#api/fairlead.dev/v1alpha1/types.ts";
import { type ObjectKey, keyOf, objectKey } from "#api/meta/key.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import type { KubeObject } from "#api/meta/types.ts";
import { sameJson } from "#base/json.ts";
import { applyIfChanged } from "#kube/apply.ts";
import { createController } from "#kube/controller.ts";
import { isDeleting } from "#kube/finalizers.ts";
import { watching } from "#kube/source.ts";
import type { Change, Controller } from "#kube/types.ts";
import { planFor } from "../exports/reconcile.ts";
import { importedService } from "../imports/mcs-import.ts";
import { isOurs } from "../imports/mcs-import-plan.ts";
import { hasNamespace } from "../imports/namespace-report.ts";
import {
  isImported,
  MEMBER_MANAGER,
  multiClusterServiceOf,
  serviceOfImported,
  serviceOfLocalSlice,
  serviceOfSliceImport,
} from "../informers.ts";
import type { Probes } from "../probes/probes.ts";
import { both, isMembershipChanged, membershipOf, type Session } from "../session.ts";
import { ignoreVanishing } from "../vanishing.ts";
import { exportedFacts } from "./export.ts";
import { planImportedSlices, type SourceSlice } from "./import-plan.ts";

/**
 * Slices of all exporting clusters, this one included, to the EndpointSlices that proxies and DNS read. Keys are names:
 * what is made from a slice has the name that it has on the hub.
 */
export function createEndpointImport(session: Session, probes: Probes): Controller {
  const { here, mailbox, fleet, deps } = session;
  const slicesOf = (service: ObjectKey): ObjectKey[] => namesOf(session, service);
  const controller = createController(
    {
      name: "member-endpoint-import",
      reconcile: (key, signal) => reconcile(session, probes, key, signal).catch(ignoreVanishing),
      concurrency: 16,
      sources: [
        watching(fleet.sliceImports, ({ before, after }) => namesOfObjects(before, after)),
        watching(here.slices, (change) => namesOfLocal(session, change)),
        watching(fleet.importedServices, (change) => both(serviceKeys)(change).flatMap(slicesOf)),
        watching(here.mcsImports, (change) => (isIdentityChanged(change) ? slicesOf(change.key) : [])),
        watching(here.fleetImports, (change) =>
          sameJson(change.before?.status, change.after?.status) ? [] : slicesOf(change.key),
        ),
        watching(here.services, (change) =>
          [
            ...both(multiClusterServiceOf)(change).flatMap((key) => importsOf(session, key)),
            change.key,
          ].flatMap(slicesOf),
        ),
        watching(here.multiClusterServices, (change) => importKeysOf(change).flatMap(slicesOf)),
        watching(here.fleetExports, ({ key }) => slicesOf(key)),
        watching(here.mcsExports, ({ key }) => slicesOf(key)),
        watching(mailbox.orders, (change) => (isMembershipChanged(change) ? importedSliceKeys(session) : [])),
        watching(here.namespaces, () => []),
        watching(mailbox.exports, () => []),
      ],
    },
    deps,
  );
  probes.onChange = (cluster) => {
    for (const it of fleet.sliceImports.byIndex("cluster", cluster))
      controller.enqueue(objectKey(undefined, it.metadata.name));
  };
  return controller;
}

const serviceKeys = (it: Parameters<typeof serviceOfImported>[0]): ObjectKey[] => [serviceOfImported(it)];

function namesOfObjects(...objects: readonly (KubeObject | undefined)[]): ObjectKey[] {
  return objects.flatMap((it) => (it === undefined ? [] : [objectKey(undefined, it.metadata.name)]));
}

/** A slice of ours has the key as its name; a slice of this cluster's Services is known to the fleet by another one. */
export function namesOfLocal({ cluster }: Session, { before, after }: Change<EndpointSlice>): ObjectKey[] {
  return [before, after].flatMap((it) => {
    if (it === undefined) return [];
    if (isImported(it)) return namesOfObjects(it);
    if (serviceOfLocalSlice(it).length === 0) return [];
    return [objectKey(undefined, sliceExportName(cluster, it.metadata.namespace ?? "", it.metadata.name))];
  });
}

/** Names of the slices of a service in every cluster, this one included. */
export function namesOf({ here, fleet, cluster }: Session, service: ObjectKey): ObjectKey[] {
  return [
    ...[...fleet.sliceImports.byIndex("service", service)].map((it) => it.metadata.name),
    ...[...here.slices.store.byIndex("service", service)].map((it) =>
      sliceExportName(cluster, it.metadata.namespace ?? "", it.metadata.name),
    ),
  ].map((name) => objectKey(undefined, name));
}

/** Every slice that is imported, or was. */
export function importedSliceKeys({ here, fleet, cluster }: Session): ObjectKey[] {
  return [
    ...[...fleet.sliceImports.list()].flatMap((it) => namesOfObjects(it)),
    ...[...here.slices.store.list()].flatMap((it) =>
      namesOfLocal({ cluster } as Session, { key: keyOf(it), before: undefined, after: it }),
    ),
  ];
}

function isIdentityChanged({ before, after }: Change<KubeObject>): boolean {
  return (
    before?.metadata.uid !== after?.metadata.uid ||
    before?.metadata.deletionTimestamp !== after?.metadata.deletionTimestamp
  );
}

function importsOf({ here }: Session, multiClusterService: ObjectKey): ObjectKey[] {
  const object = here.multiClusterServices.store.get(multiClusterService);
  const name = object?.spec.serviceImport?.name;
  return name === undefined ? [] : [objectKey(object?.metadata.namespace, name)];
}

function importKeysOf({
  before,
  after,
}: Change<Parameters<typeof keyOf>[0] & { spec: { serviceImport?: { name: string } } }>): ObjectKey[] {
  return [before, after].flatMap((it) => {
    const name = it?.spec.serviceImport?.name;
    return name === undefined ? [] : [objectKey(it?.metadata.namespace, name)];
  });
}

export interface FoundSlice {
  readonly source: SourceSlice;
  readonly service: ObjectKey;
}

/** The slice behind a name: one of this cluster, read where it is, or of another, as the hub sent it. */
function findSource(session: Session, name: ObjectKey): FoundSlice | undefined {
  const { here, fleet, cluster } = session;
  const [local] = here.slices.store.byIndex("exportName", name);
  if (local !== undefined) return findOwnSource(session, name, local);
  const copy = fleet.sliceImports.get(name);
  if (copy === undefined) return undefined;
  const { endpointSliceReference, ownerServiceReference: _owner, ...facts } = copy.spec;
  const from = endpointSliceReference.clusterId;
  // Our own endpoints are read here, not by way of the hub: an older hub sends them all the same.
  if (from === cluster) return undefined;
  return { source: { name, cluster: from, isLocal: false, facts }, service: serviceOfSliceImport(copy) };
}

/** A slice of this cluster, if its Service is exported. */
export function findOwnSource(
  session: Session,
  name: ObjectKey,
  local: EndpointSlice,
): FoundSlice | undefined {
  const [service] = serviceOfLocalSlice(local);
  const facts = exportedFacts(local);
  if (service === undefined || facts === undefined || planFor(session, service).spec === undefined)
    return undefined;
  return { source: { name, cluster: session.cluster, isLocal: true, facts }, service };
}

/** The LoadBalancer Service of the MultiClusterService that imports a service, if the cluster is accepted there. */
function findLoadBalancer({ here }: Session, service: ObjectKey, cluster: string): string | undefined {
  const imported = here.fleetImports.store.get(service);
  if (imported?.status?.clusters?.some((it) => it.cluster === cluster) !== true) return undefined;
  for (const object of here.multiClusterServices.store.byIndex("import", service)) {
    const [derived] = here.services.store.byIndex("multiClusterService", keyOf(object));
    if (derived !== undefined && !isDeleting(derived)) return derived.metadata.name;
  }
  return undefined;
}

async function reconcile(
  session: Session,
  probes: Probes,
  key: ObjectKey,
  signal: AbortSignal,
): Promise<void> {
  const membership = membershipOf(session);
  if (membership === "none") return;
  const found = membership === "leave" ? undefined : findSource(session, key);
  const wanted =
    found === undefined
      ? []
      : planFound(session, found, {
          spec: importedService(session, found.service)?.spec,
          isAlive: (addresses) => probes.isAlive(found.source.cluster, addresses),
        });
  await writeSlices(session, { key, wanted, isOurs: () => true }, signal);
}

interface Writing {
  /** Name of the slices. */
  readonly key: ObjectKey;
  readonly wanted: ReturnType<typeof planImportedSlices>;
  /** Whether a slice of that name that is not wanted may be taken away. */
  readonly isOurs: (slice: EndpointSlice) => boolean;
}

export async function writeSlices(
  { here, local }: Session,
  { key, wanted, isOurs: mayGo }: Writing,
  signal: AbortSignal,
): Promise<void> {
  const keep = new Set(wanted.map((it) => it.metadata.namespace));
  for (const it of here.slices.store.byIndex("imported", key))
    if (!keep.has(it.metadata.namespace ?? "") && !isDeleting(it) && mayGo(it))
      await local.delete(ENDPOINT_SLICES, keyOf(it), { signal });
  for (const desired of wanted)
    await applyIfChanged(local, ENDPOINT_SLICES, {
      current: here.slices.store.get(objectKey(desired.metadata.namespace, desired.metadata.name)),
      desired,
      fieldManager: MEMBER_MANAGER,
      signal,
    });
}

interface Known {
  /** What the service looks like in the fleet; undefined: it is not imported. */
  readonly spec: ImportedService["spec"] | undefined;
  readonly isAlive: (addresses: readonly string[]) => boolean;
}

export function planFound(
  session: Session,
  { source, service }: FoundSlice,
  { spec, isAlive }: Known,
): ReturnType<typeof planImportedSlices> {
  const { here } = session;
  const object = here.mcsImports.store.get(service);
  const canImport =
    object !== undefined &&
    isOurs(object) &&
    !isDeleting(object) &&
    hasNamespace(session, object.metadata.namespace ?? "");
  return planImportedSlices({
    source,
    isAlive,
    mcs: spec === undefined || !canImport ? undefined : { spec, object },
    loadBalancer: hasNamespace(session, FLEET_SYSTEM_NAMESPACE)
      ? findLoadBalancer(session, service, source.cluster)
      : undefined,
  });
}
