import { MEMBER_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { type Service, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { type ObjectKey, keyOf } from "@fairlead/kube/api/meta/key.ts";
import { LOAD_BALANCER_CONDITION, WEIGHTS_CONDITION } from "#api/fairlead.dev/multi-cluster-service.ts";
import { ACTIVE_CONDITION } from "#api/fairlead.dev/names.ts";
import {
  DERIVED_SERVICE_LABEL,
  FINALIZERS,
  SERVICE_IMPORT_LABEL,
} from "#api/networking.fleet.azure.com/names.ts";
import {
  FLEET_SERVICE_IMPORTS,
  type FleetServiceImport,
  MULTI_CLUSTER_SERVICES,
  type MultiClusterService,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { FleetError, hasCode } from "@fairlead/base/errors.ts";
import { applyIfChanged } from "@fairlead/kube/objects/apply.ts";
import { writeConditions } from "@fairlead/kube/objects/write-conditions.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { isDeleting, removeFinalizer } from "@fairlead/kube/objects/finalizers.ts";
import { both, watching } from "@fairlead/kube/controller/source.ts";
import type { Change, Controller, ReconcileResult } from "@fairlead/kube/types.ts";
import { fleetImportOf, isHubToo, watchingImportStatus, watchingHub } from "../hub-cluster.ts";
import { importOf, multiClusterServiceOf, multiClusterServiceOfImport } from "../informers.ts";
import { runs } from "../roles.ts";
import { isMembershipChanged, isLegacyHub, membershipOf, type Session } from "../session.ts";
import { dropLeftovers } from "./leftovers.ts";
import { planEvents } from "./multi-cluster-service-events.ts";
import {
  type MultiClusterPlan,
  planMultiClusterService,
  refusedCondition,
} from "./multi-cluster-service-plan.ts";

/** MultiClusterServices to ServiceImports and LoadBalancer Services. Keys are MultiClusterServices. */
export function createMultiClusterServices(session: Session): Controller {
  const { here, mailbox, deps } = session;
  return createController(
    {
      name: "multiclusterservice",
      reconcile: (key, signal) => reconcile(session, key, signal),
      sources: [
        watching(here.multiClusterServices, ({ key, before, after }) => [
          key,
          // One that goes, or asks for another import, lets the next one have it.
          ...[before, after].flatMap((it) => (it === undefined ? [] : rivalsOf(session, it).map(keyOf))),
        ]),
        watching(here.fleetImports, (change) => [...readersOf(session, change.key), ...makersOf(change)]),
        // What the managers of the original names read apart, one of them alone does not.
        ...(runs(session.part, "member-net")
          ? [
              watchingImportStatus(session, (key) => readersOf(session, key)),
              watchingHub(session, () => [...here.multiClusterServices.store.list()].map(keyOf)),
            ]
          : []),
        watching(here.services, both(multiClusterServiceOf)),
        watching(mailbox.internalMembers, (change) =>
          isMembershipChanged(change) ? [...here.multiClusterServices.store.list()].map(keyOf) : [],
        ),
      ],
    },
    deps,
  );
}

/** The MultiClusterServices that request an import: one of them may take it over when its owner releases it. */
function readersOf({ here }: Session, key: ObjectKey): ObjectKey[] {
  return [...here.multiClusterServices.store.byIndex("import", key)].map(keyOf);
}

/** One that is gone may have left its import: the garbage collector takes its time, and is not everywhere. */
function makersOf({ after }: Change<FleetServiceImport>): ObjectKey[] {
  return after === undefined ? [] : multiClusterServiceOfImport(after);
}

async function reconcile(
  session: Session,
  key: ObjectKey,
  signal: AbortSignal,
): Promise<ReconcileResult | void> {
  const { here, local } = session;
  const object = here.multiClusterServices.store.get(key);
  const services = [...here.services.store.byIndex("multiClusterService", key)].filter(
    (it) => !isDeleting(it),
  );
  if (object !== undefined && !isDeleting(object)) return attend(session, object, services, signal);
  for (const it of services) await local.delete(SERVICES, keyOf(it), { signal });
  await dropImports(session, key, undefined, signal);
  if (object === undefined) return;
  // Legacy agents added it; Fairlead needs none.
  const finalizer = FINALIZERS.multiClusterService;
  await removeFinalizer(local, MULTI_CLUSTER_SERVICES, object, { finalizer, signal });
}

async function attend(
  session: Session,
  object: MultiClusterService,
  services: readonly Service[],
  signal: AbortSignal,
): Promise<ReconcileResult | void> {
  const { cluster, deps } = session;
  const membership = membershipOf(session);
  if (membership === "none") return;
  const imported = importedBy(session, object);
  const nowMs = deps.clock.now();
  const plan = planMultiClusterService({
    object,
    imported: imported !== undefined && isDeleting(imported) ? undefined : imported,
    derived: services[0],
    rivals: rivalsOf(session, object),
    passOn: session.passOn,
    isLegacyHub: isLegacyHub(session),
    left: membership === "leave" ? cluster : undefined,
    nowMs,
  });
  await writeImport(session, { object, plan, imported }, signal);
  const written = await writeService(session, services, plan, signal);
  await writeLabels(session, object, plan.labels, signal);
  await writeStatus(session, { object, plan, written }, signal);
  // A cause that may end without a write, such as a quota, is retried.
  const { refusal } = written;
  if (refusal !== undefined && refusal.code !== "API_INVALID") throw refusal;
  return plan.service.kind === "keep" ? { requeueAfterMs: plan.service.untilMs - nowMs } : undefined;
}

function importedBy(session: Session, object: MultiClusterService): FleetServiceImport | undefined {
  const [key] = importOf(object);
  return key === undefined ? undefined : fleetImportOf(session, key);
}

async function writeImport(
  session: Session,
  it: {
    readonly object: MultiClusterService;
    readonly plan: MultiClusterPlan;
    readonly imported: FleetServiceImport | undefined;
  },
  signal: AbortSignal,
): Promise<void> {
  const serviceImport = isHubToo(session) ? undefined : it.plan.serviceImport;
  const { uid } = it.object.metadata;
  await dropImports(session, keyOf(it.object), { name: serviceImport?.metadata.name, uid }, signal);
  if (serviceImport === undefined || (it.imported !== undefined && isDeleting(it.imported))) return;
  await applyIfChanged(session.local, FLEET_SERVICE_IMPORTS, {
    current: it.imported,
    desired: serviceImport,
    fieldManager: MEMBER_MANAGER,
    events: session.events,
    signal,
  });
}

function rivalsOf({ here }: Session, object: MultiClusterService): MultiClusterService[] {
  return importOf(object)
    .flatMap((it) => [...here.multiClusterServices.store.byIndex("import", it)])
    .filter((it) => it.metadata.uid !== object.metadata.uid && !isDeleting(it));
}

/** Imports that it asked for before `spec.serviceImport` named another one, or that one before it of its name did. */
async function dropImports(
  { here, local }: Session,
  key: ObjectKey,
  keep: { readonly name: string | undefined; readonly uid: string | undefined } | undefined,
  signal: AbortSignal,
): Promise<void> {
  for (const it of here.fleetImports.store.byIndex("multiClusterService", key)) {
    const { name, ownerReferences = [] } = it.metadata;
    const isKept = name === keep?.name && ownerReferences.some((owner) => owner.uid === keep.uid);
    if (!isKept && !isDeleting(it)) await local.delete(FLEET_SERVICE_IMPORTS, keyOf(it), { signal });
  }
}

interface Written {
  readonly service: Service | undefined;
  /** Why the server did not take it. */
  readonly refusal?: FleetError;
}

async function writeService(
  session: Session,
  services: readonly Service[],
  plan: MultiClusterPlan,
  signal: AbortSignal,
): Promise<Written> {
  const { local } = session;
  const wanted = plan.service;
  const [first] = services;
  const keep = wanted.kind === "apply" ? wanted.object.metadata.name : first?.metadata.name;
  for (const it of services)
    if (wanted.kind === "none" || it.metadata.name !== keep)
      await local.delete(SERVICES, keyOf(it), { signal });
  if (wanted.kind !== "apply") return { service: undefined };
  const current = services.find((it) => it.metadata.name === keep);
  try {
    const service = await applyIfChanged(local, SERVICES, {
      current: await dropLeftovers(session, current, wanted.object, signal),
      desired: wanted.object,
      fieldManager: MEMBER_MANAGER,
      events: session.events,
      signal,
    });
    return { service };
  } catch (refusal) {
    // The last is what servers say of ports that they cannot give.
    const isRefused = hasCode(refusal, "API_INVALID", "API_FORBIDDEN", "API_BAD_REQUEST", "API_UNEXPECTED");
    if (!isRefused || !(refusal instanceof FleetError)) throw refusal;
    return { service: current, refusal };
  }
}

const OUR_LABELS = [SERVICE_IMPORT_LABEL, DERIVED_SERVICE_LABEL];

/** The two labels by which tools find what belongs to a MultiClusterService. Nothing else of it is ours to write. */
async function writeLabels(
  { local }: Session,
  object: MultiClusterService,
  wanted: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<void> {
  const changed = OUR_LABELS.filter((label) => object.metadata.labels?.[label] !== wanted[label]);
  if (changed.length === 0) return;
  const labels = Object.fromEntries(changed.map((label) => [label, wanted[label] ?? null]));
  await local.mergePatch(MULTI_CLUSTER_SERVICES, keyOf(object), { metadata: { labels } }, { signal });
}

const OUR_CONDITIONS = new Set<string>([
  "Valid",
  LOAD_BALANCER_CONDITION,
  WEIGHTS_CONDITION,
  ACTIVE_CONDITION,
]);

async function writeStatus(
  { local, deps, events }: Session,
  it: { readonly object: MultiClusterService; readonly plan: MultiClusterPlan; readonly written: Written },
  signal: AbortSignal,
): Promise<void> {
  const { object, plan, written } = it;
  const next = withRefusal(plan, written.refusal);
  for (const event of planEvents(object.status?.conditions, next))
    events.record(MULTI_CLUSTER_SERVICES, object, event);
  await writeConditions(local, MULTI_CLUSTER_SERVICES, {
    object,
    own: OUR_CONDITIONS,
    next,
    rest: { loadBalancer: written.service?.status?.loadBalancer ?? {} },
    fieldManager: MEMBER_MANAGER,
    clock: deps.clock,
    signal,
  });
}

/** A refusal says more than what was wrong with the annotations before. */
function withRefusal(
  { conditions, service }: MultiClusterPlan,
  refusal: FleetError | undefined,
): MultiClusterPlan["conditions"] {
  if (refusal === undefined || service.kind !== "apply") return conditions;
  return [
    ...conditions.filter((it) => it.type !== LOAD_BALANCER_CONDITION),
    refusedCondition(service.object.metadata.name, refusal.message),
  ];
}
