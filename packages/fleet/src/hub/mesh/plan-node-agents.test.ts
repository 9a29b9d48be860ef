import { describe, expect, it } from "vitest";
import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import type { ClusterMeshProfile } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { planNodeAgents } from "./plan-node-agents.ts";

function profile(version?: string): ClusterMeshProfile {
  const network = { mode: "flat" as const };
  const spec = { memberSelector: {}, network, ...(version === undefined ? {} : { version }) };
  return { metadata: { name: "site" }, spec };
}

function member(
  name: string,
  reported?: { status: "True" | "False"; reason: string; message: string },
): MemberCluster {
  const conditions =
    reported === undefined
      ? []
      : [{ type: "fairlead.dev/NodeAgentsInstalled", lastTransitionTime: "", ...reported }];
  return {
    metadata: { name },
    spec: { identity: { kind: "User", name } },
    status: { agentStatus: [{ type: "ServiceExportImportAgent", conditions }] },
  };
}

const installed = (version: string) =>
  ({ status: "True", reason: "Installed", message: `${version} on 3 nodes` }) as const;

describe("the node agents of a profile's members", () => {
  it("are not spoken of if the profile names no version", () => {
    expect(planNodeAgents(profile(), [member("a")])).toEqual([]);
  });

  it("are installed when every member runs the version", () => {
    expect(
      planNodeAgents(profile("0.2.0"), [member("a", installed("0.2.0")), member("b", installed("0.2.0"))]),
    ).toEqual([
      { type: "NodeAgentsInstalled", status: "True", reason: "Installed", message: "0.2.0 in 2 members" },
    ]);
  });

  it.each([
    [installed("0.1.0"), "Installing", "b: 0.1.0 on 3 nodes"],
    [installed("0.2.0-rc.1"), "Installing", "b: 0.2.0-rc.1 on 3 nodes"],
    [
      {
        status: "False",
        reason: "NodesNotReady",
        message: "installing 0.2.0: node-2: ErrImagePull",
      } as const,
      "NodesNotReady",
      "b: installing 0.2.0: node-2: ErrImagePull",
    ],
  ])("are not while a member reports %j", (reported, reason, message) => {
    expect(
      planNodeAgents(profile("0.2.0"), [member("a", installed("0.2.0")), member("b", reported)]),
    ).toMatchObject([{ status: "False", reason, message }]);
  });

  it("are not where a member installs none, and the message says how it would", () => {
    const [condition] = planNodeAgents(profile("0.2.0"), [member("a")]);
    expect(condition).toMatchObject({ status: "False", reason: "NotEnabled" });
    expect(condition?.message).toContain("a: its agent does not install fairlead node; run fairlead join");
  });

  it("have a message that is bounded", () => {
    const reported = { status: "False", reason: "NodesNotReady", message: "x".repeat(32_768) } as const;
    const [condition] = planNodeAgents(
      profile("0.2.0"),
      Array.from({ length: 300 }, (_, at) => member(`m-${at}`, reported)),
    );
    expect(condition?.message.length).toBeLessThan(8000);
    expect(condition?.message).toContain("and 290 other members");
  });
});
