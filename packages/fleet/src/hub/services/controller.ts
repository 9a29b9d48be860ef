import { keyOf } from "@fairlead/kube/api/meta/key.ts";
import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import type { Namespace } from "@fairlead/kube/api/core/v1/types.ts";
import { ALLOWED_EXPORTERS_ANNOTATION, ALLOWED_IMPORTERS_ANNOTATION } from "#api/fairlead.dev/names.ts";
import type { NamespaceReport } from "#api/fairlead.dev/v1alpha1/types.ts";
import { type ServiceKey, serviceKey, serviceNamedAs } from "#domain/keys.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { clusterOfMailbox, isViewNamespace } from "#api/networking.fleet.azure.com/names.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { both, watching, watchingChanges } from "@fairlead/kube/controller/source.ts";
import type { Change, Controller } from "@fairlead/kube/types.ts";
import { affectedServices, servicesIn } from "../affected-services.ts";
import { type HubInformers, serviceOfExport, serviceOfImport, serviceOfImported } from "../informers.ts";
import { changedMembers, isClaimChanged } from "../memberships.ts";
import { watchReadViews } from "../view-readers.ts";
import { isIsolated, grantedTo } from "../view.ts";
import { type ServicesDeps, serviceReconciler } from "./reconcile.ts";

/** Exports and imports of every service. Keys are services, "namespace/name". */
export function createServices(parts: ServicesDeps): Controller {
  const { informers, deps } = parts;
  const areViewsChanged = watchReadViews(informers.readViews);
  return createController(
    {
      name: "serviceimport",
      reconcile: serviceReconciler(parts),
      concurrency: 8,
      sources: [
        // These make every service due at the start.
        watching(informers.exports, both(serviceOfExport)),
        watching(
          informers.imports,
          both((it) => [serviceOfImport(it)]),
        ),
        watching(informers.serviceImports, ({ key }) => [serviceNamedAs(key)]),
        watching(
          informers.importedServices,
          both((it) => [serviceOfImported(it)]),
        ),
        watchingChanges(
          informers.virtualIPs,
          both(({ spec: { service } }) => [serviceKey(service.namespace, service.name)]),
        ),
        watchingChanges(informers.reports, (change) =>
          areViewsChanged() ? allServices(informers) : servicesIn(informers, changedNamespaces(change)),
        ),
        watchingChanges(informers.members, (change) =>
          areViewsChanged() || (isClaimChanged(change) && informers.memberships.isFull())
            ? allServices(informers)
            : isMemberChanged(change)
              ? affectedServices(informers, change.key)
              : [],
        ),
        watchingChanges(informers.profiles, (change) => {
          const members = changedMembers(change);
          if (areViewsChanged() || members === "all") return allServices(informers);
          return members.flatMap((it) => [...affectedServices(informers, it)]);
        }),
        watchingChanges(informers.namespaces, (change) => {
          if (isViewNamespace(change.key)) return allServices(informers);
          const member = changedMailbox(change);
          return member === undefined
            ? servicesIn(informers, changedAudience(change))
            : affectedServices(informers, member);
        }),
      ],
    },
    deps,
  );
}

/**
 * Namespaces whose services have to be looked at for a member: those that came or went; all, where it moved to or from
 * the view; none while it reads that.
 */
export function changedNamespaces({ before, after }: Change<NamespaceReport>): string[] {
  const [was, is] = [new Set(before?.spec.namespaces), new Set(after?.spec.namespaces)];
  return [...(before?.spec.view === after?.spec.view ? was.symmetricDifference(is) : was.union(is))];
}

/** The namespace itself, where other members may import or export its services now. */
export function changedAudience({ key, before, after }: Change<KubeObject>): string[] {
  const isSame = [ALLOWED_IMPORTERS_ANNOTATION, ALLOWED_EXPORTERS_ANNOTATION].every(
    (it) => before?.metadata.annotations?.[it] === after?.metadata.annotations?.[it],
  );
  return isSame ? [] : [key];
}

/** Whether a member came, went or began to leave, or is trusted with other things; its status is of no interest here. */
export function isMemberChanged({ before, after }: Change<MemberCluster>): boolean {
  const [was, is] = [before, after].map((it) => it !== undefined && !isDeleting(it));
  return (
    was !== is ||
    isIsolated(before) !== isIsolated(after) ||
    grantedTo(before) !== grantedTo(after) ||
    // Profiles select by these.
    !sameJson(before?.metadata.labels, after?.metadata.labels)
  );
}

/** The member whose mailbox was created, deleted or is terminating: it may be a member without a MemberCluster. */
export function changedMailbox({ key, before, after }: Change<Namespace>): string | undefined {
  const [was, is] = [before, after].map((it) => it !== undefined && !isDeleting(it));
  return was === is ? undefined : clusterOfMailbox(key);
}

function allServices(informers: HubInformers): ServiceKey[] {
  return [
    ...[...informers.exports.store.list()].flatMap(serviceOfExport),
    ...[...informers.imports.store.list()].map(serviceOfImport),
    ...[...informers.importedServices.store.list()].map(serviceOfImported),
    ...[...informers.serviceImports.store.list()].map(keyOf).map(serviceNamedAs),
  ];
}
