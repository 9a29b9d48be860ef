/** Annotations and labels of a MultiClusterService. Additions, which legacy agents do not know. */

/** "shared": several members may import the service at the same time, if all of them set it. */
export const IMPORT_ANNOTATION = "fairlead.dev/import";
export const SHARED_IMPORT = "shared";
/** How long the derived Service, and with it its address, outlives the last export. As "10m", "1h30m"; "0s" for not at all. */
export const GRACE_PERIOD_ANNOTATION = "fairlead.dev/grace-period";

/** Passed on to the spec of the derived Service, one field each. */
export const LOAD_BALANCER_ANNOTATIONS = {
  class: "fairlead.dev/load-balancer-class",
  ip: "fairlead.dev/load-balancer-ip",
  sourceRanges: "fairlead.dev/source-ranges",
  externalTrafficPolicy: "fairlead.dev/external-traffic-policy",
  internalTrafficPolicy: "fairlead.dev/internal-traffic-policy",
  healthCheckNodePort: "fairlead.dev/health-check-node-port",
  allocateNodePorts: "fairlead.dev/allocate-node-ports",
  sessionAffinity: "fairlead.dev/session-affinity",
} as const;

/**
 * Beginnings of the annotations that are passed on to the derived Service as they are: how load balancers of clouds and
 * of bare metal are set up. Nothing that names records in DNS, certificates or other tenants' objects is among them.
 */
export const LOAD_BALANCER_ANNOTATION_PREFIXES: readonly string[] = [
  "cloud.google.com/l4-rbs",
  "cloud.google.com/load-balancer-type",
  "cloud.google.com/network-tier",
  "io.cilium/lb-ipam-",
  "kube-vip.io/loadbalancerIPs",
  "lbipam.cilium.io/",
  "load-balancer.hetzner.cloud/",
  "loadbalancer.openstack.org/",
  "metallb.io/",
  "metallb.universe.tf/",
  "networking.gke.io/internal-load-balancer-",
  "networking.gke.io/load-balancer-",
  "oci.oraclecloud.com/load-balancer-type",
  "service.beta.kubernetes.io/alibaba-cloud-loadbalancer-",
  "service.beta.kubernetes.io/aws-load-balancer-",
  "service.beta.kubernetes.io/azure-",
  "service.beta.kubernetes.io/do-loadbalancer-",
  "service.beta.kubernetes.io/exoscale-loadbalancer-",
  "service.beta.kubernetes.io/linode-loadbalancer-",
  "service.beta.kubernetes.io/oci-load-balancer-",
  "service.beta.kubernetes.io/openstack-internal-load-balancer",
  "service.beta.kubernetes.io/scw-loadbalancer-",
  "service.beta.kubernetes.io/vultr-loadbalancer-",
];

/** Conditions in addition to `Valid`. Each is present only while it applies. */
export const LOAD_BALANCER_CONDITION = "fairlead.dev/LoadBalancer";
export const WEIGHTS_CONDITION = "fairlead.dev/WeightsHonored";
