import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { VIEW_NAMESPACE } from "#api/fairlead.dev/names.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { isConditionTrue } from "@fairlead/kube/objects/conditions.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { HUB_LEASE, renewalOf } from "../hub-program.ts";
import type { Side } from "../steps.ts";
import type { Finding } from "./finding.ts";

/** Without `fairlead hub`, no member namespace is created and no certificate approved, so a join would never finish. */

const START = "install the chart fairlead-hub, or check that its pods run";

export async function checkHub(
  { who, client }: Side,
  members: readonly MemberCluster[],
  deps: RuntimeDeps,
  signal: AbortSignal,
): Promise<Finding> {
  const check = "hub" as const;
  const seen = await client.find(LEASES, HUB_LEASE, { signal });
  if (seen !== undefined) {
    const holder = (await renewalOf(client, seen, { deps }, signal))?.spec?.holderIdentity;
    if (holder !== undefined)
      return { check, status: "ok", message: `"fairlead hub" runs on ${who}, as ${holder}` };
    const message = `"fairlead hub" is not running on ${who}: Lease ${HUB_LEASE} is not being renewed (last renewal: ${seen.spec?.renewTime ?? "none"}); ${START}`;
    return { check, status: "failed", message };
  }
  const view = await client.find(NAMESPACES, objectKey(undefined, VIEW_NAMESPACE), { signal });
  const joined = members.find((it) => isConditionTrue(it.status?.conditions, "Joined"));
  if (view === undefined && joined !== undefined) {
    const message = `"fairlead hub" was never installed on ${who}, although ${joined.metadata.name} has joined there: another program manages its members, and does not approve certificates; ${START}`;
    return { check, status: "failed", message };
  }
  // The hub may run without leader election.
  const message = `cannot determine whether "fairlead hub" is running on ${who}: there is no Lease ${HUB_LEASE}; if the next steps time out, ${START}`;
  return { check, status: "unknown", message };
}
