import type { EndpointSlice } from "#api/discovery/v1/types.ts";
import type { ImportedService } from "#api/fairlead.dev/v1alpha1/types.ts";
import { type ObjectKey, objectKey } from "#api/meta/key.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import type { EndpointSliceImport } from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { sameJson } from "#base/json.ts";
import type { Change } from "#kube/types.ts";
import { importedService } from "../imports/mcs-import.ts";
import { isImported, serviceOfLocalSlice, serviceOfSliceImport } from "../informers.ts";
import { both, type Session } from "../session.ts";
import {
  chooseClusters,
  isSettled,
  type OfferedSlice,
  readinessOfEndpoints,
  type TrafficRules,
  unitOf,
} from "./eligible.ts";
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

/** Names of the slices whose part in a service may change because one of another cluster became ready or is no longer. */
export function rivalsOfImport(session: Session, change: Change<EndpointSliceImport>): ObjectKey[] {
  if (!isReadinessChanged(change.before?.spec, change.after?.spec)) return [];
  return rivalsIn(session, both((it: EndpointSliceImport) => [serviceOfSliceImport(it)])(change));
}

/** The same for a slice of this cluster's own Services. */
export function rivalsOfLocal(session: Session, change: Change<EndpointSlice>): ObjectKey[] {
  const { before, after } = change;
  if ([before, after].some((it) => it !== undefined && isImported(it))) return [];
  return isReadinessChanged(before, after) ? rivalsIn(session, both(serviceOfLocalSlice)(change)) : [];
}

/** For endpoints that were found dead, or alive again, of which nothing is written. */
export function rivalsIn(session: Session, services: Iterable<ObjectKey>): ObjectKey[] {
  return [...new Set(services)]
    .filter((it) => isContested(session, it))
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
