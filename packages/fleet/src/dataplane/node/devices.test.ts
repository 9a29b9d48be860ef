import { describe, expect, it } from "vitest";
import type { Gateway } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { planDevices, planPairs } from "./devices.ts";

const KEYS = new Map([
  [1, "key of epoch 1"],
  [2, "key of epoch 2"],
]);

function gateway(cluster: string, ordinal: number, epochs: readonly number[] = [1]): Gateway["spec"] {
  return {
    cluster,
    ordinal,
    node: `node-${ordinal}`,
    index: 4 + ordinal,
    keys: epochs.map((epoch) => ({ epoch, publicKey: `${cluster}-${ordinal}-${epoch}` })),
  };
}

const MEMBERS = new Map(
  ["b", "c"].map((cluster, at) => [
    cluster,
    { profile: "p", cluster, ipv4: [`10.112.${8 * (at + 1)}.0/21`], ipv6: [`fd00:0:0:${at + 1}00::/56`] },
  ]),
);

describe("the tunnels of a gateway", () => {
  it("have a device for each ordinal of remote gateways, because a prefix belongs to one peer of a device", () => {
    const pairs = planPairs({ remotes: [gateway("b", 0), gateway("b", 1), gateway("c", 0)] }, 31_820, KEYS);
    const devices = planDevices({ pairs, keys: KEYS, members: MEMBERS, endpoints: new Map(), mtu: 1408 });
    expect(devices.map((it) => [it.name, it.listenPort, it.peers.map((peer) => peer.publicKey)])).toEqual([
      ["fl-wg01", 31_821, ["b-0-1", "c-0-1"]],
      ["fl-wg11", 31_823, ["b-1-1"]],
    ]);
    for (const { peers } of devices) {
      const prefixes = peers.flatMap((it) => it.allowedIPs);
      expect(new Set(prefixes).size).toBe(prefixes.length);
    }
  });

  it("use a device and a port of their own for the next epoch of keys", () => {
    const pairs = planPairs({ remotes: [gateway("b", 0, [1, 2])] }, 31_820, KEYS);
    const devices = planDevices({ pairs, keys: KEYS, members: MEMBERS, endpoints: new Map(), mtu: 1408 });
    expect(devices.map((it) => [it.name, it.listenPort, it.privateKey])).toEqual([
      ["fl-wg01", 31_821, "key of epoch 1"],
      ["fl-wg00", 31_820, "key of epoch 2"],
    ]);
  });

  it("are not made to a gateway without a common epoch, without an index or without a block", () => {
    const { index: _index, ...unnumbered } = gateway("b", 0);
    expect(planPairs({ remotes: [gateway("b", 0, [7]), unnumbered] }, 31_820, KEYS)).toEqual([]);
    const pairs = planPairs({ remotes: [gateway("unknown", 0)] }, 31_820, KEYS);
    expect(planDevices({ pairs, keys: KEYS, members: MEMBERS, endpoints: new Map(), mtu: 1408 })).toEqual([]);
  });
});
