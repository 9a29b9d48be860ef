import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import {
  INTERNAL_MEMBER_CLUSTERS,
  type InternalMemberCluster,
} from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { ROLE_BINDINGS, ROLES } from "@fairlead/kube/api/rbac/v1/types.ts";
import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";

/** What Events of a MemberCluster say about its objects on the hub, with the reasons of KubeFleet. */

export interface MembershipEvent {
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly message: string;
}

const CHANGED: Readonly<Record<string, string>> = {
  [NAMESPACES.kind]: "Patched",
  [ROLES.kind]: "Updated",
  [ROLE_BINDINGS.kind]: "Updated",
  [INTERNAL_MEMBER_CLUSTERS.kind]: "SpecUpdated",
};

/** @returns Undefined if nothing was written that is worth an Event. */
export function eventOfApply<T extends KubeObject>(
  { kind }: Resource<T>,
  before: T | undefined,
  after: T,
): MembershipEvent | undefined {
  const { name, namespace } = after.metadata;
  const where = namespace === undefined ? "" : ` in namespace ${namespace}`;
  const event = (verb: string, done: string): MembershipEvent => ({
    type: "Normal",
    reason: `${kind}${verb}`,
    message: `${done} ${kind} ${name}${where}`,
  });
  if (before === undefined) return event("Created", "created");
  return before.metadata.resourceVersion === after.metadata.resourceVersion
    ? undefined
    : event(CHANGED[kind] ?? "Updated", "updated");
}

/** The state and the heartbeat of a member; what it has to know of others changes with each of these, in every mailbox. */
export function eventOfInternalMember(
  before: InternalMemberCluster | undefined,
  after: InternalMemberCluster,
): MembershipEvent | undefined {
  const isSame =
    before?.spec.state === after.spec.state &&
    before.spec.heartbeatPeriodSeconds === after.spec.heartbeatPeriodSeconds;
  return isSame ? undefined : eventOfApply(INTERNAL_MEMBER_CLUSTERS, before, after);
}
