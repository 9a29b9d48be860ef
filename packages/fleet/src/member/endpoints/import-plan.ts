import { defined } from "@fairlead/base/defined.ts";
import {
  type Endpoint,
  type EndpointPort,
  type EndpointSlice,
  MANAGED_BY_LABEL as SLICE_MANAGER_LABEL,
  SERVICE_NAME_LABEL,
} from "@fairlead/kube/api/discovery/v1/types.ts";
import { derivedServiceName } from "#api/fairlead.dev/cluster-names.ts";
import { derivedPortName, importPorts } from "#domain/slice.ts";
import { MCS_SLICE_MANAGER, TRAFFIC_ANNOTATIONS } from "#api/fairlead.dev/names.ts";
import type { ImportedCluster, ImportedService } from "#api/fairlead.dev/v1alpha1/types.ts";
import {
  MCS_SERVICE_NAME_LABEL,
  MCS_SOURCE_CLUSTER_LABEL,
  type ServiceImport,
} from "#api/multicluster.x-k8s.io/v1beta1/types.ts";
import { FLEET_SLICE_MANAGER, FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import type {
  AcceptedCluster,
  EndpointSliceExportSpec,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import type { Applied } from "@fairlead/kube/types.ts";
import type { GlobalUse } from "./global-choice.ts";
import { planGlobalSlice } from "./global-slice.ts";

/** The EndpointSlices that one slice of one cluster becomes in this one. Pure. */

export interface SourceSlice {
  /** Of the slice in the mailbox, and of all that is made from it. */
  readonly name: string;
  readonly cluster: string;
  readonly isLocal: boolean;
  readonly facts: Pick<EndpointSliceExportSpec, "addressType" | "endpoints" | "ports" | "weight">;
}

export interface SliceImportView {
  readonly source: SourceSlice;
  /** Returns true if an endpoint answers its probes, or is not probed. */
  readonly isAlive: (addresses: readonly string[]) => boolean;
  /** The multi-cluster import, once it exists here. */
  readonly mcs: { readonly spec: ImportedService["spec"]; readonly object: ServiceImport } | undefined;
  /** Which ports of the import the cluster serves here, in the slice's family. Headless services have but one, "". */
  readonly serves: (importedAs: string) => boolean;
  /** The same behind the load balancer, by the cluster's own names of its ports. */
  readonly servesBalanced: (port: string) => boolean;
  /** The LoadBalancer Service, in `fleet-system`, that gets the cluster's endpoints. */
  readonly loadBalancer: string | undefined;
  /** Which of the cluster's ports it has, and under which names; undefined: all, under their own. */
  readonly balancedPorts?: AcceptedCluster["ports"];
  /** The global Service here that uses the cluster's endpoints. */
  readonly global?: GlobalUse | undefined;
}

export function planImportedSlices(view: SliceImportView): Applied<EndpointSlice>[] {
  const shared = planMcsSlice(view);
  const fleet = planFleetSlice(view);
  const { source, isAlive, global } = view;
  const added =
    global === undefined || source.isLocal
      ? undefined
      : planGlobalSlice(source, global, (distribution) => endpointsOf(source, isAlive, distribution));
  return [shared, fleet, added].filter((it) => it !== undefined);
}

function planMcsSlice({ source, isAlive, mcs, serves }: SliceImportView): Applied<EndpointSlice> | undefined {
  const cluster = mcs?.spec.clusters.find((it) => it.cluster === source.cluster);
  if (mcs === undefined || cluster === undefined) return undefined;
  const { namespace, name } = mcs.spec.service;
  const isVirtual = mcs.spec.type === "ClusterSetIP";
  const known = importPorts(source.facts.ports ?? [], cluster.ports);
  const ports = isVirtual ? known.filter((it) => serves(it.name ?? "")) : known;
  // Behind a virtual address, endpoints without one port that the import has can get no traffic.
  if (isVirtual ? ports.length === 0 : !serves("")) return undefined;
  return {
    metadata: {
      namespace,
      name: source.name,
      labels: {
        [MCS_SERVICE_NAME_LABEL]: name,
        [MCS_SOURCE_CLUSTER_LABEL]: source.cluster,
        [SLICE_MANAGER_LABEL]: MCS_SLICE_MANAGER,
        ...(isVirtual ? { [SERVICE_NAME_LABEL]: derivedServiceName(namespace, name) } : {}),
      },
      ...weightOf(cluster),
      ownerReferences: [
        {
          apiVersion: "multicluster.x-k8s.io/v1beta1",
          kind: "ServiceImport",
          name,
          uid: mcs.object.metadata.uid ?? "",
          controller: false,
        },
      ],
    },
    addressType: source.facts.addressType,
    endpoints: endpointsOf(source, isAlive, mcs.spec.trafficDistribution),
    ports: isVirtual ? derivedPorts(ports, mcs.spec) : ports,
  };
}

/** As the Service with the VIP names them. */
function derivedPorts(
  ports: readonly EndpointPort[],
  spec: Pick<ImportedService["spec"], "ports">,
): EndpointPort[] {
  return ports.map((it) => ({ ...it, name: derivedPortName(it.name ?? "", spec.ports) }));
}

function weightOf({ weight }: ImportedCluster): { annotations?: Record<string, string> } {
  return weight === undefined ? {} : { annotations: { [TRAFFIC_ANNOTATIONS.weight]: String(weight) } };
}

function planFleetSlice({
  source,
  isAlive,
  loadBalancer,
  servesBalanced,
  balancedPorts,
}: SliceImportView): Applied<EndpointSlice> | undefined {
  if (loadBalancer === undefined) return undefined;
  const known = source.facts.ports ?? [];
  const ports = balancedAs(
    known.filter((it) => servesBalanced(it.name ?? "")),
    balancedPorts,
  );
  if (ports.length === 0 && known.length > 0) return undefined;
  return {
    metadata: {
      namespace: FLEET_SYSTEM_NAMESPACE,
      name: source.name,
      labels: {
        [SERVICE_NAME_LABEL]: loadBalancer,
        [SLICE_MANAGER_LABEL]: FLEET_SLICE_MANAGER,
        [MCS_SOURCE_CLUSTER_LABEL]: source.cluster,
      },
    },
    addressType: source.facts.addressType,
    endpoints: endpointsOf(source, isAlive, undefined),
    ports,
  };
}

function balancedAs(ports: readonly EndpointPort[], exposed: AcceptedCluster["ports"]): EndpointPort[] {
  return exposed === undefined ? [...ports] : importPorts(ports, exposed);
}

const ZONAL = new Set(["PreferClose", "PreferSameZone", "PreferSameNode"]);

function endpointsOf(
  { facts, isLocal }: SourceSlice,
  isAlive: (addresses: readonly string[]) => boolean,
  distribution: string | undefined,
): Endpoint[] {
  // The node is of no help to other clusters; the zone is the next best (KEP-3015).
  const prefersZone = distribution !== undefined && ZONAL.has(distribution);
  return facts.endpoints
    .filter((it) => isLocal || isAlive(it.addresses))
    .map(({ addresses, conditions, hostname, nodeName, zone }) => ({
      addresses,
      // Written out, as the server does: it would pass for a difference otherwise.
      conditions: conditions ?? {},
      ...defined({ hostname }),
      // A node of another cluster may have the name of a local node, and would look local.
      ...(nodeName === undefined || !isLocal ? {} : { nodeName }),
      ...defined({ zone }),
      // No EndpointSlice controller looks after these, so the hint for kube-proxy is ours to write (KEP-2433).
      ...(zone === undefined || !prefersZone ? {} : { hints: { forZones: [{ name: zone }] } }),
    }));
}
