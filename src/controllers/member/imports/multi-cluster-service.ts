import { type Service, SERVICES } from "#api/core/v1/types.ts";
import { type ObjectKey, keyOf } from "#api/meta/key.ts";
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
import { sameJson } from "#base/json.ts";
import { applyIfChanged } from "#kube/apply.ts";
import { setCondition } from "#kube/conditions.ts";
import { createController } from "#kube/controller.ts";
import { isDeleting, removeFinalizer } from "#kube/finalizers.ts";
import { watching } from "#kube/source.ts";
import type { Change, Controller } from "#kube/types.ts";
import { importOf, MEMBER_MANAGER, multiClusterServiceOf } from "../informers.ts";
import { both, type Session } from "../session.ts";
import { type MultiClusterPlan, planMultiClusterService } from "./multi-cluster-service-plan.ts";

/** MultiClusterServices to ServiceImports and LoadBalancer Services. Keys are MultiClusterServices. */
export function createMultiClusterServices(session: Session): Controller {
  const { here, deps } = session;
  return createController(
    {
      name: "member-multi-cluster-service",
      reconcile: (key, signal) => reconcile(session, key, signal),
      sources: [
        watching(here.multiClusterServices),
        watching(here.fleetImports, (change) => readersOf(session, change)),
        watching(here.services, both(multiClusterServiceOf)),
      ],
    },
    deps,
  );
}

/** The MultiClusterServices that ask for an import: one of them may take it over when its owner lets go. */
function readersOf({ here }: Session, { key }: Change<FleetServiceImport>): ObjectKey[] {
  return [...here.multiClusterServices.store.byIndex("import", key)].map(keyOf);
}

async function reconcile(session: Session, key: ObjectKey, signal: AbortSignal): Promise<void> {
  const { here, local } = session;
  const object = here.multiClusterServices.store.get(key);
  const derived = [...here.services.store.byIndex("multiClusterService", key)].filter(
    (it) => !isDeleting(it),
  );
  if (object === undefined || isDeleting(object)) {
    for (const it of derived) await local.delete(SERVICES, keyOf(it), { signal });
    if (object !== undefined) await release(session, object, signal);
    return;
  }
  const imported = importOf(object)
    .map((it) => here.fleetImports.store.get(it))
    .at(0);
  const plan = planMultiClusterService({
    object,
    imported: imported !== undefined && isDeleting(imported) ? undefined : imported,
    derived: derived[0],
  });
  await dropImports(session, object, plan.serviceImport?.metadata.name, signal);
  if (plan.serviceImport !== undefined && (imported === undefined || !isDeleting(imported)))
    await applyIfChanged(local, FLEET_SERVICE_IMPORTS, {
      current: imported,
      desired: plan.serviceImport,
      fieldManager: MEMBER_MANAGER,
      signal,
    });
  const service = await writeService(session, derived, plan, signal);
  await writeLabels(session, object, plan.labels, signal);
  await writeStatus(session, { object, plan, service }, signal);
}

/** Imports that it asked for before `spec.serviceImport` named another one. */
async function dropImports(
  { here, local }: Session,
  object: MultiClusterService,
  keep: string | undefined,
  signal: AbortSignal,
): Promise<void> {
  for (const it of here.fleetImports.store.byIndex("owner", object.metadata.uid ?? ""))
    if (it.metadata.name !== keep && !isDeleting(it))
      await local.delete(FLEET_SERVICE_IMPORTS, keyOf(it), { signal });
}

async function release(session: Session, object: MultiClusterService, signal: AbortSignal): Promise<void> {
  await dropImports(session, object, undefined, signal);
  // Put there by agents of other origin; ours needs none.
  await removeFinalizer(session.local, MULTI_CLUSTER_SERVICES, object, {
    finalizer: FINALIZERS.multiClusterService,
    signal,
  });
}

async function writeService(
  { local }: Session,
  derived: readonly Service[],
  plan: MultiClusterPlan,
  signal: AbortSignal,
): Promise<Service | undefined> {
  const keep = plan.service?.metadata.name;
  for (const it of derived)
    if (it.metadata.name !== keep) await local.delete(SERVICES, keyOf(it), { signal });
  if (plan.service === undefined) return undefined;
  return applyIfChanged(local, SERVICES, {
    current: derived.find((it) => it.metadata.name === keep),
    desired: plan.service,
    fieldManager: MEMBER_MANAGER,
    signal,
  });
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

async function writeStatus(
  { local, deps }: Session,
  it: {
    readonly object: MultiClusterService;
    readonly plan: MultiClusterPlan;
    readonly service: Service | undefined;
  },
  signal: AbortSignal,
): Promise<void> {
  const { object, plan, service } = it;
  const { namespace = "", name, generation } = object.metadata;
  const ours = (object.status?.conditions ?? []).filter((condition) => condition.type === "Valid");
  const conditions = setCondition(
    ours,
    { ...plan.condition, ...(generation === undefined ? {} : { observedGeneration: generation }) },
    deps.clock,
  );
  const loadBalancer = service?.status?.loadBalancer ?? {};
  const status = { loadBalancer, conditions };
  if (sameJson(object.status, status)) return;
  await applyIfChanged(local, MULTI_CLUSTER_SERVICES, {
    current: object,
    desired: { metadata: { namespace, name }, status },
    fieldManager: MEMBER_MANAGER,
    subresource: "status",
    signal,
  });
}
