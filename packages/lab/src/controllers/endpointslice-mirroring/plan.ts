import { defined } from "@fairlead/base/defined.ts";
import {
  type EndpointAddress,
  type Endpoints,
  ENDPOINTS,
  type Service,
} from "@fairlead/kube/api/core/v1/types.ts";
import {
  type Endpoint,
  MANAGED_BY_LABEL,
  SERVICE_NAME_LABEL,
} from "@fairlead/kube/api/discovery/v1/types.ts";
import { familyOf, tryParseAddress } from "@fairlead/base/netaddr/address.ts";
import type { EndpointGroup } from "../endpointslice/endpoints.ts";
import type { SliceTarget } from "../endpointslice/plan.ts";
import { ownerReferenceTo } from "../templates.ts";

/**
 * Mirrors Endpoints that users write for a Service without a selector to EndpointSlices, as consumers read only EndpointSlices.
 * Source: k8s.io/kubernetes, pkg/controller/endpointslicemirroring.
 */

/** How upstream's controller signs. */
export const MIRRORED_BY = "endpointslicemirroring-controller.k8s.io";

const SKIP_LABEL = "endpointslice.kubernetes.io/skip-mirror";
/** Endpoints that are nothing but the lock of a leader election. */
const LEADER_ANNOTATION = "control-plane.alpha.kubernetes.io/leader";
/** As upstream: more of a subset are left out. */
const MAX_PER_SUBSET = 1000;

export function isMirrored(endpoints: Endpoints | undefined, service: Service | undefined): boolean {
  if (endpoints === undefined || service === undefined) return false;
  const { labels = {}, annotations = {} } = endpoints.metadata;
  return (
    Object.keys(service.spec?.selector ?? {}).length === 0 &&
    labels[SKIP_LABEL] !== "true" &&
    annotations[LEADER_ANNOTATION] === undefined
  );
}

/** The groups of each subset, one per family. */
export function mirroredGroups({ subsets = [] }: Endpoints): EndpointGroup[] {
  return subsets.flatMap(({ addresses = [], notReadyAddresses = [], ports = [] }) => {
    const all = [
      ...addresses.map((it) => ({ it, ready: true })),
      ...notReadyAddresses.map((it) => ({ it, ready: false })),
    ].slice(0, MAX_PER_SUBSET);
    return (["IPv4", "IPv6"] as const).flatMap((family): EndpointGroup[] => {
      const own = all.filter(({ it }) => isOfFamily(it, family));
      if (own.length === 0) return [];
      const named = ports.map((port) => ({ name: "", protocol: "TCP" as const, ...port }));
      return [{ family, ports: named, endpoints: own.map(({ it, ready }) => endpointOf(it, ready)) }];
    });
  });
}

function isOfFamily({ ip }: EndpointAddress, family: "IPv4" | "IPv6"): boolean {
  const address = tryParseAddress(ip);
  return address !== undefined && familyOf(address) === family;
}

function endpointOf({ ip, hostname, nodeName, targetRef }: EndpointAddress, ready: boolean): Endpoint {
  return {
    addresses: [ip],
    conditions: { ready },
    ...defined({ hostname, nodeName, targetRef }),
  };
}

export function mirrorTarget(endpoints: Endpoints): SliceTarget {
  const { name, namespace = "", labels } = endpoints.metadata;
  return {
    namespace,
    labels: { ...labels, [SERVICE_NAME_LABEL]: name, [MANAGED_BY_LABEL]: MIRRORED_BY },
    owner: ownerReferenceTo(ENDPOINTS, endpoints),
  };
}
