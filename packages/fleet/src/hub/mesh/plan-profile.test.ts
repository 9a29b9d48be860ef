import { expect, it } from "vitest";
import { parsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import type { AddressPlan } from "#domain/address-plan.ts";
import type { Pair } from "./plan-paths.ts";
import { describeNetwork, planProfileStatus } from "./plan-profile.ts";

it("a relay whose last port would be above 65535, as older hubs permitted, is left out, and the network is not", () => {
  const relay = (name: string, basePort: number) => ({
    metadata: { name },
    spec: { addresses: ["203.0.113.9"], basePort, publicKey: "k" },
  });
  const profile = {
    metadata: { name: "p" },
    spec: { memberSelector: {}, network: { mode: "parallel" as const } },
  };
  const plan = {
    ipv4: parsePrefix("10.112.0.0/12"),
    ipv6: parsePrefix("fd00:112::/48"),
    vipIPv4: parsePrefix("10.127.0.0/16"),
    vipIPv6: parsePrefix("fd00:112:0:ff00::/56"),
  } as AddressPlan;
  const { relays, ipv4 } = describeNetwork(profile, plan, 1, [relay("a", 64_513), relay("b", 64_512)]);
  expect(relays?.map((it) => it.name)).toEqual(["b"]);
  expect(ipv4).toBe("10.112.0.0/12");
});

it("a network is not ready while members have no path to each other, which are named with what they do until then", () => {
  const profile = {
    metadata: { name: "p" },
    spec: { memberSelector: {}, network: { mode: "parallel" as const } },
  };
  const members = ["a", "b"].map((name) => ({
    metadata: { name },
    spec: { identity: { kind: "User" as const, name } },
  }));
  const none = { leaving: [], elsewhere: [], beyond: [], absent: [], problem: undefined };
  const ready = (unconnected: readonly Pair[], isChanging: boolean) => {
    const transition = isChanging ? { transition: { phase: "prepare" as const, since: "" } } : {};
    const blocks = ["a", "b"].map((cluster) => ({
      profile: "p",
      cluster,
      ipv4: ["10.112.0.0/21"],
      ipv6: ["fd00:112:0:1::/56"],
      ...transition,
    }));
    return planProfileStatus(
      { profile, members, ...none },
      { plan: undefined, blocks, faults: [], unconnected },
      { keyEpoch: 1, keyEpochSince: "2026-06-01T00:00:00Z" },
    ).conditions[0];
  };
  expect(ready([["a", "b"]], true)).toMatchObject({
    type: "Ready",
    status: "False",
    reason: "NoPath",
    message:
      'no path between a and b; see "fairlead status --paths"; a, b keep the addresses of pods until all members have fleet addresses and paths to each other',
  });
  expect(ready([["a", "b"]], false)).toMatchObject({ status: "False", reason: "NoPath" });
  expect(ready([], true)).toMatchObject({ status: "False", reason: "ChangingMode" });
  expect(ready([], false)).toMatchObject({ status: "True", reason: "Ready" });
});
