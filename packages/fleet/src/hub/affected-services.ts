import { type ServiceKey, type SliceName, sliceName } from "#domain/keys.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { type HubInformers, serviceOfExport, serviceOfImport, serviceOfImported } from "./informers.ts";
import { reportOf } from "./view.ts";

/**
 * Returns the services to reconcile when a member joins, leaves, or may export other things. All of them name the member
 * or are in its mailbox: the work for one member that joins must not grow with the fleet.
 */
export function affectedServices(informers: HubInformers, cluster: string): Set<ServiceKey> {
  const mailbox = mailboxOf(cluster);
  const { exports, imports, importedServices, namespaces } = informers;
  const imported = [
    ...(reportOf(informers, cluster)?.spec.namespaces ?? []),
    ...[...namespaces.store.byIndex("names", cluster)].map((it) => it.metadata.name),
  ];
  return new Set([
    ...[...exports.store.byIndex("in", mailbox)].flatMap(serviceOfExport),
    ...[...exports.store.byIndex("names", cluster)].flatMap(serviceOfExport),
    ...[...imports.store.byIndex("in", mailbox)].map(serviceOfImport),
    ...[...importedServices.store.byIndex("in", mailbox)].map(serviceOfImported),
    ...servicesIn(informers, imported),
  ]);
}

/** Names of slices, as `affectedServices`. */
export function affectedSlices(informers: HubInformers, cluster: string): Set<SliceName> {
  const { sliceExports, sliceImports } = informers;
  const ofServices = [...affectedServices(informers, cluster)].flatMap((it) => [
    ...sliceExports.store.byIndex("service", it),
  ]);
  const mailbox = mailboxOf(cluster);
  return new Set(
    [
      ...ofServices,
      ...sliceExports.store.byIndex("in", mailbox),
      ...sliceImports.store.byIndex("in", mailbox),
    ].map((it) => sliceName(it.metadata.name)),
  );
}

/** Services that are exported from namespaces. */
export function servicesIn(informers: HubInformers, namespaces: readonly string[]): ServiceKey[] {
  return namespaces.flatMap((namespace) =>
    [...informers.exports.store.byIndex("namespace", namespace)].flatMap(serviceOfExport),
  );
}
