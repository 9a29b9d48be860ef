import { parseAddress } from "@fairlead/base/netaddr/address.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { policySettings } from "#policy/settings.ts";
import type { NetworkPolicy } from "@fairlead/kube/api/networking/v1/types.ts";
import { describe, expect, it } from "vitest";
import type { PolicyPod } from "#policy/model.ts";
import { diffOf, policiesOf, renderDiff, withPodsOf } from "./diff.ts";
import { addressesOf, endOf, trafficOf } from "./ends.ts";
import { explain, renderExplanation } from "./explain.ts";
import { lint, renderLint } from "./lint.ts";
import { type ClusterObjects, ClusterView } from "./view.ts";
import { renderWhatIf, whatIf } from "./what-if.ts";

const CLUSTER = "io.cilium.k8s.policy.cluster";

function pod(cluster: string, name: string, address: string): PolicyPod {
  const ports = [{ name: "http", protocol: "TCP" as const, port: 8080 }];
  const labels = { app: name };
  return {
    cluster,
    namespace: "shop",
    name,
    labels,
    serviceAccount: "default",
    addresses: [parseAddress(address)],
    ports,
  };
}

const PODS = [
  pod("east", "front", "10.1.0.1"),
  pod("east", "cart", "10.1.0.2"),
  pod("west", "front", "10.2.0.1"),
  pod("west", "cart", "10.2.0.2"),
];

function policy(name: string, spec: object): NetworkPolicy {
  return { kind: "NetworkPolicy", metadata: { name, namespace: "shop" }, spec };
}

function objects(cluster: string, ...policies: readonly NetworkPolicy[]): ClusterObjects {
  return {
    ...policySettings(cluster),
    pods: PODS,
    namespaces: ["east", "west"].map((it) => ({ cluster: it, name: "shop", labels: {} })),
    nodes: [],
    policies: policies.map((object) => ({ kind: "NetworkPolicy", object })),
    objects: { cidrGroups: [], services: [] },
    apiServers: [],
    podPrefixes: [],
    mode: "flat",
    sharing: { isGlobalByDefault: true, annotated: new Map(), services: [] },
  };
}

const app = (name: string, cluster?: string): object => ({
  matchLabels: { app: name, ...(cluster === undefined ? {} : { [CLUSTER]: cluster }) },
});
const FRONT_ONLY = policy("front-only", {
  podSelector: app("cart"),
  ingress: [{ from: [{ podSelector: app("front") }], ports: [{ port: "http" }] }],
});
const NO_EGRESS = policy("closed", { podSelector: app("front"), policyTypes: ["Egress"] });

function explained(views: readonly ClusterView[], from: string, to: string, port: string): string {
  const ends = [endOf(from, views), endOf(to, views)] as const;
  return renderExplanation(explain(views, ...ends, trafficOf(port, addressesOf(...ends)[1])));
}

describe("fairlead policy explain", () => {
  const east = new ClusterView(objects("east", FRONT_ONLY));
  const west = new ClusterView(objects("west", NO_EGRESS));

  it("names the rule, or the policies that deny by default, at both ends", async () => {
    const texts = [
      explained([east, west], "shop/front", "shop/cart", "8080"),
      explained([east, west], "shop/front", "shop/cart", "80"),
      explained([east, west], "west/shop/front", "east/shop/cart", "8080"),
      explained([east], "10.2.0.1", "shop/front", "ping"),
      explained([east, west], "shop/cart", "8.8.8.8", "53/udp"),
    ];
    await expect(texts.join("\n\n")).toMatchFileSnapshot("goldens/explain.txt");
  });

  it("goes by the names of cluster policies with equal priorities", () => {
    const cluster = (name: string, action: string): ClusterObjects["policies"][number] => {
      const from = [{ namespaces: {} }];
      const spec = { tier: "Admin", priority: 7, subject: { namespaces: {} }, ingress: [{ action, from }] };
      return { kind: "ClusterNetworkPolicy", object: { metadata: { name }, spec } as KubeObject };
    };
    const both = [cluster("b", "Accept"), cluster("a", "Deny")];
    for (const policies of [both, both.toReversed()]) {
      const view = new ClusterView({ ...objects("east"), policies });
      expect(explained([view], "east/shop/front", "east/shop/cart", "80")).toMatch(
        /^Denied[\s\S]*ClusterNetworkPolicy a /,
      );
    }
  });

  it("asks each cluster by the addresses that it knows of the other's pods", () => {
    const admit = policy("west", {
      podSelector: app("cart"),
      ingress: [{ from: [{ podSelector: app("front", "west") }] }],
    });
    const near = {
      ...objects("east", admit),
      pods: [...PODS.slice(0, 2), pod("west", "front", "10.112.0.1")],
    };
    const far = { ...objects("west"), pods: PODS.slice(2) };
    const views = [new ClusterView(near), new ClusterView(far)];
    expect(explained(views, "10.2.0.1", "shop/cart", "80")).toMatch(/^Allowed/);
    expect(explained(views, "10.2.0.2", "shop/cart", "80")).toContain(
      "east does not know west/shop/cart by its labels",
    );
  });

  it("names the node that drops what comes from and goes to an address of it that is not that of a known pod", () => {
    const podPrefixes = [{ node: "n1", prefixes: ["10.1.0.0/24"] }];
    const view = new ClusterView({ ...objects("east", FRONT_ONLY), podPrefixes });
    const text = explained([view], "shop/front", "10.1.0.99", "80");
    expect(text).toMatch(/^Denied/);
    expect(text).toContain(
      "unknown pod of this node\n    the Node n1 of east has the address in its spec.podCIDRs",
    );
    expect(explained([view], "10.1.0.99", "shop/cart", "80")).toMatch(/^Denied/);
    expect(explained([view], "shop/front", "10.9.0.1", "80")).toMatch(/^Allowed/);
    const none = new ClusterView({ ...objects("east"), podPrefixes });
    expect(explained([none], "shop/front", "10.1.0.99", "80")).toMatch(/^Allowed/);
  });

  it.each([
    ["a/b/c/d", "shop/cart", "80", "NAMESPACE/POD"],
    ["shop/none", "shop/cart", "80", "no pod shop/none"],
    ["shop/front", "fd00::1", "80", "no address of the same family"],
    ["shop/front", "shop/cart", "0", "not a port"],
    ["shop/front", "shop/cart", "65536", "not a port"],
    ["shop/front", "shop/cart", "80/icmp", "not a port"],
  ])("refuses %s %s %s", (from, to, port, message) => {
    expect(() => explained([east], from, to, port)).toThrow(message);
  });
});

describe("fairlead policy diff", () => {
  it("lists which pods gain and lose access", async () => {
    const changed = policy("front-only", {
      podSelector: app("cart"),
      ingress: [{ from: [{ podSelector: app("front", "west") }], ports: [{ port: "http" }] }],
    });
    const texts = [
      renderDiff(diffOf(objects("east", FRONT_ONLY), policiesOf([changed]), false)),
      renderDiff(diffOf(objects("east", FRONT_ONLY), policiesOf([FRONT_ONLY]), false)),
      renderDiff(diffOf(objects("east", FRONT_ONLY), policiesOf([FRONT_ONLY]), true)),
    ];
    await expect(texts.join("\n\n")).toMatchFileSnapshot("goldens/diff.txt");
  });

  it("compares pods of other clusters that no policy needed until now", () => {
    const alone = {
      ...objects("east"),
      pods: PODS.slice(0, 2),
      namespaces: objects("east").namespaces.slice(0, 1),
    };
    const admitting = policy("p", {
      podSelector: app("cart"),
      ingress: [{ from: [{ podSelector: app("front", "west") }] }],
    });
    const text = renderDiff(diffOf(withPodsOf(alone, [objects("west")]), policiesOf([admitting]), false));
    expect(text).toMatch(/loses +west\/shop\/cart +east\/shop\/cart/);
    expect(text).not.toContain("west/shop/front");
    expect(text).toMatch(/loses +other addresses +east\/shop\/cart/);
  });

  it("reports what is not enforced of the manifest", () => {
    const changed = policy("p", { podSelector: {}, ingress: [{ ports: [{ port: 0 }] }] });
    expect(renderDiff(diffOf(objects("east"), policiesOf([changed]), false))).toContain(
      "spec.ingress[0].ports[0].port",
    );
  });

  it("refuses manifests of other kinds", () => {
    expect(() => policiesOf([{ kind: "Pod", metadata: { name: "p" } }])).toThrow("the manifest has a Pod");
  });
});

describe("fairlead policy what-if", () => {
  const admitFront = policy("admit", {
    podSelector: app("cart"),
    ingress: [{ from: [{ podSelector: app("front") }], ports: [{ port: "http" }] }],
  });
  const admitWest = policy("west", {
    podSelector: app("front"),
    ingress: [{ from: [{ podSelector: app("front", "west") }], ports: [{ port: "http" }] }],
  });
  function cluster(name: string, ...policies: readonly NetworkPolicy[]): ClusterObjects {
    const of = objects(name, ...policies);
    const services = ["cart", "front"].map((it) => ({
      namespace: "shop",
      name: it,
      isShared: it === "cart" || name === "west",
    }));
    return { ...of, sharing: { ...of.sharing, services } };
  }

  it("lists the pods and the Services that gain or lose by a default", async () => {
    const clusters = [cluster("east", admitFront, admitWest), cluster("west")];
    const texts = [
      renderWhatIf(whatIf(clusters, { policyDefaultLocalCluster: false })),
      renderWhatIf(whatIf(clusters, { defaultGlobalNamespace: false })),
      renderWhatIf(whatIf(clusters, { defaultGlobalNamespace: true, policyDefaultLocalCluster: true })),
    ];
    await expect(texts.join("\n\n---\n\n")).toMatchFileSnapshot("goldens/what-if.txt");
  });

  it("changes nothing for namespaces whose annotation decides", () => {
    const clusters = ["east", "west"].map((name) => {
      const of = cluster(name, admitWest);
      return { ...of, sharing: { ...of.sharing, annotated: new Map([["shop", true]]) } };
    });
    expect(whatIf(clusters, { defaultGlobalNamespace: false })).toMatchObject({
      clusters: [{ changes: [] }, { changes: [] }],
      services: [],
    });
  });

  it("lists a bounded number of changes, and counts the others", () => {
    const many = Array.from({ length: 120 }, (_, at): PolicyPod => {
      const made = pod("west", "front", `10.2.1.${at}`);
      return { ...made, name: `front-${at}`, labels: { app: "front", at: `${at}` } };
    });
    const carts = Array.from({ length: 60 }, (_, at): PolicyPod => {
      const made = pod("east", "cart", `10.1.1.${at}`);
      return { ...made, name: `cart-${at}`, labels: { app: "cart", at: `${at}` } };
    });
    const east = { ...cluster("east", admitFront), pods: [...many, ...carts] };
    const found = whatIf([east], { policyDefaultLocalCluster: false });
    expect(found.clusters[0]?.changes).toHaveLength(5000);
    expect(found.clusters[0]?.changesLeftOut).toBe(120 * 60 - 5000);
    expect(renderWhatIf(found).split("\n").length).toBeLessThan(210);
    expect(renderWhatIf(found)).toContain("and 7000 more changes");
  });
});

describe("fairlead policy lint", () => {
  it("finds what is probably not meant", async () => {
    const policies = [
      FRONT_ONLY,
      policy("nothing", { podSelector: app("none"), ingress: [{ from: [{ podSelector: app("none") }] }] }),
      policy("one-side", {
        podSelector: app("cart"),
        ingress: [{ from: [{ podSelector: app("front", "west") }] }],
      }),
      policy("unknown", {
        podSelector: app("cart"),
        ingress: [{ from: [{ podSelector: app("front", "north") }] }],
      }),
      policy("bad", { podSelector: app("cart"), ingress: [{ ports: [{ port: 65_536 }] }] }),
    ];
    const views = [
      new ClusterView(objects("east", ...policies)),
      new ClusterView(objects("west", NO_EGRESS)),
    ];
    await expect(renderLint(lint(views))).toMatchFileSnapshot("goldens/lint.txt");
  });

  it("names a policy that is too large to be enforced as it is written", () => {
    const ingress = Array.from({ length: 2000 }, (_, at) => ({ ports: [{ port: 1 + at }] }));
    const large = policy("large", { podSelector: app("cart"), ingress });
    const [found] = lint([new ClusterView(objects("east", large))]);
    expect(found).toMatchObject({ policy: "NetworkPolicy shop/large", field: "spec" });
    expect(found?.problem).toMatch(
      /Write several policies.*\. The pods that it selects are closed in the directions/,
    );
  });

  it("names what does not hold where the network plugin enforces policies itself", async () => {
    const policies = [
      FRONT_ONLY,
      policy("far", {
        podSelector: app("cart"),
        ingress: [{ from: [{ podSelector: app("front", "west") }, { podSelector: app("cart", "west") }] }],
      }),
    ];
    const cilium = {
      metadata: { name: "c", namespace: "shop" },
      spec: { endpointSelector: {}, egress: [{}] },
    };
    const lints = (["flat", "parallel"] as const).flatMap((mode) =>
      ["Calico", "Cilium"].map((name) => {
        const of = objects("east", ...policies);
        const engine = { name, sign: "annotation example.com/x of the Node n" };
        const all = [...of.policies, { kind: "CiliumNetworkPolicy" as const, object: cilium }];
        return renderLint(lint([new ClusterView({ ...of, mode, engine, policies: all })]));
      }),
    );
    await expect(lints.join("\n\n")).toMatchFileSnapshot("goldens/lint-engines.txt");
  });

  it("finds nothing in policies that are in order", () => {
    const own = policy("own", {
      podSelector: app("cart"),
      ingress: [{ from: [{ podSelector: app("cart", "east") }] }],
    });
    const alone = { ...objects("east", own), pods: PODS.filter((it) => it.cluster === "east") };
    expect(renderLint(lint([new ClusterView(alone)]))).toBe("nothing found");
  });
});
