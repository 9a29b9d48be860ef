import { HUB_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { MANAGED_BY_LABEL, VIEW_NAMESPACE } from "#api/fairlead.dev/names.ts";
import { TRAFFIC_ROUTES, type TrafficRoute } from "#api/fairlead.dev/v1alpha1/traffic-route.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { applyIfChanged } from "@fairlead/kube/objects/apply.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { ensureNamespace } from "@fairlead/kube/objects/namespaces.ts";
import type { Informer, KubeClient } from "@fairlead/kube/types.ts";
import type { Outcome, TrafficName, TrafficProvider } from "../provider.ts";

/**
 * The fleet's own DNS: one TrafficRoute for each name in the view of the hub, from which `fairlead dns` answers. Each
 * target is one entry of a merged list, so that server-side apply leaves entries of others where they are.
 */
export function createClusterSetProvider(
  client: KubeClient,
  options: { readonly zone: string },
  deps: RuntimeDeps,
): TrafficProvider {
  const routes = createInformer(
    client,
    TRAFFIC_ROUTES,
    { namespace: VIEW_NAMESPACE, fieldManager: HUB_MANAGER },
    deps,
  );
  return new ClusterSetProvider(client, options.zone, routes);
}

class ClusterSetProvider implements TrafficProvider {
  readonly zone: string;
  readonly #client: KubeClient;
  readonly #routes: Informer<TrafficRoute>;

  constructor(client: KubeClient, zone: string, routes: Informer<TrafficRoute>) {
    this.#client = client;
    this.zone = zone;
    this.#routes = routes;
  }

  async start(signal: AbortSignal): Promise<void> {
    await ensureNamespace(this.#client, VIEW_NAMESPACE, signal);
    this.#routes.start(signal);
    await this.#routes.synced(signal);
  }

  async program(name: TrafficName, signal: AbortSignal): Promise<Outcome> {
    const current = await this.#read(name.label, signal);
    if (current !== undefined && !isOurs(current)) {
      const message = `TrafficRoute ${VIEW_NAMESPACE}/${name.label} is not managed by Fairlead`;
      return { kind: "taken", message };
    }
    const after = await applyIfChanged(this.#client, TRAFFIC_ROUTES, {
      current,
      desired: routeOf(name),
      fieldManager: HUB_MANAGER,
      signal,
    });
    return { kind: "programmed", changed: after !== current };
  }

  async withdraw(label: string, signal: AbortSignal): Promise<void> {
    const current = await this.#read(label, signal);
    const { uid } = current?.metadata ?? {};
    if (current === undefined || uid === undefined || !isOurs(current)) return;
    await this.#client.delete(TRAFFIC_ROUTES, objectKey(VIEW_NAMESPACE, label), { uid, signal });
  }

  subscribe(onChange: (label: string) => void): Disposable {
    return this.#routes.subscribe(({ before, after }) => {
      const name = (after ?? before)?.metadata.name;
      if (name !== undefined) onChange(name);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#routes[Symbol.asyncDispose]();
  }

  /** One that the watch has not shown yet is asked for: apply would take it over unseen. */
  async #read(label: string, signal: AbortSignal): Promise<TrafficRoute | undefined> {
    const key = objectKey(VIEW_NAMESPACE, label);
    return this.#routes.store.get(key) ?? (await this.#client.find(TRAFFIC_ROUTES, key, { signal }));
  }
}

function isOurs({ metadata }: TrafficRoute): boolean {
  return metadata.labels?.[MANAGED_BY_LABEL] === HUB_MANAGER;
}

function routeOf({ label, profile, ttlSeconds, targets }: TrafficName): TrafficRoute {
  return {
    metadata: { namespace: VIEW_NAMESPACE, name: label, labels: { [MANAGED_BY_LABEL]: HUB_MANAGER } },
    spec: { profile, ttl: ttlSeconds, ...(targets.length === 0 ? {} : { targets: [...targets] }) },
  };
}
