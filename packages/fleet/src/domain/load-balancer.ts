import { defined } from "@fairlead/base/defined.ts";
import type { Service } from "@fairlead/kube/api/core/v1/types.ts";
import { AZURE_INTERNAL_ANNOTATION } from "#api/networking.fleet.azure.com/names.ts";
import type { InternalServiceExportSpec } from "#api/networking.fleet.azure.com/v1alpha1/types.ts";

/** The annotations of clouds for an internal load balancer, and their values. */
const INTERNAL: Readonly<Record<string, readonly string[]>> = {
  [AZURE_INTERNAL_ANNOTATION]: ["true"],
  "service.beta.kubernetes.io/aws-load-balancer-internal": ["true"],
  "service.beta.kubernetes.io/aws-load-balancer-scheme": ["internal"],
  "networking.gke.io/load-balancer-type": ["Internal"],
  "cloud.google.com/load-balancer-type": ["Internal"],
  "service.beta.kubernetes.io/openstack-internal-load-balancer": ["true"],
};

/** The external addresses of an exported Service, for the hub's traffic manager. Empty for other Services. */
export function loadBalancerFacts({
  metadata,
  spec,
  status,
}: Service): Pick<InternalServiceExportSpec, "isInternalLoadBalancer" | "loadBalancerIngress"> {
  if (spec?.type !== "LoadBalancer") return {};
  const isInternal = Object.entries(INTERNAL).some(([name, values]) =>
    values.includes(metadata.annotations?.[name] ?? ""),
  );
  const ingress = (status?.loadBalancer?.ingress ?? []).map(({ ip, hostname }) => ({
    ...defined({ ip, hostname }),
  }));
  return { isInternalLoadBalancer: isInternal, loadBalancerIngress: ingress };
}
