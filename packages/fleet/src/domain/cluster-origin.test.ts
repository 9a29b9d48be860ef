import { describe, expect, it } from "vitest";
import { originOf } from "./cluster-origin.ts";

type Nodes = Parameters<typeof originOf>[0]["nodes"];

const node = (labels: Readonly<Record<string, string>> = {}, providerID?: string): Nodes[number] => ({
  metadata: { name: "n", labels },
  spec: providerID === undefined ? {} : { providerID },
});
const of = (nodes: Nodes, version = "v1.34.1", groups: readonly string[] = []) =>
  Object.fromEntries(originOf({ nodes, version, groups: new Set(groups) }));

describe("the origin of a cluster", () => {
  it("is the region and zone that its nodes have in common, and nothing where they differ", () => {
    const inZone = (zone: string) =>
      node({ "topology.kubernetes.io/region": "eu", "topology.kubernetes.io/zone": zone });
    expect(of([inZone("a"), inZone("a"), node()])).toEqual({
      "fairlead.dev/region": "eu",
      "fairlead.dev/zone": "a",
    });
    expect(of([inZone("a"), inZone("b")])).toEqual({ "fairlead.dev/region": "eu" });
    expect(of([])).toEqual({});
  });

  it.each([
    ["k3s", of([], "v1.34.1+k3s1")],
    ["rke2", of([], "v1.34.1+rke2r1")],
    ["eks", of([], "v1.34.1-eks-abcdef")],
    ["gke", of([], "v1.34.1-gke.100")],
    ["openshift", of([], "v1.34.1", ["config.openshift.io"])],
    ["aks", of([node({ "kubernetes.azure.com/cluster": "x" })])],
    ["kind", of([node({}, "kind://docker/kind/n")])],
    [undefined, of([node({ constructor: "x" })])],
  ])("is distribution %s", (distribution, found) => {
    expect(found["fairlead.dev/distribution"]).toBe(distribution);
  });

  it("is the subscription, group and name of a cluster in Azure, where the name of the group is not ambiguous", () => {
    const id = "azure:///subscriptions/1234/resourceGroups/MC_g_c_eastus/providers/x";
    const azure = (group: string) => of([node({ "kubernetes.azure.com/cluster": group }, id)]);
    expect(azure("MC_g_c_eastus")).toMatchObject({
      "fairlead.dev/node-provider": "azure",
      "fairlead.dev/azure-subscription": "1234",
      "fairlead.dev/azure-resource-group": "g",
      "fairlead.dev/azure-cluster": "c",
    });
    expect(azure("MC_my_group_c_eastus")).not.toHaveProperty("fairlead.dev/azure-resource-group");
    expect(of([node({}, "aws:///eu-west-1a/i-1")])).toEqual({ "fairlead.dev/node-provider": "aws" });
  });
});
