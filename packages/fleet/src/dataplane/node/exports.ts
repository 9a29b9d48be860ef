import type { Service } from "@fairlead/kube/api/core/v1/types.ts";
import { type ObjectKey, objectKey, splitKey } from "@fairlead/kube/api/meta/key.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import type { Change } from "@fairlead/kube/types.ts";
import { isGlobalNamespace } from "#domain/global-namespace.ts";
import { type GlobalSettings, isGlobalService, readGlobalSettings } from "#domain/global-service.ts";
import type { NodeInformers } from "./informers.ts";

/** Which services of this cluster have to do with other clusters. */

type Known = Pick<
  NodeInformers,
  "fleetExports" | "mcsExports" | "mcsImports" | "services" | "namespaces" | "networks"
>;

/** Whether other clusters may use the endpoints of a Service. */
export function isExported(known: Known, service: ObjectKey): boolean {
  const isAsked = [known.fleetExports, known.mcsExports].some((it) => {
    const found = it.store.get(service);
    return found !== undefined && !isDeleting(found);
  });
  return isAsked || globalSettings(known, service)?.isShared === true;
}

/** Those with a ServiceImport or a global Service. */
export function importingNamespaces(known: Known): ReadonlySet<string> {
  const global = [...known.services.store.byIndex("global", "")].filter(({ metadata }) =>
    isInGlobalNamespace(known, metadata.namespace ?? ""),
  );
  return new Set([...known.mcsImports.store.list(), ...global].map((it) => it.metadata.namespace ?? ""));
}

/** Whether a change of a Service changes which of them are global, or shared. */
export function isGlobalChanged({ before, after }: Change<Service>): boolean {
  const facts = (it: Service | undefined): string => {
    const { isGlobal, isShared } = it === undefined ? NOT_GLOBAL : readGlobalSettings(it);
    return `${isGlobal} ${isShared}`;
  };
  return facts(before) !== facts(after);
}

const NOT_GLOBAL = { isGlobal: false, isShared: false };

/** For the index `global` of Services. */
export function globalIndex(service: Service): string[] {
  return isGlobalService(service) ? [""] : [];
}

function globalSettings(known: Known, key: ObjectKey): GlobalSettings | undefined {
  const service = known.services.store.get(key);
  if (service === undefined || isDeleting(service) || !isGlobalService(service)) return undefined;
  return isInGlobalNamespace(known, splitKey(key).namespace ?? "") ? readGlobalSettings(service) : undefined;
}

function isInGlobalNamespace({ namespaces, networks }: Known, name: string): boolean {
  const [network] = networks.store.list();
  return isGlobalNamespace(
    namespaces.store.get(objectKey(undefined, name)),
    network?.spec.defaultGlobalNamespace,
  );
}
