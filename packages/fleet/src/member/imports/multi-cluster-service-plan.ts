import type { NewCondition } from "@fairlead/kube/objects/conditions.ts";
import type { Service } from "@fairlead/kube/api/core/v1/types.ts";
import { loadBalancerServiceName } from "#api/fairlead.dev/cluster-names.ts";
import {
  GRACE_PERIOD_ANNOTATION,
  IMPORT_ANNOTATION,
  LOAD_BALANCER_ANNOTATIONS,
  LOAD_BALANCER_CONDITION,
  SHARED_IMPORT,
  WEIGHTS_CONDITION,
} from "#api/fairlead.dev/multi-cluster-service.ts";
import type { OwnerReference } from "@fairlead/kube/api/meta/types.ts";
import { DERIVED_SERVICE_LABEL, SERVICE_IMPORT_LABEL } from "#api/networking.fleet.azure.com/names.ts";
import type {
  FleetServiceImport,
  FleetServiceImportStatus,
  MultiClusterService,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { parseDuration } from "@fairlead/base/duration.ts";
import { byText } from "@fairlead/base/text.ts";
import type { Applied } from "@fairlead/kube/types.ts";
import { inactiveCondition } from "#domain/inactive.ts";
import { unknownAnnotations } from "#domain/unknown-annotations.ts";
import { planLoadBalancer } from "./load-balancer.ts";

/** Fairlead's annotations that a MultiClusterService may have. */
const KNOWN: readonly string[] = [
  IMPORT_ANNOTATION,
  GRACE_PERIOD_ANNOTATION,
  ...Object.values(LOAD_BALANCER_ANNOTATIONS),
];

/** What a MultiClusterService needs: a ServiceImport, a load balancer once there is something behind it. Pure. */

export interface MultiClusterView {
  readonly object: MultiClusterService;
  readonly imported: FleetServiceImport | undefined;
  /** The Service that it has now, wherever its name comes from. */
  readonly derived: Service | undefined;
  /** Other MultiClusterServices here that ask for the same import. */
  readonly rivals: readonly MultiClusterService[];
  /** Beginnings of the annotations that are passed on to the Service. */
  readonly passOn: readonly string[];
  /** True if the hub is legacy. */
  readonly isLegacyHub: boolean;
  /** The cluster leaves its fleet, or has left: by name. */
  readonly left: string | undefined;
  readonly nowMs: number;
}

export interface MultiClusterPlan {
  /** Undefined: none, or it belongs to someone else. */
  readonly serviceImport: Applied<FleetServiceImport> | undefined;
  readonly service:
    | { readonly kind: "apply"; readonly object: Applied<Service> }
    /** Stays as it is, without endpoints, until then. */
    | { readonly kind: "keep"; readonly untilMs: number }
    | { readonly kind: "none" };
  readonly labels: Readonly<Record<string, string>>;
  /** `Valid` first. Legacy agents and their tests know only that one, so others are present only if needed. */
  readonly conditions: readonly NewCondition[];
}

export function planMultiClusterService(view: MultiClusterView): MultiClusterPlan {
  const { object, imported, left } = view;
  if (left !== undefined) return inactive(left);
  const name = object.spec.serviceImport?.name;
  if (name === undefined) return waiting(view, {}, undefined, "spec.serviceImport names no service");
  const labels = { [SERVICE_IMPORT_LABEL]: name };
  const owner = imported?.metadata.ownerReferences?.find((it) => it.controller === true);
  const holder = findHolder(view, owner);
  if (holder !== undefined)
    return waiting(view, labels, undefined, `${holder} of this cluster imports ${name}`);
  // One that was made by hand is used, but not taken over.
  const isByHand = imported !== undefined && owner === undefined;
  const serviceImport = isByHand ? undefined : importOf(object, name);
  if (imported === undefined) return waiting(view, labels, serviceImport, `asking the hub for ${name}`);
  const reason = findReasonToWait(imported, name);
  return reason === undefined
    ? importing(view, imported, { serviceImport, labels })
    : waiting(view, labels, serviceImport, reason);
}

/** Returns the MultiClusterService of this cluster that has the import; undefined if it is this one, or none has it. */
function findHolder(view: MultiClusterView, owner: OwnerReference | undefined): string | undefined {
  const { object, imported } = view;
  if (imported === undefined) return undefined;
  if (owner !== undefined)
    return owner.uid === object.metadata.uid ? undefined : `${owner.kind} ${owner.name}`;
  const first = findFirst(view);
  return first === object ? undefined : `MultiClusterService ${first.metadata.name}`;
}

/** Returns the MultiClusterService that gets an import without an owner: the one that has it, then the oldest. */
function findFirst({ object, rivals }: MultiClusterView): MultiClusterService {
  const holds = (it: MultiClusterService): number =>
    it.metadata.labels?.[DERIVED_SERVICE_LABEL] === undefined ? 1 : 0;
  const age = (it: MultiClusterService): string => it.metadata.creationTimestamp ?? "";
  const [first] = [object, ...rivals].toSorted(
    (a, b) => holds(a) - holds(b) || byText(age(a), age(b)) || byText(a.metadata.name, b.metadata.name),
  );
  return first ?? object;
}

function importing(
  view: MultiClusterView,
  imported: FleetServiceImport,
  known: Pick<MultiClusterPlan, "serviceImport"> & { readonly labels: Readonly<Record<string, string>> },
): MultiClusterPlan {
  const { object, derived, passOn, isLegacyHub } = view;
  const { namespace = "", name } = object.metadata;
  const status = imported.status ?? {};
  const clusters = clustersOf(imported);
  // A Service of a legacy agent keeps its name, and with it its address.
  const serviceName = derived?.metadata.name ?? loadBalancerServiceName(namespace, name);
  const request = { object, status, name: serviceName, derived, passOn, isLegacyHub };
  const { service, problems } = planLoadBalancer(request);
  const valid: NewCondition = {
    type: "Valid",
    status: "True",
    reason: "FoundServiceImport",
    message: `${imported.metadata.name} is imported from ${clusters.join(", ")}`,
  };
  return {
    serviceImport: known.serviceImport,
    service: service === undefined ? { kind: "none" } : { kind: "apply", object: service },
    labels: { ...known.labels, [DERIVED_SERVICE_LABEL]: serviceName },
    conditions: [
      valid,
      ...loadBalancerCondition([
        ...(problems.length > 0 ? [unreadable(problems, derived)] : withoutAddress(serviceName, derived)),
        ...unknownAnnotations(Object.keys(object.metadata.annotations ?? {}), KNOWN, "MultiClusterService"),
      ]),
      ...weightsCondition(status),
    ],
  };
}

interface Wrong {
  readonly reason: string;
  readonly message: string;
}

function loadBalancerCondition(wrong: readonly Wrong[]): NewCondition[] {
  if (wrong.length === 0) return [];
  const reason = wrong.map((it) => it.reason).join(",");
  const message = wrong.map((it) => it.message).join("; ");
  return [{ type: LOAD_BALANCER_CONDITION, status: "False", reason, message }];
}

/** Why there is no address yet. */
function withoutAddress(name: string, derived: Service | undefined): Wrong[] {
  if ((derived?.status?.loadBalancer?.ingress ?? []).length > 0) return [];
  const message = `Service fleet-system/${name} has no address yet: a load balancer provider of this cluster has to give it one`;
  return [{ reason: "Pending", message }];
}

function unreadable(problems: readonly string[], derived: Service | undefined): Wrong {
  const so = derived === undefined ? "the Service is not created" : "the Service keeps its previous settings";
  return { reason: "OptionInvalid", message: `${problems.join("; ")}: ${so}` };
}

/** The condition that reports why the server rejects the Service, which stays as it was. */
export function refusedCondition(name: string, message: string): NewCondition {
  return {
    type: LOAD_BALANCER_CONDITION,
    status: "False",
    reason: "ServiceRefused",
    message: `Service fleet-system/${name}: ${message}`.slice(0, 32_768),
  };
}

function weightsCondition({ clusters = [] }: FleetServiceImportStatus): NewCondition[] {
  if (new Set(clusters.map((it) => it.weight ?? 1)).size < 2) return [];
  const shown = clusters.map((it) => `${it.cluster} ${it.weight ?? 1}`).join(", ");
  return [
    {
      type: WEIGHTS_CONDITION,
      status: "False",
      reason: "ServiceProxyKnowsNoWeights",
      message: `the weights of the clusters are ${shown}, but the service proxy of a cluster gives every endpoint the same share`,
    },
  ];
}

function findReasonToWait(imported: FleetServiceImport, name: string): string | undefined {
  const { status } = imported;
  if (status?.type === "Headless") return `${name} is headless: a load balancer cannot front it`;
  if (clustersOf(imported).length > 0) return undefined;
  return status?.message ?? `no cluster exports ${name}, or another member imports it`;
}

function clustersOf(imported: FleetServiceImport): string[] {
  return (imported.status?.clusters ?? []).map((it) => it.cluster);
}

function waiting(
  view: MultiClusterView,
  labels: Readonly<Record<string, string>>,
  serviceImport: Applied<FleetServiceImport> | undefined,
  why: string,
): MultiClusterPlan {
  const { service, note } = planGrace(view);
  const condition: NewCondition = {
    type: "Valid",
    status: "Unknown",
    reason: "UnknownServiceImport",
    message: note === undefined ? why : `${why}; ${note}`,
  };
  return { serviceImport, service, labels, conditions: [condition] };
}

const DEFAULT_GRACE_MS = 10 * 60_000;
/** An unused load balancer costs money: it is not kept forever. */
const MAX_GRACE_MS = 7 * 86_400_000;

/** A Service without a service behind it goes, after a while: until then its address waits for the exports to come back. */
function planGrace({ object, derived, nowMs }: MultiClusterView): {
  readonly service: MultiClusterPlan["service"];
  readonly note: string | undefined;
} {
  if (derived === undefined) return { service: { kind: "none" }, note: undefined };
  const graceMs = readGrace(object.metadata.annotations?.[GRACE_PERIOD_ANNOTATION]);
  const valid = object.status?.conditions?.find((it) => it.type === "Valid");
  const sinceMs = valid?.status === "Unknown" ? Date.parse(valid.lastTransitionTime) : nowMs;
  // Conditions have whole seconds: the first pass says what later ones will read.
  const untilMs = Math.floor(sinceMs / 1000) * 1000 + graceMs;
  if (nowMs >= untilMs) return { service: { kind: "none" }, note: undefined };
  const until = `${new Date(untilMs).toISOString().slice(0, 19)}Z`;
  return {
    service: { kind: "keep", untilMs },
    note: `Service fleet-system/${derived.metadata.name} keeps its address until ${until}`,
  };
}

function readGrace(text: string | undefined): number {
  const saidMs = text === undefined ? undefined : parseDuration(text.trim());
  return Math.min(saidMs ?? DEFAULT_GRACE_MS, MAX_GRACE_MS);
}

function inactive(cluster: string): MultiClusterPlan {
  const active = inactiveCondition(cluster);
  const { message } = active;
  return {
    serviceImport: undefined,
    service: { kind: "none" },
    labels: {},
    conditions: [{ type: "Valid", status: "Unknown", reason: "UnknownServiceImport", message }, active],
  };
}

function importOf(object: MultiClusterService, name: string): Applied<FleetServiceImport> {
  const isShared = object.metadata.annotations?.[IMPORT_ANNOTATION] === SHARED_IMPORT;
  return {
    metadata: {
      name,
      namespace: object.metadata.namespace ?? "",
      ...(isShared ? { annotations: { [IMPORT_ANNOTATION]: SHARED_IMPORT } } : {}),
      ownerReferences: [
        {
          apiVersion: "networking.fleet.azure.com/v1alpha1",
          kind: "MultiClusterService",
          name: object.metadata.name,
          uid: object.metadata.uid ?? "",
          controller: true,
          blockOwnerDeletion: true,
        },
      ],
    },
  };
}
