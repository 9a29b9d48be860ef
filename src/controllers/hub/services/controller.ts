import type { NamespaceReport } from "#api/fairlead.dev/v1alpha1/types.ts";
import { type ObjectKey, keyOf } from "#api/meta/key.ts";
import type { KubeObject } from "#api/meta/types.ts";
import { createController } from "#kube/controller.ts";
import { isDeleting } from "#kube/finalizers.ts";
import { watching } from "#kube/source.ts";
import type { Change, Controller } from "#kube/types.ts";
import { type HubInformers, serviceOfExport, serviceOfImport, serviceOfImported } from "../informers.ts";
import { type ServicesDeps, serviceReconciler } from "./reconcile.ts";

/** Exports and imports of every service. Keys are services, "namespace/name". */
export function createServices(parts: ServicesDeps): Controller {
  const { informers, deps } = parts;
  return createController(
    {
      name: "hub-services",
      reconcile: serviceReconciler(parts),
      concurrency: 8,
      sources: [
        watching(informers.exports, both(serviceOfExport)),
        watching(
          informers.imports,
          both((it) => [serviceOfImport(it)]),
        ),
        watching(informers.serviceImports),
        watching(
          informers.importedServices,
          both((it) => [serviceOfImported(it)]),
        ),
        watching(informers.reports, (change) => servicesIn(informers, changedNamespaces(change))),
        watching(informers.members, (change) => (isMemberChanged(change) ? allServices(informers) : [])),
        // Only read: a namespace that comes or goes changes no decision, but creation waits for its store.
        watching(informers.namespaces, () => []),
      ],
    },
    deps,
  );
}

/** The keys of an object before and after a change. */
export function both<T extends KubeObject>(
  keysOf: (object: T) => readonly ObjectKey[],
): (change: Change<T>) => ObjectKey[] {
  return ({ before, after }) => [
    ...new Set([
      ...(before === undefined ? [] : keysOf(before)),
      ...(after === undefined ? [] : keysOf(after)),
    ]),
  ];
}

/** Namespaces that a member reports now and did not before, or the other way round. */
export function changedNamespaces({ before, after }: Change<NamespaceReport>): string[] {
  const [was, is] = [new Set(before?.spec.namespaces), new Set(after?.spec.namespaces)];
  return [...was.symmetricDifference(is)];
}

function servicesIn(informers: HubInformers, namespaces: readonly string[]): ObjectKey[] {
  return namespaces.flatMap((namespace) =>
    [...informers.exports.store.byIndex("namespace", namespace)].flatMap(serviceOfExport),
  );
}

/** Whether a member came, went or began to leave; its status is of no interest here. */
export function isMemberChanged({ before, after }: Change<KubeObject>): boolean {
  const [was, is] = [before, after].map((it) => it !== undefined && !isDeleting(it));
  return was !== is;
}

function allServices(informers: HubInformers): ObjectKey[] {
  return [
    ...[...informers.exports.store.list()].flatMap(serviceOfExport),
    ...[...informers.imports.store.list()].map(serviceOfImport),
    ...[...informers.importedServices.store.list()].map(serviceOfImported),
    ...[...informers.serviceImports.store.list()].map(keyOf),
  ];
}
