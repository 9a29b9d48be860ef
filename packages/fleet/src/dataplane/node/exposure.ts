import type { Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { type EndpointSlice, SERVICE_NAME_LABEL } from "@fairlead/kube/api/discovery/v1/types.ts";
import type { Allocation } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import type { Exposed, PodAddress } from "./table.ts";

/** What other clusters may reach of this node's pods: the ports of exported Services, at fleet addresses. Pure. */

export function planExposed(
  slices: Iterable<EndpointSlice>,
  isExported: (service: string) => boolean,
  allocations: ReadonlyMap<string, Allocation>,
): readonly Exposed[] {
  const exposed = new Map<string, Exposed>();
  for (const slice of slices) {
    // Also of headless Services. Imported slices have another label.
    const service = slice.metadata.labels?.[SERVICE_NAME_LABEL];
    if (service === undefined || !isExported(`${slice.metadata.namespace}/${service}`)) continue;
    for (const it of exposedBy(slice, allocations))
      exposed.set(`${it.address} ${it.protocol} ${it.port}`, it);
  }
  return [...exposed.values()];
}

function exposedBy(slice: EndpointSlice, allocations: ReadonlyMap<string, Allocation>): readonly Exposed[] {
  const addresses = slice.endpoints.flatMap(({ targetRef }) => {
    const allocation = allocations.get(targetRef?.uid ?? "");
    if (allocation === undefined || slice.addressType === "FQDN") return [];
    return [slice.addressType === "IPv6" ? allocation.ipv6 : allocation.ipv4];
  });
  return (slice.ports ?? []).flatMap(({ protocol = "TCP", port }) =>
    port === undefined ? [] : addresses.map((address) => ({ address, protocol, port })),
  );
}

/** The fleet addresses of pods, by family. A pod has one address of a family at most. */
export function planPods(
  pods: Iterable<Pod>,
  allocations: ReadonlyMap<string, Allocation>,
  isAttached: (podUID: string) => boolean,
): readonly PodAddress[] {
  return [...pods].flatMap(({ metadata: { uid = "" }, status }) => {
    const allocation = allocations.get(uid);
    if (allocation === undefined) return [];
    return (status?.podIPs ?? []).map(({ ip }) => ({
      fleetAddress: ip.includes(":") ? allocation.ipv6 : allocation.ipv4,
      podAddress: ip,
      isAttached: isAttached(uid),
    }));
  });
}
