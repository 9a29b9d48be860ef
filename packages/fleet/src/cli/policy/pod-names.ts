import { OWN_CLUSTER_LABEL } from "#api/fairlead.dev/names.ts";
import { ADDRESS_BLOCKS, MESH_NETWORKS } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import { podOf } from "#dataplane/policy/objects.ts";
import { type FlowEnd, flowEnd } from "#domain/flow-record.ts";
import type { Clock } from "@fairlead/base/clock.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import { formatAddress } from "@fairlead/base/netaddr/address.ts";
import { PODS } from "@fairlead/kube/api/core/v1/types.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";

interface Named {
  /** "cluster/namespace/name". */
  readonly name: string;
  /** RFC 3339. */
  readonly createdAt: string;
}

/** Between two readings. Unit: milliseconds. */
const REREAD_MS = 10_000;

/** Pods of the clusters that are read, by address: a node knows pods of other clusters only where a policy of its own selects them. */
export class PodNames {
  readonly #clients: readonly KubeClient[];
  readonly #clock: Clock;
  #names: ReadonlyMap<string, Named> = new Map();
  #readAtMs = Number.NEGATIVE_INFINITY;

  constructor(clients: readonly KubeClient[], clock: Clock) {
    this.#clients = clients;
    this.#clock = clock;
  }

  /** @param time - When the end was seen: a younger pod was not it. */
  async complete(end: FlowEnd, time: string, signal: AbortSignal): Promise<FlowEnd> {
    if (end.pod !== undefined) return end;
    const nowMs = this.#clock.monotonic();
    if (!this.#names.has(end.address) && nowMs - this.#readAtMs >= REREAD_MS) {
      this.#readAtMs = nowMs;
      const all = await Promise.all(this.#clients.map((it) => podsOf(it, signal).catch(orNone)));
      this.#names = new Map(all.flat());
    }
    const found = this.#names.get(end.address);
    return found === undefined || Date.parse(found.createdAt) > Date.parse(time)
      ? end
      : flowEnd(end.address, found.name);
  }
}

/** People who may read Events only see the addresses. */
function orNone(error: unknown): readonly [] {
  if (!hasCode(error, "API_FORBIDDEN", "API_NOT_FOUND")) throw error;
  return [];
}

/** In a parallel network pods of several clusters may have the same addresses of their own: only fleet addresses count. */
async function podsOf(
  client: KubeClient,
  signal: AbortSignal,
): Promise<readonly (readonly [string, Named])[]> {
  const inSystem = { namespace: FLEET_SYSTEM_NAMESPACE, signal };
  const [network] = (await client.list(MESH_NETWORKS, inSystem)).items;
  const cluster = network?.metadata.labels?.[OWN_CLUSTER_LABEL];
  if (network === undefined || cluster === undefined) return [];
  const [pods, blocks] = await Promise.all([
    client.list(PODS, { signal }),
    client.list(ADDRESS_BLOCKS, inSystem),
  ]);
  const allocations = blocks.items.flatMap((it) => it.status?.allocations ?? []);
  const fleet = new Map(
    allocations.filter((it) => it.releasedAt === undefined).map((it) => [it.podUID, [it.ipv4, it.ipv6]]),
  );
  return pods.items.flatMap((pod) => {
    const { metadata } = pod;
    const addresses =
      network.spec.mode === "parallel"
        ? (fleet.get(metadata.uid ?? "") ?? [])
        : (podOf(pod, cluster)?.addresses ?? []).map(formatAddress);
    const name = `${cluster}/${metadata.namespace}/${metadata.name}`;
    return addresses.map((it) => [it, { name, createdAt: metadata.creationTimestamp ?? "" }] as const);
  });
}
