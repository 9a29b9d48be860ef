import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { type Lease, LEASES } from "#api/coordination/v1/types.ts";
import { NAMESPACES } from "#api/core/v1/types.ts";
import { LEASES_OF } from "#api/fairlead.dev/leases.ts";
import { VIEW_NAMESPACE } from "#api/fairlead.dev/names.ts";
import { objectKey } from "#api/meta/key.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import { hasCode } from "#base/errors.ts";
import { isConditionTrue } from "#kube/conditions.ts";
import type { RuntimeDeps } from "#kube/deps.ts";
import { waitFor } from "#kube/wait.ts";
import type { Side } from "../steps.ts";
import type { Finding } from "./finding.ts";

/** Without `fairlead hub` nobody makes mailboxes or approves certificates, and a join would wait for nothing. */

/** A leader renews every two seconds; one that starts anew is given some time. Unit: milliseconds. */
const RENEWAL_MS = 10_000;
const KEY = objectKey(FLEET_SYSTEM_NAMESPACE, LEASES_OF.hub[0]);
const START = "start it: chart fairlead-hub, or see that its pods run";

export async function checkHub(
  { who, client }: Side,
  members: readonly MemberCluster[],
  deps: RuntimeDeps,
  signal: AbortSignal,
): Promise<Finding> {
  const check = "hub" as const;
  const seen = await client.find(LEASES, KEY, { signal });
  if (seen !== undefined) {
    const holder = await holderOf(seen);
    if (holder !== undefined)
      return { check, status: "ok", message: `"fairlead hub" runs on ${who}, as ${holder}` };
    const message = `"fairlead hub" does not run on ${who}: nobody renews Lease ${KEY}, last held at ${seen.spec?.renewTime ?? "no time"}. ${START}`;
    return { check, status: "failed", message };
  }
  const view = await client.find(NAMESPACES, objectKey(undefined, VIEW_NAMESPACE), { signal });
  const joined = members.find((it) => isConditionTrue(it.status?.conditions, "Joined"));
  if (view === undefined && joined !== undefined) {
    const message = `"fairlead hub" was never on ${who}, though ${joined.metadata.name} has joined there: another program has its members, and approves no certificates. ${START}`;
    return { check, status: "failed", message };
  }
  // It may run without an election.
  const message = `whether "fairlead hub" runs on ${who} is not known: there is no Lease ${KEY}. If what follows waits in vain, ${START}`;
  return { check, status: "unknown", message };

  /** Who renews the Lease; clocks are not compared, so a renewal has to be seen. */
  async function holderOf(before: Lease): Promise<string | undefined> {
    const isRenewed = (it: Lease | undefined): boolean =>
      (it?.spec?.holderIdentity ?? "") !== "" && it?.spec?.renewTime !== before.spec?.renewTime;
    const wait = { of: LEASES, key: KEY, timeoutMs: RENEWAL_MS, until: isRenewed, message: () => "" };
    try {
      return (await waitFor(client, wait, deps, signal))?.spec?.holderIdentity;
    } catch (error) {
      if (hasCode(error, "TIMED_OUT")) return undefined;
      throw error;
    }
  }
}
