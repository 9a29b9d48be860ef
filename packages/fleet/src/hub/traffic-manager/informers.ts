import { HUB_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import {
  TRAFFIC_MANAGER_BACKENDS,
  TRAFFIC_MANAGER_PROFILES,
  type TrafficManagerBackend,
  type TrafficManagerProfile,
} from "#api/networking.fleet.azure.com/v1beta1/traffic-manager.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { Informer, KubeClient } from "@fairlead/kube/types.ts";
import { labelOf } from "./profile.ts";

/** Informers of the traffic manager, in addition to those of the hub's other controllers. */
export interface TrafficInformers {
  readonly profiles: Informer<TrafficManagerProfile>;
  readonly backends: Informer<TrafficManagerBackend>;
}

export function createTrafficInformers(client: KubeClient, deps: RuntimeDeps): TrafficInformers {
  const fieldManager = HUB_MANAGER;
  return {
    profiles: createInformer(
      client,
      TRAFFIC_MANAGER_PROFILES,
      { fieldManager, indexes: { label: (it) => [labelOf(it)] } },
      deps,
    ),
    backends: createInformer(
      client,
      TRAFFIC_MANAGER_BACKENDS,
      { fieldManager, indexes: { profile: (it) => [profileOf(it)], service: (it) => [serviceOf(it)] } },
      deps,
    ),
  };
}

/** The profile is in the namespace of the backend. */
export function profileOf({ metadata, spec }: TrafficManagerBackend): ObjectKey {
  return objectKey(metadata.namespace, spec.profile.name);
}
function serviceOf({ metadata, spec }: TrafficManagerBackend): ObjectKey {
  return objectKey(metadata.namespace, spec.backend.name);
}
