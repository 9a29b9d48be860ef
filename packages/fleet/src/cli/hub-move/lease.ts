import { LEASES_OF } from "#api/fairlead.dev/leases.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import { FleetError, hasCode } from "@fairlead/base/errors.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { type Lease, LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import { PAUSED_ANNOTATION } from "@fairlead/kube/election/leader.ts";
import { waitFor } from "@fairlead/kube/informer/wait.ts";
import { HUB_LEASE } from "../fleet/hub-program.ts";
import type { Side } from "../fleet/steps.ts";

/** The leader looks at its Lease every 2 to 4.4 s, and its controllers end within seconds. Unit: milliseconds. */
const STOP_MS = 30_000;
/** A silent program is given this long: a Lease lives for 15 s. Unit: milliseconds. */
const SILENT_MS = 16_000;

/** Stops the controllers of a hub, and keeps them stopped, whichever replica runs. Resolves when they write no longer. */
export async function pauseHub({ client, who }: Side, deps: RuntimeDeps, signal: AbortSignal): Promise<void> {
  const annotations = { [PAUSED_ANNOTATION]: "the hub is being moved, or has moved: fairlead hub move" };
  const before = await client.find(LEASES, HUB_LEASE, { signal });
  if (before === undefined) {
    const metadata = { namespace: FLEET_SYSTEM_NAMESPACE, name: LEASES_OF.hub[0], annotations };
    await client.create(LEASES, { metadata, spec: {} }, { signal });
    return;
  }
  if (before.metadata.annotations?.[PAUSED_ANNOTATION] === undefined)
    await client.mergePatch(LEASES, HUB_LEASE, { metadata: { annotations } }, { signal });
  const until = (it: Lease | undefined): boolean => (it?.spec?.holderIdentity ?? "") === "";
  const wait = { of: LEASES, key: HUB_LEASE, until, message: () => "" };
  const since = before.spec?.renewTime;
  try {
    await waitFor(client, { ...wait, timeoutMs: SILENT_MS }, deps, signal);
  } catch (error) {
    if (!hasCode(error, "TIMED_OUT")) throw error;
    // A program that was killed does not release its Lease, and takes none that is paused.
    if ((await client.find(LEASES, HUB_LEASE, { signal }))?.spec?.renewTime === since) return;
    await waitFor(client, { ...wait, timeoutMs: STOP_MS - SILENT_MS }, deps, signal).catch(
      (late: unknown) => {
        throw hasCode(late, "TIMED_OUT") ? notStopped(who, before) : late;
      },
    );
  }
}

function notStopped(who: string, { spec }: Lease): FleetError {
  return new FleetError(
    "TIMED_OUT",
    `"fairlead hub" on ${who} (${spec?.holderIdentity}) did not stop within ${STOP_MS / 1000} s: it is of an earlier version, or ` +
      "runs with --no-leader-elect; restart it in this version and with leader election",
  );
}

export async function resumeHub({ client }: Side, signal: AbortSignal): Promise<void> {
  const found = await client.find(LEASES, HUB_LEASE, { signal });
  if (found?.metadata.annotations?.[PAUSED_ANNOTATION] === undefined) return;
  const annotations = { [PAUSED_ANNOTATION]: null };
  await client.mergePatch(LEASES, HUB_LEASE, { metadata: { annotations } }, { signal });
}
