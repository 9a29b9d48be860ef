import { expect, it } from "vitest";
import { compileNetworkPolicy } from "#policy/compile/network-policy.ts";
import { Enforced } from "#policy/enforced.ts";
import { Resolver } from "#policy/resolver/resolver.ts";
import type { PolicyPod } from "#policy/model.ts";
import { type FlowRecord, parseFlow } from "#domain/flow-record.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { createMetrics } from "@fairlead/base/metrics.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { parseAddress } from "@fairlead/base/netaddr/address.ts";
import type { Pod } from "@fairlead/kube/api/core/v1/types.ts";
import { FlowLog } from "./flow-log.ts";

const PODS: readonly PolicyPod[] = [
  ["a", "shop", "web", "10.1.0.1"],
  ["a", "data", "db", "10.1.0.2"],
  ["b", "shop", "web", "10.2.0.1"],
].map(([cluster = "", namespace = "", name = "", address = ""]) => ({
  cluster,
  namespace,
  name,
  labels: { app: name },
  serviceAccount: "default",
  addresses: [parseAddress(address)],
  ports: [],
  ...(cluster === "a" ? { node: "n1" } : {}),
}));

/** The policy lets pods of b reach the database at port 5432. */
function enforced(): Enforced {
  const resolver = new Resolver({ cluster: "a", node: "n1" });
  for (const it of PODS) resolver.upsertPod(it);
  for (const cluster of ["a", "b"])
    for (const name of ["shop", "data"]) resolver.upsertNamespace({ cluster, name, labels: {} });
  const podSelector = { matchLabels: { "io.cilium.k8s.policy.cluster": "b" } };
  const from = [{ podSelector, namespaceSelector: {} }];
  const { policies } = compileNetworkPolicy(
    {
      metadata: { namespace: "data", name: "db" },
      spec: { podSelector: {}, ingress: [{ from, ports: [{ port: 5432 }] }] },
    },
    { cluster: "a", isLocalByDefault: true },
  );
  for (const it of policies) resolver.upsertPolicy(it);
  const made = new Enforced();
  made.apply(resolver.take());
  return made;
}

interface Reported {
  readonly events: { readonly pod: string; readonly flow: FlowRecord | undefined }[];
  readonly read: (counted: Readonly<Record<string, number>>) => Promise<void>;
  readonly metrics: () => Promise<string>;
}

/** A log of a node. What is read are packets by "verdict source destination protocol port". */
function logOf(isLogged: (pod: Pod) => boolean = () => false): Reported {
  const events: Reported["events"] = [];
  let counted: Readonly<Record<string, number>> = {};
  const find = (address: unknown): PolicyPod | undefined =>
    PODS.find((it) => it.addresses.some((one) => one === address));
  const metrics = createMetrics();
  const log = new FlowLog({
    deps: { ...systemDeps(silentLogger), metrics },
    eventsOf: () => ({
      record: (_of, { metadata }, { message }) =>
        void events.push({ pod: `${metadata.namespace}/${metadata.name}`, flow: parseFlow(message) }),
      flushed: () => Promise.resolve(),
    }),
    enforced: enforced(),
    read: (kind) => {
      const own = Object.entries(counted).filter(([key]) => key.startsWith(`${kind} `));
      const elements = own.map(([key, packets]) => {
        const element = key.split(" ").slice(1).join(" . ");
        return [element, { packets, bytes: 0 }] as const;
      });
      return Promise.resolve([new Map(elements)]);
    },
    nameOf: (address) => {
      const pod = find(address);
      return pod && `${pod.cluster}/${pod.namespace}/${pod.name}`;
    },
    podOf: (address) => {
      const pod = find(address);
      return pod?.cluster === "a" ? { metadata: { namespace: pod.namespace, name: pod.name } } : undefined;
    },
    node: () => ({ metadata: { name: "n1" } }),
    isLogged,
  });
  const read: Reported["read"] = async (now) => {
    counted = now;
    await log.report(AbortSignal.timeout(5000));
  };
  return { events, read, metrics: () => metrics.render() };
}

const FROM_B = { address: "10.2.0.1", cluster: "b", namespace: "shop", pod: "web" };
const FROM_A = { address: "10.1.0.1", cluster: "a", namespace: "shop", pod: "web" };
const DB = { address: "10.1.0.2", cluster: "a", namespace: "data", pod: "db" };

it("a denied connection is reported once, with both ends and the policies that deny by default, and its packets are counted", async () => {
  const { events, read, metrics } = logOf();
  const flow = "denied 10.2.0.1 10.1.0.2 tcp 80";
  for (const packets of [2, 2]) await read({ [flow]: packets });
  expect(events).toEqual([
    {
      pod: "data/db",
      flow: {
        verdict: "denied",
        direction: "ingress",
        protocol: "TCP",
        from: FROM_B,
        to: DB,
        port: 80,
        policies: ["NetworkPolicy data/db"],
      },
    },
  ]);
  await read({ [flow]: 5 });
  expect(events).toHaveLength(2);
  expect(await metrics()).toContain('fairlead_policy_denied_packets_total{direction="ingress"} 5');
});

it("an allowed connection is reported for each end whose namespace asks for it, with the rule", async () => {
  const { events, read, metrics } = logOf(({ metadata }) => metadata.namespace === "data");
  await read({ "allowed 10.2.0.1 10.1.0.2 tcp 5432": 1, "allowed 10.1.0.2 10.1.0.1 udp 53": 3 });
  const common = { verdict: "allowed" };
  expect(events.map((it) => it.flow)).toEqual([
    {
      ...common,
      direction: "ingress",
      protocol: "TCP",
      from: FROM_B,
      to: DB,
      port: 5432,
      policies: ["NetworkPolicy data/db"],
      rule: "spec.ingress[0]",
    },
    { ...common, direction: "egress", protocol: "UDP", from: DB, to: FROM_A, port: 53, policies: [] },
  ]);
  expect(await metrics()).toContain('fairlead_policy_allowed_packets_total{direction="egress"} 3');
});

it("a reading reports a bounded number of connections, and counts all", async () => {
  const { events, read, metrics } = logOf();
  const ports = Array.from({ length: 1000 }, (_, at) => [`denied 10.2.0.1 10.1.0.2 udp ${at + 1}`, 1]);
  await read(Object.fromEntries(ports) as Record<string, number>);
  expect(events).toHaveLength(50);
  expect(await metrics()).toContain('fairlead_policy_denied_packets_total{direction="ingress"} 1000');
});

it("a source that is denied at many ports leaves room for the connections of others in what one reading reports", async () => {
  const { events, read } = logOf();
  const many = Array.from({ length: 300 }, (_, at) => [`denied 10.2.0.1 10.1.0.2 udp ${at + 1}`, 1]);
  await read({
    ...(Object.fromEntries(many) as Record<string, number>),
    "denied 10.1.0.1 10.1.0.2 tcp 80": 1,
  });
  expect(events).toHaveLength(50);
  expect(events.map((it) => it.flow?.from.address)).toContain("10.1.0.1");
});

it.each([
  ["10.1.0.1", "10.1.0.99", "ingress", "shop/web"],
  ["10.1.0.99", "10.1.0.1", "egress", "shop/web"],
  ["10.1.0.99", "203.0.113.7", "ingress", "undefined/n1"],
])(
  "a connection from %s to %s, which no policy denies, is that of an unknown pod",
  async (from, to, direction, reportedOn) => {
    const { events, read } = logOf();
    await read({ [`denied ${from} ${to} tcp 80`]: 1 });
    expect(events).toMatchObject([
      { pod: reportedOn, flow: { direction, policies: [], rule: "unknown-pod-of-this-node" } },
    ]);
  },
);
