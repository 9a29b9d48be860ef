import { MEMBER_CLUSTERS, type MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { HUB_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { acceptRanges } from "#domain/accepted-ranges.ts";
import type { IpAddress } from "@fairlead/base/netaddr/address.ts";
import { keyOf } from "@fairlead/kube/api/meta/key.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import type { HubInformers } from "../informers.ts";

interface Parts {
  readonly client: KubeClient;
  readonly informers: HubInformers;
  readonly options: { readonly servers: readonly IpAddress[] };
}

/** Keeps with the MemberCluster which of the ranges that its agent reports count. */
export async function acceptReported(
  { client, informers, options }: Parts,
  member: MemberCluster,
  signal: AbortSignal,
): Promise<void> {
  const { name } = member.metadata;
  const view = informers.viewOf(name);
  const others = [...informers.members.store.list()].filter(
    (it) => it.metadata.name !== name && informers.viewOf(it.metadata.name) === view,
  );
  const annotations = acceptRanges(member, others, options.servers);
  if (annotations === undefined) return;
  const patch = { metadata: { annotations } };
  await client.mergePatch(MEMBER_CLUSTERS, keyOf(member), patch, { fieldManager: HUB_MANAGER, signal });
}
