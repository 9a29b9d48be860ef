import type { IPFamily, Service } from "@fairlead/kube/api/core/v1/types.ts";
import type { Endpoint, EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import { containsAddress, tryParsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import {
  ADOPTED_ANNOTATION,
  MANAGED_BY,
  MANAGED_BY_LABEL,
  PORT_NAMES_ANNOTATION,
  TRAFFIC_ANNOTATIONS,
} from "#api/fairlead.dev/names.ts";
import {
  MCS_SERVICE_NAME_LABEL,
  MCS_SOURCE_CLUSTER_LABEL,
  type ServiceImport,
} from "#api/multicluster.x-k8s.io/v1beta1/types.ts";
import { derivedPortName } from "#domain/slice.ts";
import { readWeight } from "#domain/weight.ts";
import type { NodePlace, SliceShare } from "../service-proxy/backends.ts";
import { VIRTUAL_IP_SETS } from "./table.ts";
import { type PlannedElement, planService, serviceNameOf } from "../service-proxy/plan.ts";

/** The elements of one service of the fleet in the table of virtual IPs. Pure. */

export interface VirtualService {
  readonly serviceImport: ServiceImport;
  /** Of the import, and of the Service of the same name that this cluster may export. */
  readonly slices: Iterable<EndpointSlice>;
  /** This cluster. */
  readonly cluster: string;
  readonly node: NodePlace;
  /** The blocks of virtual IPs: other addresses of an import are not served here. */
  readonly blocks: readonly string[];
  /** Where `fleet` of this node reaches a pod of this cluster: at its fleet address, or at its own one. Undefined for one without. */
  readonly addressOf: (podUID: string, family: IPFamily) => string | undefined;
}

/** "namespace/name" of the service of the fleet that a slice is of: imported slices, and those that this cluster may export. */
export function serviceOfSlice(slice: EndpointSlice): ObjectKey | undefined {
  const { namespace, labels } = slice.metadata;
  const name = labels?.[MCS_SERVICE_NAME_LABEL] ?? serviceNameOf(slice);
  return name === undefined ? undefined : objectKey(namespace, name);
}

export function planVirtualService(view: VirtualService): readonly PlannedElement[] {
  const service = asService(view);
  const slices = [...view.slices];
  const imported = slices.filter(isImported);
  const pods = podsOf(slices.filter((it) => !isImported(it)));
  const isOwn = (it: EndpointSlice): boolean => clusterOf(it) === view.cluster;
  const elements = planService({
    service,
    slices: imported.map((it) => (isOwn(it) ? withFleetAddresses(it, pods, view.addressOf) : it)),
    node: { ...view.node, addresses: [] },
    shareOf,
  });
  return elements.filter((it) => VIRTUAL_IP_SETS.has(it.set));
}

function isImported({ metadata }: EndpointSlice): boolean {
  return metadata.labels?.[MCS_SERVICE_NAME_LABEL] !== undefined;
}

function clusterOf({ metadata }: EndpointSlice): string {
  return metadata.labels?.[MCS_SOURCE_CLUSTER_LABEL] ?? "";
}

function asService({ serviceImport: { metadata, spec }, blocks }: VirtualService): Service {
  const prefixes = blocks.flatMap((it) => tryParsePrefix(it) ?? []);
  const clusterIPs = (isServed(metadata) ? (spec?.ips ?? []) : []).filter((text) => {
    const address = tryParseAddress(text);
    return address !== undefined && prefixes.some((it) => containsAddress(it, address));
  });
  const names = namesOf(metadata.annotations?.[PORT_NAMES_ANNOTATION]);
  const { ports = [], sessionAffinity, sessionAffinityConfig, internalTrafficPolicy } = spec ?? {};
  return {
    metadata,
    spec: {
      clusterIPs,
      ports: ports.map((it, at) => ({ ...it, name: names?.[at] ?? derivedPortName(it.name ?? "", ports) })),
      ...(sessionAffinity === undefined ? {} : { sessionAffinity }),
      ...(sessionAffinityConfig === undefined ? {} : { sessionAffinityConfig }),
      ...(internalTrafficPolicy === undefined ? {} : { internalTrafficPolicy }),
    },
  };
}

/**
 * Whether the member agent writes the addresses of an import: its own, or one that it has adopted. It reverts what a user writes there.
 * Addresses of other imports are those of any service that their author chose.
 */
function isServed({ labels, annotations }: ServiceImport["metadata"]): boolean {
  return labels?.[MANAGED_BY_LABEL] === MANAGED_BY || annotations?.[ADOPTED_ANNOTATION] !== undefined;
}

/** Names that the member agent has written; undefined where they are not a list of texts. */
function namesOf(text: string | undefined): readonly string[] | undefined {
  if (text === undefined) return undefined;
  try {
    const names: unknown = JSON.parse(text);
    return Array.isArray(names) && names.every((it) => typeof it === "string") ? names : undefined;
  } catch {
    return undefined;
  }
}

function shareOf(slice: EndpointSlice): SliceShare {
  const read = readWeight(slice.metadata.annotations?.[TRAFFIC_ANNOTATIONS.weight]);
  return { group: clusterOf(slice), weight: read.kind === "valid" ? read.weight : 1 };
}

/** UIDs of pods by their own addresses. */
function podsOf(slices: readonly EndpointSlice[]): ReadonlyMap<string, string> {
  return new Map(
    slices.flatMap(({ endpoints }) =>
      endpoints.flatMap(({ addresses, targetRef }) =>
        targetRef?.uid === undefined ? [] : addresses.map((it) => [it, targetRef.uid ?? ""] as const),
      ),
    ),
  );
}

/**
 * Endpoints of this cluster have the addresses of their pods in an import. Without their fleet addresses, answers from other nodes would
 * not come back through `fleet`.
 */
function withFleetAddresses(
  slice: EndpointSlice,
  pods: ReadonlyMap<string, string>,
  addressOf: VirtualService["addressOf"],
): EndpointSlice {
  const family = slice.addressType;
  if (family === "FQDN") return slice;
  const endpoints = slice.endpoints.flatMap((it): Endpoint[] => {
    const address = addressOf(pods.get(it.addresses[0] ?? "") ?? "", family);
    return address === undefined ? [] : [{ ...it, addresses: [address] }];
  });
  return { ...slice, endpoints };
}
