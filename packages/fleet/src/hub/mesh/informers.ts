import { HUB_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import {
  ADDRESS_BLOCKS,
  type AddressBlock,
  CLUSTER_MESH_PROFILES,
  type ClusterMeshProfile,
  type Gateway,
  GATEWAYS,
  MESH_NETWORKS,
  type MeshNetwork,
  type Relay,
  RELAYS,
} from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { Informer, InformerOptions, KubeClient } from "@fairlead/kube/types.ts";

export interface MeshInformers {
  readonly profiles: Informer<ClusterMeshProfile>;
  /** In mailboxes and views. */
  readonly gateways: Informer<Gateway>;
  /** Decide about endpoints: read wherever these are. */
  readonly blocks: Informer<AddressBlock>;
  readonly networks: Informer<MeshNetwork>;
  readonly relays: Informer<Relay>;
}

export function createMeshInformers(
  client: KubeClient,
  optional: Pick<InformerOptions<AddressBlock>, "isOptional">,
  deps: RuntimeDeps,
): MeshInformers {
  const fieldManager = HUB_MANAGER;
  return {
    profiles: createInformer(client, CLUSTER_MESH_PROFILES, { fieldManager }, deps),
    gateways: createInformer(client, GATEWAYS, { fieldManager }, deps),
    blocks: createInformer(client, ADDRESS_BLOCKS, { fieldManager, ...optional }, deps),
    networks: createInformer(client, MESH_NETWORKS, { fieldManager }, deps),
    relays: createInformer(client, RELAYS, { namespace: FLEET_SYSTEM_NAMESPACE }, deps),
  };
}
