import { describe, expect, it } from "vitest";
import type { EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import type { ServiceImport } from "#api/multicluster.x-k8s.io/v1beta1/types.ts";
import { staleNamespaces } from "./clean.ts";
import { namespaceOf, runOf } from "./manifests.ts";
import { type Other, sightOf, sightOfPods } from "./plan.ts";

const of = { run: runOf("abc"), zone: "clusterset.local" };
const west: Other = { name: "west", number: 2, families: ["IPv4", "IPv6"], pods: { IPv4: "10.2.0.9" } };

function imported(...ips: string[]): ServiceImport {
  return { metadata: { name: "service-2" }, spec: { type: "ClusterSetIP", ports: [], ips } };
}

function slice(address: string, ready = true): EndpointSlice {
  return {
    metadata: { name: address, labels: { "multicluster.kubernetes.io/service-name": "pods-2" } },
    addressType: address.includes(":") ? "IPv6" : "IPv4",
    endpoints: [{ addresses: [address], conditions: { ready } }],
    ports: [],
  };
}

describe("what a cluster has of another", () => {
  it("is complete with an address of the service and an endpoint of each family that the other one has", () => {
    const found = { imports: [imported("10.96.0.7")], slices: [slice("10.2.0.5"), slice("fd00:2::5")] };
    expect(sightOf([west], found, of)).toEqual({
      targets: [
        {
          cluster: "west",
          pods: { IPv4: "10.2.0.5", IPv6: "fd00:2::5" },
          vips: { IPv4: "10.96.0.7" },
          names: {
            service: "service-2.fairlead-verify-abc.svc.clusterset.local",
            pods: "pods-2.fairlead-verify-abc.svc.clusterset.local",
          },
        },
      ],
      missing: new Map(),
      isComplete: true,
    });
  });

  it.each([
    ["nothing", [], [], "no ServiceImport service-2", 0],
    ["no address", [imported()], [slice("10.2.0.5")], "ServiceImport service-2 has no address", 1],
    [
      "one family",
      [imported("10.96.0.7")],
      [slice("10.2.0.5"), slice("fd00:2::5", false)],
      "no ready IPv6 endpoint of service pods-2",
      1,
    ],
    ["no endpoint", [imported("10.96.0.7")], [], "no ready IPv4 and IPv6 endpoint of service pods-2", 1],
  ])(
    "misses what is absent, and offers the rest for probes: %s",
    (_, imports, slices, ...[lack, targets]) => {
      const sight = sightOf([west], { imports, slices }, of);
      expect(sight.missing).toEqual(new Map([["west", lack]]));
      expect(sight.isComplete).toBe(false);
      expect(sight.targets).toHaveLength(targets);
    },
  );

  it("does not wait for a cluster that has no server", () => {
    const broken = { ...west, problem: "the server pod in west is not ready" };
    expect(sightOf([broken], { imports: [], slices: [] }, of)).toEqual({
      targets: [],
      missing: new Map([["west", broken.problem]]),
      isComplete: true,
    });
  });

  it("is the pods themselves where no services are asked for", () => {
    const broken = { ...west, name: "north", problem: "the server pod in north is not ready" };
    const { targets, missing } = sightOfPods([west, broken]);
    expect(targets.map((it) => [it.cluster, it.pods])).toEqual([["west", west.pods]]);
    expect(missing).toEqual(new Map([["north", broken.problem]]));
  });
});

it("namespaces of killed runs are recognised by label and age", () => {
  const at = (id: string, creationTimestamp: string, more: object = {}) => {
    const made = namespaceOf(runOf(id));
    return { ...made, metadata: { ...made.metadata, creationTimestamp, ...more } };
  };
  const namespaces = [
    at("old", "2026-01-01T10:00:00Z"),
    at("running", "2026-01-01T11:59:00Z"),
    at("going", "2026-01-01T10:00:00Z", { deletionTimestamp: "2026-01-01T11:00:00Z" }),
    { metadata: { name: "fairlead-verify-mine", creationTimestamp: "2026-01-01T10:00:00Z" } },
  ];
  const age = { nowMs: Date.parse("2026-01-01T12:00:00Z"), olderThanMs: 3_600_000 };
  expect(staleNamespaces(namespaces, age)).toEqual(["fairlead-verify-old"]);
});
