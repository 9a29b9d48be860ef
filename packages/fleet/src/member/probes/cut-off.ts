import { messageOf } from "@fairlead/base/errors.ts";
import { LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { CUT_OFF_ANNOTATION } from "#api/fairlead.dev/names.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { isParallel } from "../fleet-addresses.ts";
import { isLegacyHub, type Session } from "../session.ts";

/** Clusters to which the data path was cut, as the predecessor of this program saw. */
export async function readCutOff(session: Session, signal: AbortSignal): Promise<readonly string[]> {
  const { hub, cluster, deps } = session;
  if (isLegacyHub(session) || isParallel(session)) return [];
  try {
    // Members may not read Leases. This changes nothing.
    const lease = await hub.mergePatch(LEASES, objectKey(mailboxOf(cluster), cluster), {}, { signal });
    return (lease.metadata.annotations?.[CUT_OFF_ANNOTATION] ?? "").split(",");
  } catch (error) {
    deps.log.info("cannot read which clusters were cut off", { error: messageOf(error) });
    return [];
  }
}
