import { expect, it } from "vitest";
import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { ROLE_BINDINGS, ROLES } from "@fairlead/kube/api/rbac/v1/types.ts";
import type { InternalMemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { eventOfApply, eventOfInternalMember } from "./events.ts";

const object = (resourceVersion: string) => ({ metadata: { name: "x", namespace: "n", resourceVersion } });

it.each([
  [NAMESPACES.kind, "NamespaceCreated", "NamespacePatched"],
  [ROLES.kind, "RoleCreated", "RoleUpdated"],
  [ROLE_BINDINGS.kind, "RoleBindingCreated", "RoleBindingUpdated"],
])(
  "a %s that is written makes an Event with KubeFleet's reason, and one that stays makes no Event",
  (kind, created, changed) => {
    const of = { ...NAMESPACES, kind };
    expect(eventOfApply(of, undefined, object("1"))).toMatchObject({
      reason: created,
      message: `created ${kind} x in namespace n`,
    });
    expect(eventOfApply(of, object("1"), object("2"))?.reason).toBe(changed);
    expect(eventOfApply(of, object("2"), object("2"))).toBeUndefined();
  },
);

it("an InternalMemberCluster makes Events for its state and heartbeat, not for changes of other members", () => {
  const made = (resourceVersion: string, spec: InternalMemberCluster["spec"]): InternalMemberCluster => ({
    ...object(resourceVersion),
    spec,
  });
  const joined = made("1", { state: "Join" });
  const suspects = [{ cluster: "b", since: "2026-01-01T00:00:00Z" }];
  expect(eventOfInternalMember(undefined, joined)?.reason).toBe("InternalMemberClusterCreated");
  expect(eventOfInternalMember(joined, made("2", { state: "Join", suspects }))).toBeUndefined();
  expect(eventOfInternalMember(joined, made("2", { state: "Leave" }))?.reason).toBe(
    "InternalMemberClusterSpecUpdated",
  );
  expect(eventOfInternalMember(joined, made("2", { state: "Join", heartbeatPeriodSeconds: 5 }))?.reason).toBe(
    "InternalMemberClusterSpecUpdated",
  );
});
