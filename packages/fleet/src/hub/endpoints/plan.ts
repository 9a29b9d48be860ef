import type { Claim } from "#domain/claim.ts";
import { sliceExportName } from "#api/fairlead.dev/cluster-names.ts";
import { withinGrant } from "#domain/grant.ts";
import { endpointsForOthers } from "#domain/legacy.ts";
import { findEndpointProblem, importPorts } from "#domain/slice.ts";
import { clusterOfMailbox, mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import type {
  AcceptedCluster,
  EndpointSliceExport,
  EndpointSliceExportSpec,
  FleetServiceImport,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { byText } from "@fairlead/base/text.ts";

/** Which exported endpoints are in the view, and which go to which mailboxes. Pure. */

export interface SliceView {
  readonly slice: EndpointSliceExport;
  /** Whether the hub accepted the exporter's export of the service that the slice belongs to. */
  readonly isExported: boolean;
  readonly serviceImport: FleetServiceImport | undefined;
  readonly claims: readonly Claim[];
  /** Members that asked for the services of the namespace. They see their own endpoints without the hub. */
  readonly reporters: readonly string[];
  /** True for members with a legacy agent: those without a NamespaceReport. */
  readonly isLegacy: (cluster: string) => boolean;
  /** Members that read the view: nothing in it is sent to them again. */
  readonly readsView: (cluster: string) => boolean;
  /** Members of the exporter's network. */
  readonly isConnected: (cluster: string) => boolean;
  /** The only members that the export is meant for; undefined: all. */
  readonly exportTo: readonly string[] | undefined;
  /** The networks that the exporter was granted, as its MemberCluster names them; null: none; undefined: any. */
  readonly granted: string | null | undefined;
}

export type SlicePlan =
  | { readonly act: "withdraw"; readonly problem: string | undefined }
  | {
      readonly act: "distribute";
      readonly isInView: boolean;
      readonly mailboxes: readonly string[];
      /** The slice's, or what of it the exporter has a right to. */
      readonly spec: EndpointSliceExportSpec;
      /** Why some of its endpoints are left out. */
      readonly problem: string | undefined;
    };

/** Returns the fault of a slice, judged by the mailbox that contains it. Undefined if the slice is valid. */
function findSliceProblem(slice: EndpointSliceExport): string | undefined {
  const owner = clusterOfMailbox(slice.metadata.namespace);
  const { endpointSliceReference: from, ownerServiceReference: service } = slice.spec;
  if (owner === undefined) return "the namespace is not the namespace of a member";
  if (from.clusterId !== owner)
    return `it claims to come from cluster ${from.clusterId.slice(0, 63)}, but this is the mailbox of ${owner}`;
  if (from.namespace !== service.namespace) return "slice and Service are in different namespaces";
  return findEndpointProblem(slice.spec);
}

export function planSlice(view: SliceView): SlicePlan {
  const { slice } = view;
  const cluster = clusterOfMailbox(slice.metadata.namespace);
  if (cluster === undefined || slice.metadata.deletionTimestamp !== undefined || !view.isExported)
    return { act: "withdraw", problem: undefined };
  const wrong = findSliceProblem(slice);
  if (wrong !== undefined) return { act: "withdraw", problem: wrong };
  const { spec, problem } = withinGrant(slice.spec, view.granted);
  if (problem !== undefined && spec.endpoints.length === 0) return { act: "withdraw", problem };
  const isInView = view.exportTo === undefined;
  const importers = new Set([
    ...view.reporters.filter((it) => it !== cluster),
    ...claimantsOf(view, cluster),
  ]);
  const isMeant = (it: string): boolean =>
    it === cluster || (view.isConnected(it) && view.exportTo?.includes(it) !== false);
  const mailboxes = [...importers]
    .filter((it) => isMeant(it) && !(isInView && view.readsView(it)))
    .map(mailboxOf)
    .toSorted(byText);
  return { act: "distribute", isInView, mailboxes, spec, problem };
}

/** The fleet API's importers, where the exporter was accepted there. */
function claimantsOf({ claims, serviceImport, isLegacy }: SliceView, cluster: string): string[] {
  const isAccepted = serviceImport?.status?.clusters?.some((it) => it.cluster === cluster) === true;
  if (!isAccepted) return [];
  return claims.filter((it) => it.cluster !== cluster || isLegacy(cluster)).map((it) => it.cluster);
}

/**
 * Returns the part of a slice that a legacy agent can handle: such an agent treats every endpoint as ready, knows only
 * IPv4, matches ports of the import by name, and knows no clusters that export later. Undefined: nothing.
 *
 * @param exposed - The ports of the cluster that are imported, where not all are.
 * @param serves - Which of the cluster's ports it is to use.
 */
export function forLegacyAgents(
  spec: EndpointSliceExportSpec,
  exposed: AcceptedCluster["ports"],
  serves: (port: string) => boolean,
): EndpointSliceExportSpec | undefined {
  const sent = endpointsForOthers(spec);
  if (sent === undefined) return undefined;
  const all = spec.ports ?? [];
  const served = all.filter((it) => serves(it.name ?? ""));
  if (exposed === undefined && served.length === all.length) return sent;
  const ports = exposed === undefined ? served : importPorts(served, exposed);
  return ports.length === 0 ? undefined : { ...sent, ports };
}

/**
 * Picks the owner of a name if several mailboxes have a slice of that name: the slice whose contents the name is derived
 * from, which at most one is; among agents that generate random names, the oldest.
 */
export function pickByName(candidates: readonly EndpointSliceExport[]): EndpointSliceExport | undefined {
  return candidates.toSorted(
    (a, b) =>
      Number(isDerived(b)) - Number(isDerived(a)) ||
      byText(a.metadata.creationTimestamp ?? "", b.metadata.creationTimestamp ?? "") ||
      byText(a.metadata.namespace ?? "", b.metadata.namespace ?? ""),
  )[0];
}

function isDerived(slice: EndpointSliceExport): boolean {
  const cluster = clusterOfMailbox(slice.metadata.namespace) ?? "";
  const { namespace, name } = slice.spec.endpointSliceReference;
  return slice.metadata.name === sliceExportName(cluster, namespace, name);
}
