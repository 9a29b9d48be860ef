/** How many writes something cost, counted by what watches deliver: every write that changed something is one event. */

import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";

export interface WriteCount extends AsyncDisposable {
  /** So far, by kind. Two clients' counts of one kind are summed. */
  counts(): ReadonlyMap<string, number>;
}

export async function countWrites(
  kinds: readonly (readonly [KubeClient, Resource])[],
  signal: AbortSignal,
): Promise<WriteCount> {
  const counts = new Map<string, number>();
  const stop = new AbortController();
  const both = AbortSignal.any([signal, stop.signal]);
  const follow = async (client: KubeClient, of: Resource): Promise<void> => {
    const { metadata } = await client.list(of, { limit: 1, signal });
    const events = client.watch(of, { resourceVersion: metadata.resourceVersion }, both);
    void (async () => {
      for await (const event of events)
        if (event.type !== "BOOKMARK") counts.set(of.kind, (counts.get(of.kind) ?? 0) + 1);
    })().catch(() => {});
  };
  await Promise.all(kinds.map(([client, of]) => follow(client, of)));
  return {
    counts: () => counts,
    [Symbol.asyncDispose]: () => {
      stop.abort();
      return Promise.resolve();
    },
  };
}
