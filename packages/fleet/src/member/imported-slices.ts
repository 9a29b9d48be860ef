import type { EndpointSliceImport } from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { fleetImportOf } from "./hub-cluster.ts";
import { serviceOfSliceImport } from "./informers.ts";
import type { Session } from "./session.ts";

/** The slices of a cluster that this member imports. */
export function importedSlices(session: Session, cluster: string): EndpointSliceImport[] {
  return [...session.fleet.sliceImports.byIndex("cluster", cluster)].filter((it) => isImported(session, it));
}

export function isImported(session: Session, slice: EndpointSliceImport): boolean {
  const service = serviceOfSliceImport(slice);
  const isOfMcs = session.here.mcsImports.store.get(service) !== undefined;
  return isOfMcs || fleetImportOf(session, service) !== undefined;
}
