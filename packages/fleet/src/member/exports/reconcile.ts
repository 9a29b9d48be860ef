import type { NewCondition } from "@fairlead/kube/objects/conditions.ts";
import { MEMBER_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { type Service, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { mailboxName } from "#api/fairlead.dev/cluster-names.ts";
import { ACTIVE_CONDITION, ENDPOINTS, GLOBAL_SERVICE, TRAFFIC } from "#api/fairlead.dev/names.ts";
import { type ObjectKey, keyOf, splitKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { Condition, KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { MCS_SERVICE_EXPORTS, type ServiceExport } from "#api/multicluster.x-k8s.io/v1beta1/types.ts";
import { FINALIZERS, mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import {
  type ExportedObjectReference,
  INTERNAL_SERVICE_EXPORTS,
  type InternalServiceExport,
  type InternalServiceExportSpec,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import {
  FLEET_SERVICE_EXPORTS,
  type FleetServiceExport,
} from "#api/networking.fleet.azure.com/v1beta1/types.ts";
import { hasCode, messageOf } from "@fairlead/base/errors.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { applyIfChanged } from "@fairlead/kube/objects/apply.ts";
import { writeConditions } from "@fairlead/kube/objects/write-conditions.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { isDeleting, removeFinalizer } from "@fairlead/kube/objects/finalizers.ts";
import { both, watching, watchingChanges } from "@fairlead/kube/controller/source.ts";
import type { Controller, ReconcileResult } from "@fairlead/kube/types.ts";
import {
  globalKeys,
  hasWeights,
  isInGlobalNamespace,
  watchingGlobalNamespaces,
  watchingWeights,
} from "../global-services.ts";
import { servedKey } from "#domain/served.ts";
import { serviceOfExport, serviceOfLocalSlice, serviceOfSliceExport } from "../informers.ts";
import { nodeAgentsOf, watchingNodeAgents } from "../running-agents.ts";
import { isMembershipChanged, isLegacyHub, membershipOf, type Session } from "../session.ts";
import { lookAgainInMs } from "./cause.ts";
import { Causes } from "./causes.ts";
import { planEvents } from "./events.ts";
import { planForLegacyHub } from "./legacy-hub.ts";
import { type ExportPlan, isExportedBy, planExport } from "./plan.ts";
import type { ExportView } from "./view.ts";

/** ServiceExports of both kinds to InternalServiceExports, and the hub's conditions back. Keys are services. */
export function createExports(session: Session): Controller {
  const { here, local, mailbox, deps } = session;
  const known: Known = { refusals: new Map(), causes: new Causes(local, deps) };
  return createController(
    {
      name: "serviceexport",
      reconcile: (key, signal) => reconcile(session, known, key, signal),
      sources: [
        watching(here.fleetExports),
        watching(here.mcsExports),
        watching(here.services),
        watchingChanges(here.slices, (change) =>
          servedKey(change.before) === servedKey(change.after) ? [] : both(serviceOfLocalSlice)(change),
        ),
        ...watchingGlobalNamespaces(session),
        ...watchingNodeAgents(session, () => globalKeys(session)),
        ...watchingWeights(session),
        watching(mailbox.exports, both(serviceOfExport)),
        watching(mailbox.sliceExports, ({ before, after }) =>
          before !== undefined && (after === undefined || isDeleting(after))
            ? [serviceOfSliceExport(before)]
            : [],
        ),
        watching(mailbox.internalMembers, (change) =>
          isMembershipChanged(change) ? exportKeys(session) : [],
        ),
      ],
    },
    deps,
  );
}

/** Every service that is or was exported. */
export function exportKeys(session: Session): ObjectKey[] {
  const { here, mailbox } = session;
  return [
    ...globalKeys(session),
    ...[...here.fleetExports.store.list()].map(keyOf),
    ...[...here.mcsExports.store.list()].map(keyOf),
    ...[...mailbox.exports.store.list()].flatMap(serviceOfExport),
  ];
}

interface Known {
  /** Reasons why the hub's API server did not take what was sent last, by service. */
  readonly refusals: Map<ObjectKey, string>;
  readonly causes: Causes;
}

/** Facts that no informer has. */
type Found = Pick<ExportView, "cause" | "refused">;

/** What this cluster exports of a service, as things are now. */
export function planFor(session: Session, key: ObjectKey, found: Found = {}): ExportPlan {
  const view = { ...viewOf(session, key), ...found };
  const plan = planExport(view);
  return isLegacyHub(session) ? planForLegacyHub(plan, view.current) : plan;
}

/** Whether this cluster exports a service, and sends its endpoints, as things are now. */
export function exportStateOf(
  session: Session,
  key: ObjectKey,
): { readonly isExported: boolean; readonly hasEndpoints: boolean } {
  if (!isLegacyHub(session)) {
    const isExported = isExportedBy(viewOf(session, key));
    return { isExported, hasEndpoints: isExported };
  }
  // A legacy hub limits the export, by its features and by its Conflict condition.
  const { spec, hasEndpoints } = planFor(session, key);
  return { isExported: spec !== undefined, hasEndpoints };
}

function viewOf(session: Session, key: ObjectKey): ExportView {
  const { here } = session;
  const { namespace, name } = splitKey(key);
  const live = <T extends KubeObject>(object: T | undefined): T | undefined =>
    object === undefined || isDeleting(object) ? undefined : object;
  return {
    namespace: namespace ?? "",
    name,
    fleet: live(here.fleetExports.store.get(key)),
    mcs: live(here.mcsExports.store.get(key)),
    service: here.services.store.get(key),
    slices: [...here.slices.store.byIndex("service", key)],
    isGlobalNamespace: isInGlobalNamespace(session, namespace ?? ""),
    hasNodeAgents: nodeAgentsOf(session).areEverywhere,
    hasWeights: hasWeights(session, key),
    current: currentExport(session, key),
    left: membershipOf(session) === "leave" ? session.cluster : undefined,
  };
}

function currentExport({ mailbox }: Session, key: ObjectKey): InternalServiceExport | undefined {
  return [...mailbox.exports.store.byIndex("service", key)].find((it) => !isDeleting(it));
}

async function reconcile(
  session: Session,
  { refusals, causes }: Known,
  key: ObjectKey,
  signal: AbortSignal,
): Promise<ReconcileResult | void> {
  const { here, local } = session;
  const cause = await findCause(session, causes, key, signal);
  const planNow = (): ExportPlan => planFor(session, key, { cause, refused: refusals.get(key) });
  const plan = planNow();
  const fleet = here.fleetExports.store.get(key);
  const mcs = here.mcsExports.store.get(key);
  const membership = membershipOf(session);
  if (membership !== "none") {
    // Before any request to the hub, so that conditions are written while the hub is unavailable, too.
    const reportAll = async ({ fleet: next, mcs: nextMcs, global = [] }: ExportPlan): Promise<void> => {
      await report(session, { of: FLEET_SERVICE_EXPORTS, object: fleet, next }, signal);
      await report(session, { of: MCS_SERVICE_EXPORTS, object: mcs, next: nextMcs }, signal);
      await report(session, { of: SERVICES, object: here.services.store.get(key), next: global }, signal);
    };
    // A status that is refused holds back neither an export nor its withdrawal: the error ends the pass after them.
    const [reported] = await Promise.allSettled([reportAll(plan)]);
    session.stopwatch.answered(key, currentExport(session, key));
    try {
      await send(session, key, plan, signal);
      if (refusals.delete(key)) await reportAll(planNow());
    } catch (error) {
      if (!isRefusal(error)) throw error;
      refusals.set(key, messageOf(error).slice(0, 1024));
      await reportAll(planNow());
      throw error;
    }
    if (reported.status === "rejected") throw reported.reason;
  }
  // Legacy agents added it. Fairlead needs none, because it is level-driven.
  const finalizer = FINALIZERS.serviceExport;
  if (fleet !== undefined && isDeleting(fleet))
    await removeFinalizer(local, FLEET_SERVICE_EXPORTS, fleet, { finalizer, signal });
  return cause === undefined ? undefined : lookAgain(session, fleet ?? mcs);
}

function lookAgain(
  { deps }: Session,
  object: FleetServiceExport | ServiceExport | undefined,
): ReconcileResult {
  return { requeueAfterMs: lookAgainInMs(object?.status?.conditions, deps.clock.now()) };
}

/** For ServiceExports of a member, whose status says how they are served. */
async function findCause(
  session: Session,
  causes: Causes,
  key: ObjectKey,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { here } = session;
  const isAsked =
    here.fleetExports.store.get(key) !== undefined || here.mcsExports.store.get(key) !== undefined;
  if (!isAsked || membershipOf(session) === "none" || !exportStateOf(session, key).isExported)
    return undefined;
  return await causes.find(viewOf(session, key), signal);
}

async function send(
  session: Session,
  key: ObjectKey,
  { spec }: ExportPlan,
  signal: AbortSignal,
): Promise<void> {
  const { here, hub, mailbox } = session;
  const current = currentExport(session, key);
  const service = here.services.store.get(key);
  // Endpoints go first: other clusters stop sending to this one before the service changes or is withdrawn.
  const isDrained = ![...mailbox.sliceExports.store.byIndex("service", key)].some((it) => !isDeleting(it));
  // A second object for the same service, left by another agent, would be refused by the hub.
  for (const it of mailbox.exports.store.byIndex("service", key))
    if (!isDeleting(it) && (spec === undefined ? isDrained : it !== current))
      await hub.delete(INTERNAL_SERVICE_EXPORTS, keyOf(it), { signal });
  if (spec !== undefined && service !== undefined)
    await upload(session, { key, spec, service, current }, signal);
}

/** Refused for what is in it, by a schema or a policy, or for how much there is; not for want of rights, which come and go. */
function isRefusal(error: unknown): boolean {
  return (
    hasCode(error, "API_INVALID") ||
    (hasCode(error, "API_FORBIDDEN") && messageOf(error).includes("exceeded quota"))
  );
}

type ExportFacts = Omit<InternalServiceExportSpec, "serviceReference">;

async function upload(
  session: Session,
  it: {
    readonly key: ObjectKey;
    readonly spec: ExportFacts;
    readonly service: Service;
    readonly current: InternalServiceExport | undefined;
  },
  signal: AbortSignal,
): Promise<void> {
  const { hub, cluster, stopwatch } = session;
  const { namespace, name } = splitKey(it.key);
  const sinceMs = stopwatch.nowMs;
  const fresh = referenceTo(cluster, it.service, stopwatch.stamp());
  const { serviceReference, ...facts } = it.current?.spec ?? {};
  const isUnchanged = sameJson(facts, it.spec) && serviceReference?.uid === fresh.uid;
  const after = await applyIfChanged(hub, INTERNAL_SERVICE_EXPORTS, {
    current: it.current,
    desired: {
      metadata: {
        namespace: mailboxOf(cluster),
        name: it.current?.metadata.name ?? mailboxName(namespace ?? "", name),
      },
      // Versions in the reference change with every write to the Service: a change of versions only is not uploaded.
      spec: {
        ...it.spec,
        serviceReference: isUnchanged && serviceReference !== undefined ? serviceReference : fresh,
      },
    },
    fieldManager: MEMBER_MANAGER,
    signal,
  });
  if (after.metadata.generation !== it.current?.metadata.generation) stopwatch.sent(it.key, after, sinceMs);
}

function referenceTo(cluster: string, service: Service, now: string): ExportedObjectReference {
  const { namespace = "", name, uid = "", resourceVersion = "", generation = 0 } = service.metadata;
  return {
    clusterId: cluster,
    apiVersion: "v1",
    kind: "Service",
    namespace,
    name,
    namespacedName: `${namespace}/${name}`,
    uid,
    resourceVersion,
    generation,
    exportedSince: now,
  };
}

interface Report<T extends KubeObject & { status?: { conditions?: Condition[] } }> {
  readonly of: Resource<T>;
  readonly object: T | undefined;
  readonly next: readonly NewCondition[] | undefined;
}

const OUR_TYPES = new Set(["Valid", "Conflict", "Ready", TRAFFIC, ENDPOINTS, ACTIVE_CONDITION]);
/** On Services, which have other writers. */
const OUR_TYPES_OF_SERVICES = new Set([GLOBAL_SERVICE]);

async function report<T extends KubeObject & { status?: { conditions?: Condition[] } }>(
  { local, events, deps }: Session,
  { of, object, next }: Report<T>,
  signal: AbortSignal,
): Promise<void> {
  if (object === undefined || next === undefined) return;
  for (const event of planEvents(object.status?.conditions, next)) events.record(of, object, event);
  await writeConditions(local, of, {
    object,
    own: of.plural === SERVICES.plural ? OUR_TYPES_OF_SERVICES : OUR_TYPES,
    next,
    fieldManager: MEMBER_MANAGER,
    clock: deps.clock,
    signal,
  });
}
