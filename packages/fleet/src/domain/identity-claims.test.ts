import { describe, expect, it } from "vitest";
import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import {
  ACCEPTED_NODE_RANGES,
  ACCEPTED_POD_RANGES,
  GRANTED_CIDRS_ANNOTATION,
  POD_RANGES,
} from "#api/fairlead.dev/names.ts";
import { MAX_MEMBER_PREFIXES } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { addressChecks, podNetworksOf } from "./identity-claims.ts";

interface Facts {
  readonly granted?: string;
  readonly joined?: string;
  readonly reported?: string;
  readonly nodes?: string;
}

/** The first letter of the name is its age. */
function member(name: string, { granted, joined, reported, nodes }: Facts): MemberCluster {
  return {
    metadata: {
      name,
      creationTimestamp: `2026-01-01T00:00:0${name.charCodeAt(0) - 97}Z`,
      annotations: {
        ...(granted === undefined ? {} : { [GRANTED_CIDRS_ANNOTATION]: granted }),
        ...(joined === undefined ? {} : { [POD_RANGES]: joined }),
        ...(reported === undefined ? {} : { [ACCEPTED_POD_RANGES]: reported }),
        ...(nodes === undefined ? {} : { [ACCEPTED_NODE_RANGES]: nodes }),
      },
    },
    spec: { identity: { kind: "User", name, apiGroup: "rbac.authorization.k8s.io" } },
  };
}

function problems(members: Readonly<Record<string, Facts>>, of: "pods" | "nodes" = "pods") {
  const check = addressChecks(Object.entries(members).map(([name, it]) => ({ member: member(name, it) })));
  return (cluster: string, address: string) => check(cluster, of)(address);
}

describe("an address of a pod", () => {
  it("is one of the networks that its member was granted, joined with or reported first", () => {
    const check = problems({
      a: { granted: "10.1.0.0/16" },
      b: { joined: "10.2.0.0/16" },
      c: { reported: "fd00:3::/64" },
    });
    expect(check("a", "10.1.2.3")).toBeUndefined();
    expect(check("b", "10.2.2.3")).toBeUndefined();
    expect(check("c", "fd00:3::5")).toBeUndefined();
    expect(check("a", "10.2.2.3")).toBe(
      "10.2.2.3 is not in the networks of the member: if it should be, add them to the annotation fairlead.dev/granted-cidrs of its MemberCluster",
    );
  });

  it("is never one of a network that is not granted, where some are", () => {
    const check = problems({ a: { granted: "10.1.0.0/16", joined: "10.9.0.0/16", reported: "0.0.0.0/0" } });
    expect(check("a", "10.9.0.1")).toContain("10.9.0.1 is not in the networks of the member");
  });

  it("belongs to the older of two members that report it, and to the one that was granted it in any case", () => {
    const reported = problems({ a: { reported: "10.1.0.0/16" }, b: { reported: "0.0.0.0/0" } });
    expect(reported("a", "10.1.0.5")).toBeUndefined();
    expect(reported("b", "10.1.0.5")).toBe("10.1.0.5 is in a network of member a");
    expect(reported("b", "10.7.0.5")).toBeUndefined();
    const granted = problems({ a: { reported: "0.0.0.0/0" }, b: { granted: "10.2.0.0/16" } });
    expect(granted("b", "10.2.0.5")).toBeUndefined();
    expect(granted("a", "10.2.0.5")).toBe("10.2.0.5 is in a network of member b");
  });

  it("is refused where the member says of no network that its pods are there, with what to do in the message", () => {
    expect(problems({ a: { nodes: "192.168.0.0/24" } })("a", "192.168.0.7")).toBe(
      "no network of the member's pods counts, because its agent reports none, or one that is public or of another member: set the annotation fairlead.dev/granted-cidrs of its MemberCluster",
    );
  });

  it("is a fleet address alone in a parallel network, and one of both while the network changes its mode", () => {
    const block = (hasPodAddresses: boolean) => ({ prefixes: ["10.112.0.0/18"], hasPodAddresses });
    const check = (hasPodAddresses: boolean) =>
      addressChecks([{ member: member("a", { granted: "10.1.0.0/16" }), block: block(hasPodAddresses) }])(
        "a",
        "pods",
      );
    expect(check(false)("10.112.0.9")).toBeUndefined();
    expect(check(false)("10.1.0.9")).toContain("not in the networks");
    expect(check(true)("10.1.0.9")).toBeUndefined();
  });
});

it("networks of pods are the claims of members, without those of nodes and of blocks, within bounds", () => {
  const facts: Readonly<Record<string, Facts>> = {
    b: { joined: "10.2.0.0/17,10.2.128.0/17", nodes: "192.168.0.0/24" },
    a: { granted: "10.1.0.0/16", joined: "10.9.0.0/16" },
    c: { reported: "fd00:3::/64" },
    d: { nodes: "192.168.7.0/24" },
  };
  const members = Object.entries(facts).map(([name, it]) => member(name, it));
  const shown = (...changing: boolean[]) =>
    podNetworksOf(
      members,
      changing.map((it) => ({
        profile: "p",
        cluster: "a",
        ipv4: ["10.112.0.0/18"],
        ipv6: [],
        ...(it ? { transition: { phase: "prepare" as const, since: "2026-01-01T00:00:00Z" } } : {}),
      })),
    );
  const all = [
    { cluster: "a", podCIDRs: ["10.1.0.0/16"] },
    { cluster: "b", podCIDRs: ["10.2.0.0/16"] },
    { cluster: "c", podCIDRs: ["fd00:3::/64"] },
  ];
  expect(shown()).toEqual(all);
  expect(shown(true)).toEqual(all);
  expect(shown(false)).toEqual(all.slice(1));
  const scattered = Array.from({ length: 200 }, (_, at) => `10.${at}.0.0/24`).join(",");
  expect(podNetworksOf([member("a", { reported: scattered })], [])[0]?.podCIDRs).toHaveLength(
    MAX_MEMBER_PREFIXES,
  );
});

describe("an address of a node", () => {
  it("is in the networks of nodes that its member reports, and not in those of its pods", () => {
    const check = problems({ a: { reported: "10.1.0.0/16", nodes: "192.168.0.0/24" } }, "nodes");
    expect(check("a", "192.168.0.7")).toBeUndefined();
    expect(check("a", "10.1.0.7")).toContain("not in the networks");
  });

  it("is not one of another member's pods", () => {
    const check = problems({ a: { reported: "10.1.0.0/16" }, b: { nodes: "10.1.7.0/24" } }, "nodes");
    expect(check("b", "10.1.7.1")).toBe("10.1.7.1 is in a network of member a");
  });
});
