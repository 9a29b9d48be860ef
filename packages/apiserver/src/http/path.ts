import type { Verb } from "#registry/types.ts";

/** The target of a path. Source: k8s.io/apiserver, pkg/endpoints/request/requestinfo.go. */
export type Target = ResourceTarget | PathTarget;

export interface ResourceTarget {
  readonly kind: "resource";
  readonly group: string;
  readonly version: string;
  readonly namespace: string | undefined;
  readonly plural: string;
  /** Absent for the collection. */
  readonly name: string | undefined;
  /** Empty for the main resource. */
  readonly subresource: string;
  /** Whether the path has the old prefix `watch`, as in /api/v1/watch/pods. */
  readonly isWatch: boolean;
  /** The rest of the path after the subresource: only proxies have it. */
  readonly rest: readonly string[];
}

export interface PathTarget {
  readonly kind: "path";
  readonly path: string;
}

/** `pathname` without query, as sent: it is decoded as a whole, so that a slash that was encoded parts segments as well. */
export function parsePath(pathname: string): Target {
  const path: PathTarget = { kind: "path", path: pathname };
  const segments = decodeSegments(pathname);
  if (segments === undefined) return path;
  const [root, ...rest] = segments;
  if (root === "api") return parseResource("", rest) ?? path;
  if (root !== "apis") return path;
  const [group, ...inGroup] = rest;
  return group === undefined ? path : (parseResource(group, inGroup) ?? path);
}

function decodeSegments(pathname: string): readonly string[] | undefined {
  try {
    return decodeURIComponent(pathname)
      .split("/")
      .filter((it) => it !== "");
  } catch {
    return undefined;
  }
}

/** Undefined for discovery: `/api/v1` names no resource. */
function parseResource(group: string, segments: readonly string[]): ResourceTarget | undefined {
  const [version, first, ...rest] = segments;
  if (version === undefined || first === undefined) return undefined;
  if (first === "watch") {
    const watched = rest[0] === "watch" ? undefined : parseResource(group, [version, ...rest]);
    return watched === undefined ? undefined : { ...watched, isWatch: true };
  }
  const base = { kind: "resource", group, version, isWatch: false } as const;
  const isNamespaced = first === "namespaces" && rest.length >= 2 && !isNamespaceSubresource(rest);
  if (!isNamespaced) return { ...base, namespace: undefined, ...partsOf([first, ...rest]) };
  const [namespace, ...inNamespace] = rest;
  return { ...base, namespace, ...partsOf(inNamespace) };
}

/** Namespaces are cluster-scoped themselves: these two are theirs, anything deeper is a resource in a namespace. */
function isNamespaceSubresource(rest: readonly string[]): boolean {
  return rest.length === 2 && (rest[1] === "status" || rest[1] === "finalize");
}

function partsOf(
  segments: readonly string[],
): Pick<ResourceTarget, "plural" | "name" | "subresource" | "rest"> {
  const [plural = "", name, subresource = "", ...rest] = segments;
  return { plural, name, subresource, rest };
}

/** The verb that authorization and dispatch go by. */
export function verbOf(method: string, target: ResourceTarget, query: URLSearchParams): Verb | undefined {
  const isItem = target.name !== undefined;
  if (target.isWatch) return method === "GET" && target.subresource === "" ? "watch" : undefined;
  if (method === "GET" || method === "HEAD") return readingVerb(isItem, query);
  return isItem ? ITEM_VERBS.get(method) : COLLECTION_VERBS.get(method);
}

const ITEM_VERBS: ReadonlyMap<string, Verb> = new Map([
  ["POST", "create"],
  ["PUT", "update"],
  ["PATCH", "patch"],
  ["DELETE", "delete"],
]);
const COLLECTION_VERBS: ReadonlyMap<string, Verb> = new Map([
  ["POST", "create"],
  ["DELETE", "deletecollection"],
]);

function readingVerb(isItem: boolean, query: URLSearchParams): Verb {
  if (isItem) return "get";
  return isTrue(query.get("watch")) ? "watch" : "list";
}

/** As apimachinery reads query parameters: there, and not said to be false. */
export function isTrue(value: string | null): boolean {
  return value !== null && value !== "0" && value.toLowerCase() !== "false";
}
