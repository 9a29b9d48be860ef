import type { NewCondition } from "@fairlead/kube/objects/conditions.ts";
import type { DrainMode } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import type { TrafficTarget } from "#api/fairlead.dev/v1alpha1/traffic-route.ts";
import { TRAFFIC_ANNOTATIONS } from "#api/fairlead.dev/names.ts";
import { clusterOfMailbox } from "#api/networking.fleet.azure.com/names.ts";
import type {
  FleetServiceImport,
  InternalServiceExport,
  InternalServiceExportSpec,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import type {
  EndpointHealth,
  TrafficManagerBackend,
  TrafficManagerEndpointStatus,
} from "#api/networking.fleet.azure.com/v1beta1/traffic-manager.ts";
import { byText } from "@fairlead/base/text.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { formatAddress, tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import type { PermitsTarget } from "./targets.ts";

/** Computes the endpoints of a profile, and the conditions of its backends. Pure. */

export interface BackendsView {
  readonly backends: readonly TrafficManagerBackend[];
  readonly serviceImport: (name: string) => FleetServiceImport | undefined;
  readonly exports: (name: string) => readonly InternalServiceExport[];
  readonly drain: (cluster: string) => DrainMode | undefined;
  readonly permits: PermitsTarget;
  readonly health: (endpoint: string) => EndpointHealth;
}

interface PlannedEndpoint {
  readonly target: TrafficTarget;
  readonly status: TrafficManagerEndpointStatus;
}

export interface PlannedBackend {
  readonly backend: TrafficManagerBackend;
  readonly accepted: NewCondition;
  readonly endpoints: readonly PlannedEndpoint[];
}

/** The highest priority of an export, and so the room between those of two backends. */
const PRIORITIES = 1001;

/** Endpoints of all backends of one profile. Oldest first: it is the one that keeps a service that two ask for. */
export function planBackends(view: BackendsView): PlannedBackend[] {
  const owners = new Map<string, TrafficManagerBackend>();
  return view.backends
    .filter((it) => !isDeleting(it))
    .toSorted(byAge)
    .map((backend) => {
      const service = backend.spec.backend.name;
      const owner = owners.get(service);
      if (owner === undefined && weightOf(backend) > 0) owners.set(service, backend);
      if (owner === undefined || weightOf(backend) === 0) return planBackend(view, backend);
      const message = `endpoints of service ${service} are in the profile already, by TrafficManagerBackend ${owner.metadata.name}`;
      return { backend, endpoints: [], accepted: invalid(message) };
    });
}

function byAge(a: TrafficManagerBackend, b: TrafficManagerBackend): number {
  const at = (it: TrafficManagerBackend): string => it.metadata.creationTimestamp ?? "";
  return byText(at(a), at(b)) || byText(a.metadata.name, b.metadata.name);
}

function weightOf({ spec }: TrafficManagerBackend): number {
  return spec.weight ?? 1;
}

function planBackend(view: BackendsView, backend: TrafficManagerBackend): PlannedBackend {
  const none = (condition: NewCondition): PlannedBackend => ({ backend, accepted: condition, endpoints: [] });
  const service = backend.spec.backend.name;
  const serviceImport = view.serviceImport(service);
  if (serviceImport === undefined || isDeleting(serviceImport))
    return none(invalid(`ServiceImport ${service} is not found`));
  if (weightOf(backend) === 0) return none(accepted([]));
  const clusters = (serviceImport.status?.clusters ?? []).map((it) => it.cluster);
  if (clusters.length === 0)
    return none(pending(`no cluster's export of service ${service} is accepted yet`));
  const exports = new Map(
    view
      .exports(service)
      .filter((it) => !isDeleting(it))
      // Of two objects of one cluster the first by name is the one that the hub accepts: it comes last here, and stays.
      .toSorted((a, b) => byText(b.metadata.name, a.metadata.name))
      .map((it) => [clusterOfMailbox(it.metadata.namespace) ?? "", it.spec] as const),
  );
  const missing = clusters.find((cluster) => exports.get(cluster) === undefined);
  if (missing !== undefined)
    return none(pending(`the export of service ${service} from cluster ${missing} is not there yet`));
  const candidates = clusters
    .toSorted(byText)
    .map((cluster) => readCandidate(cluster, exports.get(cluster), view.permits));
  const endpoints = share(view, backend, candidates);
  const problems = candidates.filter((it) => it.problem !== undefined);
  return { backend, endpoints, accepted: withRemark(judge(endpoints, problems), backend) };
}

interface Candidate {
  readonly cluster: string;
  readonly weight: number;
  readonly priority: number;
  readonly destination: Pick<TrafficTarget, "addresses" | "hostname">;
  /** Why the export cannot be an endpoint. */
  readonly problem: string | undefined;
}

function readCandidate(
  cluster: string,
  spec: InternalServiceExportSpec | undefined,
  permits: PermitsTarget,
): Candidate {
  const destination = destinationOf(spec, permits);
  return {
    cluster,
    weight: spec?.weight ?? 1,
    priority: spec?.priority ?? 0,
    destination,
    problem: findProblem(spec, destination),
  };
}

/** In the order in which other controllers of this API find them. */
function findProblem(
  spec: InternalServiceExportSpec | undefined,
  { addresses, hostname }: Candidate["destination"],
): string | undefined {
  if (spec?.type !== "LoadBalancer")
    return `unsupported service type ${JSON.stringify(spec?.type ?? "")}: it must be LoadBalancer`;
  if (spec.isInternalLoadBalancer === true) return "an internal load balancer is not supported";
  if (addresses !== undefined || hostname !== undefined) return undefined;
  if (spec.loadBalancerIngress === undefined && spec.publicIPResourceID !== undefined)
    return "its agent reports the resource of the public address and not the address; Fairlead's agent reports both";
  return (spec.loadBalancerIngress ?? []).some((it) => it.ip !== undefined)
    ? "its load balancer has no address to which this hub connects: see --traffic-private-ranges (trafficManager.privateRanges of its chart)"
    : "its load balancer has no address yet";
}

/** Each is probed. More than load balancers have. */
const MAX_INGRESS = 16;

/** A mailbox is not trusted: an address that is not a host address is neither probed nor published. */
function destinationOf(
  spec: InternalServiceExportSpec | undefined,
  permits: PermitsTarget,
): Candidate["destination"] {
  const ingress = (spec?.loadBalancerIngress ?? []).slice(0, MAX_INGRESS);
  const addresses = ingress.flatMap(({ ip }) => {
    const address = ip === undefined ? undefined : tryParseAddress(ip);
    return address !== undefined && permits(address) ? [formatAddress(address)] : [];
  });
  if (addresses.length > 0) return { addresses: [...new Set(addresses)].toSorted(byText) };
  const hostname = ingress.find(({ hostname: name }) => name !== undefined && isHostname(name))?.hostname;
  return hostname === undefined ? {} : { hostname: hostname.toLowerCase().replace(/\.$/, "") };
}

/** Returns true for a domain of at least two labels: "localhost" is not the name of a load balancer. */
function isHostname(text: string): boolean {
  return (
    text.length <= 253 &&
    /^(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]{0,61}[a-z0-9]\.?$/i.test(text) &&
    !/\.localhost\.?$/i.test(text)
  );
}

/** Each valid export's part of the backend's weight, rounded up as Azure's controllers do. */
function share(
  view: BackendsView,
  backend: TrafficManagerBackend,
  candidates: readonly Candidate[],
): PlannedEndpoint[] {
  const valid = candidates.filter(
    (it) => it.problem === undefined && it.weight > 0 && view.drain(it.cluster) !== "Hard",
  );
  const sum = valid.reduce((total, it) => total + it.weight, 0);
  return valid.map((it) => {
    const name = endpointName(backend, it.cluster);
    const weight = Math.ceil((weightOf(backend) * it.weight) / sum);
    const health = view.health(name);
    const priority = priorityOf(backend) * PRIORITIES + it.priority;
    return {
      target: {
        name,
        weight,
        ...(priority === 0 ? {} : { priority }),
        ...it.destination,
        ...(health === "Degraded" ? { degraded: true } : {}),
        ...(view.drain(it.cluster) === "Soft" ? { drained: true } : {}),
      },
      status: {
        name,
        weight,
        target: it.destination.hostname ?? it.destination.addresses?.[0] ?? "",
        from: { cluster: it.cluster, weight: it.weight },
        health,
      },
    };
  });
}

/** As other controllers of this API name them, in lower case. */
function endpointName({ metadata, spec }: TrafficManagerBackend, cluster: string): string {
  return `fleet-${metadata.uid ?? ""}#${spec.backend.name}#${cluster}`.toLowerCase();
}

/** A backend's own priority comes first; those of the exports order its endpoints among themselves. */
function priorityOf(backend: TrafficManagerBackend): number {
  const value = Number(priorityText(backend));
  return hasPriority(backend) ? value : 0;
}

function priorityText({ metadata }: TrafficManagerBackend): string {
  return metadata.annotations?.[TRAFFIC_ANNOTATIONS.priority] ?? "0";
}

function hasPriority(backend: TrafficManagerBackend): boolean {
  const text = priorityText(backend);
  return /^\d{1,4}$/.test(text) && Number(text) < PRIORITIES;
}

/** Reports an invalid priority, which does not invalidate the backend. */
function withRemark(condition: NewCondition, backend: TrafficManagerBackend): NewCondition {
  if (hasPriority(backend)) return condition;
  const value = JSON.stringify(priorityText(backend).slice(0, 40));
  const why = `annotation ${TRAFFIC_ANNOTATIONS.priority} must be a whole number from 0 to ${PRIORITIES - 1}, got ${value}; using 0`;
  return { ...condition, message: `${condition.message}; ${why}` };
}

function judge(endpoints: readonly PlannedEndpoint[], problems: readonly Candidate[]): NewCondition {
  const [first] = problems;
  if (first === undefined) return accepted(endpoints);
  return invalid(
    `${problems.length} service(s) exported from clusters cannot be Traffic Manager endpoints, for example, the one from ${first.cluster}: ${first.problem}`,
  );
}

function accepted(endpoints: readonly PlannedEndpoint[]): NewCondition {
  const degraded = endpoints.filter((it) => it.status.health === "Degraded");
  const count = `${endpoints.length} service(s) exported from clusters have been accepted as Traffic Manager endpoints`;
  const all =
    endpoints.length === degraded.length ? "; all endpoints are degraded, so all of them are returned" : "";
  return {
    type: "Accepted",
    status: "True",
    reason: "Accepted",
    message:
      degraded.length === 0
        ? count
        : `${count}; degraded: ${degraded.map((it) => it.status.from?.cluster).join(", ")}${all}`,
  };
}

export function invalid(message: string): NewCondition {
  return { type: "Accepted", status: "False", reason: "Invalid", message };
}

export function pending(message: string): NewCondition {
  return { type: "Accepted", status: "Unknown", reason: "Pending", message };
}
