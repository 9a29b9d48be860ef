import { type Lease, LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import { delay } from "@fairlead/base/clock.ts";
import { microTimestamp } from "@fairlead/kube/objects/conditions.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";

/** As often as a leader renews its Lease. Unit: milliseconds. */
const PERIOD_MS = 2000;
/** As the Lease of a leader. Unit: seconds. */
const PRESENCE_LEASE_SECONDS = 15;

interface PresenceLease {
  readonly namespace: string;
  readonly name: string;
  readonly identity: string;
  /** Written with each renewal. */
  readonly annotations: Readonly<Record<string, string>>;
}

/**
 * Renews a Lease without leader election, so that "fairlead status" sees a program that runs alone. The program does not
 * wait for the Lease of its predecessor, and does not depend on the Lease.
 */
export async function keepPresence(
  client: KubeClient,
  lease: PresenceLease,
  { clock, log }: Pick<RuntimeDeps, "clock" | "log">,
  signal: AbortSignal,
): Promise<void> {
  const { name } = lease;
  let known: Lease | undefined;
  while (!signal.aborted) {
    try {
      known = await renew(client, lease, { known, nowMs: clock.now() }, signal);
    } catch (error) {
      // It may be another one by now, or gone.
      known = undefined;
      log.debug("cannot renew the Lease that shows that the program runs", {
        lease: name,
        error: messageOf(error),
      });
    }
    await delay(clock, PERIOD_MS, signal).catch(() => {});
  }
}

/** @param at - The Lease as it was written last; it is read where that is not known. */
async function renew(
  client: KubeClient,
  { namespace, name, identity, annotations }: PresenceLease,
  at: { readonly known: Lease | undefined; readonly nowMs: number },
  signal: AbortSignal,
): Promise<Lease> {
  const renewTime = microTimestamp(at.nowMs);
  const spec = { holderIdentity: identity, leaseDurationSeconds: PRESENCE_LEASE_SECONDS, renewTime };
  const before = at.known ?? (await client.find(LEASES, objectKey(namespace, name), { signal }));
  const metadata = {
    ...(before?.metadata ?? { namespace, name }),
    annotations: { ...before?.metadata.annotations, ...annotations },
  };
  const after: Lease = { ...before, metadata, spec };
  return before === undefined
    ? client.create(LEASES, after, { signal })
    : client.update(LEASES, after, { signal });
}
