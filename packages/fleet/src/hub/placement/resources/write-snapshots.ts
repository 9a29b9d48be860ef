import { FleetError, hasCode } from "@fairlead/base/errors.ts";
import { keyOf } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { ignoreNotFound } from "@fairlead/kube/objects/not-found.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { LATEST_SNAPSHOT_LABEL, PLACEMENT_MANAGER } from "#api/placement.kubernetes-fleet.io/names.ts";

/** What a plan says of the snapshots that are there. */
export interface SnapshotChanges<T extends KubeObject> {
  readonly remove: readonly T[];
  readonly unlabel: readonly T[];
  readonly update?: {
    readonly snapshot: T;
    readonly labels: Readonly<Record<string, string>>;
    readonly annotations: Readonly<Record<string, string | null>>;
  };
}

/**
 * Writes snapshots in an order in which no moment has two latest ones.
 *
 * @returns What was created, as the server has it.
 */
export async function writeSnapshots<T extends KubeObject>(
  at: { readonly client: KubeClient; readonly of: Resource<T>; readonly signal: AbortSignal },
  changes: SnapshotChanges<T>,
  created: readonly T[],
): Promise<readonly T[]> {
  const { client, of, signal } = at;
  const by = { fieldManager: PLACEMENT_MANAGER, signal };
  const patch = (it: T, metadata: object): Promise<unknown> =>
    client.mergePatch(of, keyOf(it), { metadata }, by).catch(ignoreNotFound);
  for (const it of changes.remove) await client.delete(of, keyOf(it), { signal });
  for (const it of changes.unlabel) await patch(it, { labels: { [LATEST_SNAPSHOT_LABEL]: "false" } });
  if (changes.update !== undefined) {
    const { snapshot, labels, annotations } = changes.update;
    await patch(snapshot, { labels, annotations });
  }
  const stored: T[] = [];
  for (const it of created) {
    try {
      stored.push(await client.create(of, it, by));
    } catch (cause) {
      if (!hasCode(cause, "API_ALREADY_EXISTS")) throw cause;
      // Made a moment ago: the watch reports it soon, and the next pass counts it.
      throw new FleetError("API_CONFLICT", `${of.kind} ${keyOf(it)} exists already`, { cause });
    }
  }
  return stored;
}
