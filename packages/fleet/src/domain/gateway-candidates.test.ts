import { describe, expect, it } from "vitest";
import { parseAddress } from "@fairlead/base/netaddr/address.ts";
import { parsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { CLUSTER_UID_ANNOTATION, GRANTED_CIDRS_ANNOTATION, NODE_RANGES } from "#api/fairlead.dev/names.ts";
import type { GatewayCandidate } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { candidateCheck, judgeCandidates, reachableCandidates } from "./gateway-candidates.ts";

const NETWORK = ["10.112.0.0/12", "fd12:3456:789a::/48"].map((it) => parsePrefix(it));
const HUB = { servers: [parseAddress("10.84.0.1"), parseAddress("fd00:84::1")], uid: "uid-of-hub" };

function member(name: string, annotations: Record<string, string>, nodes = ""): MemberCluster {
  const properties = { [NODE_RANGES]: { value: nodes, observationTime: "2026-01-01T00:00:00Z" } };
  return {
    metadata: { name, annotations },
    spec: { identity: { kind: "User", name } },
    status: { properties },
  };
}
const candidate = (address: unknown, more: object = {}): GatewayCandidate =>
  ({ type: "public", address, ...more }) as GatewayCandidate;

describe("candidates", () => {
  const judge = (of: readonly GatewayCandidate[]) =>
    judgeCandidates(of, candidateCheck(undefined, HUB, NETWORK));

  it("that lead nowhere, to many hosts or into the network itself are left out, and so are repeated ones", () => {
    const good = [candidate("192.168.1.1"), candidate("8.8.8.8", { basePort: 1024 }), candidate("2600::1")];
    const bad = [
      "127.0.0.1",
      "169.254.1.1",
      "255.255.255.255",
      "::ffff:8.8.4.4",
      "fe80::1",
      "224.0.0.1",
      "10.113.0.1",
      "fd12:3456:789a:1::1",
      "host.example",
      7,
    ].map((it) => candidate(it));
    const wrong = [
      candidate("8.8.4.4", { basePort: 0 }),
      candidate("8.8.8.8", { basePort: 53 }),
      candidate("8.8.4.4", { type: "x" }),
    ];
    const { usable, faults } = judge([...good, ...bad, ...wrong, ...good]);
    expect(usable).toEqual(good);
    expect(faults).toHaveLength(bad.length + wrong.length + good.length);
  });

  it("are named with what is wrong, in bounded text without control characters", () => {
    const { faults } = judge([
      candidate("10.113.0.1"),
      candidate("8.8.8.8", { basePort: 53 }),
      candidate(`\u001B[31m${"x".repeat(10_000)}`),
    ]);
    expect(faults.slice(0, 2)).toEqual(['"10.113.0.1" is a fleet address', '"8.8.8.8" has the base port 53']);
    expect(faults[2]).toContain("is not an IP address");
    expect(faults[2]).not.toContain("\u001B");
    expect(faults[2]?.length).toBeLessThan(200);
  });
});

describe("a candidate at the hub's API server", () => {
  const faultOf = (text: string, self: MemberCluster): string | undefined =>
    candidateCheck(self, HUB, NETWORK)(parseAddress(text));

  it.each(["10.84.0.1", "fd00:84::1"])(
    "such as %s is left out, with the reason and the remedy, whatever nodes the agent reports",
    (address) => {
      const liar = member("m", { [CLUSTER_UID_ANNOTATION]: "another" }, "10.84.0.0/24,fd00:84::/64");
      expect(faultOf(address, liar)).toContain("is the hub's API server");
      expect(faultOf(address, liar)).toContain(GRANTED_CIDRS_ANNOTATION);
    },
  );

  it.each([
    ["a node of the hub's own cluster, as join found", { [CLUSTER_UID_ANNOTATION]: "uid-of-hub" }],
    ["where an administrator granted the network", { [GRANTED_CIDRS_ANNOTATION]: "10.84.0.0/24" }],
  ])("is used if it is %s", (_what, annotations) => {
    expect(faultOf("10.84.0.1", member("m", annotations))).toBeUndefined();
  });

  it("is left out of members without a UID where that of the hub is unknown", () => {
    const check = candidateCheck(member("m", {}), { ...HUB, uid: undefined }, NETWORK);
    expect(check(parseAddress("10.84.0.1"))).toContain("API server");
  });
});

describe("candidates of another cluster", () => {
  const places = {
    services: [parsePrefix("10.96.0.0/12"), parsePrefix("fd00:96::/112")],
    hosts: new Set(["192.168.7.9", "fd00:7::9"].map((it) => parseAddress(it))),
  };

  it.each(["10.96.0.10", "fd00:96::a", "192.168.7.9", "fd00:7::9", "no address"])(
    "at this cluster's own Services, nodes and API server, such as %s, are left out here",
    (address) => {
      expect(reachableCandidates([candidate(address)], places)).toEqual([]);
    },
  );

  it("are used in the networks of this cluster's nodes, such as a NAT's outside in a shared underlay", () => {
    const shared = [candidate("192.168.7.50"), candidate("fd00:7::50"), candidate("8.8.8.8")];
    expect(reachableCandidates(shared, places)).toEqual(shared);
  });
});
