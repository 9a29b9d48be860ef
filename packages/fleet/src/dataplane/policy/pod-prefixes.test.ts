import { expect, it } from "vitest";
import { formatAddress, parseAddress } from "@fairlead/base/netaddr/address.ts";
import { type PlacedPod, PodPrefixes } from "./pod-prefixes.ts";

const pod = (isLocal: boolean, ...addresses: readonly string[]): PlacedPod => ({
  isLocal,
  addresses: addresses.map((it) => parseAddress(it)),
});

function made(pods: Readonly<Record<string, PlacedPod>>): PodPrefixes {
  const prefixes = new PodPrefixes();
  for (const [name, it] of Object.entries(pods)) prefixes.change(name, it);
  prefixes.set(["10.81.1.0/24", "fd81:1::/64"], () => Object.entries(pods));
  return prefixes;
}

it("prefixes of a node are used as long as its pods have addresses in them", () => {
  const prefixes = made({ "shop/a": pod(true, "10.81.1.2", "fd81:1::2"), "shop/b": pod(false, "10.81.0.2") });
  expect([prefixes.used, prefixes.elsewhere, prefixes.problem]).toEqual([
    ["10.81.1.0/24", "fd81:1::/64"],
    [],
    undefined,
  ]);
});

it("addresses in them that the API server knows as those of pods of other nodes are not unknown", () => {
  const prefixes = made({ "shop/b": pod(false, "10.81.1.8", "fd81:9::8") });
  expect(prefixes.elsewhere.map(formatAddress)).toEqual(["10.81.1.8"]);
  prefixes.change("shop/b", undefined);
  expect(prefixes.elsewhere).toEqual([]);
});

it("prefixes are not used while a pod of the node lies outside of them, and the condition names it", () => {
  const prefixes = made({ "shop/a": pod(true, "10.81.0.2"), "shop/b": pod(false, "10.81.1.8") });
  expect([prefixes.used, prefixes.elsewhere]).toEqual([[], []]);
  expect(prefixes.problem).toContain("shop/a");
  prefixes.change("shop/a", undefined);
  expect(prefixes.used).toHaveLength(2);
  prefixes.set([], () => []);
  expect(prefixes.problem).toBe("the Node has no spec.podCIDRs");
});
