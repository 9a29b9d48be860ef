import type { KubeObject, ObjectMeta } from "@fairlead/kube/api/meta/types.ts";

/** Any object, as it is stored and sent: metadata typed, the rest to be parsed by the reader. */
export interface ApiObject extends KubeObject {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta;
  [field: string]: unknown;
}

/** The user of a request. Source: k8s.io/apiserver, pkg/authentication/user. */
export interface UserInfo {
  readonly name: string;
  readonly uid?: string;
  readonly groups: readonly string[];
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

/** Synchronous reads of what the server holds, for admission, authorization and allocators. */
export interface ObjectReader {
  get(group: string, plural: string, namespace: string | undefined, name: string): ApiObject | undefined;
  list(group: string, plural: string, namespace?: string): Iterable<ApiObject>;
}
