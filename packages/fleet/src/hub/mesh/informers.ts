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
  VIRTUAL_IPS,
  type VirtualIP,
} from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { Informer, InformerOptions, KubeClient } from "@fairlead/kube/types.ts";

export interface MeshInformers {
  /** Decide about endpoints: these two are read wherever endpoints are. */
  readonly profiles: Informer<ClusterMeshProfile>;
  readonly blocks: Informer<AddressBlock>;
  /** Read wherever services are. */
  readonly virtualIPs: Informer<VirtualIP>;
  /** In mailboxes and views. */
  readonly gateways: Informer<Gateway>;
  readonly networks: Informer<MeshNetwork>;
  readonly relays: Informer<Relay>;
}

export function createMeshInformers(
  client: KubeClient,
  optional: Pick<InformerOptions<KubeObject>, "isOptional">,
  deps: RuntimeDeps,
): MeshInformers {
  const fieldManager = HUB_MANAGER;
  return {
    profiles: createInformer(client, CLUSTER_MESH_PROFILES, { fieldManager, ...optional }, deps),
    gateways: createInformer(client, GATEWAYS, { fieldManager }, deps),
    blocks: createInformer(client, ADDRESS_BLOCKS, { fieldManager, ...optional }, deps),
    virtualIPs: createInformer(
      client,
      VIRTUAL_IPS,
      { fieldManager, ...optional, indexes: { in: ({ metadata }) => [metadata.namespace ?? ""] } },
      deps,
    ),
    networks: createInformer(client, MESH_NETWORKS, { fieldManager }, deps),
    relays: createInformer(client, RELAYS, { namespace: FLEET_SYSTEM_NAMESPACE }, deps),
  };
}
