import type { ResourceDefinition, Strategy } from "#registry/types.ts";
import { eventColumns } from "../columns/core.ts";
import {
  endpointSliceColumns,
  ingressClassColumns,
  ingressColumns,
  ipAddressColumns,
  networkPolicyColumns,
  serviceCidrColumns,
} from "../columns/network.ts";
import {
  apiServiceColumns,
  leaseColumns,
  priorityClassColumns,
  runtimeClassColumns,
} from "../columns/other.ts";
import { apiServiceStrategy, priorityClassStrategy, runtimeClassStrategy } from "../cluster.ts";
import { define } from "../define.ts";
import { endpointSliceStrategy } from "../endpoints/strategy.ts";
import { eventFromStored, eventToStored } from "../event/convert.ts";
import { coreEventStrategy, eventStrategy } from "../event/strategy.ts";
import { leaseStrategy } from "../lease.ts";
import { ingressClassStrategy, ingressStrategy, ingressWarnings } from "../networking/ingress.ts";
import { ipAddressStrategy, serviceCidrStrategy } from "../networking/addresses.ts";
import type { ServiceAllocations } from "../service/allocations.ts";
import { networkPolicyStrategy } from "../networking/policy.ts";

/** Events: two groups, one store. */
export function eventResources(): readonly ResourceDefinition[] {
  return [
    define("v1", "Event", {
      plural: "events",
      shortNames: ["ev"],
      columns: eventColumns,
      strategy: coreEventStrategy,
    }),
    define("events.k8s.io/v1", "Event", {
      plural: "events",
      shortNames: ["ev"],
      columns: eventColumns.map((it) => ({
        ...it,
        cell: (object, nowMs) => it.cell(eventToStored(object), nowMs),
      })),
      strategy: eventStrategy,
      storedAs: { group: "", plural: "events" },
      fromStored: eventFromStored,
      toStored: eventToStored,
    }),
  ];
}

/** Groups discovery, networking and coordination. */
export function networkResources(allocations: ServiceAllocations): readonly ResourceDefinition[] {
  return [
    define("discovery.k8s.io/v1", "EndpointSlice", {
      plural: "endpointslices",
      columns: endpointSliceColumns,
      strategy: endpointSliceStrategy,
    }),
    define("networking.k8s.io/v1", "NetworkPolicy", {
      plural: "networkpolicies",
      shortNames: ["netpol"],
      columns: networkPolicyColumns,
      strategy: networkPolicyStrategy,
    }),
    define("networking.k8s.io/v1", "Ingress", {
      plural: "ingresses",
      shortNames: ["ing"],
      columns: ingressColumns,
      hasStatus: true,
      strategy: ingressStrategy,
      warnings: ingressWarnings,
    }),
    define("networking.k8s.io/v1", "IngressClass", {
      plural: "ingressclasses",
      clusterScoped: true,
      columns: ingressClassColumns,
      strategy: ingressClassStrategy,
    }),
    define("networking.k8s.io/v1", "IPAddress", {
      plural: "ipaddresses",
      clusterScoped: true,
      shortNames: ["ip"],
      columns: ipAddressColumns,
      strategy: {
        ...ipAddressStrategy,
        onStored: (after, before) => allocations.named(after, before),
      },
    }),
    define("networking.k8s.io/v1", "ServiceCIDR", {
      plural: "servicecidrs",
      clusterScoped: true,
      columns: serviceCidrColumns,
      hasStatus: true,
      strategy: serviceCidrStrategy,
    }),
    define("coordination.k8s.io/v1", "Lease", {
      plural: "leases",
      columns: leaseColumns,
      strategy: leaseStrategy,
    }),
  ];
}

/** Kinds that configure the cluster as a whole. */
export function clusterResources(crdStrategy: Partial<Strategy>): readonly ResourceDefinition[] {
  return [
    define("scheduling.k8s.io/v1", "PriorityClass", {
      plural: "priorityclasses",
      clusterScoped: true,
      shortNames: ["pc"],
      columns: priorityClassColumns,
      strategy: priorityClassStrategy,
    }),
    define("node.k8s.io/v1", "RuntimeClass", {
      plural: "runtimeclasses",
      clusterScoped: true,
      columns: runtimeClassColumns,
      strategy: runtimeClassStrategy,
    }),
    define("apiextensions.k8s.io/v1", "CustomResourceDefinition", {
      plural: "customresourcedefinitions",
      clusterScoped: true,
      shortNames: ["crd", "crds"],
      categories: ["api-extensions"],
      hasStatus: true,
      strategy: { allowUnconditionalUpdate: false, ...crdStrategy },
    }),
    define("apiregistration.k8s.io/v1", "APIService", {
      plural: "apiservices",
      clusterScoped: true,
      categories: ["api-extensions"],
      columns: apiServiceColumns,
      hasStatus: true,
      strategy: apiServiceStrategy,
    }),
  ];
}
