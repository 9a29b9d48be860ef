import { afterEach, describe, expect, it } from "vitest";
import { ADDRESS_BLOCKS, MESH_NETWORKS, type MeshNetwork } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { IDENTITY_SLICES, type IdentitySlice } from "#api/fairlead.dev/v1alpha1/identities.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { formatAddress, type IpAddress, parseAddress } from "@fairlead/base/netaddr/address.ts";
import { NAMESPACES, NODES, PODS, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { ENDPOINT_SLICES } from "@fairlead/kube/api/discovery/v1/types.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { NETWORK_POLICIES } from "@fairlead/kube/api/networking/v1/types.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { CILIUM_NETWORK_POLICIES } from "#api/cilium.io/v2/types.ts";
import { Enforced } from "#policy/enforced.ts";
import { policySettings } from "#policy/settings.ts";
import { PolicySession } from "./session.ts";

const deps = systemDeps(silentLogger);
const signal = AbortSignal.timeout(30_000);
let stack = new AsyncDisposableStack();

afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

const traffic = { kind: "transport", protocol: "TCP", port: 80 } as const;

function sliceOf(name: string, at: string, spec: Partial<IdentitySlice["spec"]>): IdentitySlice {
  return {
    metadata: { namespace: "fleet-system", name },
    spec: { cluster: "b", type: "Pods", namespace: "shop", publishedAt: `2026-01-01T00:00:${at}Z`, ...spec },
  };
}

/** The address that a policy admits, of pods of cluster b with the label app=web. */
async function admitted(
  slices: readonly IdentitySlice[],
  later: readonly IdentitySlice[] = [],
): Promise<string[]> {
  const client = new FakeKubeClient();
  let changes = 0;
  const session = await started(slices, client, () => (changes += 1));
  const found = new Set<string>();
  const take = (): void => {
    const set = session.take().sets.find((it) => it.key.startsWith("pods:"));
    for (const it of set?.removed ?? []) found.delete(formatAddress(it as IpAddress));
    for (const it of set?.added ?? []) found.add(formatAddress(it as IpAddress));
  };
  take();
  for (const { metadata, spec } of later) {
    const before = changes;
    await client.mergePatch(IDENTITY_SLICES, objectKey(metadata.namespace, metadata.name), { spec });
    await expect.poll(() => changes).toBeGreaterThan(before);
  }
  take();
  return [...found];
}

async function started(
  slices: readonly IdentitySlice[],
  client = new FakeKubeClient(),
  onChange = (): void => {},
  network?: MeshNetwork["spec"],
): Promise<PolicySession> {
  stack.use(client);
  await client.create(NAMESPACES, { metadata: { name: "shop" } });
  await client.create(PODS, {
    metadata: { namespace: "shop", name: "server", uid: "1" },
    spec: { nodeName: "n1", containers: [{ name: "main" }] },
  });
  const status = { phase: "Running" as const, podIPs: [{ ip: "10.1.0.1" }] };
  await client.mergePatch(PODS, objectKey("shop", "server"), { status }, { subresource: "status" });
  const podSelector = { matchLabels: { app: "web", "io.cilium.k8s.policy.cluster": "b" } };
  await client.create(NETWORK_POLICIES, {
    metadata: { namespace: "shop", name: "web-of-b" },
    spec: { podSelector: {}, ingress: [{ from: [{ podSelector }] }] },
  });
  for (const it of [sliceOf("namespace", "00", { type: "Namespace" }), ...slices])
    await client.create(IDENTITY_SLICES, it);
  const informers = {
    services: stack.use(createInformer(client, SERVICES, {}, deps)),
    slices: stack.use(createInformer(client, ENDPOINT_SLICES, {}, deps)),
    networks: stack.use(createInformer(client, MESH_NETWORKS, {}, deps)),
    blocks: stack.use(createInformer(client, ADDRESS_BLOCKS, {}, deps)),
  };
  if (network !== undefined)
    await client.create(MESH_NETWORKS, {
      metadata: { namespace: "fleet-system", name: "p" },
      spec: network,
    });
  for (const it of Object.values(informers)) it.start(signal);
  await Promise.all(Object.values(informers).map((it) => it.synced(signal)));
  const settings = policySettings("a");
  const session = stack.use(
    new PolicySession({ client, nodeName: "n1", settings, ...informers, deps, onChange }),
  );
  await session.start(signal);
  return session;
}

it("a pod is known by its fleet addresses, too, and those of namespaces that ask for it are logged", async () => {
  const client = new FakeKubeClient();
  const session = await started([], client);
  const { metadata } = await client.get(PODS, objectKey("shop", "server"));
  const block = await client.create(ADDRESS_BLOCKS, {
    metadata: { namespace: "fleet-system", name: "n1" },
    spec: { profile: "p", cluster: "a", node: "n1", ipv4: ["10.112.0.0/24"], ipv6: ["fd00:112::/64"] },
  });
  const allocations = [{ podUID: metadata.uid ?? "", ipv4: "10.112.0.7", ipv6: "fd00:112::7" }];
  await client.mergePatch(
    ADDRESS_BLOCKS,
    keyOf(block),
    { status: { allocations } },
    { subresource: "status" },
  );
  for (const it of ["10.1.0.1", "10.112.0.7", "fd00:112::7"])
    await expect.poll(() => session.nameOf(parseAddress(it))).toBe("a/shop/server");
  expect(session.nameOf(parseAddress("10.112.0.8"))).toBeUndefined();
  expect(session.loggedAddresses).toEqual([]);
  const annotations = { "fairlead.dev/flow-log": "all" };
  await client.mergePatch(NAMESPACES, objectKey(undefined, "shop"), { metadata: { annotations } });
  await expect.poll(() => session.loggedAddresses).toEqual(["10.1.0.1", "10.112.0.7", "fd00:112::7"]);
});

const MEMBERS = [
  { cluster: "a", podCIDRs: ["10.1.0.0/16"] },
  // Wider than what it has, as an administrator may have granted it.
  { cluster: "b", podCIDRs: ["10.0.0.0/8"] },
];
const PARALLEL: MeshNetwork["spec"] = {
  mode: "parallel",
  ipv4: "10.112.0.0/12",
  ipv6: "fd00:112::/48",
  vipIPv4: "10.127.0.0/16",
  vipIPv6: "fd00:112:0:ffff::/64",
  keyEpoch: 1,
};

describe("an address of another cluster that is not identified", () => {
  /** Whether a pod may send to the own one, which denies pods of b with app=evil, and admits all others. */
  async function whatIsAllowed(network: MeshNetwork["spec"]) {
    const client = new FakeKubeClient();
    for (const [name, ipv4] of [
      ["a", "10.112.0.0/20"],
      ["b", "10.112.16.0/20"],
      ["c", "10.112.32.0/20"],
    ] as const)
      await client.create(ADDRESS_BLOCKS, {
        metadata: { namespace: "fleet-system", name },
        spec: { profile: "p", cluster: name, ipv4: [ipv4], ipv6: [] },
      });
    const matchLabels = { app: "evil", "io.cilium.k8s.policy.cluster": "b" };
    await client.create(CILIUM_NETWORK_POLICIES, {
      metadata: { namespace: "shop", name: "not-evil" },
      spec: {
        endpointSelector: {},
        ingress: [{ fromEntities: ["all"] }],
        ingressDeny: [{ fromEndpoints: [{ matchLabels }] }],
      },
    });
    const session = await started([], client, () => {}, network);
    const enforced = new Enforced();
    const isAllowed = (from: string): boolean => {
      enforced.apply(session.take());
      const flow = { source: parseAddress(from), destination: parseAddress("10.1.0.1"), traffic };
      return enforced.verdict(flow, "ingress").isAllowed;
    };
    const known = async (labels: Record<string, string>, name: string, address: string) =>
      void (await client.create(
        IDENTITY_SLICES,
        sliceOf(name, "01", { labels, pods: [{ name, addresses: [address] }] }),
      ));
    const anonymous = (addresses: string[]) => {
      const { metadata, spec } = sliceOf("anonymous", "01", { type: "Addresses", addresses });
      const { namespace: _, ...rest } = spec;
      return client.create(IDENTITY_SLICES, { metadata, spec: rest });
    };
    return { client, session, isAllowed, known, anonymous };
  }

  it.each([
    ["flat", "10.2", "10.1.0.5", { mode: "flat", podNetworks: MEMBERS }],
    ["parallel", "10.112.16", "10.112.0.5", { ...PARALLEL, podNetworks: [] }],
    ["changing", "10.2", "10.112.0.5", { ...PARALLEL, podNetworks: MEMBERS }],
  ] as const)(
    "is denied in a %s network by rules that deny some pods there",
    async (_, there, own, network) => {
      const { session, isAllowed, known, anonymous } = await whatIsAllowed({
        ...network,
        podNetworks: [...network.podNetworks],
      });
      const [good, evil, host] = ["5", "6", "7"].map(
        (it) => `${there}.${there.split(".").length === 2 ? "0." : ""}${it}`,
      ) as [string, string, string];
      expect([good, evil, host].map(isAllowed)).toEqual([false, false, false]);
      // Of the own cluster, and of no cluster.
      expect([own, "8.8.8.8"].map(isAllowed)).toEqual([true, true]);
      await known({ app: "good" }, "good", good);
      await known({ app: "evil" }, "evil", evil);
      await anonymous([host]);
      await expect.poll(() => isAllowed(host)).toBe(true);
      expect([good, evil].map(isAllowed)).toEqual([true, false]);
      const answers = new Map([own, good, "8.8.8.8"].map((it) => [parseAddress(it), 0]));
      expect([...session.withoutPods(answers).keys()].map(formatAddress)).toEqual([own, "8.8.8.8"]);
    },
  );

  it("is that of a cluster which the rule does not name, and is allowed", async () => {
    const { isAllowed } = await whatIsAllowed({ ...PARALLEL, podNetworks: [] });
    expect(["10.112.32.5", "10.112.16.5", "10.112.64.5"].map(isAllowed)).toEqual([true, false, false]);
  });

  it("is allowed where the hub is older than pod networks, and denied when it says them", async () => {
    const { client, isAllowed } = await whatIsAllowed({ mode: "flat" });
    expect(isAllowed("10.2.0.5")).toBe(true);
    await client.mergePatch(MESH_NETWORKS, objectKey("fleet-system", "p"), {
      spec: { podNetworks: MEMBERS },
    });
    await expect.poll(() => isAllowed("10.2.0.5")).toBe(false);
  });
});

it("an address in the node's podCIDRs of a pod of another node is not unknown, and podCIDRs that a pod of the node lies outside of are not used", async () => {
  const client = new FakeKubeClient();
  const node = await client.create(NODES, { metadata: { name: "n1" }, spec: { podCIDRs: ["10.1.0.0/24"] } });
  const session = await started([], client);
  const run = async (name: string, nodeName: string, ip: string): Promise<void> => {
    const metadata = { namespace: "shop", name, uid: name };
    await client.create(PODS, { metadata, spec: { nodeName, containers: [{ name: "main" }] } });
    const status = { phase: "Running" as const, podIPs: [{ ip }] };
    await client.mergePatch(PODS, objectKey("shop", name), { status }, { subresource: "status" });
  };
  expect([session.podPrefixes, session.prefixProblem]).toEqual([["10.1.0.0/24"], undefined]);
  await run("far", "n2", "10.1.0.9");
  await expect.poll(() => session.elsewhere.map(formatAddress)).toEqual(["10.1.0.9"]);
  await run("near", "n1", "10.1.1.7");
  await expect.poll(() => session.podPrefixes).toEqual([]);
  expect(session.prefixProblem).toContain("shop/near");
  expect(session.elsewhere).toEqual([]);
  await client.delete(PODS, objectKey("shop", "near"));
  await expect.poll(() => session.podPrefixes).toEqual(["10.1.0.0/24"]);
  await client.mergePatch(NODES, keyOf(node), { spec: { podCIDRs: ["10.1.7.0/24"] } });
  await expect.poll(() => session.prefixProblem).toContain("shop/server");
});

describe("an address that two slices of another cluster have, when the agent starts", () => {
  const web = (at: string) => ({
    labels: { app: "web" },
    pods: [{ name: `web-${at}`, addresses: ["10.2.0.5"] }],
  });
  const db = (at: string) => ({
    labels: { app: "db" },
    pods: [{ name: `db-${at}`, addresses: ["10.2.0.5"] }],
  });

  it("is that of the slice that was published last, whatever their names", async () => {
    expect(await admitted([sliceOf("x", "02", db("x")), sliceOf("y", "01", web("y"))])).toEqual([]);
    expect(await admitted([sliceOf("x", "01", db("x")), sliceOf("y", "02", web("y"))])).toEqual(["10.2.0.5"]);
    expect(await admitted([sliceOf("x", "02", web("x")), sliceOf("y", "01", db("y"))])).toEqual(["10.2.0.5"]);
  });
});

describe("a slice of another cluster that is another namespace's now", () => {
  it("leaves none of its pods in the former namespace, although they have the same names", async () => {
    const web = { labels: { app: "web" }, pods: [{ name: "web-1", addresses: ["10.2.0.5"] }] };
    const moved = { namespace: "bank", pods: [{ name: "web-1", addresses: ["10.2.0.9"] }] };
    const before = sliceOf("x", "01", web);
    expect(await admitted([before])).toEqual(["10.2.0.5"]);
    expect(await admitted([before], [sliceOf("x", "02", { ...web, ...moved })])).toEqual([]);
  });
});
