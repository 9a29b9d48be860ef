import { withAge } from "#domain/ages.ts";
import { narrowed } from "#domain/audience.ts";
import { drainedMembers } from "#domain/drain.ts";
import {
  chooseClusters,
  isSettled,
  type OfferedSlice,
  readinessOf,
  readinessOfEndpoints,
  type TrafficRules,
  unitOf,
} from "#domain/eligible.ts";
import type { ServiceKey } from "#domain/keys.ts";
import { type ExportedService, isFor, readExport } from "#domain/exported-service.ts";
import { parseClaims } from "#domain/claim.ts";
import { mergeExports } from "#domain/merge.ts";
import type { ImportedService } from "#api/fairlead.dev/v1alpha1/types.ts";
import { objectKey, splitKey } from "@fairlead/kube/api/meta/key.ts";
import {
  clusterOfMailbox,
  FINALIZERS,
  mailboxOf,
  SERVICE_IN_USE_BY_ANNOTATION,
} from "#api/networking.fleet.azure.com/names.ts";
import type {
  AcceptedCluster,
  EndpointSliceExport,
  EndpointSliceImport,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import type { Change } from "@fairlead/kube/types.ts";
import { type HubInformers, serviceOfSlice } from "../informers.ts";
import { agesOf, findExportProblem } from "../services/plan.ts";
import { allowedIn, exportersIn } from "../services/reconcile.ts";
import { statusFor } from "../services/traffic.ts";
import { isLegacyMember } from "../view.ts";

/**
 * Importers choose the clusters whose endpoints they use. Legacy agents cannot choose and use all that they receive.
 * For these the hub chooses by the same rules, without probes.
 */

interface Contest {
  readonly rules: TrafficRules;
  readonly spec: Pick<ImportedService["spec"], "type" | "clusters">;
}

/** Undefined: there is nothing to import. */
function contestFor(informers: HubInformers, service: ServiceKey, importer: string): Contest | undefined {
  const visible = exportsOf(informers, service).filter((it) => isFor(it, importer));
  const spec = mergeExports(visible)?.spec;
  if (spec === undefined) return undefined;
  // The load balancer has only endpoints of clusters that agree on the ports.
  const { status } = informers.serviceImports.store.get(service) ?? {};
  const accepted = new Set(status?.clusters?.map((it) => it.cluster));
  const clusters = spec.clusters.filter((it) => accepted.has(it.cluster));
  const drained = new Map(
    drainedMembers(informers.members.store.byIndex("drained", "")).map(
      (it) => [it.cluster, it.mode] as const,
    ),
  );
  return { rules: { own: importer, affinity: spec.affinity, clusters, drained }, spec };
}

function exportsOf(informers: HubInformers, service: ServiceKey): ExportedService[] {
  const { namespace = "" } = splitKey(service);
  const exporters = exportersIn(informers, namespace);
  const allowed = allowedIn(informers, namespace);
  const serviceImport = informers.serviceImports.store.get(service);
  const ages = (serviceImport === undefined ? undefined : agesOf(serviceImport)) ?? new Map();
  return [...informers.exports.store.byIndex("service", service)].flatMap((it) => {
    const model =
      isDeleting(it) || findExportProblem(it, exporters) !== undefined ? undefined : readExport(it);
    return model === undefined
      ? []
      : [{ ...withAge(model, ages), exportTo: narrowed(model.exportTo, allowed) }];
  });
}

/**
 * Selects the ports of a slice that a legacy importer receives. It keeps its slices until it has imported another one,
 * which only its finalizer shows: it must not be without an endpoint in between.
 */
export function portsForLegacyAgent(
  informers: HubInformers,
  source: EndpointSliceExport,
  importer: string,
): (port: string) => boolean {
  const service = serviceOfSlice(source);
  const contest = contestFor(informers, service, importer);
  if (contest === undefined) return () => true;
  const cluster = clusterOfMailbox(source.metadata.namespace) ?? "";
  const { rules, spec } = contest;
  const serves = chooseClusters(rules, () => readinessOf(spec, offered(informers, service)));
  const exposed = spec.clusters.find((it) => it.cluster === cluster)?.ports ?? [];
  return (port) => {
    const unit = unitOf(source.spec.addressType, exposed.find((it) => it.name === port)?.importedAs ?? port);
    if (serves(cluster, unit)) return true;
    const first = rules.clusters.filter((it) => serves(it.cluster, unit)).map((it) => it.cluster);
    return (
      first.length > 0 && holds(informers, source, importer) && !hasTaken(informers, service, importer, first)
    );
  };
}

/** The cluster's ports and what they are imported as, where the importer's answer names them. */
export function portsImportedBy(
  informers: HubInformers,
  source: EndpointSliceExport,
  importer: string,
): AcceptedCluster["ports"] {
  const service = serviceOfSlice(source);
  const { status = {} } = informers.serviceImports.store.get(service) ?? {};
  const answer = statusFor(status, exportsOf(informers, service), {
    cluster: importer,
    knowsFamilies: !isLegacyMember(informers, importer),
  });
  const cluster = clusterOfMailbox(source.metadata.namespace);
  return answer.clusters?.find((it) => it.cluster === cluster)?.ports;
}

function offered(informers: HubInformers, service: ServiceKey): OfferedSlice[] {
  return [...informers.sliceExports.store.byIndex("service", service)].flatMap((it) => {
    const cluster = clusterOfMailbox(it.metadata.namespace);
    if (cluster === undefined || isDeleting(it)) return [];
    return [{ cluster, facts: it.spec, isAlive: () => true }];
  });
}

function holds({ sliceImports }: HubInformers, source: EndpointSliceExport, importer: string): boolean {
  const copy = sliceImports.store.get(objectKey(mailboxOf(importer), source.metadata.name));
  return copy !== undefined && !isDeleting(copy);
}

/** Whether the importer works with endpoints of one of the clusters. */
function hasTaken(
  { sliceImports }: HubInformers,
  service: ServiceKey,
  importer: string,
  clusters: readonly string[],
): boolean {
  return [...sliceImports.store.byIndex("service", service)].some(
    (it) =>
      it.metadata.namespace === mailboxOf(importer) &&
      !isDeleting(it) &&
      isTaken(it) &&
      clusters.includes(it.spec.endpointSliceReference.clusterId) &&
      it.spec.endpoints.length > 0,
  );
}

function isTaken({ metadata }: EndpointSliceImport): boolean {
  return metadata.finalizers?.includes(FINALIZERS.endpointSliceImport) === true;
}

/** Returns true if a legacy agent imports the service. */
export function hasLegacyImporter(informers: HubInformers, service: ServiceKey): boolean {
  const { metadata } = informers.serviceImports.store.get(service) ?? {};
  return parseClaims(metadata?.annotations?.[SERVICE_IN_USE_BY_ANNOTATION]).some((it) =>
    isLegacyMember(informers, it.cluster),
  );
}

/** Services with an importer for which it matters now whose slices are ready. */
export function contestedBy(informers: HubInformers, change: Change<EndpointSliceExport>): ServiceKey[] {
  const { before, after } = change;
  const [was, is] = [before, after].map((it) => readinessOfEndpoints(it?.spec.endpoints ?? [], () => true));
  if (was === is && sameJson(before?.spec.ports, after?.spec.ports)) return [];
  return servicesOf(change).filter((service) => {
    const { metadata } = informers.serviceImports.store.get(service) ?? {};
    return parseClaims(metadata?.annotations?.[SERVICE_IN_USE_BY_ANNOTATION]).some(({ cluster }) => {
      if (!isLegacyMember(informers, cluster)) return false;
      const contest = contestFor(informers, service, cluster);
      return contest !== undefined && !isSettled(contest.rules);
    });
  });
}

/** The service of a copy that its importer has begun to use: what that replaces may go now. */
export function takenBy({ before, after }: Change<EndpointSliceImport>): ServiceKey[] {
  const isNew = after !== undefined && isTaken(after) && (before === undefined || !isTaken(before));
  return isNew ? [serviceOfSlice(after)] : [];
}

function servicesOf({ before, after }: Change<EndpointSliceExport>): ServiceKey[] {
  return [...new Set([before, after].flatMap((it) => (it === undefined ? [] : [serviceOfSlice(it)])))];
}
