import { describe, expect, it } from "vitest";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { MEMBER_CLUSTERS } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { labelMember, parseLabelChange, renderMember, renderMembers, updateGroupChange } from "./members.ts";

const { signal } = new AbortController();

const MEMBER = {
  metadata: {
    name: "member-10",
    creationTimestamp: "2026-11-23T12:00:00Z",
    labels: { env: "prod", "fairlead.dev/update-group": "canary", "topology.kubernetes.io/region": "eu" },
  },
  spec: { identity: { kind: "User" as const, name: "m" } },
  status: {
    conditions: [
      {
        type: "Joined",
        status: "False" as const,
        reason: "Left",
        message: "all agents left",
        lastTransitionTime: "2026-11-23T12:00:00Z",
      },
    ],
    properties: {
      "fairlead.dev/kubernetes-version": { value: "v1.34.1", observationTime: "2026-11-23T12:00:00Z" },
    },
  },
};
const nowMs = Date.parse("2026-11-23T13:00:00Z");

describe("labels of a member", () => {
  it("are read as kubectl reads them, in words or separated by commas", () => {
    expect(parseLabelChange("--labels", ["env=prod", "tier-", "a=,b=2"])).toEqual({
      env: "prod",
      tier: null,
      a: "",
      b: "2",
    });
    expect(updateGroupChange("--update-group", "")).toEqual({ "fairlead.dev/update-group": null });
  });

  it.each([
    ["env", "is neither a label"],
    ["=x", "is neither a label"],
    ["a=b=c", "is neither a label"],
    ["-", "is neither a label"],
    ["kubernetes-fleet.io/member-name=x", "the hub writes label"],
    ["a=1,a=2", "label a is given twice"],
    ["__proto__=x,__proto__=y", "is neither a label"],
  ])("are refused with the text: %s", (text, message) => {
    expect(() => parseLabelChange("--labels", [text])).toThrow(message);
  });

  it("are written only where one changes", async () => {
    const hub = new FakeKubeClient();
    hub.seed(MEMBER_CLUSTERS, MEMBER);
    hub.writes.length = 0;
    const same = await labelMember(hub, { name: "member-10", labels: { env: "prod", none: null } }, signal);
    expect([same.changed, hub.writes]).toEqual([false, []]);
    const { member, changed } = await labelMember(hub, { name: "member-10", labels: { env: null } }, signal);
    expect(changed).toBe(true);
    expect(member.metadata.labels).not.toHaveProperty("env");
  });
});

it("members are listed by name, as people count", () => {
  const two = { ...MEMBER, metadata: { name: "member-2" }, status: {} };
  expect(renderMembers([MEMBER, two], "text", nowMs)).toBe(
    [
      "NAME        JOINED    HEALTHY   UPDATE GROUP   REGION   KUBERNETES   AGE",
      "member-2    Unknown   Unknown   -              -        -            -",
      "member-10   False     Unknown   canary         eu       v1.34.1      1h",
    ].join("\n"),
  );
  expect(renderMembers([MEMBER, two], "name", nowMs)).toBe("member-2\nmember-10");
});

it("a member is shown with what is wrong", () => {
  const text = renderMember(MEMBER, "text", nowMs);
  expect(text).toContain("Joined is False: Left: all agents left");
  expect(text).toContain("  env=prod\n");
});
