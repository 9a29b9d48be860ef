import { messageOf } from "@fairlead/base/errors.ts";
import { isObject } from "@fairlead/base/json.ts";
import type { CustomResourceDefinition } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { KindTable, type ServedGroup, type ServedVersion } from "./kinds.ts";

/** Reads one path of the API server, as JSON. */
type ReadPath = (path: string) => Promise<unknown>;
/** What is served now. What cannot be read is as in `before`, and its group is marked. Throws if nothing can be read. */
export type Discover = (before: KindTable | undefined, signal: AbortSignal) => Promise<KindTable>;

export function discoverBy(client: KubeClient): Discover {
  return (before, signal) =>
    discoverKinds((path) => client.request("GET", path, undefined, { signal }), before);
}

/** The others are read also while the server of one group is away. */
export async function discoverKinds(read: ReadPath, before: KindTable | undefined): Promise<KindTable> {
  const named = groupsIn(await read("/apis"));
  const groups = [{ group: "", versions: ["v1"] }, ...named].map(({ group, versions }) =>
    discoverGroup(read, { group, versions }, before),
  );
  return new KindTable(await Promise.all(groups));
}

interface NamedGroup {
  readonly group: string;
  /** The preferred one first. */
  readonly versions: readonly string[];
}

async function discoverGroup(
  read: ReadPath,
  { group, versions }: NamedGroup,
  before: KindTable | undefined,
): Promise<ServedGroup> {
  const known = before?.groups.find((it) => it.group === group)?.versions ?? [];
  let problem: string | undefined;
  const found = await Promise.all(
    versions.map(async (version): Promise<ServedVersion> => {
      try {
        const list = await read(group === "" ? `/api/${version}` : `/apis/${group}/${version}`);
        return { version, kinds: kindsIn(list, { group, version }) };
      } catch (error) {
        problem = messageOf(error);
        return known.find((it) => it.version === version) ?? { version, kinds: [] };
      }
    }),
  );
  return { group, versions: found, ...(problem === undefined ? {} : { problem }) };
}

function groupsIn(list: unknown): NamedGroup[] {
  return itemsOf(list, "groups").flatMap((it) => {
    const { name, preferredVersion } = it;
    if (typeof name !== "string") return [];
    const versions = itemsOf(it, "versions").flatMap(({ version }) =>
      typeof version === "string" ? [version] : [],
    );
    const preferred = isObject(preferredVersion) ? preferredVersion["version"] : undefined;
    const first = versions.filter((version) => version === preferred);
    return [{ group: name, versions: [...first, ...versions.filter((version) => version !== preferred)] }];
  });
}

function kindsIn(list: unknown, of: { readonly group: string; readonly version: string }): Resource[] {
  return itemsOf(list, "resources").flatMap(({ name, kind, namespaced, verbs }) => {
    if (typeof name !== "string" || typeof kind !== "string" || name.includes("/")) return [];
    const can = Array.isArray(verbs) ? (verbs as unknown[]) : [];
    if (!["get", "list", "watch"].every((verb) => can.includes(verb))) return [];
    return [{ ...of, plural: name, kind, namespaced: namespaced === true }];
  });
}

function itemsOf(list: unknown, field: string): Record<string, unknown>[] {
  const items = isObject(list) ? list[field] : undefined;
  return Array.isArray(items) ? items.filter(isObject) : [];
}

/**
 * The table, with groups marked that have a CustomResourceDefinition which is not served: an API server that has just started serves
 * them a moment later, and the objects are not gone.
 */
export function withDefinitions(
  table: KindTable,
  definitions: Iterable<CustomResourceDefinition>,
): KindTable {
  const missing = new Map<string, string>();
  for (const { metadata, spec } of definitions) {
    const isServed = spec.versions.some(
      ({ name, served }) => served && table.find({ group: spec.group, version: name, kind: spec.names.kind }),
    );
    const isMeant = metadata.deletionTimestamp === undefined && spec.versions.some((it) => it.served);
    if (!isServed && isMeant) missing.set(spec.group, `${metadata.name} is installed and not served yet`);
  }
  if (missing.size === 0) return table;
  const known = table.groups.map((it) => {
    const problem = missing.get(it.group);
    return problem === undefined || it.problem !== undefined ? it : { ...it, problem };
  });
  const present = new Set(table.groups.map((it) => it.group));
  const unknown = [...missing]
    .filter(([group]) => !present.has(group))
    .map(([group, problem]) => ({ group, versions: [], problem }));
  return new KindTable([...known, ...unknown]);
}
