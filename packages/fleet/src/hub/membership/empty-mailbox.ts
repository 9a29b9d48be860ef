import { ignoreNotFound } from "@fairlead/kube/objects/not-found.ts";
import { INTERNAL_MEMBER_CLUSTERS } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import { IMPORTED_SERVICES, NAMESPACE_REPORTS } from "#api/fairlead.dev/v1alpha1/types.ts";
import { IDENTITY_DEMANDS, IDENTITY_SLICES } from "#api/fairlead.dev/v1alpha1/identities.ts";
import { GATEWAYS } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { keyOf } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import {
  ENDPOINT_SLICE_EXPORTS,
  ENDPOINT_SLICE_IMPORTS,
  INTERNAL_SERVICE_EXPORTS,
  INTERNAL_SERVICE_IMPORTS,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import { WORKS } from "#api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import type { HubInformers } from "../informers.ts";

/**
 * Deletes all objects in a mailbox, with their finalizers: no client is left to remove these, and the deletion of the
 * namespace alone would wait for them forever.
 */
export async function emptyMailbox(
  at: { readonly client: KubeClient; readonly informers: HubInformers; readonly mailbox: string },
  signal: AbortSignal,
): Promise<void> {
  const { informers } = at;
  const kinds: readonly (readonly [Resource, Iterable<KubeObject>])[] = [
    [INTERNAL_SERVICE_EXPORTS, informers.exports.store.list()],
    [INTERNAL_SERVICE_IMPORTS, informers.imports.store.list()],
    [ENDPOINT_SLICE_EXPORTS, informers.sliceExports.store.list()],
    [ENDPOINT_SLICE_IMPORTS, informers.sliceImports.store.list()],
    [IMPORTED_SERVICES, informers.importedServices.store.list()],
    [NAMESPACE_REPORTS, informers.reports.store.list()],
    [GATEWAYS, informers.gateways.store.list()],
    [IDENTITY_SLICES, informers.identitySlices.store.list()],
    [IDENTITY_DEMANDS, informers.identityDemands.store.list()],
    [LEASES, informers.leases.store.list()],
    [INTERNAL_MEMBER_CLUSTERS, informers.internalMembers.store.list()],
  ];
  for (const [of, objects] of kinds) {
    const inside = [...objects].filter((it) => it.metadata.namespace === at.mailbox);
    await Promise.all(inside.map((it) => remove(at.client, of, it, signal)));
  }
  await releaseWorks(at, signal);
}

/**
 * What a member applied stays there; its Works end with the namespace, and must not wait for an agent that no longer runs. They
 * are read here alone: no controller of members needs them.
 */
async function releaseWorks(
  { client, mailbox }: { readonly client: KubeClient; readonly mailbox: string },
  signal: AbortSignal,
): Promise<void> {
  const { items } = await client.list(WORKS, { namespace: mailbox, signal }).catch((error: unknown) => {
    // A hub without placements.
    if (hasCode(error, "API_NOT_FOUND")) return { items: [] };
    throw error;
  });
  const held = items.filter((it) => (it.metadata.finalizers ?? []).length > 0);
  await Promise.all(
    held.map((it) =>
      client
        .mergePatch(WORKS, keyOf(it), { metadata: { finalizers: null } }, { signal })
        .catch(ignoreNotFound),
    ),
  );
}

async function remove(
  client: KubeClient,
  of: Resource,
  object: KubeObject,
  signal: AbortSignal,
): Promise<void> {
  if ((object.metadata.finalizers ?? []).length > 0) {
    await client
      .mergePatch(of, keyOf(object), { metadata: { finalizers: null } }, { signal })
      .catch(ignoreNotFound);
  }
  await client.delete(of, keyOf(object), { signal });
}
