import { expect, it } from "vitest";
import { parsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import type { AddressPlan } from "#domain/address-plan.ts";
import { describeNetwork } from "./plan-profile.ts";

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
