import {
  ADDRESS_BLOCKS,
  type AddressBlock,
  type Gateway,
  GATEWAYS,
  MESH_NETWORKS,
  type MeshNetwork,
} from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { NODE_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import {
  MCS_SERVICE_EXPORTS,
  MCS_SERVICE_IMPORTS,
  type ServiceExport,
  type ServiceImport,
} from "#api/multicluster.x-k8s.io/v1beta1/types.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import {
  FLEET_SERVICE_EXPORTS,
  type FleetServiceExport,
} from "#api/networking.fleet.azure.com/v1beta1/types.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import {
  type Namespace,
  NAMESPACES,
  type Node,
  NODES,
  type Pod,
  PODS,
  type Service,
  SERVICES,
} from "@fairlead/kube/api/core/v1/types.ts";
import { ENDPOINT_SLICES, type EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import type { Informer, InformerOptions, KubeClient, Source } from "@fairlead/kube/types.ts";
import { GLOBAL_NAMESPACE_ANNOTATION } from "#domain/global-namespace.ts";
import { isMoreThanPaths } from "#domain/gateway.ts";
import type { ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import { SERVICE_INDEX, serviceOf } from "../withdrawn-flows/withdrawn-flows.ts";
import { ATTACH_LABEL } from "../pod-attachment/selection.ts";
import { globalIndex, isGlobalChanged } from "./exports.ts";
import { isPodChanged } from "./state.ts";

/** What a node reads, all in its own cluster. */
export interface NodeInformers {
  readonly networks: Informer<MeshNetwork>;
  readonly blocks: Informer<AddressBlock>;
  readonly gateways: Informer<Gateway>;
  readonly namespaces: Informer<Namespace>;
  /** This node. */
  readonly nodes: Informer<Node>;
  /** Of this node. */
  readonly pods: Informer<Pod>;
  readonly slices: Informer<EndpointSlice>;
  readonly services: Informer<Service>;
  readonly fleetExports: Informer<FleetServiceExport>;
  readonly mcsExports: Informer<ServiceExport>;
  readonly mcsImports: Informer<ServiceImport>;
}

export function createNodeInformers(client: KubeClient, nodeName: string, deps: RuntimeDeps): NodeInformers {
  const make = <T extends KubeObject>(of: Resource<T>, options: InformerOptions<T> = {}): Informer<T> =>
    createInformer(client, of, { fieldManager: NODE_MANAGER, ...options }, deps);
  const namespace = FLEET_SYSTEM_NAMESPACE;
  return {
    networks: make(MESH_NETWORKS, { namespace }),
    blocks: make(ADDRESS_BLOCKS, { namespace }),
    gateways: make(GATEWAYS, { namespace }),
    namespaces: make(NAMESPACES),
    nodes: make(NODES, { fieldSelector: `metadata.name=${nodeName}` }),
    pods: make(PODS, { fieldSelector: `spec.nodeName=${nodeName}` }),
    slices: make(ENDPOINT_SLICES, { indexes: { [SERVICE_INDEX]: serviceOf } }),
    services: make(SERVICES, { indexes: { global: (it) => globalIndex(it) } }),
    fleetExports: make(FLEET_SERVICE_EXPORTS),
    mcsExports: make(MCS_SERVICE_EXPORTS),
    mcsImports: make(MCS_SERVICE_IMPORTS),
  };
}

/** What makes a pass of the node due. */
export function nodeSources(informers: NodeInformers, key: ObjectKey): Source[] {
  const {
    networks,
    blocks,
    gateways,
    pods,
    slices,
    services,
    fleetExports,
    mcsExports,
    mcsImports,
    namespaces,
    nodes,
  } = informers;
  const own = (): ObjectKey[] => [key];
  return [
    watching(networks, own),
    watching(blocks, own),
    watching(gateways, (change) => (isMoreThanPaths(change) ? own() : [])),
    watching(pods, (change) => (isPodChanged(change) ? own() : [])),
    watching(slices, own),
    watching(nodes, ({ before, after }) => (zoneOf(before) === zoneOf(after) ? [] : own())),
    watching(services, (change) => (isGlobalChanged(change) ? own() : [])),
    watching(fleetExports, own),
    watching(mcsExports, own),
    watching(mcsImports, own),
    watching(namespaces, ({ before, after }) =>
      before?.metadata.labels?.[ATTACH_LABEL] === after?.metadata.labels?.[ATTACH_LABEL] &&
      before?.metadata.annotations?.[GLOBAL_NAMESPACE_ANNOTATION] ===
        after?.metadata.annotations?.[GLOBAL_NAMESPACE_ANNOTATION]
        ? []
        : own(),
    ),
  ];
}

export function zoneOf(node: Node | undefined): string | undefined {
  return node?.metadata.labels?.["topology.kubernetes.io/zone"];
}
