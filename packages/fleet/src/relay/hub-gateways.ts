import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { applyIfChanged } from "@fairlead/kube/objects/apply.ts";
import type { Controller, KubeClient } from "@fairlead/kube/types.ts";
import { RELAY_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { GATEWAYS, RELAYS, type Relay } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { isMoreThanPaths } from "#domain/gateway.ts";
import { FLEET_SYSTEM_NAMESPACE, isViewNamespace } from "#api/networking.fleet.azure.com/names.ts";
import { type RelayGateway, relayGateway } from "./gateway-keys.ts";

export interface HubRelayOptions {
  readonly client: KubeClient;
  /** Name of its object, unique among relays. */
  readonly name: string;
  readonly spec: Relay["spec"];
  readonly setGateways: (gateways: Iterable<RelayGateway>) => Promise<void>;
}

/** Publishes the relay on the hub, and follows the gateways of the hub's views. */
export function createHubRelay(options: HubRelayOptions, deps: RuntimeDeps): Controller {
  const { client, name, spec, setGateways } = options;
  const gateways = createInformer(client, GATEWAYS, {}, deps);
  const relays = createInformer(
    client,
    RELAYS,
    {
      namespace: FLEET_SYSTEM_NAMESPACE,
      fieldSelector: `metadata.name=${name}`,
      fieldManager: RELAY_MANAGER,
    },
    deps,
  );
  const own = objectKey(FLEET_SYSTEM_NAMESPACE, name);
  /** All gateways are one key: what is wanted of them is a list. */
  const all = objectKey(undefined, "gateways");

  const controller = createController(
    {
      name: "relay",
      concurrency: 1,
      sources: [watching(relays), watching(gateways, (change) => (isMoreThanPaths(change) ? [all] : []))],
      async reconcile(key, signal) {
        if (key === all) {
          // In mailboxes they are as members say.
          const checked = [...gateways.store.list()].filter((it) => isViewNamespace(it.metadata.namespace));
          await setGateways(checked.flatMap((it) => relayGateway(it) ?? []));
          return;
        }
        const desired = { metadata: { namespace: FLEET_SYSTEM_NAMESPACE, name }, spec };
        const current = relays.store.get(own);
        await applyIfChanged(client, RELAYS, { current, desired, fieldManager: RELAY_MANAGER, signal });
      },
    },
    deps,
  );
  return {
    name: controller.name,
    async start(signal) {
      // Before there is any object that could be watched.
      controller.enqueue(own);
      controller.enqueue(all);
      await controller.start(signal);
    },
    enqueue: (key) => controller.enqueue(key),
    idle: (signal) => controller.idle(signal),
    async [Symbol.asyncDispose]() {
      await controller[Symbol.asyncDispose]();
      await gateways[Symbol.asyncDispose]();
      await relays[Symbol.asyncDispose]();
    },
  };
}
