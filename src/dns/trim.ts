import type { Endpoint, EndpointSlice } from "#api/discovery/v1/types.ts";
import { TRAFFIC_ANNOTATIONS } from "#api/fairlead.dev/names.ts";
import { objectKey, type ObjectKey } from "#api/meta/key.ts";
import type { KubeObject } from "#api/meta/types.ts";

/** What informers keep of objects: the memory of a DNS server is this. */

/** Name, namespace and version, without labels, annotations and the rest. */
export function trimmedMeta({ metadata }: KubeObject): KubeObject {
  const { name, namespace, uid, resourceVersion } = metadata;
  return {
    metadata: {
      name,
      ...(namespace === undefined ? {} : { namespace }),
      ...(uid === undefined ? {} : { uid }),
      ...(resourceVersion === undefined ? {} : { resourceVersion }),
    },
  };
}

/** A slice with the labels in `labelNames`, its weight, and what a name needs of its endpoints. */
export function trimmedSlice(slice: EndpointSlice, labelNames: readonly string[]): EndpointSlice {
  const { metadata } = trimmedMeta(slice);
  const labels = Object.fromEntries(
    labelNames.flatMap((name) => {
      const value = slice.metadata.labels?.[name];
      return value === undefined ? [] : [[name, value]];
    }),
  );
  const weight = slice.metadata.annotations?.[TRAFFIC_ANNOTATIONS.weight];
  const annotations = weight === undefined ? {} : { annotations: { [TRAFFIC_ANNOTATIONS.weight]: weight } };
  return {
    metadata: { ...metadata, labels, ...annotations },
    addressType: slice.addressType,
    // Go writes an empty list as null.
    endpoints: (slice.endpoints ?? []).map(trimmedEndpoint),
    ports: slice.ports ?? [],
  };
}

function trimmedEndpoint({ addresses, conditions, hostname }: Endpoint): Endpoint {
  return {
    addresses,
    ...(conditions?.ready === false ? { conditions: { ready: false } } : {}),
    ...(hostname === undefined ? {} : { hostname }),
  };
}

/** The service, in the slice's own namespace, that the slice names with `label`. */
export function keysOfSlice(slice: EndpointSlice, label: string): ObjectKey[] {
  const service = slice.metadata.labels?.[label];
  return service === undefined || service === "" ? [] : [objectKey(slice.metadata.namespace, service)];
}
