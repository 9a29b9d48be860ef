import { describe, expect, it } from "vitest";
import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { CONFIG_MAPS, type Node, NODES, type Pod, PODS } from "@fairlead/kube/api/core/v1/types.ts";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { parsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import { cidrAnnotations, type Cidrs, grantAnnotation, judgeCidrs, readCidrs } from "./cidrs.ts";
import { judgeClocks } from "./clock.ts";
import { judgeVersion } from "./version.ts";

const cidrs = (pods: string[], services: string[] = []): Cidrs => ({
  pods: pods.map((it) => parsePrefix(it)),
  services: services.map((it) => parsePrefix(it)),
});
const member = (name: string, own: Cidrs): MemberCluster => ({
  metadata: { name, annotations: cidrAnnotations(own) },
  spec: { identity: { kind: "User", name: "x" } },
});

describe("the check of versions", () => {
  it.each([
    ["24", "failed"],
    ["25", "ok"],
    ["30+", "ok"],
    ["99", "warning"],
    ["", "unknown"],
  ])("takes 1.%s as %s", (minor, status) => {
    expect(judgeVersion("the hub", `v1.${minor}`, minor).status).toBe(status);
  });
});

describe("the check of addresses", () => {
  const west = member("west", cidrs(["10.2.0.0/16", "fd00:2::/56"], ["10.96.0.0/12"]));
  it.each([
    ["pods apart and the same Services", cidrs(["10.1.0.0/16"], ["10.96.0.0/12"]), "ok"],
    ["pods on pods", cidrs(["10.0.0.0/8"]), "failed"],
    ["pods on pods of the second family", cidrs(["10.1.0.0/16", "fd00:2::/64"]), "failed"],
    ["pods on Services of the other", cidrs(["10.100.0.0/16"]), "failed"],
    ["Services on pods of the other", cidrs(["10.1.0.0/16"], ["10.2.0.0/24"]), "failed"],
    ["pods that are not known", cidrs([], ["10.96.0.0/12"]), "unknown"],
  ])("with %s is as it should be", (_, own, status) => {
    expect(judgeCidrs({ name: "east" }, own, [west]).status).toBe(status);
    // A cluster does not conflict with itself.
    expect(judgeCidrs({ name: "west" }, own, [west]).status).not.toBe("failed");
  });

  it("takes equal ones as a warning for a member of a parallel profile, and names the profile", () => {
    const found = judgeCidrs({ name: "east", parallelProfile: "wide" }, cidrs(["10.2.0.0/16"]), [west]);
    expect(found.status).toBe("warning");
    expect(found.message).toContain("parallel profile wide");
  });
});

describe("what a cluster that joins is granted", () => {
  const node = (name: string, address: string, podCIDR: string): Node => ({
    metadata: { name },
    spec: { podCIDR, podCIDRs: [podCIDR] },
    status: {
      addresses: [
        { type: "InternalIP", address },
        { type: "Hostname", address: name },
      ],
    },
  });
  const pod = (ip: string, hostNetwork = false): Pod => ({
    metadata: { namespace: "work", name: `pod-${ip}` },
    spec: { containers: [], hostNetwork },
    status: { podIPs: [{ ip }] },
  });
  const reported = (podSubnet: string) => ({
    metadata: { namespace: "kube-system", name: "kubeadm-config" },
    data: { ClusterConfiguration: `networking:\n  podSubnet: ${podSubnet}\n` },
  });
  const granted = async (
    objects: { readonly reported?: string; readonly pods?: readonly Pod[] },
    declared: readonly string[] = [],
  ): Promise<string | undefined> => {
    const client = new FakeKubeClient(new FakeClock());
    client.seed(NODES, node("one", "192.168.1.1", "10.1.0.0/24"), node("two", "192.168.1.2", "10.1.1.0/24"));
    client.seed(PODS, ...(objects.pods ?? [pod("10.1.0.7"), pod("192.168.1.1", true)]));
    if (objects.reported !== undefined) client.seed(CONFIG_MAPS, reported(objects.reported));
    const networks = declared.map((it) => parsePrefix(it));
    const found = await readCidrs(client, networks, AbortSignal.timeout(5000));
    return grantAnnotation(found)["fairlead.dev/granted-cidrs"];
  };

  it("are its pods' networks as a whole, as kubeadm or the administrator said, and its nodes' addresses", async () => {
    expect(await granted({ reported: "10.1.0.0/16" })).toBe("10.1.0.0/16,192.168.1.1/32,192.168.1.2/32");
    expect(await granted({}, ["10.9.0.0/16"])).toBe("10.9.0.0/16,192.168.1.1/32,192.168.1.2/32");
  });

  it("is empty where later nodes may have other networks, or pods are outside the networks that kubeadm has", async () => {
    expect(await granted({})).toBeUndefined();
    expect(await granted({ reported: "10.1.0.0/16", pods: [pod("10.77.0.1")] })).toBeUndefined();
  });
});

describe("the check of clocks", () => {
  it.each([
    [0, 0, "ok"],
    [29_000, 0, "ok"],
    [31_000, 0, "warning"],
    [-200_000, 200_000, "failed"],
    [undefined, 0, "unknown"],
    [undefined, 86_400_000, "failed"],
  ])("with hub %s ms and member %s ms ahead is %s", (hub, own, status) => {
    const finding = judgeClocks({ who: "the hub", aheadMs: hub }, { who: "cluster east", aheadMs: own });
    expect(finding.status).toBe(status);
  });
});
