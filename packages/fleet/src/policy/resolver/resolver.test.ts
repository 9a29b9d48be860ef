import { parseAddress } from "@fairlead/base/netaddr/address.ts";
import { describe, expect, it } from "vitest";
import { compileNetworkPolicy } from "../compile/network-policy.ts";
import { Enforced, type Flow } from "../enforced.ts";
import type { PolicyPod } from "../model.ts";
import type { Changes } from "../state.ts";
import { Resolver } from "./resolver.ts";

const CLUSTER = "io.cilium.k8s.policy.cluster";
const CLIENT = parseAddress("10.2.0.1");
const SERVER = parseAddress("10.1.0.1");

function pod(
  cluster: string,
  name: string,
  labels: Record<string, string>,
  more: Partial<PolicyPod> = {},
): PolicyPod {
  const addresses = [cluster === "a" ? SERVER : CLIENT];
  return {
    cluster,
    namespace: "shop",
    name,
    labels,
    serviceAccount: "default",
    addresses,
    ports: [],
    ...more,
  };
}

/** A server in a, which admits pods of all clusters with the label `app=web`. */
class Case {
  readonly resolver = new Resolver({ cluster: "a", node: "n" });
  readonly enforced = new Enforced();
  last: Changes | undefined;

  constructor() {
    for (const cluster of ["a", "b", "c"])
      this.resolver.upsertNamespace({ cluster, name: "shop", labels: {} });
    this.resolver.upsertPod(pod("a", "server", {}, { node: "n" }));
    this.policy({ app: "web" });
    this.take();
  }

  policy(matchLabels: Record<string, string>, name = "p"): void {
    const podSelector = { matchLabels, matchExpressions: [{ key: CLUSTER, operator: "Exists" as const }] };
    const spec = { podSelector: {}, ingress: [{ from: [{ podSelector }] }] };
    const settings = { cluster: "a", isLocalByDefault: true };
    for (const it of compileNetworkPolicy({ metadata: { name, namespace: "shop" }, spec }, settings).policies)
      this.resolver.upsertPolicy(it);
  }

  take(): Changes {
    this.last = this.resolver.take();
    this.enforced.apply(this.last);
    return this.last;
  }

  get isAdmitted(): boolean {
    this.take();
    const flow: Flow = { source: CLIENT, destination: SERVER, traffic: { kind: "icmp", type: 8 } };
    return this.enforced.verdict(flow, "ingress").isAllowed;
  }
}

const NOTHING: Changes = { sets: [], groups: [], groupsGone: [], addresses: [], host: undefined };

describe("an address", () => {
  it("that one pod gives up and another one gets does not inherit its labels, in whatever order they are reported", () => {
    const test = new Case();
    test.resolver.upsertPod(pod("b", "old", { app: "web" }));
    expect(test.isAdmitted).toBe(true);
    test.resolver.upsertPod(pod("b", "new", { app: "db" }));
    expect(test.isAdmitted).toBe(false);
    test.resolver.deletePod("b", "shop", "old");
    expect(test.isAdmitted).toBe(false);
    test.resolver.upsertPod(pod("b", "new", { app: "web" }));
    expect(test.isAdmitted).toBe(true);
  });

  it("that a pod of another cluster claims stays that of the own cluster's pod", () => {
    const test = new Case();
    test.resolver.upsertPod(pod("a", "client", { app: "db" }, { addresses: [CLIENT], node: "other" }));
    test.resolver.upsertPod(pod("b", "liar", { app: "web" }));
    expect(test.isAdmitted).toBe(false);
    test.resolver.deletePod("a", "shop", "client");
    expect(test.isAdmitted).toBe(true);
  });

  it("of a pod whose namespace is not known is selected by nothing", () => {
    const test = new Case();
    test.resolver.upsertPod(pod("d", "client", { app: "web" }));
    expect(test.isAdmitted).toBe(false);
    test.resolver.upsertNamespace({ cluster: "d", name: "shop", labels: {} });
    expect(test.isAdmitted).toBe(true);
    test.resolver.deleteNamespace("d", "shop");
    expect(test.isAdmitted).toBe(false);
  });
});

describe("the changes", () => {
  it("are empty if nothing changed, also if the same is reported again", () => {
    const test = new Case();
    test.resolver.upsertPod(pod("a", "server", {}, { node: "n" }));
    test.resolver.upsertNamespace({ cluster: "b", name: "shop", labels: {} });
    test.policy({ app: "web" });
    expect(test.take()).toEqual(NOTHING);
  });

  it("of a label are one element of one set", () => {
    const test = new Case();
    test.resolver.upsertPod(pod("b", "client", { app: "web" }));
    const key = "pods:namespace=shop&pod:app=web";
    expect(test.take()).toEqual({
      ...NOTHING,
      sets: [{ key, state: "changed", added: [CLIENT], removed: [] }],
    });
    test.resolver.upsertPod(pod("b", "client", { app: "db" }));
    test.resolver.upsertPod(pod("b", "client", { app: "web" }));
    expect(test.take()).toEqual(NOTHING);
  });

  it("of a policy leave the sets of others alone, and the key of the group", () => {
    const test = new Case();
    test.policy({ app: "db" });
    const { sets, groups, groupsGone, addresses } = test.take();
    expect(sets.map((it) => [it.key, it.state])).toEqual([
      ["pods:namespace=shop&pod:app=web", "gone"],
      ["pods:namespace=shop&pod:app=db", "new"],
    ]);
    expect([groups.length, groupsGone, addresses]).toEqual([1, [], []]);
  });

  it("have no sets of policies that select no local pod", () => {
    const test = new Case();
    const spec = { podSelector: { matchLabels: { app: "x" } }, ingress: [{ from: [{ podSelector: {} }] }] };
    const metadata = { name: "other", namespace: "shop" };
    for (const it of compileNetworkPolicy({ metadata, spec }, { cluster: "a", isLocalByDefault: true })
      .policies)
      test.resolver.upsertPolicy(it);
    test.resolver.upsertPod(
      pod("a", "x", { app: "x" }, { addresses: [parseAddress("10.1.0.9")], node: "other" }),
    );
    expect(test.take()).toEqual(NOTHING);
  });

  it("of the last local pod remove its groups and their sets", () => {
    const test = new Case();
    test.resolver.deletePod("a", "shop", "server");
    const { sets, groupsGone, addresses } = test.take();
    expect([sets.map((it) => it.state), groupsGone.length, addresses]).toEqual([
      ["gone"],
      1,
      [{ address: SERVER, groups: undefined }],
    ]);
  });
});

it("a pod whose own labels are those of a namespace, a service account or a cluster is selected by none of them", () => {
  const resolver = new Resolver({ cluster: "a" });
  resolver.upsertNamespace({ cluster: "a", name: "shop", labels: { team: "blue" } });
  const claims = {
    "io.cilium.k8s.namespace.labels.team": "red",
    "io.kubernetes.pod.namespace": "bank",
    "io.cilium.k8s.policy.cluster": "b",
    "io.cilium.k8s.policy.serviceaccount": "admin",
    team: "red",
  };
  const spoofing = pod("a", "spoofing", claims);
  resolver.upsertPod(spoofing);
  resolver.upsertPod(pod("a", "server", { app: "db" }, { addresses: [CLIENT] }));
  const selectors = [
    { namespaceSelector: { matchLabels: { team: "red" } } },
    ...Object.entries(claims)
      .filter(([key]) => key !== "team")
      .map(([key, value]) => ({ podSelector: { matchLabels: { [key]: value } }, namespaceSelector: {} })),
  ];
  const spec = { podSelector: { matchLabels: { app: "db" } }, ingress: [{ from: selectors }] };
  const { policies, refusals } = compileNetworkPolicy(
    { metadata: { name: "p", namespace: "shop" }, spec },
    { cluster: "a", isLocalByDefault: true },
  );
  expect(refusals).toEqual([]);
  for (const it of policies) resolver.upsertPolicy(it);
  const enforced = new Enforced();
  enforced.apply(resolver.take());
  const traffic = { kind: "transport", protocol: "TCP", port: 80 } as const;
  const flow = { source: SERVER, destination: CLIENT, traffic };
  expect(enforced.verdict(flow, "ingress").isAllowed).toBe(false);
});
