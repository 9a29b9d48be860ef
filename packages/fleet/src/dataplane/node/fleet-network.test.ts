import { describe, expect, it } from "vitest";
import type { AddressBlock, Gateway } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { planPairs } from "./devices.ts";
import { type FleetNetworkView, planFleetNetwork } from "./fleet-network.ts";
import { planNodePeers } from "./node-peers.ts";
import type { NodeState } from "./state.ts";
import { Ways } from "./ways.ts";

function block(cluster: string, second: number, node?: number): AddressBlock["spec"] {
  const at = node === undefined ? `${second * 8}.0/21` : `${second * 8 + node}.0/24`;
  return {
    profile: "p",
    cluster,
    ipv4: [`10.112.${at}`],
    ipv6: [node === undefined ? `fd00:0:0:${second}00::/56` : `fd00:0:0:${second}0${node}::/64`],
    ...(node === undefined ? {} : { node: `${cluster}-${node}`, nodeAddress: `192.0.2.${node + 1}` }),
  };
}

function gateway(
  cluster: string,
  second: number,
  ordinal: number,
  epochs: readonly number[],
): Gateway["spec"] {
  return {
    cluster,
    ordinal,
    node: `${cluster}-${ordinal}`,
    index: 10 * second + ordinal,
    keys: epochs.map((epoch) => ({ epoch, publicKey: `${cluster}-${ordinal}-${epoch}` })),
    fleetAddress: `10.112.${second * 8 + ordinal}.1`,
  };
}

const KEYS = new Map([
  [1, "one"],
  [2, "two"],
]);

/** Member `a` has four nodes, of which the first two are gateways; member `b` has two gateways. */
function viewOf(
  at: number,
  alive: readonly string[],
  epochs: readonly number[] = [1],
  mtus: ReadonlyMap<string, number> = new Map(),
): FleetNetworkView {
  const remotes = [0, 1].map((it) => gateway("b", 1, it, epochs));
  const state: NodeState = {
    network: {
      mode: "parallel",
      ipv4: "10.112.0.0/12",
      ipv6: "fd00::/48",
      vipIPv4: "10.127.0.0/16",
      vipIPv6: "fd00:0:0:ff00::/56",
      keyEpoch: 1,
    },
    block: { metadata: { name: `node.a-${at}` }, spec: block("a", 0, at) },
    members: new Map([
      ["a", block("a", 0)],
      ["b", block("b", 1)],
    ]),
    nodes: [0, 1, 2, 3]
      .filter((it) => it !== at)
      .map((it) => ({
        ...block("a", 0, it),
        keys: epochs.map((epoch) => ({ epoch, publicKey: `a-${it}-${epoch}` })),
      })),
    gateway: undefined,
    ordinals: new Map([
      ["a-0", 0],
      ["a-1", 1],
    ]),
    remotes,
  };
  const pairs = at < 2 ? planPairs({ remotes }, 31_820, KEYS) : [];
  // "target?" answers again, and is not alive yet.
  const stateOf = (it: string) => ({
    isAlive: alive.includes(it),
    isAnswering: alive.includes(it) || alive.includes(`${it}?`),
    mtu: mtus.get(it),
  });
  return {
    nodeName: `a-${at}`,
    state,
    pairs,
    stateOf,
    peers: planNodePeers(state, KEYS),
    endpoints: new Map([["b/0/1", "198.51.100.1:31820"]]),
  };
}

function plan(...of: Parameters<typeof viewOf>) {
  return planFleetNetwork(viewOf(...of));
}

/** The devices by which a member is reached, or would be without the routes that the kernel prefers. */
function way(of: ReturnType<typeof plan>, which: "preferred" | "fallback" = "preferred") {
  const route = of.network.routes.find(
    (it) => it.to === "10.112.8.0/21" && (it.metric !== undefined) === (which === "fallback"),
  );
  if (route === undefined) return undefined;
  const group = of.network.nextHopGroups?.find((it) => it.id === route?.nextHop);
  const ids = group?.members.map((it) => it.id) ?? [route?.nextHop];
  const devices = of.network.nextHops?.filter((it) => ids.includes(it.id)).map((it) => it.device);
  return devices;
}

describe("the network of a node's namespace fleet", () => {
  it("reaches each gateway of the cluster by a device of its own, and other nodes by the first", () => {
    const devicesOf = (at: number, epochs: readonly number[] = [1], alive: readonly string[] = []) =>
      [0, 1, 2, 3].map((it) => {
        const { routes } = plan(at, alive, epochs).network;
        return routes.find(({ to }) => to === `10.112.${it}.0/24`)?.hops[0]?.device;
      });
    expect(devicesOf(2)).toEqual(["fl-nodes01", "fl-nodes11", undefined, "fl-nodes01"]);
    expect(devicesOf(0)).toEqual([undefined, "fl-nodes11", "fl-nodes01", "fl-nodes01"]);
    // With new keys as soon as they are answered.
    expect(devicesOf(2, [1, 2])).toEqual(["fl-nodes01", "fl-nodes11", undefined, "fl-nodes01"]);
    expect(devicesOf(2, [1, 2], ["node/a-1/2", "node/a-3/2"])).toEqual([
      "fl-nodes01",
      "fl-nodes10",
      undefined,
      "fl-nodes00",
    ]);
    expect(devicesOf(2, [])).toEqual([undefined, undefined, undefined, undefined]);
  });

  it("probes gateways, and other nodes only while keys are exchanged", () => {
    const probed = (epochs: readonly number[]) =>
      plan(2, [], epochs).targets.map((it) => [it.id, it.device, it.address]);
    expect(probed([1])).toEqual([
      ["node/a-0/1", "fl-nodes01", "10.112.0.1"],
      ["node/a-1/1", "fl-nodes11", "10.112.1.1"],
    ]);
    expect(probed([1, 2]).filter(([id]) => id?.startsWith("node/a-3"))).toEqual([
      ["node/a-3/2", "fl-nodes00", "10.112.3.1"],
    ]);
  });

  it("reaches other members through the gateways that answer, and through all while none does", () => {
    expect(way(plan(2, ["node/a-0/1", "node/a-1/1"]))).toEqual(["fl-nodes01", "fl-nodes11"]);
    expect(way(plan(2, ["node/a-1/1"]))).toEqual(["fl-nodes11"]);
    expect(way(plan(2, []))).toEqual(["fl-nodes01", "fl-nodes11"]);
    // Groups of the two kinds of devices have different ids.
    const groups = [plan(2, []), plan(0, [])].flatMap((it) => it.network.nextHopGroups?.map(({ id }) => id));
    expect(new Set(groups).size).toBe(2);
  });

  it("shares the flows of a gateway over the tunnels that answer", () => {
    const both = ["tunnel/b/0/1", "tunnel/b/1/1", "node/a-1/1"];
    expect(way(plan(0, both))).toEqual(["fl-wg01", "fl-wg11"]);
    expect(way(plan(0, ["tunnel/b/1/1", "node/a-1/1"]))).toEqual(["fl-wg11"]);
  });

  it("sends through another gateway where no tunnel answers, and into the tunnels if that does not answer either", () => {
    expect(way(plan(0, ["node/a-1/1"]))).toEqual(["fl-nodes11"]);
    expect(way(plan(0, []))).toEqual(["fl-wg01", "fl-wg11"]);
    expect(way(plan(0, ["tunnel/b/1/1?", "node/a-1/1"]))).toEqual(["fl-wg11"]);
    expect(way(plan(0, ["tunnel/b/0/1", "tunnel/b/1/1?"]))).toEqual(["fl-wg01"]);
  });

  it("has a way over the other gateways in both families for when the devices of its tunnels are gone, and no agent makes them", () => {
    const alive = ["tunnel/b/0/1", "tunnel/b/1/1", "node/a-1/1"];
    expect(way(plan(0, alive), "fallback")).toEqual(["fl-nodes11"]);
    expect(way(plan(0, []), "fallback")).toEqual(["fl-nodes11"]);
    const metrics = plan(0, alive).network.routes.flatMap(({ metric = 0 }) => (metric > 0 ? [metric] : []));
    // The kernel gives 0 to other routes of IPv4, and 1024 to those of IPv6.
    expect(metrics).toEqual([2048, 2048]);
    expect(way(plan(0, ["node/a-1/1"]), "fallback")).toBeUndefined();
    expect(way(plan(2, ["node/a-0/1"]), "fallback")).toBeUndefined();
  });

  it("uses the newer keys as soon as their tunnels answer, and not before", () => {
    const old = ["tunnel/b/0/1", "tunnel/b/1/1"];
    expect(way(plan(0, old, [1, 2]))).toEqual(["fl-wg01", "fl-wg11"]);
    expect(way(plan(0, [...old, "tunnel/b/0/2"], [1, 2]))).toEqual(["fl-wg00"]);
    // An agent that has just started: nothing has answered it.
    expect(way(plan(0, [], [1, 2]))).toEqual(["fl-wg01", "fl-wg11"]);
  });

  it("gives routes the least MTU of the tunnels that they use, and probes each tunnel for it again on another path", () => {
    const both = ["tunnel/b/0/1", "tunnel/b/1/1"];
    const mtus = new Map([
      ["tunnel/b/0/1", 1408],
      ["tunnel/b/1/1", 1328],
    ]);
    const mtusOf = (alive: readonly string[]) =>
      plan(0, alive, [1], mtus).network.routes.flatMap((it) =>
        it.nextHop === undefined || it.metric !== undefined ? [] : [it.mtu],
      );
    expect(mtusOf(both)).toEqual([1328, 1328]);
    expect(mtusOf(["tunnel/b/0/1"])).toEqual([1408, 1408]);
    expect(plan(0, both).targets.map((it) => it.tunnel?.path)).toEqual([
      "192.0.2.2:4802",
      "198.51.100.1:31820",
      "",
    ]);
  });

  it("answers echo requests by the device by which they came", () => {
    const { rules, routes } = plan(0, []).network;
    expect(rules?.map((it) => [it.mark?.value, it.table])).toEqual([
      [0x70_09, 11_209],
      [0x70_0b, 11_211],
      [0x70_01, 11_201],
      [0x70_03, 11_203],
    ]);
    expect(routes.filter((it) => it.table !== undefined).map((it) => it.hops[0]?.device)).toEqual([
      "fl-nodes01",
      "fl-nodes11",
      "fl-wg01",
      "fl-wg11",
    ]);
  });
});

describe("a way that ceases to answer", () => {
  const SIGNAL = AbortSignal.timeout(60_000);
  const both = ["tunnel/b/0/1", "tunnel/b/1/1"];

  /** A gateway with two living tunnels, of which the first one may die. */
  async function started() {
    const applied: ReturnType<typeof planFleetNetwork>["network"][] = [];
    const alive = new Set(both);
    const { state, pairs, peers, endpoints } = viewOf(0, both);
    const faults = { isDeviceGone: false };
    const ways = new Ways({
      nodeName: "a-0",
      log: silentLogger,
      kernel: {
        applyNetwork(_host, network) {
          applied.push(network);
          return Promise.resolve();
        },
        changeNetwork(network) {
          if (faults.isDeviceGone) return Promise.reject(new Error("Cannot find device"));
          applied.push(network);
          return Promise.resolve();
        },
        doubtNetwork() {},
      },
      probes: {
        update() {},
        stateOf: (it) => {
          const isAlive = alive.has(it);
          return { isAlive, isAnswering: isAlive, rttMs: 1, loss: 0, mtu: undefined };
        },
      },
    });
    const devices = [...pairs, ...peers].map((it) => it.device);
    await ways.apply(state, { pairs, peers, endpoints, devices, isNew: true }, SIGNAL);
    const die = (): void => {
      alive.delete("tunnel/b/0/1");
      ways.died();
    };
    return { ways, state, applied, die, faults };
  }

  it("is left before the rest of a pass, and only then", async () => {
    const { ways, state, applied, die } = await started();
    await ways.leaveDead(state, SIGNAL);
    expect(applied).toHaveLength(1);
    die();
    await ways.leaveDead(state, SIGNAL);
    await ways.leaveDead(state, SIGNAL);
    expect(applied).toHaveLength(2);
    const hopTo = (at: number) =>
      applied[at]?.routes.find((it) => it.to === "10.112.8.0/21" && it.metric === undefined)?.nextHop;
    expect(applied[0]?.nextHopGroups?.map((it) => it.id)).toContain(hopTo(0));
    expect(applied[1]?.nextHops?.find((it) => it.id === hopTo(1))?.device).toBe("fl-wg11");
  });

  it("is left by the whole pass when its device is gone, too", async () => {
    const { ways, state, applied, die, faults } = await started();
    die();
    faults.isDeviceGone = true;
    await ways.leaveDead(state, SIGNAL);
    expect(applied).toHaveLength(1);
  });
});
