import { INSTALLED_BY, INSTALLED_BY_LABEL } from "#api/fairlead.dev/installed.ts";
import { isAppliesBinding } from "#authz/applied.ts";
import { keyOf } from "@fairlead/kube/api/meta/key.ts";
import { CLUSTER_ROLE_BINDINGS } from "@fairlead/kube/api/rbac/v1/types.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";

/** Of the roles that joins named, objects are applied with the one to keep. */
export async function removeOtherApplies(
  client: KubeClient,
  keep: ReadonlySet<string>,
  signal: AbortSignal,
): Promise<void> {
  const { items } = await client.list(CLUSTER_ROLE_BINDINGS, {
    labelSelector: `${INSTALLED_BY_LABEL}=${INSTALLED_BY}`,
    signal,
  });
  for (const it of items.filter(isAppliesBinding))
    if (!keep.has(it.metadata.name)) await client.delete(CLUSTER_ROLE_BINDINGS, keyOf(it), { signal });
}
