import { HUB_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { CLUSTER_UPGRADES, UPDATE_RUNS, type UpdateRun } from "#api/fairlead.dev/v1alpha1/updates.ts";
import { clusterOfMailbox, mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { carriesOut, endedOperations } from "#updates/clusters/needs.ts";
import { withdrawn } from "#updates/engines/external.ts";
import { defined } from "@fairlead/base/defined.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { objectKey, splitKey } from "@fairlead/kube/api/meta/key.ts";
import { watchingChanges } from "@fairlead/kube/controller/source.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { applyIfChanged } from "@fairlead/kube/objects/apply.ts";
import type { KubeClient, Source } from "@fairlead/kube/types.ts";
import type { HubInformers } from "../informers.ts";

/** Upgrades of members that no run carries out any more, such as those of a run that was deleted. */

interface Parts {
  readonly client: KubeClient;
  readonly informers: HubInformers;
}

/** Members that update runs ask for something else. */
export function watchingOperations({ clusterUpgrades }: HubInformers): Source {
  return watchingChanges(clusterUpgrades, ({ key, before, after }) => {
    const cluster = clusterOfMailbox(splitKey(key).namespace);
    const isSame =
      sameJson(before?.spec.components, after?.spec.components) &&
      sameJson(before?.spec.operation, after?.spec.operation);
    return isSame || cluster === undefined ? [] : [objectKey(undefined, cluster)];
  });
}

/** Members in which a run has ended an upgrade, also by its deletion. */
export function watchingOperationsOf({ updateRuns }: HubInformers): Source {
  return watchingChanges(updateRuns, ({ before, after }) =>
    endedOperations(before, after === undefined || isDeleting(after) ? undefined : after).map((it) =>
      objectKey(undefined, it),
    ),
  );
}

/** The cache of runs may lag behind that of what they have written: before something is ended, the runs are read. */
export async function isAbandoned(
  { client, informers: { updateRuns } }: Parts,
  member: string,
  operation: string,
  signal: AbortSignal,
): Promise<boolean> {
  const isWanted = (runs: Iterable<UpdateRun>): boolean =>
    [...runs].some((it) => !isDeleting(it) && carriesOut(it, member, operation));
  if (isWanted(updateRuns.store.list())) return false;
  return !isWanted((await client.list(UPDATE_RUNS, { signal })).items);
}

/**
 * Withdraws the operation that no run wants and nothing has reported: a program that has not taken it and a member that has not begun
 * leave it alone. If a program takes it in the same moment, one of the two writes is a conflict. It is not removed: a program that does
 * not take operations by their resourceVersion has to see that it is to end.
 *
 * @throws {FleetError} `API_CONFLICT` if the ClusterUpgrade was changed in the meantime: decide again.
 */
export async function withdrawOperation(parts: Parts, member: string, signal: AbortSignal): Promise<void> {
  const { client, informers } = parts;
  const namespace = mailboxOf(member);
  const upgrade = informers.clusterUpgrades.store.get(objectKey(namespace, member));
  const operation = upgrade && withdrawn(upgrade);
  if (upgrade === undefined || operation === undefined) return;
  if (!(await isAbandoned(parts, member, operation.id, signal))) return;
  const { resourceVersion } = upgrade.metadata;
  // Applied as a whole, as update runs do.
  await applyIfChanged(client, CLUSTER_UPGRADES, {
    current: upgrade,
    desired: {
      metadata: { namespace, name: member, ...defined({ resourceVersion }) },
      spec: { ...upgrade.spec, operation },
    },
    fieldManager: HUB_MANAGER,
    signal,
  });
}
