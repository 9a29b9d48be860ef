import type { Service } from "#api/core/v1/types.ts";
import { loadBalancerServiceName } from "#api/fairlead.dev/model/names.ts";
import type { Condition } from "#api/meta/types.ts";
import {
  AZURE_INTERNAL_ANNOTATION,
  DERIVED_SERVICE_LABEL,
  FLEET_SYSTEM_NAMESPACE,
  INTERNAL_LOAD_BALANCER_ANNOTATION,
  MULTI_CLUSTER_SERVICE_NAME_LABEL,
  MULTI_CLUSTER_SERVICE_NAMESPACE_LABEL,
  SERVICE_IMPORT_LABEL,
} from "#api/networking.fleet.azure.com/names.ts";
import type {
  FleetServiceImport,
  MultiClusterService,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import type { Applied } from "#kube/types.ts";

/** What a MultiClusterService needs: a ServiceImport, a load balancer once there is something behind it. Pure. */

export interface MultiClusterView {
  readonly object: MultiClusterService;
  readonly imported: FleetServiceImport | undefined;
  /** The Service that it has now, wherever its name comes from. */
  readonly derived: Service | undefined;
}

export interface MultiClusterPlan {
  /** Undefined: none, or it belongs to someone else. */
  readonly serviceImport: Applied<FleetServiceImport> | undefined;
  readonly service: Applied<Service> | undefined;
  readonly labels: Readonly<Record<string, string>>;
  readonly condition: Omit<Condition, "lastTransitionTime">;
}

export function planMultiClusterService(view: MultiClusterView): MultiClusterPlan {
  const { object, imported } = view;
  const name = object.spec.serviceImport?.name;
  if (name === undefined) return waiting({}, undefined, "spec.serviceImport names no service");
  const labels = { [SERVICE_IMPORT_LABEL]: name };
  const owner = imported?.metadata.ownerReferences?.find((it) => it.controller === true);
  if (owner !== undefined && owner.uid !== object.metadata.uid)
    return waiting(labels, undefined, `${owner.kind} ${owner.name} imports ${name} already`);
  // One that was made by hand is used, but not taken over.
  const isByHand = imported !== undefined && owner === undefined;
  const serviceImport = isByHand ? undefined : importOf(object, name);
  const reason = findReasonToWait(imported, name);
  if (imported === undefined || reason !== undefined) return waiting(labels, serviceImport, reason ?? "");
  const service = serviceOf(view, imported);
  return {
    serviceImport,
    service,
    labels: { ...labels, [DERIVED_SERVICE_LABEL]: service.metadata.name },
    condition: {
      type: "Valid",
      status: "True",
      reason: "FoundServiceImport",
      message: `${name} is imported from ${clustersOf(imported).join(", ")}`,
    },
  };
}

function findReasonToWait(imported: FleetServiceImport | undefined, name: string): string | undefined {
  if (imported === undefined) return `asking the hub for ${name}`;
  if (imported.status?.type === "Headless") return `${name} is headless: a load balancer cannot front it`;
  if (clustersOf(imported).length > 0) return undefined;
  return `no cluster exports ${name}, or another member imports it`;
}

function clustersOf(imported: FleetServiceImport): string[] {
  return (imported.status?.clusters ?? []).map((it) => it.cluster);
}

function waiting(
  labels: Readonly<Record<string, string>>,
  serviceImport: Applied<FleetServiceImport> | undefined,
  message: string,
): MultiClusterPlan {
  return {
    serviceImport,
    service: undefined,
    labels,
    condition: { type: "Valid", status: "Unknown", reason: "UnknownServiceImport", message },
  };
}

function importOf(object: MultiClusterService, name: string): Applied<FleetServiceImport> {
  return {
    metadata: {
      name,
      namespace: object.metadata.namespace ?? "",
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

function serviceOf({ object, derived }: MultiClusterView, imported: FleetServiceImport): Applied<Service> {
  const { namespace = "", name } = object.metadata;
  const isInternal = isGoTrue(object.metadata.annotations?.[INTERNAL_LOAD_BALANCER_ANNOTATION]);
  return {
    metadata: {
      // A Service made by an agent of other origin keeps its name, and with it its address.
      name: derived?.metadata.name ?? loadBalancerServiceName(namespace, name),
      namespace: FLEET_SYSTEM_NAMESPACE,
      labels: {
        [MULTI_CLUSTER_SERVICE_NAME_LABEL]: name,
        [MULTI_CLUSTER_SERVICE_NAMESPACE_LABEL]: namespace,
      },
      ...(isInternal ? { annotations: { [AZURE_INTERNAL_ANNOTATION]: "true" } } : {}),
    },
    spec: {
      type: "LoadBalancer",
      ipFamilyPolicy: "PreferDualStack",
      ports: (imported.status?.ports ?? []).map((port) => ({
        ...(port.name === undefined ? {} : { name: port.name }),
        protocol: port.protocol ?? "TCP",
        ...(port.appProtocol === undefined ? {} : { appProtocol: port.appProtocol }),
        port: port.port,
      })),
    },
  };
}

/** What Go's `strconv.ParseBool` takes for true. */
function isGoTrue(text: string | undefined): boolean {
  return text !== undefined && ["1", "t", "T", "true", "TRUE", "True"].includes(text);
}
