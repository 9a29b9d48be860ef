import { generateKeyPairSync } from "node:crypto";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import {
  ADDRESS_BLOCKS,
  type AddressBlock,
  CLUSTER_MESH_PROFILES,
  type ClusterMeshProfile,
  type Gateway,
  type GatewayPath,
  GATEWAYS,
} from "@fairlead/fleet/api/fairlead.dev/v1alpha1/mesh.ts";
import { FLEET_SYSTEM_NAMESPACE, mailboxOf } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import { NODES } from "@fairlead/kube/api/core/v1/types.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { eventuallyOne } from "./waiting.ts";

/** What users, kubelets and node agents write, for tests of the parallel network without nodes. */

export async function createProfile(
  hub: KubeClient,
  name: string,
  spec: Partial<ClusterMeshProfile["spec"]> = {},
): Promise<void> {
  await hub.create(CLUSTER_MESH_PROFILES, {
    metadata: { name },
    spec: { memberSelector: { matchLabels: { mesh: name } }, network: { mode: "parallel" }, ...spec },
  });
}

export async function setProfile(hub: KubeClient, member: string, profile: string | null): Promise<void> {
  const metadata = { labels: { mesh: profile } };
  await hub.mergePatch(MEMBER_CLUSTERS, objectKey(undefined, member), { metadata });
}

export async function addNode(
  client: KubeClient,
  name: string,
  { address, podCIDR }: { readonly address: string; readonly podCIDR?: string },
): Promise<void> {
  await client.create(NODES, {
    metadata: { name },
    ...(podCIDR === undefined ? {} : { spec: { podCIDR, podCIDRs: [podCIDR] } }),
  });
  const status = {
    addresses: [{ type: "InternalIP" as const, address }],
    conditions: [{ type: "Ready", status: "True" as const, lastTransitionTime: "2026-01-01T00:00:00Z" }],
  };
  await client.mergePatch(NODES, objectKey(undefined, name), { status }, { subresource: "status" });
}

export function newPublicKey(): string {
  const { x } = generateKeyPairSync("x25519").publicKey.export({ format: "jwk" });
  return Buffer.from(x ?? "", "base64url").toString("base64");
}

/** As a node agent says it. */
export async function showGateway(
  client: KubeClient,
  name: string,
  spec: Partial<Gateway["spec"]>,
): Promise<void> {
  const key = objectKey(FLEET_SYSTEM_NAMESPACE, name);
  await eventuallyOne(client, GATEWAYS, key);
  await client.apply(
    GATEWAYS,
    { metadata: { namespace: FLEET_SYSTEM_NAMESPACE, name }, spec },
    { fieldManager: "fairlead-node" },
  );
}

/** As a node agent gives addresses to pods: the first pod the first address. */
export async function attachPods(
  client: KubeClient,
  node: string,
  pods: readonly string[],
): Promise<AddressBlock> {
  const key = objectKey(FLEET_SYSTEM_NAMESPACE, `node.${node}`);
  const { spec } = await eventuallyOne(client, ADDRESS_BLOCKS, key);
  const [v4, v6] = [spec.ipv4[0]!.replace(/0\/24$/, ""), spec.ipv6[0]!.replace(/\/64$/, "")];
  const allocations = pods.map((podUID, at) => ({ podUID, ipv4: `${v4}${at + 2}`, ipv6: `${v6}${at + 2}` }));
  return client.mergePatch(ADDRESS_BLOCKS, key, { status: { allocations } }, { subresource: "status" });
}

/** Reports the tunnels of a gateway, as its node does, and waits for the report at the hub. */
export async function reportPaths(
  { client, hub, cluster }: { client: KubeClient; hub: KubeClient; cluster: string },
  paths: readonly GatewayPath[],
): Promise<Gateway> {
  const name = `${cluster}-0`;
  const metadata = { namespace: FLEET_SYSTEM_NAMESPACE, name };
  const status = { paths, pathsReportedAt: "2026-01-01T00:00:00Z" };
  await client.apply(
    GATEWAYS,
    { metadata, status },
    { fieldManager: "fairlead-node", subresource: "status" },
  );
  const shown = (it: Gateway) => sameJson(it.status?.paths, paths);
  return await eventuallyOne(hub, GATEWAYS, objectKey(mailboxOf(cluster), name), shown);
}
