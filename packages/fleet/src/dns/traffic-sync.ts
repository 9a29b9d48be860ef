import { TRAFFIC_ROUTES } from "#api/fairlead.dev/v1alpha1/traffic-route.ts";
import { VIEW_NAMESPACE } from "#api/fairlead.dev/names.ts";
import { objectKey, splitKey } from "@fairlead/kube/api/meta/key.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { untilServed } from "@fairlead/dns/crd.ts";
import { serialAt, type ZoneSync } from "@fairlead/dns/service-sync.ts";
import { TrafficZone } from "./traffic-zone.ts";

/** The namespace of the routes: the view on the hub, that of the agent's copies in a member. Others are not trusted. */
const NAMESPACES = [VIEW_NAMESPACE, FLEET_SYSTEM_NAMESPACE];

export interface TrafficSync extends ZoneSync {
  readonly zone: TrafficZone;
}

/** Keeps the traffic manager's zone equal to the TrafficRoutes of an API server, a hub's or a member's. */
export function createTrafficSync(
  client: KubeClient,
  options: { readonly origin: string; readonly negativeTtl: number },
  deps: RuntimeDeps,
): TrafficSync {
  let hasSynced = false;
  const zone = new TrafficZone({
    ...options,
    serial: serialAt(deps.clock.now()),
    isReady: () => hasSynced,
    rng: deps.rng,
  });
  const routes = createInformer(client, TRAFFIC_ROUTES, {}, deps);
  const controller = createController(
    {
      name: "dns-traffic",
      concurrency: 1,
      sources: [watching(routes)],
      reconcile: (key) => {
        const { name } = splitKey(key);
        const found = NAMESPACES.map((namespace) => routes.store.get(objectKey(namespace, name)));
        zone.put(
          name,
          found.find((it) => it !== undefined),
        );
        return Promise.resolve();
      },
    },
    deps,
  );
  return {
    zone,
    get hasSynced() {
      return hasSynced;
    },
    async start(signal) {
      await untilServed(client, TRAFFIC_ROUTES, deps, signal);
      await controller.start(signal);
      await controller.idle(signal);
      hasSynced = true;
    },
    async [Symbol.asyncDispose]() {
      await controller[Symbol.asyncDispose]();
      await routes[Symbol.asyncDispose]();
    },
  };
}
