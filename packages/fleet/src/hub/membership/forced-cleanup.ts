import { ignoreNotFound } from "@fairlead/kube/objects/not-found.ts";
import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { clusterOfMailbox, mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { ENDPOINT_SLICE_IMPORTS } from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { clockOfServer } from "@fairlead/kube/client/server-clock.ts";
import { watching } from "@fairlead/kube/controller/source.ts";
import type { Controller, KubeClient, ReconcileResult } from "@fairlead/kube/types.ts";
import type { HubInformers } from "../informers.ts";
import type { MembershipOptions } from "./reconcile.ts";

interface Parts {
  readonly client: KubeClient;
  readonly informers: HubInformers;
  readonly options: Pick<MembershipOptions, "forceDeleteSeconds">;
  readonly deps: RuntimeDeps;
}

/**
 * All that is ours of a member that leaves where others run membership: its agent holds what it imported by finalizers,
 * and an agent that is gone would keep its mailbox from ending. Other finalizers in a mailbox are taken off by the
 * controllers of their kinds. Keys are members.
 */
export function createForcedCleanup(parts: Parts): Controller {
  const { informers, deps } = parts;
  return createController(
    {
      name: "membercluster",
      sources: [
        watching(informers.members),
        watching(informers.sliceImports, ({ after }) => {
          const cluster = clusterOfMailbox(after?.metadata.namespace);
          const isHeld = (after?.metadata.finalizers ?? []).length > 0;
          return isHeld && cluster !== undefined ? [objectKey(undefined, cluster)] : [];
        }),
      ],
      async reconcile(key, signal): Promise<ReconcileResult | void> {
        const member = informers.members.store.get(key);
        if (member === undefined || !isDeleting(member)) return;
        const leftMs = timeLeftMs(parts, member);
        if (leftMs > 0) return { requeueAfterMs: leftMs };
        await releaseImports(parts, mailboxOf(member.metadata.name), signal);
      },
    },
    deps,
  );
}

function timeLeftMs({ client, options, deps }: Parts, { metadata }: MemberCluster): number {
  const since = Date.parse(metadata.deletionTimestamp ?? "");
  // The API server wrote it: by its clock, not by this machine's.
  return since + options.forceDeleteSeconds * 1000 - clockOfServer(client, deps.clock).now();
}

async function releaseImports(
  { client, informers, deps }: Parts,
  mailbox: string,
  signal: AbortSignal,
): Promise<void> {
  const held = [...informers.sliceImports.store.byIndex("in", mailbox)].filter(
    (it) => (it.metadata.finalizers ?? []).length > 0,
  );
  await Promise.all(
    held.map(async (it) => {
      await client
        .mergePatch(ENDPOINT_SLICE_IMPORTS, keyOf(it), { metadata: { finalizers: null } }, { signal })
        .catch(ignoreNotFound);
    }),
  );
  if (held.length > 0)
    deps.log.warn("removed the import finalizers of a member that did not withdraw in time", { mailbox });
}
