import type { EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { sliceWeight } from "#domain/global-service.ts";
import type { ImportedService } from "#api/fairlead.dev/v1alpha1/types.ts";
import type { ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import type { EndpointSliceImport } from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { both } from "@fairlead/kube/controller/source.ts";
import type { Change } from "@fairlead/kube/types.ts";
import { isParallel, isReached } from "../fleet-addresses.ts";
import { fleetImportOf } from "../hub-cluster.ts";
import { importedService } from "../imports/mcs-import.ts";
import { isImported, serviceOfLocalSlice, serviceOfSliceImport } from "../informers.ts";
import type { Probes } from "../probes/probes.ts";
import type { Session } from "../session.ts";
import {
  chooseClusters,
  isSettled,
  openClusters,
  type OfferedSlice,
  readinessOf,
  readinessOfEndpoints,
  type TrafficRules,
  unitOf,
} from "#domain/eligible.ts";
import { importPorts } from "#domain/slice.ts";
import { drainsOf } from "./drained.ts";
import { type GlobalUse, globalUseOf, isGlobalContested } from "./global-choice.ts";
import type { SliceImportView, SourceSlice } from "./import-plan.ts";
import { type FoundSlice, namesOf, sourcesOf } from "./sources.ts";

/** Returns true if an endpoint of a cluster answers its probes, or is not probed. */
export type IsAlive = (cluster: string, addresses: readonly string[]) => boolean;

export type Choice = Pick<SliceImportView, "serves" | "servesBalanced">;

/** For services of which only the endpoints are known. */
const ALL: Choice = { serves: () => true, servesBalanced: () => true };

/** What all slices of a service go by. */
export interface ServiceChoice {
  /** What the service looks like in the fleet; undefined: only its endpoints are known. */
  readonly spec: ImportedService["spec"] | undefined;
  readonly isAlive: IsAlive;
  /** The global Service here. */
  readonly global: GlobalUse | undefined;
  /** Which ports a slice's cluster serves here. */
  readonly forSlice: (source: SourceSlice) => Choice;
  /** The slices that have an endpoint that gets traffic, and perhaps a few more. */
  readonly serving: () => readonly FoundSlice[];
}

/**
 * The choice of each service, computed once for all of its slices, and again on demand after one of its inputs changed.
 * Watchers of these inputs have to call `forget`; results of probes are observed here.
 */
export class Choices {
  readonly #session: Session;
  readonly #probes: Probes;
  readonly #made = new Map<ObjectKey, ServiceChoice>();
  #findings = 0;

  constructor(session: Session, probes: Probes) {
    this.#session = session;
    this.#probes = probes;
  }

  of(service: ObjectKey): ServiceChoice {
    if (this.#findings !== this.#probes.findings) this.forgetAll();
    const known = this.#made.get(service);
    if (known !== undefined) return known;
    const made = choose(this.#session, this.#probes, service);
    // Nothing is cached for services after its import is deleted: no event would evict it.
    if (made.spec !== undefined) this.#made.set(service, made);
    return made;
  }

  forget(services: Iterable<ObjectKey>): void {
    for (const it of services) this.#made.delete(it);
  }

  forgetAll(): void {
    this.#made.clear();
    this.#findings = this.#probes.findings;
  }
}

function choose(session: Session, probes: Probes, service: ObjectKey): ServiceChoice {
  const spec = importedService(session, service)?.spec;
  const isAlive = aliveIn(session, service, probes);
  const forSlice = spec === undefined ? () => ALL : choicesFor(session, service, { spec, isAlive });
  const global = spec === undefined ? undefined : globalUseOf(session, service, { spec, isAlive });
  let serving: readonly FoundSlice[] | undefined;
  return {
    spec,
    isAlive,
    global,
    forSlice,
    serving: () =>
      (serving ??= sourcesOf(session, service).filter((it) => {
        const { cluster, facts, isAlive: answers } = offer(it, isAlive);
        const isReady = readinessOfEndpoints(facts.endpoints, answers) === "ready";
        return (
          isReady &&
          (servesAny(
            forSlice(it.source),
            facts,
            spec?.clusters.find((one) => one.cluster === cluster),
          ) ||
            usesGlobally(global, it.source))
        );
      })),
  };
}

function usesGlobally(global: GlobalUse | undefined, { cluster, facts }: SourceSlice): boolean {
  const { addressType, ports = [] } = facts;
  const names = ports.length === 0 ? [""] : ports.map((it) => it.name ?? "");
  return names.some((it) => global?.serves(cluster, addressType, it) === true);
}

function servesAny(
  { serves, servesBalanced }: Choice,
  { ports = [] }: SourceSlice["facts"],
  exposed: ImportedService["spec"]["clusters"][number] | undefined,
): boolean {
  const imported = importPorts(ports, exposed?.ports ?? []);
  return (
    ports.length === 0 ||
    serves("") ||
    imported.some((it) => serves(it.name ?? "")) ||
    ports.some((it) => servesBalanced(it.name ?? ""))
  );
}

function choicesFor(
  session: Session,
  service: ObjectKey,
  { spec, isAlive }: { readonly spec: ImportedService["spec"]; readonly isAlive: IsAlive },
): ServiceChoice["forSlice"] {
  let readiness: ReturnType<typeof readinessOf> | undefined;
  const readinessNow = (): ReturnType<typeof readinessOf> =>
    (readiness ??= readinessOf(
      spec,
      sourcesOf(session, service).map((it) => offer(it, isAlive)),
    ));
  const rules = rulesFor(session, spec);
  const shared = chooseClusters(rules, readinessNow);
  // The load balancer has only endpoints of clusters that agree on the ports.
  const accepted = new Set(fleetImportOf(session, service)?.status?.clusters?.map((it) => it.cluster));
  const clusters = rules.clusters.filter((it) => accepted.has(it.cluster));
  const balanced = chooseClusters({ ...rules, clusters }, readinessNow);
  const exposed = new Map(spec.clusters.map((it) => [it.cluster, it.ports]));
  return ({ cluster, facts }) => ({
    serves: (port) => shared(cluster, unitOf(facts.addressType, port)),
    servesBalanced: (port) => {
      const importedAs = exposed.get(cluster)?.find((it) => it.name === port)?.importedAs ?? port;
      return balanced(cluster, unitOf(facts.addressType, importedAs));
    },
  });
}

function offer({ source }: FoundSlice, isAlive: IsAlive): OfferedSlice {
  const { cluster, facts, isLocal } = source;
  return { cluster, facts, isAlive: (addresses) => isLocal || isAlive(cluster, addresses) };
}

function rulesFor(session: Session, spec: ImportedService["spec"]): TrafficRules {
  return {
    own: session.cluster,
    affinity: spec.affinity,
    clusters: spec.clusters,
    drained: drainsOf(session),
  };
}

/**
 * What probes and the gateways' reports say, but for one thing: what only this member doubts is used where no other endpoint of
 * the service is left. Its probes may fail where clients do not, for example by a NetworkPolicy.
 */
function aliveIn(session: Session, service: ObjectKey, probes: Probes): IsAlive {
  const isKnownAlive: IsAlive = (cluster, addresses) => probes.isAlive(cluster, addresses);
  if (!probes.isInDoubt && !isParallel(session)) return isKnownAlive;
  const spec = importedService(session, service)?.spec;
  const sources = sourcesOf(session, service).map(({ source }) => source);
  const unreached = new Set(
    sources.map((it) => it.cluster).filter((cluster) => !isReached(session, cluster)),
  );
  if (!probes.isInDoubt && unreached.size === 0) return isKnownAlive;
  const isOpenCluster = spec === undefined ? () => true : openClusters(rulesFor(session, spec));
  const answers: IsAlive = (cluster, addresses) =>
    !unreached.has(cluster) && isKnownAlive(cluster, addresses);
  const isServed = (family: string): boolean =>
    sources.some(({ cluster, isLocal, facts }) => {
      if (facts.addressType !== family || !isOpenCluster(cluster)) return false;
      const isAlive = (addresses: readonly string[]): boolean => isLocal || answers(cluster, addresses);
      return readinessOfEndpoints(facts.endpoints, isAlive) !== "none";
    });
  const served = { IPv4: isServed("IPv4"), IPv6: isServed("IPv6") };
  return (cluster, addresses) => {
    if (answers(cluster, addresses)) return true;
    const family = addresses[0]?.includes(":") === true ? "IPv6" : "IPv4";
    const isDoubted = probes.isDoubted(cluster) || isKnownAlive(cluster, addresses);
    return isDoubted && !served[family];
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
  const isWeightChanged =
    sliceWeight(before?.metadata.annotations) !== sliceWeight(after?.metadata.annotations);
  return isReadinessChanged(before, after) || isWeightChanged
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
  return (spec !== undefined && !isSettled(rulesFor(session, spec))) || isGlobalContested(session, service);
}

type Facts = Pick<OfferedSlice["facts"], "endpoints" | "ports"> | Pick<EndpointSlice, "endpoints" | "ports">;

function isReadinessChanged(before: Facts | undefined, after: Facts | undefined): boolean {
  const always = (): boolean => true;
  return (
    readinessOfEndpoints(before?.endpoints ?? [], always) !==
      readinessOfEndpoints(after?.endpoints ?? [], always) || !sameJson(before?.ports, after?.ports)
  );
}
