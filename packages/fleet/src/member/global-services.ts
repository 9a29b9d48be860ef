import type { Namespace, Service } from "@fairlead/kube/api/core/v1/types.ts";
import { type EndpointSlice, SERVICE_NAME_LABEL } from "@fairlead/kube/api/discovery/v1/types.ts";
import type { EndpointSliceImport } from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { type ObjectKey, keyOf, objectKey, splitKey } from "@fairlead/kube/api/meta/key.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { both, watchingChanges } from "@fairlead/kube/controller/source.ts";
import type { Change, Source } from "@fairlead/kube/types.ts";
import { GLOBAL_NAMESPACE_ANNOTATION, isGlobalNamespace } from "#domain/global-namespace.ts";
import {
  type GlobalSettings,
  isGlobalService,
  readGlobalSettings,
  sliceWeight,
} from "#domain/global-service.ts";
import type { MeshNetwork } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import type { Session } from "./session.ts";

/** The global Services of this cluster: those with the annotation, in namespaces that are global. */

type GlobalSession = Pick<Session, "mesh"> & {
  readonly here: Pick<Session["here"], "services" | "namespaces">;
};

/** For the index `global` of Services: all of them under "", and those of a namespace under its name. */
export function globalIndex(service: Service): string[] {
  return isGlobalService(service) ? ["", service.metadata.namespace ?? ""] : [];
}

/** Those with the annotation, whether or not their namespace is global. @param namespace - Absent: in all. */
export function globalKeys({ here }: GlobalSession, namespace = ""): ObjectKey[] {
  return [...here.services.store.byIndex("global", namespace)].map(keyOf);
}

export interface GlobalService {
  readonly service: Service;
  readonly settings: GlobalSettings;
}

/** The Service, if endpoints of other clusters are used for it. */
export function globalServiceOf(session: GlobalSession, key: ObjectKey): GlobalService | undefined {
  const service = session.here.services.store.get(key);
  if (service === undefined || isDeleting(service) || service.spec?.type === "ExternalName") return undefined;
  const settings = readGlobalSettings(service);
  const { namespace = "" } = splitKey(key);
  return settings.isGlobal && isInGlobalNamespace(session, namespace) ? { service, settings } : undefined;
}

export function isInGlobalNamespace(session: GlobalSession, name: string): boolean {
  const namespace = session.here.namespaces.store.get(objectKey(undefined, name));
  return isGlobalNamespace(namespace, isGlobalByDefault(session));
}

function isGlobalByDefault({ mesh }: GlobalSession): boolean {
  const [network] = mesh?.networks.store.list() ?? [];
  return network?.spec.defaultGlobalNamespace ?? true;
}

/** What makes namespaces global, or local: the keys of their global Services are due at once. */
export function watchingGlobalNamespaces(
  session: GlobalSession,
  keysFor: (service: ObjectKey) => readonly ObjectKey[] = (it) => [it],
): Source[] {
  const annotation = (it: Namespace | undefined): string | undefined =>
    it?.metadata.annotations?.[GLOBAL_NAMESPACE_ANNOTATION];
  const ofNamespace = watchingChanges(session.here.namespaces, ({ key, before, after }: Change<Namespace>) =>
    annotation(before) === annotation(after) ? [] : globalKeys(session, key).flatMap(keysFor),
  );
  if (session.mesh === undefined) return [ofNamespace];
  const terms = (it: MeshNetwork | undefined): unknown => [it?.spec.defaultGlobalNamespace, it?.spec.mode];
  const ofNetwork = watchingChanges(session.mesh.networks, ({ before, after }) =>
    sameJson(terms(before), terms(after)) ? [] : globalKeys(session).flatMap(keysFor),
  );
  return [ofNamespace, ofNetwork];
}

type WeighedSession = GlobalSession & {
  readonly here: Pick<Session["here"], "slices">;
  readonly fleet: Pick<Session["fleet"], "sliceImports">;
};

/** Whether slices of a global Service, here or in other clusters, have weights other than 1. */
export function hasWeights({ here, fleet }: WeighedSession, key: ObjectKey): boolean {
  const service = here.services.store.get(key);
  if (service === undefined || !isGlobalService(service)) return false;
  const own = [...here.slices.store.byIndex("service", key)].map((it) =>
    sliceWeight(it.metadata.annotations),
  );
  // Of slices in maintenance there are no endpoints here.
  const others = [...fleet.sliceImports.byIndex("service", key)]
    .map((it) => it.spec.weight)
    .filter((it) => it !== 0);
  return [...own, ...others].some((it = 1) => it !== 1);
}

export function watchingWeights({ here, fleet }: WeighedSession): Source[] {
  return [
    watchingChanges(here.slices, (change) => {
      const [was, is] = [change.before, change.after].map((it) => sliceWeight(it?.metadata.annotations));
      return was === is ? [] : both(serviceOf)(change);
    }),
    watchingChanges(fleet.sliceImports, (change) =>
      change.before?.spec.weight === change.after?.spec.weight
        ? []
        : both(({ spec }: EndpointSliceImport) => [
            objectKey(spec.ownerServiceReference.namespace, spec.ownerServiceReference.name),
          ])(change),
    ),
  ];
}

function serviceOf({ metadata: { namespace, labels } }: EndpointSlice): ObjectKey[] {
  const name = labels?.[SERVICE_NAME_LABEL];
  return name === undefined ? [] : [objectKey(namespace, name)];
}
