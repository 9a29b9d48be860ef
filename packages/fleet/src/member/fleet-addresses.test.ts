import { expect, it } from "vitest";
import { formatPrefix } from "@fairlead/base/netaddr/prefix.ts";
import type { AddressBlock, ParallelNetwork } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { podNetworks } from "./fleet-addresses.ts";

const spec: ParallelNetwork = {
  mode: "parallel",
  ipv4: "10.112.0.0/12",
  ipv6: "fd00:112::/48",
  vipIPv4: "10.127.0.0/16",
  vipIPv6: "fd00:112:0:ff00::/56",
  keyEpoch: 1,
};
const block: AddressBlock = {
  metadata: { name: "b" },
  spec: { profile: "p", cluster: "b", ipv4: ["10.112.0.0/20"], ipv6: ["fd00:112:0:1::/64"] },
};

it("the networks of all pods are known in a parallel network that no member enters or leaves", () => {
  expect(podNetworks({ spec }, [block])?.map(formatPrefix)).toEqual([spec.ipv4, spec.ipv6]);
  const transition = { phase: "prepare" as const, since: "2026-01-01T00:00:00Z" };
  expect(podNetworks({ spec }, [block, { ...block, spec: { ...block.spec, transition } }])).toBeUndefined();
  expect(podNetworks({ spec: { mode: "flat" } }, [])).toBeUndefined();
  expect(podNetworks(undefined, [])).toBeUndefined();
});
