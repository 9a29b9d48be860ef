import { defined } from "@fairlead/base/defined.ts";
import { MEMBER_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { ENDPOINT_SLICES, type EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { ADDRESS_BLOCKS, type AddressBlock } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import type { ImportedService } from "#api/fairlead.dev/v1alpha1/types.ts";
import { type ObjectKey, keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import {
  DERIVED_SERVICE_LABEL,
  FINALIZERS,
  FLEET_SYSTEM_NAMESPACE,
  mailboxOf,
} from "#api/networking.fleet.azure.com/names.ts";
import {
  ENDPOINT_SLICE_IMPORTS,
  type EndpointSliceImport,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import type { ServiceImport } from "#api/multicluster.x-k8s.io/v1beta1/types.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { shown } from "#domain/formats.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { applyIfChanged } from "@fairlead/kube/objects/apply.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { addFinalizer, isDeleting, removeFinalizer } from "@fairlead/kube/objects/finalizers.ts";
import { both, watching, watchingChanges } from "@fairlead/kube/controller/source.ts";
import type { Applied, Change, Controller } from "@fairlead/kube/types.ts";
import { clustersReached } from "../fleet-addresses.ts";
import { fleetImportOf, watchingImportStatus, watchingHub } from "../hub-cluster.ts";
import { isServed } from "../imports/adoption.ts";
import { isOurs } from "../imports/mcs-import-plan.ts";
import { hasNamespace } from "../imports/namespace-report.ts";
import { watchingGlobalNamespaces } from "../global-services.ts";
import {
  isImported,
  multiClusterServiceOf,
  serviceOfExport,
  serviceOfImported,
  serviceOfLocalSlice,
  serviceOfSliceImport,
} from "../informers.ts";
import type { Probes } from "../probes/probes.ts";
import {
  isMembershipChanged,
  isLegacyHub,
  isPresenceChanged,
  membershipOf,
  type Session,
} from "../session.ts";
import { ignoreNotFound } from "@fairlead/kube/objects/not-found.ts";
import { type Choice, Choices, type IsAlive, rivalsIn, rivalsOfImport, rivalsOfLocal } from "./choice.ts";
import type { Drains } from "./drains.ts";
import type { GlobalUse } from "./global-choice.ts";
import { planImportedSlices, type SliceImportView } from "./import-plan.ts";
import { putReplacements } from "./replacement.ts";
import {
  findSource,
  type FoundSlice,
  importedSliceKeys,
  namesOf,
  namesOfLocal,
  namesOfObjects,
  strangersIn,
} from "./sources.ts";

/**
 * Slices of all exporting clusters, this one included, to the EndpointSlices that proxies and DNS read. Keys are names:
 * what is made from a slice has the name that it has on the hub.
 */
export function createEndpointImport(session: Session, probes: Probes, drains: Drains): Controller {
  const { here, mailbox, fleet, deps } = session;
  const choices = new Choices(session, probes);
  /** What concerns a service concerns all of its slices. */
  const slicesOf = (service: ObjectKey): ObjectKey[] => {
    choices.forget([service]);
    return namesOf(session, service);
  };
  /** Of one cluster. */
  const slicesFrom = (cluster: string): ObjectKey[] => {
    const slices = [...fleet.sliceImports.byIndex("cluster", cluster)];
    choices.forget(slices.map(serviceOfSliceImport));
    return slices.flatMap((it) => namesOf(session, serviceOfSliceImport(it)));
  };
  const everySlice = (): ObjectKey[] => {
    choices.forgetAll();
    return importedSliceKeys(session);
  };
  const controller = createController(
    {
      name: "endpointsliceimport",
      async reconcile(key, signal) {
        const { revision } = drains;
        await reconcile(session, choices, key, signal).catch(ignoreNotFound);
        drains.passed(key, revision);
      },
      concurrency: 16,
      sources: [
        // These make every slice due at the start that is or was imported.
        watching(fleet.sliceImports, ({ before, after }) => namesOfObjects(before, after)),
        watching(here.slices, (change) => namesOfLocal(session, change)),
        watchingChanges(fleet.sliceImports, (change) => {
          choices.forget(both((it: EndpointSliceImport) => [serviceOfSliceImport(it)])(change));
          return rivalsOfImport(session, probes, change);
        }),
        watchingChanges(here.slices, (change) => {
          choices.forget(both(serviceOfLocalSlice)(change));
          return rivalsOfLocal(session, probes, change);
        }),
        watching(mailbox.sliceImports, ({ after }) =>
          after !== undefined && isDeleting(after) ? namesOfObjects(after) : [],
        ),
        watchingChanges(fleet.importedServices, (change) => both(serviceKeys)(change).flatMap(slicesOf)),
        watchingChanges(here.mcsImports, (change) =>
          isIdentityChanged(change) || isServiceChanged(change) ? slicesOf(change.key) : [],
        ),
        watchingChanges(here.fleetImports, (change) =>
          sameJson(change.before?.status, change.after?.status) ? [] : slicesOf(change.key),
        ),
        watchingImportStatus(session, slicesOf),
        watchingHub(session, () => importedSliceKeys(session)),
        watchingChanges(here.services, (change) =>
          [
            ...both(multiClusterServiceOf)(change).flatMap((key) => importsOf(session, key)),
            change.key,
          ].flatMap(slicesOf),
        ),
        watchingChanges(here.multiClusterServices, (change) => importKeysOf(change).flatMap(slicesOf)),
        watchingChanges(here.fleetExports, ({ key }) => slicesOf(key)),
        watchingChanges(here.mcsExports, ({ key }) => slicesOf(key)),
        watching(mailbox.internalMembers, (change) => {
          choices.forgetAll();
          return [
            ...drains.follow(change),
            ...(isMembershipChanged(change) ? importedSliceKeys(session) : []),
          ];
        }),
        ...watchingGlobalNamespaces(session, slicesOf),
        ...(session.mesh === undefined
          ? []
          : [
              watchingChanges(session.mesh.networks, () => everySlice()),
              watchingChanges(session.mesh.blocks, (change) => clustersOf(change).flatMap(slicesFrom)),
              watchingChanges(session.mesh.gateways, (change) => {
                const clusters = clustersReached(change);
                return clusters === "all" ? everySlice() : clusters.flatMap(slicesFrom);
              }),
            ]),
        // An export with an invalid weight and without a last valid one is not exported, and has no endpoints.
        watchingChanges(mailbox.exports, (change) => {
          const names = both(serviceOfExport)(change).flatMap(slicesOf);
          return isPresenceChanged(change) ? names : [];
        }),
      ],
    },
    deps,
  );
  probes.onChange = (cluster) => {
    const slices = [...fleet.sliceImports.byIndex("cluster", cluster)];
    for (const name of [
      ...namesOfObjects(...slices),
      ...rivalsIn(session, probes, slices.map(serviceOfSliceImport)),
    ])
      controller.enqueue(name);
  };
  return controller;
}

/** The member whose addresses changed. */
function clustersOf({ before, after }: Change<AddressBlock>): string[] {
  return [
    ...new Set(
      [before, after].flatMap((it) => (it?.spec.node === undefined ? (it?.spec.cluster ?? []) : [])),
    ),
  ];
}

const serviceKeys = (it: Parameters<typeof serviceOfImported>[0]): ObjectKey[] => [serviceOfImported(it)];

function isIdentityChanged({ before, after }: Change<KubeObject>): boolean {
  return (
    before?.metadata.uid !== after?.metadata.uid ||
    before?.metadata.deletionTimestamp !== after?.metadata.deletionTimestamp
  );
}

/** Whether a user's import was adopted or released. */
function isServiceChanged({ before, after }: Change<ServiceImport>): boolean {
  return (before !== undefined && isServed(before)) !== (after !== undefined && isServed(after));
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

/** The LoadBalancer Service of the MultiClusterService that imports a service, if the cluster is accepted there. */
function findLoadBalancer(
  session: Session,
  service: ObjectKey,
  cluster: string,
): Pick<SliceImportView, "loadBalancer" | "balancedPorts"> {
  const { here } = session;
  const imported = fleetImportOf(session, service);
  const accepted = imported?.status?.clusters?.find((it) => it.cluster === cluster);
  const balancedPorts = accepted?.ports;
  if (accepted === undefined) return { loadBalancer: undefined };
  for (const object of here.multiClusterServices.store.byIndex("import", service)) {
    // The label stands for the import: a Service without it waits with its address for exports to come back.
    const loadBalancer = object.metadata.labels?.[DERIVED_SERVICE_LABEL];
    const services = [...here.services.store.byIndex("multiClusterService", keyOf(object))];
    if (
      loadBalancer !== undefined &&
      services.some((it) => it.metadata.name === loadBalancer && !isDeleting(it))
    )
      return { loadBalancer, ...defined({ balancedPorts }) };
  }
  return { loadBalancer: undefined };
}

async function reconcile(
  session: Session,
  choices: Choices,
  key: ObjectKey,
  signal: AbortSignal,
): Promise<void> {
  const membership = membershipOf(session);
  if (membership === "none") return;
  const found = membership === "leave" ? undefined : findSource(session, key);
  const plan = (it: FoundSlice): ReturnType<typeof planImportedSlices> => {
    const choice = choices.of(it.service);
    return planFound(session, it, { ...choice, ...choice.forSlice(it.source) });
  };
  const coming = (service: ObjectKey): Iterable<ReturnType<typeof plan>[number]> =>
    Iterator.from(choices.of(service).serving()).flatMap(plan);
  const wanted = found === undefined ? [] : plan(found);
  if (found?.source.isLocal === false && wanted.length > 0) await hold(session, key, signal);
  if (membership === "join")
    await putReplacements(session, { key, service: found?.service, wanted, coming }, signal).catch(
      (error: unknown) => {
        // Endpoints that are gone are withdrawn whatever happens.
        if (found !== undefined) throw error;
        session.deps.log.warn("cannot replace deleted endpoints, retrying", { key, error: messageOf(error) });
      },
    );
  const written = await writeSlices(session, { key, wanted, isOurs: () => true }, signal);
  reportStrangers(session, key);
  session.stopwatch.imported(key, session.fleet.sliceImports.store.get(key), written);
  await release(session, key, signal);
}

/** What the hub should have left out, so that no cluster gets another's traffic. */
function reportStrangers(session: Session, key: ObjectKey): void {
  const copy = session.fleet.sliceImports.get(key);
  const strangers = copy === undefined ? [] : strangersIn(session, copy);
  if (copy === undefined || strangers.length === 0) return;
  const cluster = copy.spec.endpointSliceReference.clusterId;
  const [first] = strangers.flatMap((it) => it.addresses);
  const message = `${strangers.length} of ${copy.spec.endpoints.length} endpoints of ${copy.metadata.name} are left out: ${shown(first)} is not in the fleet addresses of member ${cluster}`;
  session.deps.log.warn("endpoints refused", { cluster, slice: copy.metadata.name, problem: message });
  const block = session.mesh?.blocks.store.get(objectKey(FLEET_SYSTEM_NAMESPACE, cluster));
  if (block !== undefined)
    session.events.record(ADDRESS_BLOCKS, block, { type: "Warning", reason: "EndpointsRefused", message });
}

/** A legacy hub delays a withdrawal until its importers have finished, which they show by removing their finalizer. */
async function hold(session: Session, key: ObjectKey, signal: AbortSignal): Promise<void> {
  const copy = copyOf(session, key);
  const finalizer = FINALIZERS.endpointSliceImport;
  if (copy !== undefined && isLegacyHub(session))
    await addFinalizer(session.hub, ENDPOINT_SLICE_IMPORTS, copy, { finalizer, signal });
}

/** Removes the finalizer of this agent or of a legacy agent before it. What was derived from the copy is already deleted. */
async function release(session: Session, key: ObjectKey, signal: AbortSignal): Promise<void> {
  const copy = copyOf(session, key);
  const finalizer = FINALIZERS.endpointSliceImport;
  if (copy !== undefined && isDeleting(copy))
    await removeFinalizer(session.hub, ENDPOINT_SLICE_IMPORTS, copy, { finalizer, signal });
}

function copyOf({ mailbox, cluster }: Session, name: ObjectKey): EndpointSliceImport | undefined {
  return mailbox.sliceImports.store.get(objectKey(mailboxOf(cluster), name));
}

export interface Writing {
  /** Name of the slices. */
  readonly key: ObjectKey;
  readonly wanted: readonly Applied<EndpointSlice>[];
  /** Returns true if an unwanted slice of that name may be deleted. */
  readonly isOurs: (slice: EndpointSlice) => boolean;
}

/** @returns Whether a slice was written, and whether none of that name had been there before. */
export async function writeSlices(
  { here, local, events, deps }: Session,
  { key, wanted, isOurs: mayGo }: Writing,
  signal: AbortSignal,
): Promise<"first" | "again" | undefined> {
  let written: "first" | "again" | undefined;
  const keep = new Set(wanted.map((it) => keyOf(it)));
  const isLeft = (it: EndpointSlice): boolean => !keep.has(keyOf(it)) && !isDeleting(it) && mayGo(it);
  for (const it of [...here.slices.store.byIndex("imported", key)].filter(isLeft))
    await local.delete(ENDPOINT_SLICES, keyOf(it), { signal });
  for (const desired of wanted) {
    const current = here.slices.store.get(objectKey(desired.metadata.namespace, desired.metadata.name));
    if (current !== undefined && isForeign(current)) {
      deps.log.warn(
        "cannot import endpoints: an EndpointSlice that Fairlead does not manage has the same name",
        {
          slice: keyOf(current),
        },
      );
      continue;
    }
    const after = await applyIfChanged(local, ENDPOINT_SLICES, {
      current,
      desired,
      fieldManager: MEMBER_MANAGER,
      returns: "metadata",
      events,
      signal,
    });
    if (after.metadata.resourceVersion !== current?.metadata.resourceVersion)
      written = current === undefined ? "first" : (written ?? "again");
  }
  return written;
}

/** The name is the exporter's choice: it must not be the way to the endpoints of a Service of this cluster. */
function isForeign(slice: EndpointSlice): boolean {
  return !isImported(slice) && !isOurs(slice);
}

interface Known extends Choice {
  /** What the service looks like in the fleet; undefined: it is not imported. */
  readonly spec: ImportedService["spec"] | undefined;
  readonly isAlive: IsAlive;
  /** The global Service here, which has no slices but those of other clusters. */
  readonly global: GlobalUse | undefined;
}

export function planFound(
  session: Session,
  { source, service }: FoundSlice,
  { spec, isAlive, serves, servesBalanced, global }: Known,
): ReturnType<typeof planImportedSlices> {
  const { here } = session;
  const object = here.mcsImports.store.get(service);
  const canImport =
    object !== undefined &&
    isServed(object) &&
    !isDeleting(object) &&
    hasNamespace(session, object.metadata.namespace ?? "");
  return planImportedSlices({
    source,
    isAlive: (addresses) => isAlive(source.cluster, addresses),
    serves,
    servesBalanced,
    mcs: spec === undefined || !canImport ? undefined : { spec, object },
    global: spec?.clusters.find((it) => it.cluster === source.cluster)?.global === true ? global : undefined,
    ...(hasNamespace(session, FLEET_SYSTEM_NAMESPACE)
      ? findLoadBalancer(session, service, source.cluster)
      : { loadBalancer: undefined }),
  });
}
