import { ACTIVE_CONDITION } from "#api/fairlead.dev/names.ts";
import type { Condition, KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { runs } from "../roles.ts";
import type { Session } from "../session.ts";

type Marked = KubeObject & { status?: { conditions?: Condition[] } };

/** Whether all users' objects say that the cluster has left. */
export function areMarkedInactive({ here, part }: Session): boolean {
  const stores: Iterable<Marked>[] = [];
  if (runs(part, "member-net")) stores.push(here.fleetExports.store.list(), here.mcsExports.store.list());
  if (runs(part, "mcs")) stores.push(here.multiClusterServices.store.list());
  return stores.every((objects) =>
    [...objects].every(
      (it) =>
        it.metadata.deletionTimestamp !== undefined ||
        it.status?.conditions?.some((one) => one.type === ACTIVE_CONDITION) === true,
    ),
  );
}
