import { describe, expect, it } from "vitest";
import type { AgentStatus, MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { drainedMembers } from "#domain/drain.ts";
import { haveAgentsLeft, planConditions, planInternalMember, planRole, planRoleBinding } from "./plan.ts";

const member = (identity: MemberCluster["spec"]["identity"]): MemberCluster => ({
  metadata: { name: "east", uid: "u", generation: 3 },
  spec: { identity, heartbeatPeriodSeconds: 15 },
});
const account = { kind: "ServiceAccount", name: "fairlead-member", namespace: "fleet-member-east" } as const;
const agents = (...said: ("True" | "False" | undefined)[]): AgentStatus[] =>
  said.flatMap((status, at) => {
    const type = ["MultiClusterServiceAgent", "ServiceExportImportAgent"][at] ?? "";
    const condition = { type: "Joined", reason: "r", message: "", lastTransitionTime: "" };
    return status === undefined ? [] : [{ type, conditions: [{ ...condition, status }] }];
  });
const says = (type: string, status: "True" | "False" | "Unknown", message = "") => ({
  type,
  conditions: [{ type: "Joined", status, reason: "r", message, lastTransitionTime: "" }],
});
const alive = { liveness: "alive", leaseSeconds: 5 } as const;

describe("what a member gets on the hub", () => {
  it("lets its account renew its own token only", () => {
    const rule = planRole(member(account)).rules?.find((it) =>
      it.resources?.includes("serviceaccounts/token"),
    );
    expect(rule).toEqual({
      apiGroups: [""],
      resources: ["serviceaccounts/token"],
      resourceNames: ["fairlead-member"],
      verbs: ["create"],
    });
    for (const identity of [
      { kind: "User", name: "x" },
      { ...account, namespace: "elsewhere" },
    ] as const)
      expect(
        planRole(member(identity)).rules?.some((it) => it.resources?.includes("serviceaccounts/token")),
      ).toBe(false);
  });

  it("lets it read, but not write, what the hub says of services", () => {
    const rule = planRole(member(account)).rules?.find((it) => it.resources?.includes("importedservices"));
    expect(rule?.verbs).toEqual(["list", "watch"]);
  });

  it("binds users and accounts alike", () => {
    expect(planRoleBinding(member(account)).subjects).toEqual([account]);
    expect(planRoleBinding(member({ kind: "User", name: "agent" })).subjects).toEqual([
      { kind: "User", name: "agent", apiGroup: "rbac.authorization.k8s.io" },
    ]);
  });

  it("names the suspects to it, but never itself", () => {
    const suspects = ["east", "west"].map((cluster) => ({ cluster, since: "2026-01-01T00:00:00Z" }));
    expect(
      planInternalMember(member(account), {
        state: "Join",
        leaseSeconds: 5,
        suspects,
        drained: [],
        view: undefined,
        network: undefined,
      }).spec,
    ).toEqual({
      state: "Join",
      heartbeatPeriodSeconds: 15,
      leaseDurationSeconds: 5,
      suspects: [suspects[1]],
    });
    const alone = planInternalMember(member(account), {
      state: "Join",
      leaseSeconds: 5,
      suspects: suspects.slice(0, 1),
      drained: [],
      view: undefined,
      network: undefined,
    });
    expect(alone.spec).not.toHaveProperty("suspects");
  });

  it("names all drained members to it, including itself", () => {
    const drained = drainedMembers([
      annotated("west", { "fairlead.dev/drain": "hard" }),
      annotated("north", { "fairlead.dev/drain": "yes" }),
      annotated("east", { "fairlead.dev/drain": "true" }),
    ]);
    const wanted = {
      state: "Join",
      leaseSeconds: 5,
      suspects: [],
      drained,
      view: undefined,
      network: undefined,
    } as const;
    expect(planInternalMember(member(account), wanted).spec?.drained).toEqual([
      { cluster: "east", mode: "Soft" },
      { cluster: "west", mode: "Hard" },
    ]);
  });
});

function annotated(name: string, annotations: Record<string, string>): MemberCluster {
  return { ...member(account), metadata: { name, annotations } };
}

describe("a MemberCluster", () => {
  it.each([
    [agents("True", "True"), "True", "MemberClusterJoined"],
    [agents("False", "False"), "False", "MemberClusterLeft"],
    [agents("True", "False"), "Unknown", "MemberClusterJoinStateUnknown"],
    [agents("True"), "Unknown", "MemberClusterJoinStateUnknown"],
    [[], "Unknown", "MemberClusterJoinStateUnknown"],
  ])("is joined as its agents say (case %#)", (said, status, reason) => {
    const joined = planConditions(member(account), { ...alive, agents: said }).find(
      (it) => it.type === "Joined",
    );
    expect(joined).toMatchObject({ status, reason, observedGeneration: 3 });
  });

  it.each([
    ["KubeFleet's agent alone", [says("MemberAgent", "True")], "True"],
    ["KubeFleet's agent alone, which left", [says("MemberAgent", "False")], "False"],
    ["all three agents", [...agents("True", "True"), says("MemberAgent", "True")], "True"],
    ["networking without the agent of placements", agents("True", "True"), "True"],
    ["one agent that has not joined", [...agents("True", "True"), says("MemberAgent", "False")], "Unknown"],
    ["a networking agent that is missing", [...agents("True"), says("MemberAgent", "True")], "Unknown"],
  ])("is joined as the agents say that it is expected to have: %s", (_, said, status) => {
    const conditions = planConditions(member(account), { ...alive, agents: said });
    expect(conditions.find((it) => it.type === "Joined")?.status).toBe(status);
  });

  it("says why an agent cannot join or leave, if the agent says so", () => {
    const all = [...agents("True", "True"), says("MemberAgent", "Unknown", "cannot read AppliedWorks")];
    const joined = planConditions(member(account), { ...alive, agents: all }).find(
      (it) => it.type === "Joined",
    );
    expect(joined).toMatchObject({
      status: "Unknown",
      reason: "MemberClusterJoinStateUnknown",
      message: "waiting for MemberAgent: cannot read AppliedWorks",
    });
  });

  it.each([
    ["alive", "True"],
    ["suspect", "False"],
    ["unknown", "Unknown"],
  ] as const)("is healthy as its lease is (%s)", (liveness, status) => {
    const conditions = planConditions(member(account), { agents: [], liveness, leaseSeconds: 5 });
    expect(conditions.find((it) => it.type === "Healthy")?.status).toBe(status);
  });

  it("says whether its endpoints are bounded to networks, and how to bound them", () => {
    const said = (it: MemberCluster) =>
      planConditions(it, { ...alive, agents: [] }).find(
        (one) => one.type === "fairlead.dev/AddressesBounded",
      );
    expect(said(annotated("east", {}))).toMatchObject({
      status: "False",
      reason: "NoNetworksGranted",
      message: expect.stringContaining("annotate membercluster east fairlead.dev/granted-cidrs") as string,
    });
    const granted = { "fairlead.dev/granted-cidrs": "10.1.0.0/16" };
    expect(said(annotated("east", granted))).toMatchObject({ status: "True", reason: "NetworksGranted" });
  });

  it("may go once no agent says any more that it takes part", () => {
    expect(haveAgentsLeft([])).toBe(true);
    expect(haveAgentsLeft(agents("False", "False"))).toBe(true);
    expect(haveAgentsLeft(agents("False", "True"))).toBe(false);
    // It failed to leave, or to join.
    expect(haveAgentsLeft([...agents("False", "False"), says("MemberAgent", "Unknown")])).toBe(false);
  });
});
