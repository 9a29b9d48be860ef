import { describe, expect, it } from "vitest";
import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import type { ClusterMeshProfile, MeshMemberState } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import type { Selected } from "#domain/mesh-members.ts";
import { type Pair, unreachedFrom } from "./plan-paths.ts";
import { CONNECT_MS, type Contact, planStates, type StatesPlan, type StatesView } from "./plan-states.ts";

const NOW = Date.UTC(2026, 0, 1);

function profile(mode: "flat" | "parallel" = "flat"): ClusterMeshProfile {
  return { metadata: { name: "p" }, spec: { memberSelector: {}, network: { mode } } };
}
function member(name: string, healthy?: "False"): MemberCluster {
  const condition = { type: "Healthy", reason: "Lost", message: "no renewal", lastTransitionTime: "" };
  const spec = { identity: { kind: "User" as const, name } };
  if (healthy === undefined) return { metadata: { name }, spec };
  return { metadata: { name }, spec, status: { conditions: [{ ...condition, status: healthy }] } };
}
const READING: Contact = {
  profile: "p",
  isReading: true,
  hasBlock: true,
  isChanging: false,
  fleetAddresses: "InUse",
  unreached: [],
};

function plan(
  selected: Partial<Selected>,
  contacts: Readonly<Record<string, Contact>> = {},
  more: Partial<StatesView> = {},
): StatesPlan {
  const none = { members: [], leaving: [], elsewhere: [], beyond: [], absent: [], problem: undefined };
  return planStates({
    selected: { profile: profile(), ...none, ...selected },
    contactOf: (it) => contacts[it],
    former: [],
    problem: undefined,
    unconnected: [],
    nowMs: NOW,
    ...more,
  });
}
const statesOf = (it: StatesPlan): Record<string, MeshMemberState> =>
  Object.fromEntries(it.memberStates.map(({ name, state }) => [name, state]));

describe("the state of a profile", () => {
  const [a, b] = [member("a"), member("b")];

  it("is NotConnected without members, and Applying while some come or go", () => {
    expect(plan({}).state).toBe("NotConnected");
    const joining = plan({ members: [a, b] }, { a: READING, b: { ...READING, isReading: false } });
    expect([joining.state, statesOf(joining)]).toEqual(["Applying", { a: "Connected", b: "Connecting" }]);
    const leaving = plan({ members: [a] }, { a: READING }, { former: ["b"] });
    expect([leaving.state, statesOf(leaving)]).toEqual(["Applying", { a: "Connected", b: "Disconnecting" }]);
  });

  it("is Connected when all members are, Degraded when some are, and Failed when none is", () => {
    expect(plan({ members: [a] }, { a: READING }).state).toBe("Connected");
    const silent = plan({ members: [a, member("b", "False")] }, { a: READING, b: READING });
    expect([silent.state, statesOf(silent)]).toEqual(["Degraded", { a: "Connected", b: "Unknown" }]);
    expect(silent.error).toBe("b: its agent does not answer: no renewal");
    const failed = plan({ absent: ["x"], beyond: ["y"] });
    expect([failed.state, statesOf(failed)]).toEqual(["Failed", { x: "Failed", y: "Failed" }]);
    expect(failed.error).toContain("y: the profile has 255 members");
    expect(plan({ problem: "bad" }).error).toBe("bad");
  });

  it("counts a member of a parallel network when it has fleet addresses and a gateway that is connected", () => {
    const of = (more: Partial<Contact>) =>
      plan({ profile: profile("parallel"), members: [a, b] }, { a: { ...READING, ...more }, b: READING });
    expect(of({ hasBlock: false }).memberStates[0]?.error).toContain("no fleet addresses");
    expect(of({ fleetAddresses: undefined }).memberStates[0]?.error).toContain("gateways are not connected");
    expect(of({}).state).toBe("Connected");
  });
});

describe("a member of a parallel network without a path to another", () => {
  const all = [member("a"), member("b"), member("c")];
  const without = (
    pairs: readonly Pair[],
    before: StatesPlan | undefined,
    isChanging = false,
  ): StatesPlan => {
    const known = profile("parallel");
    const contacts = all.map(({ metadata: { name } }) => {
      const contact: Contact = { ...READING, isChanging, unreached: unreachedFrom(name, pairs) };
      return [name, contact] as const;
    });
    return plan(
      {
        profile: before === undefined ? known : { ...known, status: { memberStates: before.memberStates } },
        members: all,
      },
      Object.fromEntries(contacts),
      { unconnected: pairs },
    );
  };
  const whole = without([], undefined);

  it("connects until it has one, also while the mode changes", () => {
    for (const it of [without([["a", "b"]], undefined), without([["a", "b"]], whole, true)]) {
      expect([it.state, statesOf(it)]).toEqual([
        "Applying",
        { a: "Connecting", b: "Connecting", c: "Connected" },
      ]);
      expect(it.memberStates[0]?.error).toBe('no path to b; see "fairlead status --paths"');
    }
  });

  it("makes a network that was connected Degraded, and has failed when it reaches none any more", () => {
    const one = without([["a", "b"]], whole);
    expect([one.state, one.error]).toEqual([
      "Degraded",
      'no path between a and b; see "fairlead status --paths"',
    ]);
    const isolated: readonly Pair[] = [
      ["a", "b"],
      ["a", "c"],
    ];
    const cut = without(isolated, whole);
    expect([cut.state, statesOf(cut)]).toEqual(["Degraded", { a: "Failed", b: "Connected", c: "Connected" }]);
    expect(statesOf(without(isolated, cut))).toEqual(statesOf(cut));
    expect(without([], cut).state).toBe("Connected");
  });

  it("leaves the others connected while it joins them", () => {
    const two = { ...whole, memberStates: whole.memberStates.filter((it) => it.name !== "c") };
    const joining = without(
      [
        ["a", "c"],
        ["b", "c"],
      ],
      two,
    );
    expect(statesOf(joining)).toEqual({ a: "Connected", b: "Connected", c: "Connecting" });
  });
});

describe("a member that connects", () => {
  const waiting = { ...READING, isReading: false };
  const at = (nowMs: number, before?: StatesPlan, operation?: string): StatesPlan => {
    const { spec, metadata } = profile();
    const settings = { network: { mode: "flat" as const }, memberSelector: "", members: ["a"] };
    const applied =
      operation === undefined ? {} : { apply: "Manual" as const, applied: { ...settings, operation } };
    const status = before === undefined ? {} : { status: { memberStates: before.memberStates } };
    const known = { metadata, spec: { ...spec, ...applied }, ...status };
    return plan({ profile: known, members: [member("a")] }, { a: waiting }, { nowMs });
  };

  it("fails after 15 minutes with what it waits for, keeps the time of each change, and begins again with a plan", () => {
    const begun = at(NOW);
    expect(begun.againInMs).toBe(CONNECT_MS);
    expect(at(NOW + 60_000, begun).memberStates).toEqual(begun.memberStates);
    const failed = at(NOW + CONNECT_MS, begun);
    expect(failed.memberStates[0]).toMatchObject({
      state: "Failed",
      error: "not connected after 15 min: its agent has not opened the network yet",
    });
    expect(at(NOW + 2 * CONNECT_MS, failed).memberStates).toEqual(failed.memberStates);
    expect(statesOf(at(NOW + 3 * CONNECT_MS, failed, "next"))).toEqual({ a: "Connecting" });
  });
});
