import type { UserInfo } from "./object.ts";

/** The requested action on an object or a collection. Source: k8s.io/apiserver, pkg/authorization/authorizer. */
export interface ResourceAttributes {
  readonly group: string;
  /** The plural. */
  readonly resource: string;
  /** Empty for the main resource. */
  readonly subresource: string;
  /** Absent for cluster-scoped resources, and for requests across all namespaces. */
  readonly namespace: string | undefined;
  /** Empty when the request names none; the value of the selector for `fieldSelector=metadata.name=…`. */
  readonly name: string;
}

/** The user and the requested action: on a resource, or on a path that is not a resource, such as /healthz. */
export type Attributes = { readonly user: UserInfo; readonly verb: string } & (
  | { readonly resource: ResourceAttributes }
  | { readonly path: string }
);

export interface Decision {
  readonly allowed: boolean;
  /** Which binding allowed it, or why rules could not be read. May be empty. */
  readonly reason: string;
}

export interface ResourceRule {
  readonly verbs: readonly string[];
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly resourceNames?: readonly string[];
}

export interface PathRule {
  readonly verbs: readonly string[];
  readonly nonResourceURLs: readonly string[];
}

/** The permissions of a user in one namespace. */
export interface GrantedRules {
  readonly resourceRules: readonly ResourceRule[];
  readonly nonResourceRules: readonly PathRule[];
}

/** Decides without waiting: everything it needs is indexed in memory. */
export interface Authorizer {
  authorize(attributes: Attributes): Decision;
  /** Rules that hold for `user` in `namespace`; those for the whole cluster when it is undefined. */
  rulesFor(user: UserInfo, namespace: string | undefined): GrantedRules;
}

export const MASTERS_GROUP = "system:masters";
export const AUTHENTICATED_GROUP = "system:authenticated";
export const UNAUTHENTICATED_GROUP = "system:unauthenticated";
export const ANONYMOUS_USER = "system:anonymous";
