import { describe, expect, it } from "vitest";
import type { Pod, PodSpec } from "@fairlead/kube/api/core/v1/types.ts";
import { hostnameOf, renderHosts, renderResolvConf } from "./resolver.ts";

const dns = {
  servers: ["10.96.0.10", "fd00::a"],
  domain: "cluster.local",
  machine: "nameserver 192.0.2.53\nsearch lan\n",
};

function pod(spec: Partial<PodSpec> = {}, name = "web-0"): Pod {
  return { metadata: { name, namespace: "shop" }, spec: { containers: [], ...spec } };
}

describe("/etc/resolv.conf", () => {
  it("uses the cluster's DNS with the search list of the namespace", () => {
    expect(renderResolvConf(pod(), dns)).toBe(
      "search shop.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.96.0.10\nnameserver fd00::a\noptions ndots:5\n",
    );
  });

  it("is the machine's for a pod on its node's network, unless its dnsPolicy requests the cluster's", () => {
    expect(renderResolvConf(pod({ hostNetwork: true }), dns)).toBe("search lan\nnameserver 192.0.2.53\n");
    const asking = pod({ hostNetwork: true, dnsPolicy: "ClusterFirstWithHostNet" });
    expect(renderResolvConf(asking, dns)).toContain("nameserver 10.96.0.10\n");
  });

  it("includes dnsConfig, whose options take precedence", () => {
    const dnsConfig = {
      nameservers: ["192.0.2.1"],
      searches: ["example.org", "cluster.local"],
      options: [{ name: "ndots", value: "2" }, { name: "edns0" }],
    };
    expect(renderResolvConf(pod({ dnsConfig }), dns)).toBe(
      "search shop.svc.cluster.local svc.cluster.local cluster.local example.org\nnameserver 10.96.0.10\nnameserver fd00::a\nnameserver 192.0.2.1\noptions ndots:2 edns0\n",
    );
    expect(renderResolvConf(pod({ dnsPolicy: "None", dnsConfig: { nameservers: ["192.0.2.1"] } }), dns)).toBe(
      "nameserver 192.0.2.1\n",
    );
  });
});

describe("the name of a pod's host", () => {
  it("is the pod's, cut to one label", () => {
    expect(hostnameOf(pod())).toBe("web-0");
    expect(hostnameOf(pod({}, `${"a".repeat(62)}-bc`))).toBe("a".repeat(62));
    expect(hostnameOf(pod({ hostname: "own" }))).toBe("own");
  });

  it("is in /etc/hosts with its subdomain, for each address, and aliases follow", () => {
    const hostAliases = [{ ip: "192.0.2.7", hostnames: ["a.example", "b.example"] }];
    const text = renderHosts(pod({ subdomain: "db", hostAliases }), ["10.0.0.2", "fd00::2"], "cluster.local");
    expect(text).toContain(
      "10.0.0.2\tweb-0.db.shop.svc.cluster.local\tweb-0\nfd00::2\tweb-0.db.shop.svc.cluster.local\tweb-0\n",
    );
    expect(text).toContain("192.0.2.7\ta.example\tb.example\n");
  });
});
