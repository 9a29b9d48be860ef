import { type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";

/** Keys of the hub's queues that are not those of the object that changed. */

/** The namespace and the name of a Service, which its exports and its import in the fleet namespace have, too. */
export type ServiceKey = ObjectKey & { readonly __of: "Service" };

export function serviceKey(namespace: string | undefined, name: string): ServiceKey {
  return objectKey(namespace, name) as ServiceKey;
}

/** Of the key of an object that has the namespace and the name of the Service. */
export function serviceNamedAs(key: ObjectKey): ServiceKey {
  return key as ServiceKey;
}

/** The name of an exported EndpointSlice, which its copies in all mailboxes and in the views have, too. */
export type SliceName = ObjectKey & { readonly __of: "EndpointSliceExport" };

export function sliceName(name: string): SliceName {
  return objectKey(undefined, name) as SliceName;
}
