import type { KubeObject } from "./types.ts";

/** Where a kind lives on an API server, and the type of its objects. */
export interface Resource<T extends KubeObject = KubeObject> {
  /** Empty for the core group. */
  readonly group: string;
  readonly version: string;
  /** Lower case, as in the URL. */
  readonly plural: string;
  readonly kind: string;
  readonly namespaced: boolean;
  /** Lists that the type says are always there; a server leaves an empty one out, or sends null. */
  readonly lists?: readonly string[];
  /** Never set: carries the type of the objects. */
  readonly __type?: T;
}

export function resource<T extends KubeObject>(
  apiVersion: string,
  kind: string,
  plural: string,
  scope: "Namespaced" | "Cluster" = "Namespaced",
): Resource<T> {
  const slash = apiVersion.indexOf("/");
  const group = slash < 0 ? "" : apiVersion.slice(0, slash);
  return { group, version: apiVersion.slice(slash + 1), plural, kind, namespaced: scope === "Namespaced" };
}

/** "v1" or "group/version". */
export function apiVersionOf(of: Pick<Resource, "group" | "version">): string {
  return of.group === "" ? of.version : `${of.group}/${of.version}`;
}
