import { writeConditions } from "@fairlead/kube/objects/write-conditions.ts";
import { MEMBER_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { type Service, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { derivedServiceName } from "#api/fairlead.dev/cluster-names.ts";
import type { AddressBlock } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import type { ImportedService } from "#api/fairlead.dev/v1alpha1/types.ts";
import { type ObjectKey, keyOf, objectKey, splitKey } from "@fairlead/kube/api/meta/key.ts";
import { MCS_SERVICE_IMPORTS, type ServiceImport } from "#api/multicluster.x-k8s.io/v1beta1/types.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import { hasCode, messageOf } from "@fairlead/base/errors.ts";
import { applyIfChanged } from "@fairlead/kube/objects/apply.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { both, watching, watchingChanges } from "@fairlead/kube/controller/source.ts";
import type { Change, Controller } from "@fairlead/kube/types.ts";
import { usesVirtualIPs } from "../fleet-addresses.ts";
import { serviceOfImported } from "../informers.ts";
import { isMembershipChanged, membershipOf, type Session } from "../session.ts";
import { ignoreNotFound, statusCauses } from "@fairlead/kube/objects/not-found.ts";
import { ADOPTER, adoptionProblem, isServed, planAdoption, planRelease } from "./adoption.ts";
import {
  fleetVip,
  isOurs,
  planDerivedService,
  planMcsImport,
  planReady,
  planRefusal,
  type Refusal,
  type Vip,
  vipOf,
  vipOfImport,
} from "./mcs-import-plan.ts";
import { dropLeftovers } from "./leftovers.ts";
import { hasNamespace } from "./namespace-report.ts";
import { soundImport } from "./sound-import.ts";

/** Services of the fleet to multi-cluster ServiceImports, wherever their namespace exists. Keys are services. */
export function createMcsImport(session: Session): Controller {
  const { here, mailbox, fleet, deps } = session;
  return createController(
    {
      name: "member-mcs-import",
      reconcile: (key, signal) => reconcile(session, key, signal).catch(ignoreNotFound),
      sources: [
        watching(
          fleet.importedServices,
          both((it) => [serviceOfImported(it)]),
        ),
        watching(here.mcsImports),
        watching(here.services, both(importOfDerived)),
        watching(here.namespaces, ({ key }) => keysIn(session, key)),
        watching(mailbox.internalMembers, (change) =>
          isMembershipChanged(change) ? mcsImportKeys(session) : [],
        ),
        ...(session.mesh === undefined
          ? []
          : [
              watchingChanges(session.mesh.blocks, (change) =>
                isStepChanged(session, change) ? mcsImportKeys(session) : [],
              ),
            ]),
      ],
    },
    deps,
  );
}

/** Whether this cluster takes another step between pod addresses and fleet addresses. */
function isStepChanged({ cluster }: Session, { key, before, after }: Change<AddressBlock>): boolean {
  const isOwn = key === objectKey(FLEET_SYSTEM_NAMESPACE, cluster);
  return isOwn && before?.spec.transition?.phase !== after?.spec.transition?.phase;
}

/** Every service that is or was imported. */
function mcsImportKeys({ here, fleet }: Session): ObjectKey[] {
  return [
    ...[...fleet.importedServices.store.list()].map(serviceOfImported),
    ...[...here.mcsImports.store.list()].filter(isServed).map(keyOf),
  ];
}

function keysIn({ fleet }: Session, namespace: string): ObjectKey[] {
  return [...fleet.importedServices.byIndex("namespace", namespace)].map(serviceOfImported);
}

function importOfDerived(service: Service): ObjectKey[] {
  const owner = isOurs(service)
    ? service.metadata.ownerReferences?.find((it) => it.kind === "ServiceImport")
    : undefined;
  return owner === undefined ? [] : [objectKey(service.metadata.namespace, owner.name)];
}

/** What the hub says of a service, as far as it can be imported, unless this cluster is leaving. */
export function importedService(session: Session, key: ObjectKey): Pick<ImportedService, "spec"> | undefined {
  if (membershipOf(session) === "leave") return undefined;
  const [found] = session.fleet.importedServices.byIndex("service", key);
  return found === undefined ? undefined : { spec: soundImport(found.spec) };
}

/** What is to be imported here: nothing without the namespace. */
function importableSpec(session: Session, key: ObjectKey): ImportedService["spec"] | undefined {
  const { namespace = "" } = splitKey(key);
  return hasNamespace(session, namespace) ? importedService(session, key)?.spec : undefined;
}

async function reconcile(session: Session, key: ObjectKey, signal: AbortSignal): Promise<void> {
  const { here, local } = session;
  if (membershipOf(session) === "none") return;
  const spec = importableSpec(session, key);
  const current = here.mcsImports.store.get(key);
  if (current !== undefined && isDeleting(current)) return;
  if (current !== undefined && !isOurs(current)) {
    if (session.imports === "manual" || isServed(current)) await serveUsers(session, current, spec, signal);
    else if (spec !== undefined) warnOfForeign(session, key);
    return;
  }
  if (spec === undefined || session.imports === "manual") {
    await removeDerived(session, key, signal);
    if (current !== undefined) await local.delete(MCS_SERVICE_IMPORTS, key, { signal });
    return;
  }
  await importService(session, spec, current, signal);
}

function warnOfForeign({ deps }: Session, serviceImport: ObjectKey): void {
  deps.log.warn("a ServiceImport that Fairlead does not manage has the same name", {
    serviceImport,
    remedy: "to have the agent serve imports of users, run it with --service-imports manual",
  });
}

const NO_EXPORT: ImportedService["spec"] = {
  service: { namespace: "", name: "" },
  type: "ClusterSetIP",
  ports: [],
  clusters: [],
};

/** An import that a user made gets its addresses and status from the agent; the rest of it is the user's. */
async function serveUsers(
  session: Session,
  current: ServiceImport,
  spec: ImportedService["spec"] | undefined,
  signal: AbortSignal,
): Promise<void> {
  const { local, here } = session;
  const key = keyOf(current);
  const problem = spec === undefined ? "no cluster exports the service" : adoptionProblem(spec, current);
  const patched = async (patch: object | undefined): Promise<ServiceImport> =>
    patch === undefined
      ? current
      : await local.mergePatch(MCS_SERVICE_IMPORTS, key, patch, { fieldManager: ADOPTER, signal });
  if (spec === undefined || problem !== undefined) {
    await removeDerived(session, key, signal);
    const object = await patched(planRelease(current));
    const refusal: Refusal = { reason: "Pending", message: problem ?? "" };
    return writeStatus(session, { object, spec: spec ?? NO_EXPORT, vip: undefined, refusal }, signal);
  }
  if (spec.type === "Headless") {
    await removeDerived(session, key, signal);
    const object = await patched(planAdoption(current, spec, undefined));
    return writeStatus(session, { object, spec, vip: undefined, refusal: undefined }, signal);
  }
  const { namespace = "", name } = current.metadata;
  const before = here.services.store.get(objectKey(namespace, derivedServiceName(namespace, name)));
  const made = await makeVip(session, { spec, owner: current, before }, signal);
  const object = await patched(planAdoption(current, spec, made.vip));
  return writeStatus(session, { object, spec, ...made }, signal);
}

async function removeDerived({ here, local }: Session, key: ObjectKey, signal: AbortSignal): Promise<void> {
  const { namespace = "", name } = splitKey(key);
  const derived = here.services.store.get(objectKey(namespace, derivedServiceName(namespace, name)));
  if (derived !== undefined && isOurs(derived) && !isDeleting(derived))
    await local.delete(SERVICES, keyOf(derived), { signal });
}

async function importService(
  session: Session,
  spec: ImportedService["spec"],
  current: ServiceImport | undefined,
  signal: AbortSignal,
): Promise<void> {
  const { here, local, events } = session;
  const { namespace, name } = spec.service;
  const by = { fieldManager: MEMBER_MANAGER, events, signal };
  const before = here.services.store.get(objectKey(namespace, derivedServiceName(namespace, name)));
  const atService = vipOf(before);
  const ofService = atService.ips.length === 0 ? undefined : atService;
  const known = usesVirtualIPs(session) ? fleetVip(spec, current) : ofService;
  const object = await applyIfChanged(local, MCS_SERVICE_IMPORTS, {
    current,
    desired: planMcsImport(spec, spec.type === "ClusterSetIP" ? known : undefined, current),
    ...by,
  });
  if (spec.type === "Headless") {
    await removeDerived(session, objectKey(namespace, name), signal);
    return writeStatus(session, { object, spec, vip: undefined, refusal: undefined }, signal);
  }
  const { vip, refusal } = await makeVip(session, { spec, owner: object, before }, signal);
  // With the address, where it was not known above.
  const complete = await applyIfChanged(local, MCS_SERVICE_IMPORTS, {
    current: object,
    desired: planMcsImport(spec, vip),
    ...by,
  });
  return writeStatus(session, { object: complete, spec, vip, refusal }, signal);
}

interface Wanted {
  readonly spec: ImportedService["spec"];
  readonly owner: ServiceImport;
  readonly before: Service | undefined;
}

interface Derived {
  readonly derived: Service | undefined;
  readonly refusal: Refusal | undefined;
}

/** The addresses for clients. In a parallel network the Service is there for what knows Services alone (docs/adr/0037). */
async function makeVip(
  session: Session,
  wanted: Wanted,
  signal: AbortSignal,
): Promise<Pick<Result, "vip" | "refusal">> {
  const { spec, owner } = wanted;
  if (!usesVirtualIPs(session)) {
    const { derived, refusal } = await makeDerived(session, wanted, signal);
    return { vip: vipOf(derived), refusal };
  }
  await makeDerived(session, { ...wanted, owner: { metadata: owner.metadata } }, signal);
  return { vip: fleetVip(spec, owner) ?? vipOfImport(owner), refusal: undefined };
}

async function makeDerived(
  session: Session,
  { spec, owner, before }: Wanted,
  signal: AbortSignal,
): Promise<Derived> {
  const apply = async (importing: ServiceImport, wanted: ImportedService["spec"]): Promise<Service> => {
    const desired = planDerivedService(wanted, importing, before);
    return applyIfChanged(session.local, SERVICES, {
      current: await dropLeftovers(session, before, desired, signal),
      desired,
      fieldManager: MEMBER_MANAGER,
      events: session.events,
      signal,
    });
  };
  const make = (importing: ServiceImport): Promise<Service> =>
    apply(importing, spec).catch((error: unknown) => {
      // An exporter of a newer version may know preferences that this server does not: the service can do without.
      if (!refuses(error, "spec.trafficDistribution")) throw error;
      const { trafficDistribution: _unknown, ...known } = spec;
      return apply(importing, known);
    });
  try {
    const derived = await make(owner).catch((error: unknown) => {
      if (before !== undefined || owner.spec?.ips === undefined || !hasCode(error, "API_INVALID"))
        throw error;
      // Another Service has the address.
      return make({ metadata: owner.metadata });
    });
    return { derived, refusal: undefined };
  } catch (error) {
    // Most likely the cluster lacks the only family that the exporters serve. Trying again would change nothing.
    if (before !== undefined || !hasCode(error, "API_INVALID")) throw error;
    const fields = statusCauses(error).map((it) => String(it["field"]));
    return { derived: undefined, refusal: planRefusal(fields, messageOf(error)) };
  }
}

function refuses(error: unknown, field: string): boolean {
  return hasCode(error, "API_INVALID") && statusCauses(error).some((it) => it["field"] === field);
}

const OUR_CONDITIONS = new Set(["Ready"]);

interface Result {
  readonly object: ServiceImport;
  readonly spec: ImportedService["spec"];
  readonly vip: Vip | undefined;
  readonly refusal: Refusal | undefined;
}

async function writeStatus(
  { local, deps }: Session,
  { object, spec, vip, refusal }: Result,
  signal: AbortSignal,
): Promise<void> {
  const clusters = spec.clusters.map(({ cluster }) => ({ cluster }));
  await writeConditions(local, MCS_SERVICE_IMPORTS, {
    object,
    own: OUR_CONDITIONS,
    next: [planReady(spec, vip, refusal)],
    rest: { clusters, endpointSliceObjects: "Present" },
    fieldManager: MEMBER_MANAGER,
    clock: deps.clock,
    signal,
  });
}
