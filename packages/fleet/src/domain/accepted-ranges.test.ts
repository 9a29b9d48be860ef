import { parseAddress } from "@fairlead/base/netaddr/address.ts";
import { describe, expect, it } from "vitest";
import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import {
  ACCEPTED_NODE_RANGES,
  ACCEPTED_POD_RANGES,
  GRANTED_CIDRS_ANNOTATION,
  NODE_RANGES,
  POD_RANGES,
  SERVICE_RANGES,
} from "#api/fairlead.dev/names.ts";
import { acceptRanges, areRangesFreed } from "./accepted-ranges.ts";

interface Facts {
  readonly annotations?: Readonly<Record<string, string>>;
  readonly pods?: string;
  readonly nodes?: string;
}

function member(name: string, { annotations = {}, pods = "", nodes = "" }: Facts): MemberCluster {
  const property = (value: string) => ({ value, observationTime: "2026-01-01T00:00:00Z" });
  return {
    metadata: { name, annotations },
    spec: { identity: { kind: "User", name, apiGroup: "rbac.authorization.k8s.io" } },
    status: { properties: { [POD_RANGES]: property(pods), [NODE_RANGES]: property(nodes) } },
  };
}

/** What is accepted of the pods' ranges of a member that reports, where others are. */
function accepted(facts: Facts, others: readonly Facts[] = [], hub: readonly string[] = []): string {
  const self = member("m", facts);
  const all = others.map((it, at) => member(`o${at}`, it));
  const after = acceptRanges(
    self,
    all,
    hub.map((it) => parseAddress(it)),
  );
  return after?.[ACCEPTED_POD_RANGES] ?? self.metadata.annotations?.[ACCEPTED_POD_RANGES] ?? "";
}

describe("of the ranges that an agent reports", () => {
  it("the first ones are accepted, once", () => {
    const pods = "10.1.0.0/24,fd00:1::/64";
    expect(accepted({ pods })).toBe(pods);
    const annotations = { [ACCEPTED_POD_RANGES]: pods, [ACCEPTED_NODE_RANGES]: "192.168.1.0/24" };
    expect(acceptRanges(member("m", { annotations, pods, nodes: "192.168.1.0/24" }), [], [])).toBeUndefined();
  });

  it.each([
    "0.0.0.0/0",
    "::/0",
    "8.8.8.0/24",
    "2001:db8::/48",
    "10.0.0.0/7",
    "fd00::/47",
    "fc00::/7",
    "x",
    "",
  ])("%s is not accepted", (pods) => expect(accepted({ pods })).toBe(""));

  it.each(["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fd00:1:2::/48"])(
    "%s may be the first",
    (pods) => expect(accepted({ pods })).toBe(pods),
  );

  it("later ones are accepted near those that the member has, by its report or by join, and nowhere else", () => {
    const later = "10.1.0.0/24,10.1.9.0/24,10.2.0.0/24";
    for (const name of [POD_RANGES, ACCEPTED_POD_RANGES])
      expect(accepted({ annotations: { [name]: "10.1.0.0/24" }, pods: later })).toBe(
        "10.1.0.0/24,10.1.9.0/24",
      );
    expect(accepted({ annotations: { [POD_RANGES]: "10.1.0.0/24" }, pods: "10.0.0.0/8" })).toBe("");
    expect(accepted({ annotations: { [ACCEPTED_POD_RANGES]: "10.1.0.0/24" }, pods: "10.0.0.0/8" })).toBe(
      "10.1.0.0/24",
    );
  });

  it("none is accepted that has an address of another member or of the hub, as the first or later, narrow or wide", () => {
    const names = [
      GRANTED_CIDRS_ANNOTATION,
      POD_RANGES,
      SERVICE_RANGES,
      ACCEPTED_POD_RANGES,
      ACCEPTED_NODE_RANGES,
    ];
    for (const name of names) {
      const other = { annotations: { [name]: "10.1.4.0/22,fd00:1::/64" } };
      for (const pods of ["10.1.4.0/24", "10.1.0.0/16", "10.0.0.0/8", "fd00:1::/48", "fd00:1::1/128"])
        for (const annotations of [{}, { [POD_RANGES]: "10.1.200.0/24,fd00:1:0:9::/64" }])
          expect(accepted({ annotations, pods }, [other])).toBe("");
      expect(accepted({ pods: "10.1.8.0/24" }, [other])).toBe("10.1.8.0/24");
    }
    expect(accepted({ pods: "10.84.0.0/16" }, [], ["10.84.0.1"])).toBe("");
    expect(accepted({ pods: "10.84.0.0/16" }, [], ["10.85.0.1"])).toBe("10.84.0.0/16");
  });

  it("one that is accepted stays, whatever others report or were accepted with", () => {
    const annotations = { [ACCEPTED_POD_RANGES]: "10.1.0.0/24" };
    const others = [{ annotations, pods: "10.1.0.0/24" }, { pods: "10.0.0.0/8" }];
    expect(accepted({ annotations, pods: "10.1.0.0/24" }, others)).toBe("10.1.0.0/24");
  });

  it("one that is not reported any more is free for others", () => {
    const annotations = { [ACCEPTED_POD_RANGES]: "10.1.0.0/23" };
    expect(accepted({ annotations, pods: "" })).toBe("");
    const before = member("m", { annotations });
    expect(areRangesFreed(before, member("m", {}))).toBe(true);
    expect(areRangesFreed(before, undefined)).toBe(true);
    expect(areRangesFreed(before, before)).toBe(false);
    const wider = { annotations: { [ACCEPTED_POD_RANGES]: "10.1.0.0/22" } };
    expect(areRangesFreed(before, member("m", wider))).toBe(false);
    expect(areRangesFreed(undefined, before)).toBe(false);
  });

  it("those of nodes are judged apart from those of pods", () => {
    const annotations = { [POD_RANGES]: "10.1.0.0/24" };
    const after = acceptRanges(member("m", { annotations, nodes: "192.168.1.0/24,8.8.8.0/24" }), [], []);
    expect(after).toEqual({ [ACCEPTED_POD_RANGES]: "", [ACCEPTED_NODE_RANGES]: "192.168.1.0/24" });
  });
});
