import type { LoadBalancerIngress, Service } from "@fairlead/kube/api/core/v1/types.ts";
import type { ApiObject } from "#values/object.ts";
import {
  ensureFields,
  type Fields,
  itemsAt,
  setDefault,
  setDefaults,
  stringAt,
} from "@fairlead/base/fields.ts";
import { isExternallyAccessible, needsClusterIp } from "./shape.ts";

/** Unit: seconds. */
const AFFINITY_TIMEOUT = 10_800;

/** Source: k8s.io/kubernetes, pkg/apis/core/v1/defaults.go, `SetDefaults_Service`. */
export function defaultService(object: ApiObject & Service): void {
  const spec = ensureFields(object, "spec");
  defaultAffinity(spec);
  setDefault(spec, "type", "ClusterIP");
  for (const port of itemsAt(spec, "ports")) {
    setDefault(port, "protocol", "TCP");
    if (port["targetPort"] === 0) delete port["targetPort"];
    setDefault(port, "targetPort", port["port"]);
  }
  if (isExternallyAccessible(spec)) setDefault(spec, "externalTrafficPolicy", "Cluster");
  if (needsClusterIp(spec)) setDefault(spec, "internalTrafficPolicy", "Cluster");
  if (spec["type"] !== "LoadBalancer") return;
  setDefault(spec, "allocateLoadBalancerNodePorts", true);
  defaultIngress(object.status?.loadBalancer?.ingress ?? []);
}

function defaultAffinity(spec: Fields): void {
  setDefault(spec, "sessionAffinity", "None");
  const affinity = stringAt(spec, "sessionAffinity");
  if (affinity === "None") delete spec["sessionAffinityConfig"];
  if (affinity !== "ClientIP") return;
  const config = ensureFields(spec, "sessionAffinityConfig");
  setDefaults(ensureFields(config, "clientIP"), { timeoutSeconds: AFFINITY_TIMEOUT });
}

function defaultIngress(ingress: readonly LoadBalancerIngress[]): void {
  for (const it of ingress) if ((it.ip ?? "") !== "") it.ipMode ??= "VIP";
}
