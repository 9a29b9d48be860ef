import { defined } from "@fairlead/base/defined.ts";
import type { EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { readPort } from "#domain/exported-service.ts";
import { exposedPorts } from "#domain/merge.ts";
import { TRAFFIC_ANNOTATIONS } from "#api/fairlead.dev/names.ts";
import type { ImportedService } from "#api/fairlead.dev/v1alpha1/types.ts";
import { type ObjectKey, objectKey, splitKey } from "@fairlead/kube/api/meta/key.ts";
import { MCS_SOURCE_CLUSTER_LABEL } from "#api/multicluster.x-k8s.io/v1beta1/types.ts";
import { DERIVED_SERVICE_LABEL, FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { both, watching, watchingChanges } from "@fairlead/kube/controller/source.ts";
import type { Controller } from "@fairlead/kube/types.ts";
import { planFor } from "../exports/reconcile.ts";
import { isServed } from "../imports/adoption.ts";
import type { Probes } from "../probes/probes.ts";
import type { Session } from "../session.ts";
import { ignoreNotFound } from "@fairlead/kube/objects/not-found.ts";
import type { Choice, IsAlive } from "./choice.ts";
import { planFound, type Writing, writeSlices } from "./import.ts";
import { RememberedSlices } from "./remembered.ts";
import { findOwnSource, type FoundSlice, namesOf, namesOfLocal } from "./sources.ts";

interface WithoutHub {
  readonly controller: Controller;
  readonly remembered: RememberedSlices;
}

/**
 * For an agent that starts while the hub is unavailable: this cluster's own endpoints, in the existing imports, keep
 * following its pods. The settings of the service are read from those imports. Endpoints of other clusters stay as they are while they
 * answer probes. Ends when the mailbox can be read, before the other controllers start. Keys are names of slices.
 */
export function createEndpointsWithoutHub(session: Session, probes: Probes): WithoutHub {
  const { here, deps } = session;
  const remembered = new RememberedSlices(session);
  const slicesOf = ({ key }: { readonly key: ObjectKey }): ObjectKey[] => namesOf(session, key);
  const found = new Map<ObjectKey, Found>();
  const isAlive: IsAlive = (cluster, addresses) => probes.isAlive(cluster, addresses);
  const wantedOf = (key: ObjectKey): Writing["wanted"] => [
    ...ownIn(session, found, key),
    ...remembered.changed(key, isAlive),
  ];
  const controller = createController(
    {
      name: "member-endpoints-without-hub",
      reconcile: (key, signal) =>
        reconcile(session, { key, wanted: wantedOf(key) }, signal).catch(ignoreNotFound),
      sources: [
        watching(here.slices, (change) => namesOfLocal(session, change)),
        watchingChanges(
          here.slices,
          both((it) => remembered.namesBeside(it)),
        ),
        watchingChanges(here.services, slicesOf),
        watchingChanges(here.mcsExports, slicesOf),
        watchingChanges(here.fleetExports, slicesOf),
        watchingChanges(here.mcsImports, slicesOf),
      ],
    },
    deps,
  );
  probes.onChange = (cluster) => {
    for (const name of remembered.namesWith(cluster)) controller.enqueue(name);
  };
  return { controller, remembered };
}

/** What the slices of a service showed when they were first looked at. */
interface Found extends Choice {
  /** The hub gave this cluster's endpoints this weight. */
  readonly weight: number | undefined;
}

function ownIn(session: Session, found: Map<ObjectKey, Found>, key: ObjectKey): ReturnType<typeof planFound> {
  const [local] = session.here.slices.store.byIndex("exportName", key);
  const source = local === undefined ? undefined : findOwnSource(session, key, local);
  return source === undefined ? [] : plan(session, found, source);
}

async function reconcile(
  session: Session,
  { key, wanted }: Pick<Writing, "key" | "wanted">,
  signal: AbortSignal,
): Promise<void> {
  const isFromHere = (it: EndpointSlice): boolean =>
    it.metadata.labels?.[MCS_SOURCE_CLUSTER_LABEL] === session.cluster;
  await writeSlices(session, { key, wanted, isOurs: isFromHere }, signal);
}

function plan(
  session: Session,
  found: Map<ObjectKey, Found>,
  source: FoundSlice,
): ReturnType<typeof planFound> {
  const { service } = source;
  const before = found.get(service) ?? look(session, service);
  found.set(service, before);
  const spec = readSpec(session, service, before.weight);
  return planFound(session, source, { ...before, spec, isAlive: () => true, global: undefined });
}

/**
 * A cluster that served keeps serving. One that did not serve, because others came first or because it is drained, does
 * not start: only the hub has the settings of the other clusters.
 */
function look(session: Session, service: ObjectKey): Found {
  const { here, cluster } = session;
  const isOwn = (it: EndpointSlice): boolean => it.metadata.labels?.[MCS_SOURCE_CLUSTER_LABEL] === cluster;
  const isAsked = planFor(session, service).spec?.weight !== 0;
  const isServing = (slices: readonly EndpointSlice[]): boolean =>
    slices.some(isOwn) || (isAsked && slices.every((it) => it.endpoints.length === 0));
  const shared = [...here.slices.store.byIndex("importedService", service)];
  const weight = shared.find(isOwn)?.metadata.annotations?.[TRAFFIC_ANNOTATIONS.weight];
  const serves = isServing(shared);
  const servesBalanced = isServing(balancedSlices(session, service));
  return {
    serves: () => serves,
    servesBalanced: () => servesBalanced,
    weight: weight === undefined ? undefined : Number(weight),
  };
}

/** The slices of the load balancers that import a service. */
function balancedSlices({ here }: Session, service: ObjectKey): EndpointSlice[] {
  return [...here.multiClusterServices.store.byIndex("import", service)].flatMap(({ metadata }) => {
    const balancer = objectKey(FLEET_SYSTEM_NAMESPACE, metadata.labels?.[DERIVED_SERVICE_LABEL] ?? "");
    return [...here.slices.store.byIndex("balancer", balancer)];
  });
}

/** What the hub said of a service, as far as its import has it and this cluster's own endpoints need it. */
function readSpec(
  session: Session,
  key: ObjectKey,
  weight: number | undefined,
): ImportedService["spec"] | undefined {
  const object = session.here.mcsImports.store.get(key);
  const isExporter = object?.status?.clusters?.some((it) => it.cluster === session.cluster) === true;
  if (object?.spec === undefined || !isServed(object) || !isExporter) return undefined;
  const { namespace = "", name } = splitKey(key);
  const { spec } = object;
  return { ...spec, service: { namespace, name }, clusters: [ownCluster(session, key, spec.ports, weight)] };
}

function ownCluster(
  { here, cluster }: Session,
  key: ObjectKey,
  imported: ImportedService["spec"]["ports"],
  weight: number | undefined,
): ImportedService["spec"]["clusters"][number] {
  const { ports = [] } = here.services.store.get(key)?.spec ?? {};
  return {
    cluster,
    ...defined({ weight }),
    ports: exposedPorts(
      ports.map((it) => readPort(it)),
      imported.map((it) => readPort(it)),
    ),
  };
}
