import { defined } from "@fairlead/base/defined.ts";
import { type Lease, LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import { LEASES_OF } from "#api/fairlead.dev/leases.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { clockOfServer } from "@fairlead/kube/client/server-clock.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { waitFor } from "@fairlead/kube/informer/wait.ts";

/** Whether "fairlead hub" runs, by the Lease that its leader renews. */
export interface HubProgram {
  /** "Unknown" if there is no such Lease, for example because another hub manager runs. */
  readonly state: "Running" | "Dead" | "Unknown";
  readonly holder?: string;
  /** RFC 3339. */
  readonly renewed?: string;
}

export const HUB_LEASE = objectKey(FLEET_SYSTEM_NAMESPACE, LEASES_OF.hub[0]);

/** A leader renews every two seconds, and gives up when it could not for so long. Unit: milliseconds. */
export const RENEWAL_MS = 10_000;
/** Two renewals: a Lease that looks old may be one of a program whose clock is wrong. Unit: milliseconds. */
const MIN_WATCH_MS = 4000;
/** A Lease that was renewed this recently is not watched. Unit: milliseconds. */
const FRESH_MS = 5000;

export async function findHubProgram(
  client: KubeClient,
  deps: RuntimeDeps,
  signal: AbortSignal,
): Promise<HubProgram> {
  const seen = await client.find(LEASES, HUB_LEASE, { signal });
  if (seen === undefined) return { state: "Unknown" };
  const ageMs = ageOf(seen, clockOfServer(client, deps.clock).now());
  const isFresh = isHeld(seen) && ageMs < FRESH_MS;
  const timeoutMs = Math.max(RENEWAL_MS - ageMs, MIN_WATCH_MS);
  const renewed = isFresh ? seen : await renewalOf(client, seen, { deps, timeoutMs }, signal);
  const { holderIdentity, renewTime } = (renewed ?? seen).spec ?? {};
  return {
    state: renewed === undefined ? "Dead" : "Running",
    ...(holderIdentity === undefined || holderIdentity === "" ? {} : { holder: holderIdentity }),
    ...defined({ renewed: renewTime }),
  };
}

/**
 * How long ago a Lease was renewed, for certain. Its time is by the clock of the program, which may differ; that of its last write
 * is by the server's, and servers exist that do not renew it. Unit: milliseconds.
 */
export function ageOf({ metadata, spec }: Lease, serverNowMs: number): number {
  const times = [spec?.renewTime, ...(metadata.managedFields ?? []).map((it) => it.time)];
  const ages = times
    .map((it) => Math.abs(serverNowMs - Date.parse(it ?? "")))
    .filter((it) => !Number.isNaN(it));
  return Math.min(...ages, RENEWAL_MS);
}

/** Returns the Lease as it is renewed, or undefined. */
export async function renewalOf(
  client: KubeClient,
  before: Lease,
  { deps, timeoutMs = RENEWAL_MS }: { readonly deps: RuntimeDeps; readonly timeoutMs?: number },
  signal: AbortSignal,
): Promise<Lease | undefined> {
  const isRenewed = (it: Lease | undefined): boolean =>
    it !== undefined && isHeld(it) && it.spec?.renewTime !== before.spec?.renewTime;
  const wait = { of: LEASES, key: HUB_LEASE, timeoutMs, until: isRenewed, message: () => "" };
  try {
    return await waitFor(client, wait, deps, signal);
  } catch (error) {
    if (hasCode(error, "TIMED_OUT")) return undefined;
    throw error;
  }
}

export function isHeld({ spec }: Lease): boolean {
  return (spec?.holderIdentity ?? "") !== "";
}
