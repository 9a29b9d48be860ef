import * as fc from "fast-check";
import { Address4, Address6 } from "ip-address";
import { describe, expect, it } from "vitest";
import { hasCode } from "@fairlead/base/errors.ts";
import {
  BLOCK_STARTS,
  blockStartsOf,
  checkSpec,
  DEFAULT_SPEC,
  type LabSpec,
  type LabTopology,
  planTopology,
} from "./topology.ts";

const anySpec = fc.record({
  name: fc.constantFrom("demo", "a", "lab-7"),
  members: fc.integer({ min: 1, max: 100 }),
  nodes: fc.integer({ min: 1, max: 5 }),
  topology: fc.constant("flat" as const),
  nat: fc.constantFrom("mixed" as const, "random" as const, "friendly" as const),
  natUdpSeconds: fc.constant(30),
  natUdpStreamSeconds: fc.constant(180),
  ipFamily: fc.constantFrom("dual" as const, "ipv4" as const),
  leaseSeconds: fc.constant(5),
  bare: fc.boolean(),
  release: fc.constant("1.36" as const),
  extras: fc.constant([]),
});

/** With the places for one more of each cluster. */
function nodesOf(topology: LabTopology) {
  return topology.clusters.flatMap((it) => [...it.nodes, ...(it.spare === undefined ? [] : [it.spare])]);
}

function found<T>(value: T | undefined): T {
  if (value === undefined) throw new Error("not found");
  return value;
}

describe("the address plan of a lab", () => {
  it("gives every node, pod network and API server its own address inside the lab's block", () => {
    fc.assert(
      fc.property(anySpec, fc.constantFrom(...BLOCK_STARTS), (spec, start) => {
        const topology = planTopology(spec, start);
        const block = { v4: new Address4(topology.block.v4), v6: new Address6(topology.block.v6) };
        const single = [
          ...topology.clusters.flatMap((it) => [it.api, it.fleetDns, it.clusterDns]),
          ...nodesOf(topology).map((it) => it.address),
        ];
        const networks = [
          ...nodesOf(topology).map((it) => it.podCidr),
          ...topology.clusters.map((it) => it.loadBalancerCidr),
        ];
        expect(new Set(single.map((it) => it.v4)).size).toBe(single.length);
        expect(new Set(single.map((it) => it.v6)).size).toBe(single.length);
        expect(new Set(networks.map((it) => it.v4)).size).toBe(networks.length);
        expect(new Set(networks.map((it) => it.v6)).size).toBe(networks.length);
        for (const it of [...single, ...networks]) {
          expect(new Address4(it.v4).isInSubnet(block.v4)).toBe(true);
          expect(new Address6(it.v6).isInSubnet(block.v6)).toBe(true);
        }
      }),
      { numRuns: 40 },
    );
  });

  it("gives every member behind NAT the same pods, nodes and Services, and a site of its own that is apart from them", () => {
    fc.assert(
      fc.property(anySpec, fc.constantFrom(...BLOCK_STARTS), (shape, start) => {
        const topology = planTopology({ ...shape, topology: "nat" }, start);
        const [hub, ...members] = topology.clusters;
        const inside = (it: LabTopology["clusters"][number]) =>
          it.nodes.map(({ address, podCidr }) => ({ address, podCidr }));
        for (const member of members) expect(inside(member)).toEqual(inside(found(members[0])));
        const nodes = [...found(hub).nodes, ...found(members[0]).nodes];
        const networks = [
          ...nodes.map((it) => it.podCidr.v4),
          ...topology.clusters.map((it) => it.api.v4.replace(/\.1$/, ".0/24")),
          topology.serviceCidr.v4,
        ].map((it) => new Address4(it));
        for (const [at, network] of networks.entries()) {
          expect(network.isInSubnet(new Address4(topology.block.v4))).toBe(true);
          for (const other of networks.slice(at + 1)) {
            expect(network.isInSubnet(other)).toBe(false);
            expect(other.isInSubnet(network)).toBe(false);
          }
        }
        expect(new Set(topology.clusters.map((it) => it.uplink?.v4)).size).toBe(topology.clusters.length);
        for (const { address, podCidr } of found(members[0]).nodes) {
          expect(new Address4(address.v4).isInSubnet(new Address4(`10.${start}.254.0/24`))).toBe(true);
          for (const it of [address.v6, podCidr.v6])
            expect(new Address6(it).isInSubnet(new Address6(topology.block.v6))).toBe(true);
        }
      }),
      { numRuns: 40 },
    );
  });

  it("puts members 1 and 2 behind a friendly NAT and member 3 behind a random one, unless told otherwise", () => {
    const kinds = (nat: LabSpec["nat"]) =>
      planTopology({ ...DEFAULT_SPEC, topology: "nat", nat }, 64).clusters.map((it) => it.nat);
    expect(kinds("mixed")).toEqual([undefined, "friendly", "friendly", "random"]);
    expect(kinds("random")).toEqual([undefined, "random", "random", "random"]);
    expect(kinds("friendly")).toEqual([undefined, "friendly", "friendly", "friendly"]);
  });

  it("leaves 10.112.0.0/12 to parallel networks", () => {
    const parallel = new Address4("10.112.0.0/12");
    for (const start of BLOCK_STARTS)
      expect(new Address4(planTopology(DEFAULT_SPEC, start).block.v4).isInSubnet(parallel)).toBe(false);
  });

  it("keeps pods, Services, load balancers and machines apart", () => {
    const topology = planTopology({ ...DEFAULT_SPEC, members: 100, nodes: 5, bare: true }, 64);
    const service = new Address4(topology.serviceCidr.v4);
    for (const node of nodesOf(topology)) {
      expect(new Address4(node.podCidr.v4).isInSubnet(service)).toBe(false);
      expect(new Address4(node.address.v4).isInSubnet(service)).toBe(false);
    }
    for (const cluster of topology.clusters) {
      const balancers = new Address4(cluster.loadBalancerCidr.v4);
      expect(new Address4(cluster.api.v4).isInSubnet(balancers)).toBe(false);
      for (const node of cluster.nodes)
        expect(new Address4(node.address.v4).isInSubnet(balancers)).toBe(false);
    }
  });

  it("writes addresses in the canonical form of RFC 5952", () => {
    const topology = planTopology(DEFAULT_SPEC, 64);
    const addresses = [
      ...nodesOf(topology).map((it) => it.address.v6),
      ...topology.clusters.flatMap((it) => [it.api.v6, it.dnsService.v6]),
      topology.host.machine.v6,
    ];
    for (const address of addresses) expect(new Address6(address).correctForm()).toBe(address);
  });

  it("starts its search for a block at the hash of the name, and tries each once", () => {
    const orders = ["demo", "a", "lab-7"].map((name) => blockStartsOf(name));
    for (const order of orders) expect(order.toSorted((a, b) => a - b)).toEqual(BLOCK_STARTS);
    expect(new Set(orders.map((it) => it[0])).size).toBe(3);
  });

  it("names all that is wrong with a spec at once", () => {
    const refuse = () =>
      checkSpec({
        ...DEFAULT_SPEC,
        name: "Too_Long_A_Name",
        members: 0,
        nodes: 9,
        ipFamily: "six" as "ipv4",
        nat: "strict" as "mixed",
      });
    expect(refuse).toThrow(
      /name must have .*members must be .*nodes of a member must be .*NAT must be random, friendly or mixed.*family must be/,
    );
    try {
      refuse();
    } catch (error) {
      expect(hasCode(error, "OPTION_INVALID")).toBe(true);
    }
  });
});
