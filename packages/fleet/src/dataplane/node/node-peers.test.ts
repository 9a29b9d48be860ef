import { describe, expect, it } from "vitest";
import type { AddressBlock } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { planNodeDevices, planNodePeers } from "./node-peers.ts";
import type { NodeState } from "./state.ts";

const KEYS = new Map([
  [1, "private 1"],
  [2, "private 2"],
]);

function member(cluster: string, at: number): AddressBlock["spec"] {
  return { profile: "p", cluster, ipv4: [`10.112.${8 * at}.0/21`], ipv6: [`fd00:0:0:${at}00::/56`] };
}

function node(at: number, epochs: readonly number[]): NodeState["nodes"][number] {
  return {
    ...member("a", 0),
    node: `n${at}`,
    nodeAddress: `192.0.2.${at}`,
    ipv4: [`10.112.${at}.0/24`],
    ipv6: [`fd00:0:0:${at}::/64`],
    keys: epochs.map((epoch) => ({ epoch, publicKey: `n${at}-${epoch}` })),
  };
}

/** Cluster `a` with nodes n0 to n4, whose gateways have the ordinals 0, 1 and so on, as node `at` sees it. */
function peersOf(at: number, gateways: number, epochs: readonly number[] = [1]) {
  const view = {
    block: { metadata: { name: `node.n${at}` }, spec: node(at, []) },
    members: new Map(["a", "b", "c"].map((it, order) => [it, member(it, order)])),
    nodes: [0, 1, 2, 3, 4].filter((it) => it !== at).map((it) => node(it, epochs)),
    ordinals: new Map([0, 1, 2, 3].slice(0, gateways).map((it) => [`n${it}`, it])),
  };
  return planNodePeers(view, KEYS);
}

const devicesOf = (at: number, gateways: number, epochs?: readonly number[]) =>
  planNodeDevices(peersOf(at, gateways, epochs), KEYS, 1408);

const OTHERS = ["10.112.8.0/21", "fd00:0:0:100::/56", "10.112.16.0/21", "fd00:0:0:200::/56"];

describe("WireGuard between the nodes of a cluster", () => {
  it("accepts from a gateway its block and other members, and from another node its block alone", () => {
    for (const peer of peersOf(4, 2)) {
      const at = Number(peer.node.slice(1));
      const own = [`10.112.${at}.0/24`, `fd00:0:0:${at}::/64`];
      expect(peer.allowedIPs).toEqual(at < 2 ? [...own, ...OTHERS] : own);
    }
  });

  it("has no prefix twice in a device, and sends to the port at which the other node has this one", () => {
    for (const gateways of [0, 1, 2, 3, 4])
      for (const at of [0, 1, 2, 3, 4]) {
        for (const { peers } of devicesOf(at, gateways)) {
          const prefixes = peers.flatMap((it) => it.allowedIPs);
          expect(new Set(prefixes).size).toBe(prefixes.length);
        }
        for (const peer of peersOf(at, gateways)) {
          const back = peersOf(Number(peer.node.slice(1)), gateways).find((it) => it.node === `n${at}`);
          expect(peer.endpoint).toBe(`192.0.2.${peer.node.slice(1)}:${back?.port}`);
        }
      }
  });

  it("has a device for each gateway, and one for nodes that are not gateways", () => {
    expect(devicesOf(4, 2).map((it) => [it.name, it.listenPort])).toEqual([
      ["fl-nodes01", 4802],
      ["fl-nodes11", 4804],
    ]);
    expect(devicesOf(1, 2).map((it) => [it.name, it.peers.map((peer) => peer.publicKey)])).toEqual([
      ["fl-nodes01", ["n0-1", "n2-1", "n3-1", "n4-1"]],
    ]);
    expect(devicesOf(4, 0)).toHaveLength(1);
  });

  it("has devices of their own for the next epoch of keys", () => {
    expect(devicesOf(0, 1, [1, 2]).map((it) => [it.name, it.listenPort, it.privateKey])).toEqual([
      ["fl-nodes01", 4802, "private 1"],
      ["fl-nodes00", 4801, "private 2"],
    ]);
  });

  it("has nothing for a node that has published no key of a common epoch", () => {
    expect(devicesOf(0, 2, [])).toEqual([]);
    expect(devicesOf(0, 2, [3])).toEqual([]);
  });
});
