import { parsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import type { NetworkPolicyPeer } from "@fairlead/kube/api/networking/v1/types.ts";
import { describe, expect, it } from "vitest";
import { compilePolicy } from "./compile/compile.ts";
import { compileNetworkPolicy } from "./compile/network-policy.ts";
import { addressesNeeded, demandOf } from "./demand.ts";
import type { CompiledPolicy, Peer } from "./model.ts";
import { cidrPeer, entityPeer } from "./peers.ts";
import { Remote } from "./remote.ts";
import { EVERYTHING } from "./selector.ts";

const CLUSTER = "io.cilium.k8s.policy.cluster";
const scope = { cluster: "a", networks: [parsePrefix("10.0.0.0/8")] };

function fromPeers(isLocalByDefault: boolean, ...from: NetworkPolicyPeer[]): readonly CompiledPolicy[] {
  const policy = {
    metadata: { name: "p", namespace: "shop" },
    spec: { podSelector: {}, ingress: [{ from }] },
  };
  return compileNetworkPolicy(policy, { cluster: "a", isLocalByDefault }).policies;
}

function withPeer(peer: Peer): CompiledPolicy {
  const rules = [{ action: "allow" as const, peers: [peer], ports: "any" as const, origin: "" }];
  const id = { kind: "X", name: "x" };
  const subject = { of: "pods" as const, selector: EVERYTHING };
  return {
    key: "x",
    id,
    tier: "network-policy",
    priority: 0,
    subject,
    ingress: { isDefaultDeny: true, rules },
  };
}

describe("the demand of policies", () => {
  it("is empty if they select pods of the own cluster only", () => {
    expect(demandOf(fromPeers(true, { podSelector: {} }), scope)).toEqual({ requests: [] });
    const own = { podSelector: { matchLabels: { [CLUSTER]: "a" } } };
    expect(demandOf(fromPeers(true, own), scope)).toEqual({ requests: [] });
  });

  it("names clusters, namespaces and labels", () => {
    const peer = { podSelector: { matchLabels: { app: "web", [CLUSTER]: "b" } } };
    const podSelector = { matchExpressions: [{ key: "app", operator: "In", values: ["web"] }] };
    expect(demandOf(fromPeers(true, peer, peer), scope)).toEqual({
      requests: [{ clusters: ["b"], namespaces: ["shop"], podSelector }],
    });
  });

  it("is for every cluster where peers are not local by default", () => {
    const peer = { namespaceSelector: { matchLabels: { team: "red" } } };
    const namespaceSelector = { matchExpressions: [{ key: "team", operator: "In", values: ["red"] }] };
    expect(demandOf(fromPeers(false, peer), scope)).toEqual({ requests: [{ namespaceSelector }] });
  });

  it("is for every cluster but those that the selector excludes, of which it has no more than all", () => {
    const podSelector = { matchExpressions: [{ key: CLUSTER, operator: "NotIn" as const, values: ["b"] }] };
    expect(demandOf(fromPeers(true, { podSelector, namespaceSelector: {} }), scope)).toEqual({
      requests: [{}],
    });
  });

  it("is everything for a named port of any pod, whose number differs from pod to pod", () => {
    const spec = { podSelector: {}, egress: [{ ports: [{ port: "http" }] }] };
    const policy = { metadata: { name: "p", namespace: "shop" }, spec };
    const { policies } = compileNetworkPolicy(policy, { cluster: "a", isLocalByDefault: true });
    expect(demandOf(policies, scope)).toEqual({ requests: [{}] });
  });

  it("has all addresses of the clusters in which a rule denies some pods, where addresses that are not identified are closed", () => {
    const spec = (of: string) => ({
      endpointSelector: {},
      ingress: [{ fromEntities: ["all"] }],
      ingressDeny: [{ fromEndpoints: [{ matchLabels: { app: "web", [CLUSTER]: of } }] }],
    });
    const settings = { isLocalByDefault: true, cidrMatchesPods: false, cidrMatchesNodes: false };
    const objects = { cidrGroups: [], services: [] };
    const compiled = (of: string) => {
      const policy = { metadata: { name: "p", namespace: "shop" }, spec: spec(of) };
      return compilePolicy("CiliumNetworkPolicy", policy, { cluster: "a", ...settings }, objects).policies;
    };
    const remote = new Remote("a", [{ cluster: "b", prefixes: scope.networks }]);
    const needed = (...clusters: string[]) => addressesNeeded(clusters.flatMap(compiled), remote);
    expect(needed("c", "b")).toEqual([{ clusters: ["b", "c"], addresses: true }]);
    expect(needed("a")).toEqual([]);
    expect(addressesNeeded(compiled("b"), new Remote("a", []))).toEqual([]);
    const world = withPeer(entityPeer("world"));
    expect(addressesNeeded([...compiled("b"), world], remote)).toEqual([{ addresses: true }]);
    const cidr = (text: string): CompiledPolicy =>
      withPeer(cidrPeer([parsePrefix(text)], { matchesPods: false, matchesNodes: false }));
    expect(addressesNeeded([cidr("10.1.0.0/16")], remote)).toEqual([{ addresses: true }]);
    expect(addressesNeeded([cidr("8.8.8.0/24")], remote)).toEqual([]);
  });

  it("is everything for rules that match what is not a pod, if pods are in their range", () => {
    const cilium = { matchesPods: false, matchesNodes: false };
    expect(demandOf([withPeer(entityPeer("world"))], scope)).toEqual({ requests: [{}], nodes: true });
    expect(demandOf([withPeer(cidrPeer([parsePrefix("10.1.0.0/16")], cilium))], scope).requests).toEqual([
      {},
    ]);
    expect(demandOf([withPeer(cidrPeer([parsePrefix("8.8.8.0/24")], cilium))], scope).requests).toEqual([]);
    expect(
      demandOf([withPeer(cidrPeer([parsePrefix("8.8.8.0/24")], cilium))], { cluster: "a" }).requests,
    ).toEqual([{}]);
  });
});
