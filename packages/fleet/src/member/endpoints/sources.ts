import type { EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { sliceExportName } from "#api/fairlead.dev/cluster-names.ts";
import { type ObjectKey, keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import type {
  EndpointSliceImport,
  ExportedEndpoint,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import type { Change } from "@fairlead/kube/types.ts";
import { addressesOf } from "../fleet-addresses.ts";
import { exportStateOf } from "../exports/reconcile.ts";
import { isImported, serviceOfLocalSlice, sourceNameOf, serviceOfSliceImport } from "../informers.ts";
import type { Session } from "../session.ts";
import { exportedFacts } from "./export.ts";
import type { SourceSlice } from "./import-plan.ts";

/** The slices that imports are made of, by the names that they have on the hub. */

export function namesOfObjects(...objects: readonly (KubeObject | undefined)[]): ObjectKey[] {
  return objects.flatMap((it) => (it === undefined ? [] : [objectKey(undefined, it.metadata.name)]));
}

/** An imported slice has the key as its name; the fleet knows a slice of a local Service by another name. */
export function namesOfLocal(
  { cluster }: Pick<Session, "cluster">,
  { before, after }: Change<EndpointSlice>,
): ObjectKey[] {
  return [before, after].flatMap((it) => {
    if (it === undefined) return [];
    if (isImported(it)) return [objectKey(undefined, sourceNameOf(it))];
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
      namesOfLocal({ cluster }, { key: keyOf(it), before: undefined, after: it }),
    ),
  ];
}

export interface FoundSlice {
  readonly source: SourceSlice;
  readonly service: ObjectKey;
}

/** The slice behind a name: one of this cluster, read where it is, or of another, as the hub sent it. */
export function findSource(session: Session, name: ObjectKey): FoundSlice | undefined {
  const [local] = session.here.slices.store.byIndex("exportName", name);
  if (local !== undefined) return findOwnSource(session, name, local);
  const copy = session.fleet.sliceImports.get(name);
  return copy === undefined ? undefined : readCopy(session, copy);
}

function readCopy(session: Session, copy: EndpointSliceImport): FoundSlice | undefined {
  const { endpointSliceReference, ownerServiceReference: _owner, ...facts } = copy.spec;
  const from = endpointSliceReference.clusterId;
  // Our own endpoints are read here, not by way of the hub: an older hub sends them all the same.
  if (from === session.cluster) return undefined;
  const name = objectKey(undefined, copy.metadata.name);
  const strangers = new Set(strangersIn(session, copy));
  const endpoints =
    strangers.size === 0 ? facts.endpoints : facts.endpoints.filter((it) => !strangers.has(it));
  return {
    source: { name, cluster: from, isLocal: false, facts: { ...facts, endpoints } },
    service: serviceOfSliceImport(copy),
  };
}

/** Endpoints with addresses that are not of the cluster they come from. The hub leaves them out, too. */
export function strangersIn(session: Session, { spec }: EndpointSliceImport): readonly ExportedEndpoint[] {
  const isOwn = addressesOf(session, spec.endpointSliceReference.clusterId);
  return isOwn === undefined ? [] : spec.endpoints.filter((it) => !it.addresses.every(isOwn));
}

/** A slice of this cluster, if its Service is exported. */
export function findOwnSource(
  session: Session,
  name: ObjectKey,
  local: EndpointSlice,
): FoundSlice | undefined {
  const [service] = serviceOfLocalSlice(local);
  const facts = exportedFacts(local);
  if (service === undefined || facts === undefined || !exportStateOf(session, service).isExported)
    return undefined;
  return { source: { name, cluster: session.cluster, isLocal: true, facts }, service };
}

/** All slices of a service, those of this cluster included. */
export function sourcesOf(session: Session, service: ObjectKey): FoundSlice[] {
  return namesOf(session, service).flatMap((name) => findSource(session, name) ?? []);
}
