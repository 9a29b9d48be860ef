import { HUB_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { parseClaims } from "#domain/claim.ts";
import { SERVICE_NAMESPACE_LABEL, SOURCE_CLUSTER_LABEL } from "#api/fairlead.dev/names.ts";
import { isDrainChanged } from "#domain/drain.ts";
import { narrowed } from "#domain/audience.ts";
import { keyOf, objectKey, splitKey } from "@fairlead/kube/api/meta/key.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { type ServiceKey, serviceNamedAs, type SliceName, sliceName } from "#domain/keys.ts";
import {
  clusterOfMailbox,
  FINALIZERS,
  isViewNamespace,
  mailboxOf,
  SERVICE_IN_USE_BY_ANNOTATION,
} from "#api/networking.fleet.azure.com/names.ts";
import {
  ENDPOINT_SLICE_EXPORTS,
  ENDPOINT_SLICE_IMPORTS,
  type EndpointSliceExport,
  type EndpointSliceExportSpec,
  type FleetServiceImport,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { applyIfChanged } from "@fairlead/kube/objects/apply.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { EventRecorder } from "@fairlead/kube/events/events.ts";
import { isDeleting, removeFinalizer } from "@fairlead/kube/objects/finalizers.ts";
import { both, watching, watchingChanges } from "@fairlead/kube/controller/source.ts";
import type { Change, Controller, KubeClient } from "@fairlead/kube/types.ts";
import { changedMembers, isClaimChanged } from "../memberships.ts";
import { servicesIn, affectedSlices } from "../affected-services.ts";
import { type HubInformers, serviceOfExport, serviceOfSlice } from "../informers.ts";
import {
  changedMailbox,
  changedNamespaces,
  isMemberChanged,
  changedAudience,
} from "../services/controller.ts";
import { findExportProblem } from "../services/plan.ts";
import { allowedIn, exportersIn, reportersOf } from "../services/reconcile.ts";
import { watchReadViews } from "../view-readers.ts";
import { grantOf, isLegacyMember, isViewRead, readsView } from "../view.ts";
import {
  contestedBy,
  hasLegacyImporter,
  portsForLegacyAgent,
  portsImportedBy,
  takenBy,
} from "./legacy-agents.ts";
import { forLegacyAgents, pickByName, planSlice, type SlicePlan } from "./plan.ts";

interface Parts {
  readonly client: KubeClient;
  readonly informers: HubInformers;
  readonly events: EventRecorder;
  readonly deps: RuntimeDeps;
}

/** Exported slices to the view, and to the mailboxes of those who do not read it. Keys are names of slices: copies have the name of their source. */
export function createEndpoints(parts: Parts): Controller {
  const { informers, deps } = parts;
  const nameOf = (it: KubeObject): SliceName => sliceName(it.metadata.name);
  /** Of some mailboxes only, where they are given: what one cluster says of a service concerns no other's slices. */
  const slicesOf = (services: Iterable<ServiceKey>, mailboxes?: ReadonlySet<string>): SliceName[] =>
    [...new Set(services)].flatMap((service) =>
      [...informers.sliceExports.store.byIndex("service", service)]
        .filter((it) => mailboxes?.has(it.metadata.namespace ?? "") !== false)
        .map(nameOf),
    );
  const slicesIn = (namespaces: readonly string[]): SliceName[] =>
    slicesOf(servicesIn(informers, namespaces));
  const slicesFor = (member: string): SliceName[] => [...affectedSlices(informers, member)];
  const allSlices = (): SliceName[] => [
    ...[...informers.sliceExports.store.list()].map(nameOf),
    ...[...informers.sliceImports.store.list()].map(nameOf),
  ];
  const serviceKeys = both(serviceOfExport);
  const areViewsChanged = watchReadViews(informers.readViews);
  const isForLegacy = (service: ServiceKey): boolean => hasLegacyImporter(informers, service);
  /** Legacy agents cannot choose clusters, so the hub does; one cluster's change then affects the slices of the others. */
  const concerned = (
    service: ServiceKey,
    mailboxes: ReadonlySet<string> | undefined,
  ): ReadonlySet<string> | undefined => (isForLegacy(service) ? undefined : mailboxes);
  return createController(
    {
      name: "endpointsliceexport",
      reconcile: (key, signal) => reconcile(parts, key, signal),
      concurrency: 16,
      sources: [
        // Every slice and every copy is due at the start.
        watching(informers.sliceExports, (change) => [
          ...[change.before, change.after].flatMap((it) => (it === undefined ? [] : [nameOf(it)])),
          ...slicesOf(contestedBy(informers, change)),
        ]),
        watching(informers.sliceImports, (change) => [
          ...[change.before, change.after].flatMap((it) => (it === undefined ? [] : [nameOf(it)])),
          ...slicesOf(takenBy(change)),
        ]),
        watchingChanges(informers.exports, (change) =>
          isStatusOnly(change)
            ? []
            : serviceKeys(change).flatMap((service) =>
                slicesOf([service], concerned(service, new Set([splitKey(change.key).namespace ?? ""]))),
              ),
        ),
        watchingChanges(informers.serviceImports, (change) => {
          const service = serviceNamedAs(change.key);
          return slicesOf([service], concerned(service, affectedMailboxes(change)));
        }),
        watchingChanges(informers.reports, (change) =>
          areViewsChanged() ? allSlices() : slicesIn(changedNamespaces(change)),
        ),
        watchingChanges(informers.members, (change) => {
          if (areViewsChanged()) return allSlices();
          if (isClaimChanged(change) && informers.memberships.isFull()) return allSlices();
          if (isMemberChanged(change)) return slicesFor(change.key);
          return isDrainChanged(change.before, change.after)
            ? slicesOf(
                [...informers.serviceImports.store.list()].map(keyOf).map(serviceNamedAs).filter(isForLegacy),
              )
            : [];
        }),
        // Their prefixes are what the endpoints of a member may be in.
        watchingChanges(
          informers.blocks,
          both(({ spec }) =>
            [...informers.sliceExports.store.byIndex("in", mailboxOf(spec.cluster))].map((it) => nameOf(it)),
          ),
        ),
        watchingChanges(informers.profiles, (change) => {
          const members = changedMembers(change);
          return areViewsChanged() || members === "all" ? allSlices() : members.flatMap(slicesFor);
        }),
        watchingChanges(informers.namespaces, (change) => {
          if (isViewNamespace(change.key)) return allSlices();
          const member = changedMailbox(change);
          return member === undefined ? slicesIn(changedAudience(change)) : slicesFor(member);
        }),
      ],
    },
    deps,
  );
}

/** The hub's own status writes change nothing for endpoints. */
function isStatusOnly({
  before,
  after,
}: Change<{ metadata: { generation?: number; name: string } }>): boolean {
  const generation = before?.metadata.generation;
  return generation !== undefined && generation === after?.metadata.generation;
}

/** The mailboxes whose slices change readers: those of clusters that became accepted, or no longer are. Undefined: all. */
function affectedMailboxes({ before, after }: Change<FleetServiceImport>): ReadonlySet<string> | undefined {
  const claims = [before, after].map((it) => it?.metadata.annotations?.[SERVICE_IN_USE_BY_ANNOTATION]);
  if (claims[0] !== claims[1]) return undefined;
  const [was, is] = [before, after].map(
    (it) => new Map((it?.status?.clusters ?? []).map((one) => [one.cluster, JSON.stringify(one)])),
  );
  const clusters = new Set([...(was?.keys() ?? []), ...(is?.keys() ?? [])]);
  return new Set([...clusters].filter((it) => was?.get(it) !== is?.get(it)).map(mailboxOf));
}

/** The exported slice that has a name. */
export function sourceOf({ sliceExports }: HubInformers, name: string): EndpointSliceExport | undefined {
  return pickByName([...sliceExports.store.byIndex("name", name)].filter((it) => !isDeleting(it)));
}

async function reconcile(parts: Parts, key: SliceName, signal: AbortSignal): Promise<void> {
  const { client, informers } = parts;
  const candidates = [...informers.sliceExports.store.byIndex("name", key)];
  const source = sourceOf(informers, key);
  const plan = source === undefined ? undefined : decide(parts, source);
  // New copies before old ones go: a member that moves from one to the other must not be without.
  const wanted =
    source === undefined || plan?.act !== "distribute"
      ? new Set()
      : await distribute(parts, source, plan, signal);
  for (const copy of informers.sliceImports.store.byIndex("name", key))
    if (!wanted.has(copy.metadata.namespace) && !isDeleting(copy))
      await client.delete(ENDPOINT_SLICE_IMPORTS, keyOf(copy), { signal });
  // A legacy hub leaves a finalizer that marks the slice as distributed.
  for (const it of candidates.filter(isDeleting))
    await removeFinalizer(client, ENDPOINT_SLICE_EXPORTS, it, {
      finalizer: FINALIZERS.endpointSliceExport,
      signal,
    });
}

/** @returns The namespaces that hold a copy now. */
async function distribute(
  parts: Parts,
  source: EndpointSliceExport,
  plan: Extract<SlicePlan, { act: "distribute" }>,
  signal: AbortSignal,
): Promise<Set<string>> {
  const { informers } = parts;
  const specs = new Map<string, EndpointSliceExportSpec>();
  const view = informers.viewOf(clusterOfMailbox(source.metadata.namespace) ?? "");
  if (plan.isInView && isViewRead(informers, view)) specs.set(view, plan.spec);
  for (const mailbox of plan.mailboxes) {
    const importer = clusterOfMailbox(mailbox) ?? "";
    const spec = isLegacyMember(informers, importer)
      ? forLegacyAgents(
          plan.spec,
          portsImportedBy(informers, source, importer),
          portsForLegacyAgent(informers, source, importer),
        )
      : plan.spec;
    if (spec !== undefined) specs.set(mailbox, spec);
  }
  const { name } = source.metadata;
  await Promise.all(
    [...specs].map(async ([namespace, spec]) => {
      const current = informers.sliceImports.store.get(objectKey(namespace, name));
      // An old copy waits for its importer: once it is gone the watch brings us here again.
      if (current !== undefined && isDeleting(current)) return;
      await applyIfChanged(parts.client, ENDPOINT_SLICE_IMPORTS, {
        current,
        desired: {
          metadata: { namespace, name, ...(isViewNamespace(namespace) ? { labels: labelsOf(spec) } : {}) },
          spec,
        },
        fieldManager: HUB_MANAGER,
        returns: "metadata",
        events: parts.events,
        signal,
      });
    }),
  );
  return new Set(specs.keys());
}

/** By which members choose what they read of the view. All are label values: others are not accepted. */
function labelsOf({ endpointSliceReference, ownerServiceReference }: EndpointSliceExportSpec) {
  return {
    [SERVICE_NAMESPACE_LABEL]: ownerServiceReference.namespace,
    [SOURCE_CLUSTER_LABEL]: endpointSliceReference.clusterId,
  };
}

function decide({ informers, events, deps }: Parts, slice: EndpointSliceExport): SlicePlan {
  const plan = planOf(informers, slice);
  if (plan.problem !== undefined) {
    const cluster = clusterOfMailbox(slice.metadata.namespace);
    deps.log.warn("endpoints refused", { cluster, slice: slice.metadata.name, problem: plan.problem });
    events.record(ENDPOINT_SLICE_EXPORTS, slice, {
      type: "Warning",
      reason: "EndpointsRefused",
      message: plan.problem,
    });
  }
  return plan;
}

/** The plan of a slice, by what the hub knows now. */
export function planOf(informers: HubInformers, slice: EndpointSliceExport): SlicePlan {
  const service = serviceOfSlice(slice);
  const { namespace } = slice.spec.ownerServiceReference;
  const exporters = exportersIn(informers, namespace);
  const { members } = exporters;
  const cluster = clusterOfMailbox(slice.metadata.namespace);
  const serviceImport = informers.serviceImports.store.get(service);
  const exported = [...informers.exports.store.byIndex("service", service)].find(
    (it) =>
      it.metadata.namespace === slice.metadata.namespace &&
      !isDeleting(it) &&
      findExportProblem(it, exporters) === undefined,
  );
  return planSlice({
    slice,
    isExported: exported !== undefined,
    exportTo: narrowed(exported?.spec?.exportTo, allowedIn(informers, namespace)),
    granted: grantOf(informers, cluster ?? ""),
    serviceImport,
    claims: parseClaims(serviceImport?.metadata.annotations?.[SERVICE_IN_USE_BY_ANNOTATION]),
    reporters: reportersOf(informers, namespace, members),
    isLegacy: (it) => isLegacyMember(informers, it),
    readsView: (it) => readsView(informers, it),
    isConnected: (it) => informers.viewOf(it) === informers.viewOf(cluster ?? ""),
  });
}
