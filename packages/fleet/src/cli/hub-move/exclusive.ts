import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import { MOVE_JOURNAL } from "#api/fairlead.dev/hub-move.ts";
import { byText } from "@fairlead/base/text.ts";
import { LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { runAsLeaderOfAll } from "@fairlead/kube/election/leader.ts";
import { ensureNamespace } from "@fairlead/kube/objects/namespaces.ts";
import type { Side } from "../fleet/steps.ts";
import type { Move } from "./members.ts";

/** After a command was killed, the next one waits this long. Unit: seconds. */
const LEASE_SECONDS = 10;
const TIMES = { leaseSeconds: LEASE_SECONDS, renewSeconds: 8, retrySeconds: 1 };
const LEASE = objectKey(FLEET_SYSTEM_NAMESPACE, MOVE_JOURNAL);

/**
 * Runs `body` while no other command moves a fleet to or from either hub: two that run in opposite directions could leave both hubs
 * with the fleet. The Leases are taken in the same order in both directions.
 */
export async function exclusively<T>(
  { from, to, deps, signal, identity, progress }: Move & Exclusive,
  uids: { readonly from: string; readonly to: string },
  body: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const hubs = [
    { ...from, uid: uids.from },
    { ...to, uid: uids.to },
  ].toSorted((a, b) => byText(a.uid, b.uid));
  for (const hub of hubs) {
    await ensureNamespace(hub.client, FLEET_SYSTEM_NAMESPACE, signal);
    const holder = await holderOf(hub, signal);
    if (holder !== "" && holder !== identity)
      progress(
        `waiting for another "fairlead hub move" (${holder}), or ${LEASE_SECONDS} s if that was killed`,
      );
  }
  const options = hubs.map(({ client }) => ({
    ...TIMES,
    client,
    namespace: FLEET_SYSTEM_NAMESPACE,
    name: MOVE_JOURNAL,
    identity,
  }));
  const results: T[] = [];
  await runAsLeaderOfAll({ client: from.client, options, deps }, signal, async (held) => {
    results.push(await body(held));
  });
  const [result] = results;
  if (result === undefined) throw new Error("the move ended without a result");
  return result;
}

export interface Exclusive {
  /** Of this command. */
  readonly identity: string;
  readonly progress: (step: string) => void;
}

async function holderOf({ client }: Side, signal: AbortSignal): Promise<string> {
  return (await client.find(LEASES, LEASE, { signal }))?.spec?.holderIdentity ?? "";
}
