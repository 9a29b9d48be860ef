import { describe, expect, it } from "vitest";
import { parseAddress } from "@fairlead/base/netaddr/address.ts";
import { parsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import {
  ACCEPTED_NODE_RANGES,
  GRANTED_CIDRS_ANNOTATION,
  NODE_RANGES,
  SERVICE_RANGES,
} from "#api/fairlead.dev/names.ts";
import type { GatewayCandidate } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { candidateChecks, judgeCandidates } from "./gateway-candidates.ts";

const NETWORK = ["10.112.0.0/12", "fd12:3456:789a::/48"].map((it) => parsePrefix(it));
const HUB = [parseAddress("10.84.0.1"), parseAddress("fd00:84::1")];

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
    judgeCandidates(of, candidateChecks([], HUB)("m", NETWORK));

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

describe("a member's candidates at hosts of others", () => {
  const a = member(
    "a",
    { [SERVICE_RANGES]: "10.96.0.0/12,fd00:96::/112", [ACCEPTED_NODE_RANGES]: "192.168.7.0/24,fd00:7::/64" },
    "192.168.7.0/24,fd00:7::/64",
  );
  const faultOf = (text: string, self: MemberCluster = member("m", {})): string | undefined =>
    candidateChecks([a, self], HUB)("m", NETWORK)(parseAddress(text));

  it.each([
    ["10.84.0.1", "the hub's API server"],
    ["fd00:84::1", "the hub's API server"],
    ["10.96.0.1", "the Services of member a"],
    ["fd00:96::1", "the Services of member a"],
    ["192.168.7.9", "the nodes of member a"],
    ["fd00:7::9", "the nodes of member a"],
  ])("such as %s are left out, with the reason and the remedy", (address, reason) => {
    expect(faultOf(address)).toContain(reason);
    expect(faultOf(address)).toContain(GRANTED_CIDRS_ANNOTATION);
    expect(faultOf(address, member("m", {}, "10.0.0.0/24"))).toContain(reason);
  });

  it("stay left out when its agent reports nodes where Services or the hub's API server are", () => {
    const liar = member("m", {}, "10.96.0.0/24,10.84.0.0/24");
    expect(faultOf("10.96.0.1", liar)).toContain("Services of member a");
    expect(faultOf("10.84.0.1", liar)).toContain("API server");
  });

  it("are not what it only reports of itself, so that it keeps no member's candidates from others", () => {
    const liar = member("l", {});
    const properties = Object.fromEntries(
      [NODE_RANGES, SERVICE_RANGES].map((it) => [
        it,
        { value: "0.0.0.0/0,::/0", observationTime: "2026-01-01T00:00:00Z" },
      ]),
    );
    const check = candidateChecks([{ ...liar, status: { properties } }, member("m", {})], HUB)("m", NETWORK);
    for (const it of ["192.168.7.1", "8.8.8.8", "2600::1"]) expect(check(parseAddress(it))).toBeUndefined();
  });

  it.each([
    ["a NAT's public address", "8.8.8.8", member("m", {})],
    ["its own node, in an underlay of its own", "192.168.9.1", member("m", {}, "192.168.9.0/24")],
    ["its own node, in a network with nodes of others", "192.168.7.9", member("m", {}, "192.168.7.0/24")],
    ["its own node, before its agent reports any", "192.168.9.1", member("m", {})],
    [
      "what an administrator granted",
      "10.96.0.1",
      member("m", { [GRANTED_CIDRS_ANNOTATION]: "10.96.0.1/32" }),
    ],
    [
      "a node of the hub's own cluster that an administrator granted",
      "10.84.0.1",
      member("m", { [GRANTED_CIDRS_ANNOTATION]: "10.84.0.0/24" }),
    ],
    [
      "its nodes' network, which the hub accepted before",
      "10.96.0.9",
      member("m", { [ACCEPTED_NODE_RANGES]: "10.96.0.0/24" }),
    ],
  ])("do not include %s", (_what, address, self) => {
    expect(faultOf(address, self)).toBeUndefined();
  });
});
