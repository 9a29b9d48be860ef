import { defined } from "@fairlead/base/defined.ts";
import { MEMBER_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { IMPORT_ANNOTATION, SHARED_IMPORT } from "#api/fairlead.dev/multi-cluster-service.ts";
import { mailboxName } from "#api/fairlead.dev/cluster-names.ts";
import { type ObjectKey, keyOf, splitKey } from "@fairlead/kube/api/meta/key.ts";
import { FINALIZERS, mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import {
  type ExportedObjectReference,
  FLEET_SERVICE_IMPORTS,
  type FleetServiceImport,
  INTERNAL_SERVICE_IMPORTS,
  type InternalServiceImport,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { applyIfChanged } from "@fairlead/kube/objects/apply.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { isDeleting, removeFinalizer } from "@fairlead/kube/objects/finalizers.ts";
import { both, watching, watchingChanges } from "@fairlead/kube/controller/source.ts";
import type { Controller, KubeClient } from "@fairlead/kube/types.ts";
import { askersOf, isHubToo, watchingHub } from "../hub-cluster.ts";
import { importOf, serviceOfImport } from "../informers.ts";
import { isMembershipChanged, isLegacyHub, membershipOf, type Session } from "../session.ts";

/** ServiceImports of the fleet API to the hub, and the status back. Keys are services. */
export function createFleetImport(session: Session): Controller {
  const { here, mailbox, deps } = session;
  return createController(
    {
      name: "serviceimport",
      reconcile: (key, signal) => reconcile(session, key, signal),
      sources: [
        watching(here.fleetImports),
        watching(
          mailbox.imports,
          both((it) => [serviceOfImport(it)]),
        ),
        watching(mailbox.internalMembers, (change) =>
          isMembershipChanged(change) ? fleetImportKeys(session) : [],
        ),
        watchingChanges(here.multiClusterServices, (change) =>
          isHubToo(session) ? both(importOf)(change) : [],
        ),
        watchingHub(session, () => fleetImportKeys(session)),
      ],
    },
    deps,
  );
}

/** Every service that is or was asked for. */
export function fleetImportKeys({ here, mailbox }: Session): ObjectKey[] {
  return [
    ...[...here.fleetImports.store.list()].map(keyOf),
    ...[...mailbox.imports.store.list()].map(serviceOfImport),
    ...[...here.multiClusterServices.store.list()].flatMap(importOf),
  ];
}

async function reconcile(session: Session, key: ObjectKey, signal: AbortSignal): Promise<void> {
  const { here, mailbox } = session;
  const membership = membershipOf(session);
  if (membership === "none") return;
  const wanted = isHubToo(session) ? undefined : here.fleetImports.store.get(key);
  const asked = [...mailbox.imports.store.byIndex("service", key)].filter((it) => !isDeleting(it));
  const asking = isHubToo(session) ? askedByServices(session, key) : wanted;
  if (asking === undefined || isDeleting(asking) || membership === "leave")
    return withdraw(session, wanted, asked, signal);
  const current = await ask(session, asking, asked[0], signal);
  // A request without an answer changes nothing: the answer to the previous request, which was deleted, still applies.
  if (wanted !== undefined && current?.status !== undefined)
    await writeStatus(session.local, wanted, current.status, signal);
}

/** In the hub's own cluster: the ServiceImport that would be made elsewhere. */
function askedByServices(session: Session, key: ObjectKey): FleetServiceImport | undefined {
  const [first, ...others] = askersOf(session, key);
  if (first === undefined) return undefined;
  const { namespace = "", name } = splitKey(key);
  const { uid = "", creationTimestamp } = first.metadata;
  const isShared = [first, ...others].every(
    (it) => it.metadata.annotations?.[IMPORT_ANNOTATION] === SHARED_IMPORT,
  );
  return {
    metadata: {
      namespace,
      name,
      uid,
      ...defined({ creationTimestamp }),
      ...(isShared ? { annotations: { [IMPORT_ANNOTATION]: SHARED_IMPORT } } : {}),
    },
  };
}

async function withdraw(
  { hub, local }: Session,
  wanted: FleetServiceImport | undefined,
  asked: readonly InternalServiceImport[],
  signal: AbortSignal,
): Promise<void> {
  for (const it of asked) await hub.delete(INTERNAL_SERVICE_IMPORTS, keyOf(it), { signal });
  if (wanted === undefined) return;
  if (!isDeleting(wanted)) return writeStatus(local, wanted, {}, signal);
  // Legacy agents added it; Fairlead needs none.
  const finalizer = FINALIZERS.serviceImport;
  await removeFinalizer(local, FLEET_SERVICE_IMPORTS, wanted, { finalizer, signal });
}

async function ask(
  session: Session,
  wanted: FleetServiceImport,
  current: InternalServiceImport | undefined,
  signal: AbortSignal,
): Promise<InternalServiceImport | undefined> {
  const { hub, cluster } = session;
  const before = current?.spec.serviceImportReference;
  const isShared =
    wanted.metadata.annotations?.[IMPORT_ANNOTATION] === SHARED_IMPORT && !isLegacyHub(session);
  const { namespace = "", name, uid } = wanted.metadata;
  // Versions in the reference change with every status that this agent writes: a change of versions only is not uploaded.
  const isKnown = before !== undefined && before.uid === uid;
  await applyIfChanged(hub, INTERNAL_SERVICE_IMPORTS, {
    current,
    desired: {
      metadata: {
        namespace: mailboxOf(cluster),
        name: current?.metadata.name ?? mailboxName(namespace, name),
      },
      spec: {
        serviceImportReference: isKnown ? before : referenceTo(cluster, wanted),
        ...(isShared ? { shared: true } : {}),
      },
    },
    fieldManager: MEMBER_MANAGER,
    signal,
  });
  return current;
}

async function writeStatus(
  local: KubeClient,
  object: FleetServiceImport,
  status: NonNullable<FleetServiceImport["status"]>,
  signal: AbortSignal,
): Promise<void> {
  if (sameJson(object.status ?? {}, status)) return;
  const { namespace = "", name } = object.metadata;
  await applyIfChanged(local, FLEET_SERVICE_IMPORTS, {
    current: object,
    desired: { metadata: { namespace, name }, status },
    fieldManager: MEMBER_MANAGER,
    subresource: "status",
    signal,
  });
}

function referenceTo(cluster: string, object: FleetServiceImport): ExportedObjectReference {
  const { namespace = "", name, uid = "", resourceVersion = "", generation = 0 } = object.metadata;
  const since = object.metadata.creationTimestamp;
  return {
    clusterId: cluster,
    apiVersion: "networking.fleet.azure.com/v1alpha1",
    kind: "ServiceImport",
    namespace,
    name,
    namespacedName: `${namespace}/${name}`,
    uid,
    resourceVersion,
    generation,
    ...defined({ exportedSince: since }),
  };
}
