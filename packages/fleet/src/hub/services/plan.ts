import type { NewCondition } from "@fairlead/kube/objects/conditions.ts";
import {
  ACCEPTED,
  ALLOWED_EXPORTERS_ANNOTATION,
  ALLOWED_IMPORTERS_ANNOTATION,
  EXPORTED_SINCE_ANNOTATION,
  MCS_CONFLICT,
} from "#api/fairlead.dev/names.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { byText } from "@fairlead/base/text.ts";
import { type Ages, parseAges, planAges, withAge } from "#domain/ages.ts";
import { type Claim, parseClaims, planClaims } from "#domain/claim.ts";
import { type ExportedService, isFor, readExport } from "#domain/exported-service.ts";
import { type Audiences, mergeForAudiences, narrowed, type Members } from "#domain/audience.ts";
import { type MergedService, mergeExports } from "#domain/merge.ts";
import { IMPORT_ANNOTATION, SHARED_IMPORT } from "#api/fairlead.dev/multi-cluster-service.ts";
import { findExportFormatProblem } from "#domain/export-problem.ts";
import { isClusterName, isServiceName } from "#api/fairlead.dev/cluster-names.ts";
import { type StrictImport, planStrictImport } from "#domain/strict.ts";
import {
  clusterOfMailbox,
  isReservedNamespace,
  SERVICE_IN_USE_BY_ANNOTATION,
} from "#api/networking.fleet.azure.com/names.ts";
import type {
  FleetServiceImport,
  FleetServiceImportStatus,
  InternalServiceExport,
  InternalServiceImport,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { statusFor, trafficConditions } from "./traffic.ts";

/** What the hub makes of all that members say about one service. Pure. */

export interface ServiceView {
  readonly exports: readonly InternalServiceExport[];
  readonly imports: readonly InternalServiceImport[];
  readonly serviceImport: FleetServiceImport | undefined;
  /** Members that belong to the fleet now. */
  readonly members: Members;
  /** Of the namespace: who may import from it. Undefined: everyone. */
  readonly allowed?: readonly string[] | undefined;
  /** The members that may export services of the namespace. Undefined: all. */
  readonly exporters?: readonly string[] | undefined;
  /** Which network a member belongs to: those of others are as if they were not there. Default: all to one. */
  readonly networkOf?: (cluster: string) => string;
  /** True for members with a legacy agent, which does not know Fairlead's fields of the published kinds. Default: none. */
  readonly isLegacy?: (cluster: string) => boolean;
}

export interface ServicePlan {
  /** For the hub's ServiceImport. Undefined: nothing is exported, there is none. */
  readonly status: FleetServiceImportStatus | undefined;
  /** Of the members that import it through the fleet API. */
  readonly claims: readonly Claim[];
  /** Since when each cluster exports it, for the hub's ServiceImport. */
  readonly ages: Ages;
  /** For the views, and for ImportedServices in mailboxes; by network. */
  readonly audiences: ReadonlyMap<string, Audiences>;
  /** For the exports, one entry each. A condition type of Fairlead that is not in it is removed. */
  readonly exports: readonly {
    readonly object: InternalServiceExport;
    readonly conditions: readonly NewCondition[];
  }[];
  /** For the InternalServiceImports, one entry each. */
  readonly importStatuses: readonly {
    readonly object: InternalServiceImport;
    readonly holdsClaim: boolean;
    readonly status: FleetServiceImportStatus;
  }[];
}

/** The members whose exports of a namespace are accepted. */
export interface Exporters {
  readonly members: Members;
  /** Undefined: every member. */
  readonly exporters?: readonly string[] | undefined;
}

/**
 * Returns the fault of an export, judged by its namespace, which is all that the hub trusts. Undefined if the export is
 * valid.
 */
export function findExportProblem(
  object: InternalServiceExport,
  { members, exporters }: Exporters,
): string | undefined {
  const owner = clusterOfMailbox(object.metadata.namespace);
  if (owner === undefined || !members.has(owner)) return "the namespace is not the namespace of a member";
  if (object.spec === undefined) return "spec.serviceReference is missing";
  const reference = object.spec.serviceReference;
  if (reference.clusterId !== owner)
    return `it claims to come from cluster ${reference.clusterId.slice(0, 63)}, but this is the mailbox of ${owner}`;
  if (!isClusterName(reference.namespace) || !isServiceName(reference.name))
    return "namespace and name of its Service are not valid";
  if (isReservedNamespace(reference.namespace))
    return `namespace ${reference.namespace} is reserved, nothing is exported from it`;
  if (exporters?.includes(owner) === false)
    return `the annotation ${ALLOWED_EXPORTERS_ANNOTATION} of namespace ${reference.namespace} on the hub does not name ${owner}`;
  return findExportFormatProblem(object.spec);
}

export function planService(view: ServiceView): ServicePlan {
  const present = view.exports.filter((it) => it.metadata.deletionTimestamp === undefined);
  const { accepted: said, refused } = sortOut(present, view);
  const ages = planAges(
    view.serviceImport === undefined ? new Map() : agesOf(view.serviceImport),
    [...said].map(([object, model]) => ({ model, seenAt: object.metadata.creationTimestamp ?? "" })),
  );
  const accepted = new Map([...said].map(([object, model]) => [object, withAge(model, ages)] as const));
  const offered = [...accepted.values()].map((it) => ({
    ...it,
    exportTo: narrowed(it.exportTo, view.allowed),
  }));
  const strict = planStrictImport(offered, view.serviceImport?.status);
  const networkOf = view.networkOf ?? (() => "");
  const networks = Map.groupBy(offered, (it) => networkOf(it.cluster));
  const mergedIn = new Map([...networks].map(([network, all]) => [network, mergeExports(all)] as const));
  const claims = strict.status?.type === "ClusterSetIP" ? planClaimsFor(view) : [];
  return {
    status: strict.status,
    claims,
    ages,
    audiences: new Map(
      [...networks].map(([network, all]) => [network, mergeForAudiences(all, view.members)] as const),
    ),
    exports: present.map((object) => {
      const problem = refused.get(object);
      const model = accepted.get(object);
      const network = networkOf(model?.cluster ?? "");
      const others = networks.get(network) ?? [];
      // A member that may not import an export does not learn its contents.
      const merged =
        model !== undefined && others.some((it) => !isFor(it, model.cluster))
          ? mergeExports(others, (it) => isFor(it, model.cluster))
          : mergedIn.get(network);
      return {
        object,
        conditions:
          model === undefined
            ? [refusal(problem ?? "")]
            : [
                ...conditionsOf(model, strict, merged?.conflicts ?? []),
                ...trafficConditions(model, {
                  affinityConflict: merged?.affinityConflict,
                  members: view.members,
                }),
              ],
      };
    }),
    importStatuses: view.imports.map((object) => {
      const holdsClaim = claims.some((it) => it.mailbox === object.metadata.namespace);
      const cluster = clusterOfMailbox(object.metadata.namespace) ?? "";
      const knowsFamilies = view.isLegacy?.(cluster) !== true;
      const status = holdsClaim
        ? statusFor(strict.status ?? {}, offered, { cluster, knowsFamilies })
        : { message: explainWait(object, strict.status, claims, view.allowed) };
      return { object, holdsClaim, status };
    }),
  };
}

/** Undefined where the hub's ServiceImport says none. */
export function agesOf({ metadata }: FleetServiceImport): Ages | undefined {
  return parseAges(metadata.annotations?.[EXPORTED_SINCE_ANNOTATION]);
}

interface SortedOut {
  readonly accepted: ReadonlyMap<InternalServiceExport, ExportedService>;
  readonly refused: ReadonlyMap<InternalServiceExport, string>;
}

/** A cluster exports a service once: of two objects the first by name counts. */
function sortOut(exports: readonly InternalServiceExport[], allowed: Exporters): SortedOut {
  const accepted = new Map<InternalServiceExport, ExportedService>();
  const refused = new Map<InternalServiceExport, string>();
  const byCluster = new Map<string, string>();
  for (const object of exports.toSorted((a, b) => byText(a.metadata.name, b.metadata.name))) {
    const problem = findExportProblem(object, allowed);
    const model = readExport(object);
    if (problem !== undefined || model === undefined) {
      refused.set(object, problem ?? "spec.serviceReference is missing");
      continue;
    }
    const other = byCluster.get(model.cluster);
    if (other !== undefined) refused.set(object, `${other} exports the same service already`);
    else {
      byCluster.set(model.cluster, object.metadata.name);
      accepted.set(object, model);
    }
  }
  return { accepted, refused };
}

/** Explains why a member that asks for a service gets nothing. Legacy agents do not read it, and see an empty answer. */
function explainWait(
  { spec }: InternalServiceImport,
  status: FleetServiceImportStatus | undefined,
  claims: readonly Claim[],
  allowed: readonly string[] | undefined,
): string {
  const { clusterId, namespace, name } = spec.serviceImportReference;
  const service = `${namespace}/${name}`;
  if (allowed?.includes(clusterId) === false)
    return `the annotation ${ALLOWED_IMPORTERS_ANNOTATION} of namespace ${namespace} on the hub does not name ${clusterId.slice(0, 63)}`;
  if (status === undefined) return `no cluster exports ${service}`;
  if (status.type === "Headless") return `${service} is headless: a load balancer cannot front it`;
  const holders = claims.map((it) => it.cluster).join(", ");
  const all = `one member at a time does, unless every one asks with ${IMPORT_ANNOTATION}: ${SHARED_IMPORT}`;
  return holders === "" ? `${service} is not imported` : `${service} is imported by ${holders}: ${all}`;
}

function planClaimsFor(view: ServiceView): Claim[] {
  const claimants = view.imports.flatMap((it) => {
    const cluster = clusterOfMailbox(it.metadata.namespace);
    if (cluster === undefined || it.metadata.deletionTimestamp !== undefined || !view.members.has(cluster))
      return [];
    // A member that may not import must not block others.
    if (view.allowed?.includes(cluster) === false) return [];
    const since = it.metadata.creationTimestamp ?? "";
    return [{ mailbox: it.metadata.namespace ?? "", cluster, since, isShared: it.spec.shared === true }];
  });
  const current = parseClaims(view.serviceImport?.metadata.annotations?.[SERVICE_IN_USE_BY_ANNOTATION]);
  return planClaims(current, claimants);
}

function refusal(problem: string): NewCondition {
  return { type: ACCEPTED, status: "False", reason: "Refused", message: problem };
}

function conditionsOf(
  model: ExportedService,
  strict: StrictImport,
  conflicts: MergedService["conflicts"],
): NewCondition[] {
  const accepted: NewCondition = {
    type: ACCEPTED,
    status: "True",
    reason: "Accepted",
    message: "the service is offered to the fleet",
  };
  const shared: NewCondition =
    conflicts.length === 0
      ? { type: MCS_CONFLICT, status: "False", reason: "NoConflicts", message: "all exports agree" }
      : {
          type: MCS_CONFLICT,
          status: "True",
          // Several reasons in one: the API's pattern allows commas, not spaces.
          reason: conflicts.map((it) => it.reason).join(","),
          message: conflicts
            .map((it) => it.message)
            .join("; ")
            .slice(0, 32_768),
        };
  return strict.conflicts.has(model.cluster)
    ? [accepted, shared, conflictCondition(model, strict.conflicts.get(model.cluster))]
    : [accepted, shared];
}

function conflictCondition(model: ExportedService, difference: string | undefined): NewCondition {
  const service = `${model.namespace}/${model.name}`;
  return difference === undefined
    ? {
        type: "Conflict",
        status: "False",
        reason: "NoConflictFound",
        message: `service ${service} is exported without conflict`,
      }
    : { type: "Conflict", status: "True", reason: "ConflictFound", message: difference };
}

/** Whether two statuses say the same; an absent one says nothing. */
export function sameStatus(
  a: FleetServiceImportStatus | undefined,
  b: FleetServiceImportStatus | undefined,
): boolean {
  return sameJson(a ?? {}, b ?? {});
}
