import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import { isObject } from "@fairlead/base/json.ts";
import type { ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { Informer, KubeClient } from "@fairlead/kube/types.ts";

interface KindName {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
}

/** @param isPresence - Whether the object came or went. */
type OnChange = (of: Resource, key: ObjectKey, isPresence: boolean) => void;

interface Watched {
  readonly informer: Informer<KubeObject>;
  readonly users: Set<string>;
}

/**
 * The kinds that Works place: which resources they are in this cluster, and what becomes of their objects. Each kind in use is
 * watched once, its metadata only. A kind that the agent may not watch is used all the same: only its changes are not seen.
 */
export class Kinds implements AsyncDisposable {
  readonly #client: KubeClient;
  readonly #deps: RuntimeDeps;
  readonly #onChange: OnChange;
  readonly #stop = new AbortController();
  /** By group and version: the resources by kind. */
  readonly #served = new Map<string, Promise<ReadonlyMap<string, Resource>>>();
  /** By group and kind. */
  readonly #watched = new Map<string, Watched>();
  /** By user: the kinds that it uses. */
  readonly #uses = new Map<string, ReadonlySet<string>>();

  constructor(client: KubeClient, deps: RuntimeDeps, onChange: OnChange) {
    const { health: _, ...rest } = deps;
    this.#client = client;
    // A kind that is placed must not make the program unready.
    this.#deps = rest;
    this.#onChange = onChange;
  }

  /** The resource of a kind; undefined if this cluster does not serve it. */
  async find(name: KindName, signal: AbortSignal): Promise<Resource | undefined> {
    const known = this.#served.get(groupVersion(name));
    const found = (await known?.catch(() => undefined))?.get(name.kind);
    if (found !== undefined) return found;
    const reading = this.#read(name, signal);
    this.#served.set(groupVersion(name), reading);
    try {
      return (await reading).get(name.kind);
    } catch (error) {
      this.#served.delete(groupVersion(name));
      throw error;
    }
  }

  /** Forgets what is served of a group: its definitions changed. */
  forget(group: string): void {
    for (const key of this.#served.keys())
      if (key.slice(0, key.lastIndexOf("/")) === group) this.#served.delete(key);
  }

  async #read({ group, version }: KindName, signal: AbortSignal): Promise<ReadonlyMap<string, Resource>> {
    const path =
      group === "" ? `/api/${version}` : `/apis/${encodeURIComponent(group)}/${encodeURIComponent(version)}`;
    try {
      return resourcesOf({ group, version }, await this.#client.request("GET", path, undefined, { signal }));
    } catch (error) {
      if (hasCode(error, "API_NOT_FOUND")) return new Map();
      throw error;
    }
  }

  /** Notes which kinds a user has now, and watches those. */
  use(user: string, resources: Iterable<Resource>): void {
    const kinds = new Set<string>();
    for (const of of resources) {
      const kind = kindId(of);
      if (kinds.has(kind)) continue;
      kinds.add(kind);
      (this.#watched.get(kind) ?? this.#watch(kind, of)).users.add(user);
    }
    for (const kind of this.#uses.get(user) ?? []) if (!kinds.has(kind)) this.#release(kind, user);
    if (kinds.size === 0) this.#uses.delete(user);
    else this.#uses.set(user, kinds);
  }

  #watch(kind: string, of: Resource): Watched {
    const informer = createInformer(
      this.#client,
      of,
      { returns: "metadata", trim: bareObject, isOptional: () => true },
      this.#deps,
    );
    informer.subscribe(({ key, before, after }) => {
      this.#onChange(of, key, before === undefined || after === undefined);
    });
    informer.start(this.#stop.signal);
    const watched = { informer, users: new Set<string>() };
    this.#watched.set(kind, watched);
    return watched;
  }

  #release(kind: string, user: string): void {
    const watched = this.#watched.get(kind);
    if (watched === undefined || !watched.users.delete(user) || watched.users.size > 0) return;
    this.#watched.delete(kind);
    void watched.informer[Symbol.asyncDispose]();
  }

  /** The version of an object that its watch showed last; undefined if there is no such object, or no watch is open. */
  versionOf(of: Resource, key: ObjectKey): string | undefined {
    const informer = this.#watched.get(kindId(of))?.informer;
    if (informer?.watchingSinceMs === undefined) return undefined;
    return informer.store.get(key)?.metadata.resourceVersion;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    const watched = [...this.#watched.values()];
    this.#watched.clear();
    this.#uses.clear();
    await Promise.all(watched.map((it) => it.informer[Symbol.asyncDispose]()));
  }
}

function kindId({ group, kind }: Resource): string {
  return `${group}/${kind}`;
}
function groupVersion({ group, version }: Pick<KindName, "group" | "version">): string {
  return `${group}/${version}`;
}

/** APIResourceList: subresources have a slash in their names. */
function resourcesOf(of: Pick<KindName, "group" | "version">, list: unknown): Map<string, Resource> {
  const resources = isObject(list) && Array.isArray(list["resources"]) ? list["resources"] : [];
  const byKind = new Map<string, Resource>();
  for (const it of resources) {
    if (!isObject(it)) continue;
    const { name, kind, namespaced } = it;
    if (typeof name === "string" && typeof kind === "string" && !name.includes("/"))
      byKind.set(kind, { ...of, kind, plural: name, namespaced: namespaced === true });
  }
  return byKind;
}

function bareObject({ metadata: { name, namespace, uid, resourceVersion } }: KubeObject): KubeObject {
  return { metadata: { name, namespace, uid, resourceVersion } as KubeObject["metadata"] };
}
