import type { EndpointSliceImport } from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { fleetImportOf } from "./hub-cluster.ts";
import { serviceOfSliceImport } from "./informers.ts";
import type { KnownEndpoints } from "./probes/targets.ts";
import type { Session } from "./session.ts";

/** What the hub says of them. */
export function importedEndpoints(session: Session): KnownEndpoints {
  const { fleet, cluster: own } = session;
  return {
    clusters() {
      const others = new Set<string>();
      for (const { spec } of fleet.sliceImports.list()) others.add(spec.endpointSliceReference.clusterId);
      others.delete(own);
      return [...others];
    },
    slicesOf: (cluster) => importedSlices(session, cluster),
  };
}

/** The slices of a cluster that this member imports. */
export function importedSlices(session: Session, cluster: string): EndpointSliceImport[] {
  return [...session.fleet.sliceImports.byIndex("cluster", cluster)].filter((it) => isImported(session, it));
}

export function isImported(session: Session, slice: EndpointSliceImport): boolean {
  const service = serviceOfSliceImport(slice);
  const isOfMcs = session.here.mcsImports.store.get(service) !== undefined;
  return isOfMcs || fleetImportOf(session, service) !== undefined;
}
