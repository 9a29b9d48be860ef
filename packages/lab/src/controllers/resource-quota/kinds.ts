import { defined } from "@fairlead/base/defined.ts";
import type { CountedObject, GroupResource } from "@fairlead/kube/quota/types.ts";
import { fieldsAt, itemsAt, stringsAt, textAt } from "@fairlead/base/fields.ts";
import { type Resource, resource as resourceAt } from "@fairlead/kube/api/meta/resource.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import { isObject } from "@fairlead/base/json.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { Change, Informer, KubeClient } from "@fairlead/kube/types.ts";
import { resourceId } from "./plan.ts";

export interface CountedKind {
  /** Index: namespace. */
  readonly informer: Informer<CountedObject>;
}

export interface CountedKindsOptions {
  readonly client: KubeClient;
  /** The served state of a custom resource's definition; undefined for built-in kinds. */
  readonly definitionOf: (resource: GroupResource) => string | undefined;
  readonly onChange: (resource: GroupResource, change: Change<CountedObject>) => void;
}

const SYNC_LIMIT_MS = 10_000;

/** Of these more counts than that they are there. */
const WHOLE = new Set(["pods", "services", "persistentvolumeclaims"]);

/**
 * The kinds that quotas count: any that the server has, custom ones too. Each is watched from when a quota first names it,
 * until its definition goes; of most only their names are kept.
 */
export class CountedKinds implements AsyncDisposable {
  readonly #options: CountedKindsOptions;
  readonly #deps: RuntimeDeps;
  readonly #stop = new AbortController();
  readonly #kinds = new Map<
    string,
    { definition: string | undefined; kind: Promise<CountedKind | undefined> }
  >();

  constructor(options: CountedKindsOptions, deps: RuntimeDeps) {
    this.#options = options;
    this.#deps = deps;
  }

  /** The kind with all that there is of it; none where the server has no such kind in namespaces. */
  async get(resource: GroupResource): Promise<CountedKind | undefined> {
    const id = resourceId(resource);
    const definition = this.#options.definitionOf(resource);
    const known = this.#kinds.get(id);
    if (known?.definition === definition && known !== undefined) return known.kind;
    const entry = { definition, kind: this.#replace(resource, known?.kind) };
    this.#kinds.set(id, entry);
    const forget = (): void => {
      if (this.#kinds.get(id) === entry) this.#kinds.delete(id);
    };
    try {
      const kind = await entry.kind;
      if (kind === undefined) forget();
      return kind;
    } catch (error) {
      forget();
      throw error;
    }
  }

  async #replace(
    resource: GroupResource,
    before: Promise<CountedKind | undefined> | undefined,
  ): Promise<CountedKind | undefined> {
    const gone = await before;
    await gone?.informer[Symbol.asyncDispose]();
    const { signal } = this.#stop;
    const of = await discover(this.#options.client, resource, signal);
    if (of === undefined) return undefined;
    const informer = createInformer(
      this.#options.client,
      of,
      {
        indexes: { namespace: ({ metadata }) => [metadata.namespace ?? ""] },
        ...(resource.group === "" && WHOLE.has(resource.plural) ? {} : { trim: namesOnly }),
      },
      this.#deps,
    );
    informer.start(signal);
    await this.#synced(informer);
    // What is there by now is counted by the pass that asks.
    informer.subscribe((change) => this.#options.onChange(resource, change));
    return { informer };
  }

  /** Waits for a limited time: a kind may have been removed since it was found, and the next attempt looks it up again. */
  async #synced(informer: Informer<CountedObject>): Promise<void> {
    const limit = new AbortController();
    using _timer = this.#deps.clock.after(SYNC_LIMIT_MS, () => limit.abort());
    try {
      await informer.synced(AbortSignal.any([this.#stop.signal, limit.signal]));
    } catch (error) {
      await informer[Symbol.asyncDispose]();
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    const kinds = await Promise.allSettled([...this.#kinds.values()].map((it) => it.kind));
    for (const it of kinds) {
      if (it.status === "fulfilled") await it.value?.informer[Symbol.asyncDispose]();
    }
  }
}

function namesOnly({ apiVersion, kind, metadata }: CountedObject): CountedObject {
  const { name, namespace, uid, resourceVersion } = metadata;
  return {
    apiVersion,
    kind,
    metadata: {
      name,
      ...defined({ namespace, uid, resourceVersion }),
    },
  };
}

/** Where the server has a kind, in the version that it likes best. */
async function discover(
  client: KubeClient,
  { group, plural }: GroupResource,
  signal: AbortSignal,
): Promise<Resource<CountedObject> | undefined> {
  const root = group === "" ? "/api" : `/apis/${encodeURIComponent(group)}`;
  const served = await read(client, root, signal);
  const versions = group === "" ? stringsAt(served, "versions") : versionsOf(served);
  for (const version of versions) {
    const list = await read(client, `${root}/${encodeURIComponent(version)}`, signal);
    const found = itemsAt(list, "resources").find(
      (it) => it["name"] === plural && it["namespaced"] === true && stringsAt(it, "verbs").includes("watch"),
    );
    const apiVersion = group === "" ? version : `${group}/${version}`;
    if (found !== undefined) return resourceAt<CountedObject>(apiVersion, textAt(found, "kind"), plural);
  }
  return undefined;
}

function versionsOf(group: Record<string, unknown> | undefined): readonly string[] {
  const preferred = textAt(fieldsAt(group, "preferredVersion"), "version");
  const all = itemsAt(group, "versions").map((it) => textAt(it, "version"));
  return [...new Set([preferred, ...all])].filter((it) => it !== "");
}

async function read(
  client: KubeClient,
  path: string,
  signal: AbortSignal,
): Promise<Record<string, unknown> | undefined> {
  try {
    const answer = await client.request("GET", path, undefined, { signal });
    return isObject(answer) ? answer : undefined;
  } catch (error) {
    if (hasCode(error, "API_NOT_FOUND")) return undefined;
    throw error;
  }
}
