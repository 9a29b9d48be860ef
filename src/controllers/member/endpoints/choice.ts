import type { EndpointSlice } from "#api/discovery/v1/types.ts";
import type { ImportedService } from "#api/fairlead.dev/v1alpha1/types.ts";
import { type ObjectKey, objectKey } from "#api/meta/key.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import type { EndpointSliceImport } from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { sameJson } from "#base/json.ts";
import { both } from "#kube/source.ts";
import type { Change } from "#kube/types.ts";
import { importedService } from "../imports/mcs-import.ts";
import { isImported, serviceOfLocalSlice, serviceOfSliceImport } from "../informers.ts";
import type { Probes } from "../probes/probes.ts";
import type { Session } from "../session.ts";
import {
  chooseClusters,
  isSettled,
  openClusters,
  type OfferedSlice,
  readinessOfEndpoints,
  type TrafficRules,
  unitOf,
} from "#api/fairlead.dev/model/eligible.ts";
import type { SliceImportView } from "./import-plan.ts";
import { type FoundSlice, namesOf, sourcesOf } from "./sources.ts";

/** Whether an endpoint of a cluster answers, or nobody has reason to doubt it. */
export type IsAlive = (cluster: string, addresses: readonly string[]) => boolean;

export type Choice = Pick<SliceImportView, "serves" | "servesBalanced">;

/** For services of which only the endpoints are known: nothing else is said of them. */
const ALL: Choice = { serves: () => true, servesBalanced: () => true };

/** Which ports a slice's cluster serves here, going by all slices of its service. */
export function choiceFor(
  session: Session,
  { source, service }: FoundSlice,
  known: { readonly spec: ImportedService["spec"] | undefined; readonly isAlive: IsAlive },
): Choice {
  const { spec } = known;
  if (spec === undefined) return ALL;
  const offered = (): OfferedSlice[] => sourcesOf(session, service).map((it) => offer(it, known.isAlive));
  const { cluster, facts } = source;
  const rules = rulesFor(session, spec);
  const shared = chooseClusters(rules, spec, offered);
  // Behind the load balancer stand only clusters that agree on the ports.
  const accepted = new Set(
    session.here.fleetImports.store.get(service)?.status?.clusters?.map((it) => it.cluster),
  );
  const clusters = rules.clusters.filter((it) => accepted.has(it.cluster));
  const balanced = chooseClusters({ ...rules, clusters }, spec, offered);
  const exposed = spec.clusters.find((it) => it.cluster === cluster)?.ports ?? [];
  return {
    serves: (port) => shared(cluster, unitOf(facts.addressType, port)),
    servesBalanced: (port) => {
      const importedAs = exposed.find((it) => it.name === port)?.importedAs ?? port;
      return balanced(cluster, unitOf(facts.addressType, importedAs));
    },
  };
}

function offer({ source }: FoundSlice, isAlive: IsAlive): OfferedSlice {
  const { cluster, facts, isLocal } = source;
  return { cluster, facts, isAlive: (addresses) => isLocal || isAlive(cluster, addresses) };
}

function rulesFor({ cluster, mailbox }: Session, spec: ImportedService["spec"]): TrafficRules {
  const orders = mailbox.orders.store.get(objectKey(mailboxOf(cluster), cluster));
  return {
    own: cluster,
    affinity: spec.affinity,
    clusters: spec.clusters,
    drained: new Map((orders?.spec.drained ?? []).map((it) => [it.cluster, it.mode])),
  };
}

/**
 * What probes found, but for one thing: what only this member doubts is used where no other endpoint of the service is
 * left. Its probes may fail where clients do not, for example by a NetworkPolicy.
 */
export function aliveIn(session: Session, service: ObjectKey, probes: Probes): IsAlive {
  if (!probes.isInDoubt) return (cluster, addresses) => probes.isAlive(cluster, addresses);
  const spec = importedService(session, service)?.spec;
  const isOpenCluster = spec === undefined ? () => true : openClusters(rulesFor(session, spec));
  const sources = sourcesOf(session, service).map(({ source }) => source);
  const isServed = (family: string): boolean =>
    sources.some(({ cluster, isLocal, facts }) => {
      if (facts.addressType !== family || !isOpenCluster(cluster)) return false;
      const isAlive = (addresses: readonly string[]): boolean =>
        isLocal || probes.isAlive(cluster, addresses);
      return readinessOfEndpoints(facts.endpoints, isAlive) !== "none";
    });
  const served = { IPv4: isServed("IPv4"), IPv6: isServed("IPv6") };
  return (cluster, addresses) => {
    if (probes.isAlive(cluster, addresses)) return true;
    const family = addresses[0]?.includes(":") === true ? "IPv6" : "IPv4";
    return probes.isDoubted(cluster) && !served[family];
  };
}

/** Names of the slices whose part in a service may change because one of another cluster became ready or is no longer. */
export function rivalsOfImport(
  session: Session,
  probes: Probes,
  change: Change<EndpointSliceImport>,
): ObjectKey[] {
  if (!isReadinessChanged(change.before?.spec, change.after?.spec)) return [];
  return rivalsIn(session, probes, both((it: EndpointSliceImport) => [serviceOfSliceImport(it)])(change));
}

/** The same for a slice of this cluster's own Services. */
export function rivalsOfLocal(session: Session, probes: Probes, change: Change<EndpointSlice>): ObjectKey[] {
  const { before, after } = change;
  if ([before, after].some((it) => it !== undefined && isImported(it))) return [];
  return isReadinessChanged(before, after)
    ? rivalsIn(session, probes, both(serviceOfLocalSlice)(change))
    : [];
}

/** For endpoints that were found dead, or alive again, of which nothing is written. */
export function rivalsIn(session: Session, probes: Probes, services: Iterable<ObjectKey>): ObjectKey[] {
  return [...new Set(services)]
    .filter((it) => probes.isInDoubt || isContested(session, it))
    .flatMap((it) => namesOf(session, it));
}

/** Whether it matters who is ready: for most services it does not. */
function isContested(session: Session, service: ObjectKey): boolean {
  const spec = importedService(session, service)?.spec;
  return spec !== undefined && !isSettled(rulesFor(session, spec));
}

type Facts = Pick<OfferedSlice["facts"], "endpoints" | "ports"> | Pick<EndpointSlice, "endpoints" | "ports">;

function isReadinessChanged(before: Facts | undefined, after: Facts | undefined): boolean {
  const always = (): boolean => true;
  return (
    readinessOfEndpoints(before?.endpoints ?? [], always) !==
      readinessOfEndpoints(after?.endpoints ?? [], always) || !sameJson(before?.ports, after?.ports)
  );
}
