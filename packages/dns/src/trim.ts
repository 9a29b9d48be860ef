import { defined } from "@fairlead/base/defined.ts";
import type { Endpoint, EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { objectKey, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";

/** Keeps only the fields that informers need: they are most of the memory of a DNS server. */

/** Name, namespace and version, without labels, annotations and the rest. */
export function trimmedMeta({ metadata }: KubeObject): KubeObject {
  const { name, namespace, uid, resourceVersion } = metadata;
  return {
    metadata: {
      name,
      ...defined({ namespace, uid, resourceVersion }),
    },
  };
}

/** The labels and annotations of a slice to keep, by name. */
export interface KeptNames {
  readonly labels: readonly string[];
  readonly annotations: readonly string[];
}

/** A slice with the labels and annotations in `kept`, and what a name needs of its endpoints. */
export function trimmedSlice(slice: EndpointSlice, kept: KeptNames): EndpointSlice {
  const { labels, annotations } = slice.metadata;
  return {
    metadata: {
      ...trimmedMeta(slice).metadata,
      labels: picked(labels, kept.labels),
      ...(kept.annotations.length === 0 ? {} : { annotations: picked(annotations, kept.annotations) }),
    },
    addressType: slice.addressType,
    // Go writes an empty list as null.
    endpoints: (slice.endpoints ?? []).map(trimmedEndpoint),
    ports: slice.ports ?? [],
  };
}

function picked(
  from: Readonly<Record<string, string>> = {},
  names: readonly string[],
): Record<string, string> {
  return Object.fromEntries(
    names.flatMap((name) => {
      const value = from[name];
      return value === undefined ? [] : [[name, value]];
    }),
  );
}

function trimmedEndpoint({ addresses, conditions, hostname }: Endpoint): Endpoint {
  return {
    addresses,
    ...(conditions?.ready === false ? { conditions: { ready: false } } : {}),
    ...defined({ hostname }),
  };
}

/** The service, in the slice's own namespace, that the slice names with `label`. */
export function keysOfSlice(slice: EndpointSlice, label: string): ObjectKey[] {
  const service = slice.metadata.labels?.[label];
  return service === undefined || service === "" ? [] : [objectKey(slice.metadata.namespace, service)];
}
