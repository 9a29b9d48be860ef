import type { ObjectKey } from "#api/meta/key.ts";
import { splitKey } from "#api/meta/key.ts";
import type { Resource } from "#api/meta/resource.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import type { ApplyOptions, ListOptions, WatchOptions, WriteOptions } from "#types.ts";

/** URLs of the Kubernetes API (API Concepts, "Standard API terminology"). */

type Query = Record<string, string | number | boolean | undefined>;

/** "/api/v1/namespaces/x/pods", "/apis/group/version/plural" across namespaces. */
export function collectionPath(of: Resource, namespace: string | undefined): string {
  const root = of.group === "" ? `/api/${of.version}` : `/apis/${of.group}/${of.version}`;
  return of.namespaced && namespace !== undefined
    ? `${root}/namespaces/${encodeURIComponent(namespace)}/${of.plural}`
    : `${root}/${of.plural}`;
}

/** @throws {FleetError} `API_BAD_REQUEST` when the key's scope is not the kind's: the URL would name something else. */
export function objectPath(of: Resource, key: ObjectKey, subresource?: string): string {
  const { namespace, name } = splitKey(key);
  if (name === "" || (namespace !== undefined) !== of.namespaced) {
    const scope = of.namespaced ? "namespaced" : "cluster-scoped";
    throw new FleetError("API_BAD_REQUEST", `invalid key "${key}" for the ${scope} resource ${of.plural}`, {
      detail: { key },
    });
  }
  const path = `${collectionPath(of, namespace)}/${encodeURIComponent(name)}`;
  return subresource === undefined ? path : `${path}/${subresource}`;
}

export function withQuery(path: string, query: Query): string {
  const pairs = Object.entries(query).flatMap(([name, value]) =>
    value === undefined || value === "" ? [] : [`${name}=${encodeURIComponent(value)}`],
  );
  return pairs.length === 0 ? path : `${path}?${pairs.join("&")}`;
}

export function listQuery(options: ListOptions): Query {
  const { labelSelector, fieldSelector, limit, continue: next, resourceVersion } = options;
  return { labelSelector, fieldSelector, limit, continue: next, resourceVersion };
}

export function watchQuery(options: WatchOptions): Query {
  const { labelSelector, fieldSelector, resourceVersion, timeoutSeconds } = options;
  const initial = options.sendInitialEvents === true;
  return {
    watch: true,
    labelSelector,
    fieldSelector,
    resourceVersion,
    timeoutSeconds,
    allowWatchBookmarks: options.allowWatchBookmarks === true ? true : undefined,
    sendInitialEvents: initial ? true : undefined,
    includeObject: options.returns === "rows" ? "None" : undefined,
    // Asked for by the server wherever sendInitialEvents is (KEP-3157).
    resourceVersionMatch: initial ? "NotOlderThan" : undefined,
  };
}

export function writeQuery(options: WriteOptions | ApplyOptions): Query {
  return {
    fieldManager: options.fieldManager,
    dryRun: options.dryRun === true ? "All" : undefined,
    force: "force" in options ? options.force : undefined,
  };
}
