import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  IDENTITY_DEMANDS,
  IDENTITY_SLICES,
  type IdentitySlice,
} from "@fairlead/fleet/api/fairlead.dev/v1alpha1/identities.ts";
import { MESH_NETWORKS, type ParallelNetwork } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/mesh.ts";
import { readCluster } from "@fairlead/fleet/cli/policy/read.ts";
import { ClusterView } from "@fairlead/fleet/cli/policy/view.ts";
import { labelsOfPod } from "@fairlead/fleet/domain/identity-slice.ts";
import { FLEET_SYSTEM_NAMESPACE, mailboxOf } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import { CILIUM_NETWORK_POLICIES } from "@fairlead/fleet/api/cilium.io/v2/types.ts";
import { CILIUM_CRDS } from "@fairlead/fleet/api/cilium.io/crds.ts";
import { CUSTOM_RESOURCE_DEFINITIONS } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { PODS } from "@fairlead/kube/api/core/v1/types.ts";
import { NETWORK_POLICIES } from "@fairlead/kube/api/networking/v1/types.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { parseAddress } from "@fairlead/base/netaddr/address.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { IS_REAL } from "../../packages/apiserver/test/real-server.ts";
import { type ByteRelay, startByteRelay } from "../support/byte-relay.ts";
import { ensureNamespace, startFleet, testDeps, type TestFleet } from "../support/fleet.ts";
import { addNode, attachPods, createProfile, setProfile } from "../support/mesh.ts";
import { admit, type PodFacts, runPod, setGlobal } from "../support/pods.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";

/** Four API servers start one after another; each real one takes up to 20 s on a busy machine. Unit: milliseconds. */
const START_MS = IS_REAL ? 180_000 : 60_000;

let fleet: TestFleet;
let relay: ByteRelay | undefined;
const hub = () => fleet.client("hub");
const CLUSTER_LABEL = "io.cilium.k8s.policy.cluster";
const IN_SYSTEM = { namespace: FLEET_SYSTEM_NAMESPACE };

beforeAll(async () => {
  // Heartbeats come back to b in the watch of its membership, and would be more than what is counted.
  fleet = await startFleet({ members: ["a", "b", "c"], hubServerOf, heartbeatSeconds: { b: 60 } });
  for (const [at, name] of ["a", "b", "c"].entries()) {
    // Those of b and c are the same.
    const podCIDR = `10.${Math.min(at + 1, 2)}.0.0/16`;
    await addNode(fleet.client(name), "n1", { address: `192.168.${at}.1`, podCIDR });
    await ensureNamespace(fleet.client(name), "shop");
  }
  await eventually(hub(), IDENTITY_DEMANDS, (all) => all.length === 3);
}, START_MS);
afterAll(async () => {
  await fleet[Symbol.asyncDispose]();
  await relay?.[Symbol.asyncDispose]();
});

/** What b receives of the hub is counted. */
async function hubServerOf(member: string, port: number): Promise<string | undefined> {
  if (member !== "b") return undefined;
  relay = await startByteRelay(port);
  return `https://127.0.0.1:${relay.port}`;
}

const run = (cluster: string, name: string, facts: PodFacts) =>
  runPod(fleet.client(cluster), name, { namespace: "shop", ...facts });

/** "address labels" of the pods that a cluster knows of others. */
function pods(slices: readonly IdentitySlice[]): string[] {
  return slices
    .flatMap(({ spec }) =>
      (spec.pods ?? []).map((it) => `${it.addresses.join()} ${JSON.stringify(labelsOfPod(spec, it))}`),
    )
    .toSorted();
}

function known(cluster: string, wanted: readonly string[]): Promise<readonly IdentitySlice[]> {
  return eventually(
    fleet.client(cluster),
    IDENTITY_SLICES,
    (all) => JSON.stringify(pods(all)) === JSON.stringify(wanted.toSorted()),
    IN_SYSTEM,
  );
}

describe("pods of other clusters", () => {
  it("are known where a policy selects them, and nowhere else", async () => {
    await run("a", "web-1", { labels: { app: "web" }, address: "10.1.0.5" });
    await run("a", "web-2", { labels: { app: "web" }, address: "10.1.0.6" });
    await run("a", "db-1", { labels: { app: "db" }, address: "10.1.0.7" });
    await run("c", "web-1", { labels: { app: "web" }, address: "10.2.0.5" });
    await admit(fleet.client("b"), "web-of-a", {
      namespace: "shop",
      labels: { app: "web", [CLUSTER_LABEL]: "a" },
    });
    const slices = await known("b", ['10.1.0.5 {"app":"web"}', '10.1.0.6 {"app":"web"}']);
    expect(slices.find((it) => it.spec.type === "Pods")?.spec).toMatchObject({
      cluster: "a",
      namespace: "shop",
      serviceAccount: "default",
      ports: [{ name: "http", protocol: "TCP", port: 8080 }],
    });
    const namespaces = async () =>
      (await slicesIn("b")).filter((it) => it.spec.type === "Namespace").map((it) => it.spec);
    await expect
      .poll(namespaces)
      .toMatchObject([
        { cluster: "a", namespace: "shop", labels: { "kubernetes.io/metadata.name": "shop" } },
      ]);
    expect(await slicesIn("c")).toEqual([]);
    expect(await slicesIn("a")).toEqual([]);
    const published = await hub().list(IDENTITY_SLICES, { namespace: mailboxOf("c") });
    expect(published.items).toEqual([]);
  });

  it("are known by their new labels after one write on the hub, and gone with the pod", async () => {
    await fleet
      .client("a")
      .mergePatch(PODS, objectKey("shop", "db-1"), { metadata: { labels: { app: "web", tier: "1" } } });
    await known("b", [
      '10.1.0.5 {"app":"web"}',
      '10.1.0.6 {"app":"web"}',
      '10.1.0.7 {"app":"web","tier":"1"}',
    ]);
    await fleet.client("a").delete(PODS, objectKey("shop", "db-1"), { gracePeriodSeconds: 0 });
    await known("b", ['10.1.0.5 {"app":"web"}', '10.1.0.6 {"app":"web"}']);
  });

  it("are known to another member by at most 300 bytes on the wire for each pod that comes or goes", async () => {
    const labels = { app: "web", "app.kubernetes.io/name": "api", "pod-template-hash": "6d4b75cb6d" };
    const name = (at: number) => `api-6d4b75cb6d-x2x9${at}`;
    const address = (at: number) => `10.1.200.${at}`;
    const knows = (addresses: readonly string[]) =>
      known("b", [
        '10.1.0.5 {"app":"web"}',
        '10.1.0.6 {"app":"web"}',
        ...addresses.map((it) => `${it} ${JSON.stringify(labels)}`),
      ]);
    await run("a", name(0), { labels, address: address(0) });
    await knows([address(0)]);
    const received = relay?.watched() ?? (() => 0);
    const reads = () =>
      fleet.hub.asked
        .all()
        .filter((it) => it.resource === "identityslices" && it.verb === "list" && it.name !== "")
        .map((it) => it.name);
    const readBefore = reads();
    const more = [1, 2, 3, 4, 5, 6, 7, 8];
    for (const at of more) {
      await run("a", name(at), { labels, address: address(at) });
      await knows([0, ...more.slice(0, at)].map(address));
    }
    for (const at of more.toReversed()) {
      await fleet.client("a").delete(PODS, objectKey("shop", name(at)), { gracePeriodSeconds: 0 });
      await knows([0, ...more.slice(0, at - 1)].map(address));
    }
    const bytes = received();
    expect(bytes / (2 * more.length)).toBeGreaterThan(100);
    expect(bytes / (2 * more.length)).toBeLessThanOrEqual(300);
    // And no slice is read whole.
    expect(reads().filter((it) => !readBefore.includes(it))).toEqual([]);
    await fleet.client("a").delete(PODS, objectKey("shop", name(0)), { gracePeriodSeconds: 0 });
    await knows([]);
  });

  it("are known by new labels for at most 300 bytes on the wire, and in one step: never by both, or not at all", async () => {
    const labels = { app: "web", "app.kubernetes.io/name": "api", "pod-template-hash": "6d4b75cb6d" };
    const names = [0, 1, 2, 3, 4, 5, 6, 7].map((it) => `api-6d4b75cb6d-y2y9${it}`);
    const labelsNow = new Map<string, Readonly<Record<string, string>>>();
    const knows = () =>
      known("b", [
        '10.1.0.5 {"app":"web"}',
        '10.1.0.6 {"app":"web"}',
        ...[...labelsNow.values()].map((it, at) => `10.1.201.${at} ${JSON.stringify(it)}`),
      ]);
    for (const [at, name] of names.entries()) {
      await run("a", name, { labels, address: `10.1.201.${at}` });
      labelsNow.set(name, labels);
    }
    await knows();
    const seen: number[] = [];
    const informer = createInformer(fleet.client("b"), IDENTITY_SLICES, IN_SYSTEM, testDeps("b"));
    await using _informer = informer;
    informer.start(AbortSignal.timeout(60_000));
    await informer.synced(AbortSignal.timeout(10_000));
    informer.subscribe(() => seen.push(pods([...informer.store.list()]).length));
    const received = relay?.watched() ?? (() => 0);
    let changes = 0;
    const change = async (name: string, patch: Readonly<Record<string, string | null>>) => {
      await fleet.client("a").mergePatch(PODS, objectKey("shop", name), { metadata: { labels: patch } });
      const next = Object.entries({ ...labelsNow.get(name), ...patch }).filter(([, it]) => it !== null);
      labelsNow.set(name, Object.fromEntries(next) as Record<string, string>);
      await knows();
      changes += 1;
    };
    for (const it of names) await change(it, { tier: "1" });
    for (const it of names) await change(it, { tier: "backend", "pod-template-hash": null });
    for (const it of names) await change(it, { tier: null });
    const bytes = received();
    expect(bytes / changes).toBeGreaterThan(100);
    expect(bytes / changes).toBeLessThanOrEqual(300);
    expect(new Set(seen)).toEqual(new Set([names.length + 2]));
    // A workload that is labelled again as it was is as before.
    for (const it of names) await change(it, { "pod-template-hash": "6d4b75cb6d" });
    for (const it of names)
      await fleet.client("a").delete(PODS, objectKey("shop", it), { gracePeriodSeconds: 0 });
    labelsNow.clear();
    await knows();
  }, 60_000);

  it("that went while their own agent was away are forgotten when it is back", async () => {
    await run("a", "web-9", { labels: { app: "web", tier: "9" }, address: "10.1.0.9" });
    await known("b", [
      '10.1.0.5 {"app":"web"}',
      '10.1.0.6 {"app":"web"}',
      '10.1.0.9 {"app":"web","tier":"9"}',
    ]);
    await fleet.agents.get("a")?.stop();
    await fleet.client("a").delete(PODS, objectKey("shop", "web-9"), { gracePeriodSeconds: 0 });
    fleet.agents.get("a")?.start();
    await known("b", ['10.1.0.5 {"app":"web"}', '10.1.0.6 {"app":"web"}']);
  }, 60_000);

  it("are forgotten at once when their namespace stops being global, and known again when it is", async () => {
    await setGlobal(fleet.client("a"), "shop", "false");
    await eventually(fleet.client("b"), IDENTITY_SLICES, (all) => all.length === 0, IN_SYSTEM);
    await eventually(hub(), IDENTITY_SLICES, (all) => all.length === 0);
    await setGlobal(fleet.client("a"), "shop", null);
    await known("b", ['10.1.0.5 {"app":"web"}', '10.1.0.6 {"app":"web"}']);
  });

  it("have an address that one pod gave up and another one got under the labels of the latter only", async () => {
    const client = fleet.client("a");
    const status = { phase: "Succeeded" as const };
    await client.mergePatch(PODS, objectKey("shop", "web-2"), { status }, { subresource: "status" });
    await run("a", "web-3", { labels: { app: "web", tier: "2" }, address: "10.1.0.6" });
    await known("b", ['10.1.0.5 {"app":"web"}', '10.1.0.6 {"app":"web","tier":"2"}']);
  });

  it("are known while the hub is away, also to an agent that restarts, and catch up when it is back", async () => {
    await fleet.hubProgram.stop();
    await fleet.agents.get("b")?.stop();
    await fleet.client("a").delete(PODS, objectKey("shop", "web-3"), { gracePeriodSeconds: 0 });
    const deletions = () =>
      fleet.members
        .get("b")!
        .asked.all()
        .filter((it) => it.verb === "delete" && it.resource === "identityslices");
    const before = deletions().length;
    fleet.agents.get("b")?.start();
    await eventually(hub(), IDENTITY_SLICES, (all) => pods(all.filter(isInMailbox)).length === 1);
    await expect.poll(() => fleet.running.get("b"), { timeout: 20_000 }).toBeDefined();
    for (const it of fleet.running.get("b")?.controllers ?? []) await it.idle(AbortSignal.timeout(20_000));
    expect(deletions()).toHaveLength(before);
    expect(pods(await slicesIn("b"))).toEqual([
      '10.1.0.5 {"app":"web"}',
      '10.1.0.6 {"app":"web","tier":"2"}',
    ]);
    fleet.hubProgram.start();
    await known("b", ['10.1.0.5 {"app":"web"}']);
  });

  it("are known to policies of Cilium's kinds, and nodes as well where these need them", async () => {
    const client = fleet.client("b");
    for (const crd of CILIUM_CRDS) await client.create(CUSTOM_RESOURCE_DEFINITIONS, crd);
    const metadata = { namespace: "shop", name: "nodes-and-db" };
    const ofA = { "k8s:io.cilium.k8s.policy.cluster": "a" };
    await run("a", "db-2", { labels: { app: "db" }, address: "10.1.0.8" });
    await eventually(client, CUSTOM_RESOURCE_DEFINITIONS, (all) =>
      all.some(
        (it) =>
          it.spec.group === "cilium.io" &&
          it.status?.conditions?.some((one) => one.type === "Established") === true,
      ),
    );
    await client.create(CILIUM_NETWORK_POLICIES, {
      metadata,
      spec: {
        endpointSelector: {},
        ingress: [
          { fromEndpoints: [{ matchLabels: { ...ofA, "k8s:app": "db" } }] },
          { fromEntities: ["remote-node"] },
        ],
      },
    });
    await known("b", ['10.1.0.5 {"app":"web"}', '10.1.0.8 {"app":"db"}']);
    await eventuallyOne(
      client,
      CILIUM_NETWORK_POLICIES,
      objectKey("shop", "nodes-and-db"),
      (it) => it.status?.conditions?.some((one) => one.type === "Valid" && one.status === "True") === true,
    );
    const isOfNodes = ({ spec }: IdentitySlice) => spec.type === "Nodes" && spec.cluster === "a";
    await eventually(client, IDENTITY_SLICES, (all) => all.some(isOfNodes), IN_SYSTEM);
    const ofNodes = (await slicesIn("b")).find(isOfNodes);
    expect(ofNodes?.spec.nodes).toEqual([{ name: "n1", addresses: ["192.168.0.1"] }]);
    await client.delete(CILIUM_NETWORK_POLICIES, objectKey("shop", "nodes-and-db"));
    await known("b", ['10.1.0.5 {"app":"web"}']);
  });

  it("are not what a policy names that is refused in part: its condition says which field", async () => {
    const client = fleet.client("b");
    const toPorts = [{ ports: [{ port: "80" }], rules: { http: [{ method: "GET" }] } }];
    const spec = { endpointSelector: {}, ingress: [{ fromEntities: ["host"], toPorts }] };
    await client.create(CILIUM_NETWORK_POLICIES, { metadata: { namespace: "shop", name: "http" }, spec });
    const [condition] =
      (
        await eventuallyOne(
          client,
          CILIUM_NETWORK_POLICIES,
          objectKey("shop", "http"),
          (it) => it.status?.conditions !== undefined,
        )
      ).status?.conditions ?? [];
    expect(condition).toMatchObject({ type: "Valid", status: "False", reason: "PartlyEnforced" });
    expect(condition?.message).toContain("spec.ingress[0].toPorts[0].rules.http");
    await client.delete(CILIUM_NETWORK_POLICIES, objectKey("shop", "http"));
  });

  it("are not known any more without the policy", async () => {
    await fleet.client("b").delete(NETWORK_POLICIES, objectKey("shop", "web-of-a"));
    await eventually(fleet.client("b"), IDENTITY_SLICES, (all) => all.length === 0, IN_SYSTEM);
    await eventually(hub(), IDENTITY_SLICES, (all) => all.length === 0);
    await eventuallyOne(
      hub(),
      IDENTITY_DEMANDS,
      objectKey(mailboxOf("a"), "a"),
      (it) => it.status?.wanted?.requests.length === 0,
    );
  });
});

async function slicesIn(cluster: string): Promise<IdentitySlice[]> {
  return (await fleet.client(cluster).list(IDENTITY_SLICES, IN_SYSTEM)).items;
}

function isInMailbox({ metadata }: IdentitySlice): boolean {
  return metadata.namespace?.startsWith("fleet-member-") === true;
}

describe("in a flat network of a profile, addresses of another cluster", () => {
  const profile = "f";
  const network = () =>
    eventuallyOne(
      fleet.client("b"),
      MESH_NETWORKS,
      objectKey(FLEET_SYSTEM_NAMESPACE, profile),
      (it) => it.spec.podNetworks?.length === 2,
    );
  /** Addresses that the nodes of b let reach its pod, as `fairlead policy` knows it. */
  const allowed = async (...from: readonly string[]) => {
    const view = new ClusterView(await readCluster(fleet.client("b"), "b", AbortSignal.timeout(10_000)));
    const traffic = { kind: "transport", protocol: "TCP", port: 80 } as const;
    const destination = parseAddress("10.2.0.20");
    return from.filter(
      (it) => view.enforced.verdict({ source: parseAddress(it), destination, traffic }, "ingress").isAllowed,
    );
  };
  const [unknown, good, evil, hidden, outside] = [
    "10.1.0.30",
    "10.1.0.31",
    "10.1.0.32",
    "10.1.0.33",
    "8.8.8.8",
  ];

  it("are known to be its own before there is a policy or a pod", async () => {
    await createProfile(hub(), profile, { network: { mode: "flat" } });
    for (const it of ["a", "b"]) await setProfile(hub(), it, profile);
    expect((await network()).spec.podNetworks).toEqual([
      { cluster: "a", podCIDRs: ["10.1.0.0/16"] },
      { cluster: "b", podCIDRs: ["10.2.0.0/16"] },
    ]);
    expect(await slicesIn("b")).toEqual([]);
  }, 40_000);

  it("are closed to a rule that denies some of its pods until it says what is there, hidden pods without their labels", async () => {
    await run("b", "server", { labels: { app: "server" }, address: "10.2.0.20" });
    const matchLabels = { app: "evil", [CLUSTER_LABEL]: "a" };
    await fleet.client("b").create(CILIUM_NETWORK_POLICIES, {
      metadata: { namespace: "shop", name: "not-evil" },
      spec: {
        endpointSelector: {},
        ingress: [{ fromEntities: ["all"] }],
        ingressDeny: [{ fromEndpoints: [{ matchLabels }] }],
      },
    });
    const all = [unknown, good, evil, hidden, outside] as string[];
    expect(await allowed(...all)).toEqual([outside]);
    const demand = objectKey(mailboxOf("b"), "b");
    const wants = [{ clusters: ["a"], addresses: true }];
    await eventuallyOne(hub(), IDENTITY_DEMANDS, demand, (it) =>
      wants.every((one) => it.spec.requests.some((two) => sameJson(one, two))),
    );
    await ensureNamespace(fleet.client("a"), "vault");
    await setGlobal(fleet.client("a"), "vault", "false");
    await run("a", "good", { labels: { app: "good" }, address: good });
    await run("a", "evil", { labels: { app: "evil" }, address: evil });
    await run("a", "hidden", { namespace: "vault", labels: { app: "evil" }, address: hidden });
    await expect.poll(() => allowed(...all), { timeout: 10_000 }).toEqual([good, hidden, outside]);
    const ofVault = (await slicesIn("b")).filter((it) => it.spec.type === "Addresses");
    expect(ofVault.map((it) => Object.keys(it.spec).toSorted())).toEqual([
      ["addresses", "cluster", "publishedAt", "type"],
    ]);
    expect(ofVault.map((it) => it.spec.addresses)).toEqual([[hidden]]);
  }, 40_000);

  it("are not published any more when no rule needs them", async () => {
    await fleet.client("b").delete(CILIUM_NETWORK_POLICIES, objectKey("shop", "not-evil"));
    await eventually(hub(), IDENTITY_SLICES, (all) => all.length === 0);
    await eventually(fleet.client("b"), IDENTITY_SLICES, (all) => all.length === 0, IN_SYSTEM);
    for (const it of ["good", "evil"])
      await fleet.client("a").delete(PODS, objectKey("shop", it), { gracePeriodSeconds: 0 });
    for (const it of ["a", "b"]) await setProfile(hub(), it, null);
  });
});

describe("in a parallel network, pods of other clusters", () => {
  it("are known by their fleet addresses, those without one are not, and those of another network are not", async () => {
    await createProfile(hub(), "p");
    for (const name of ["b", "c"]) {
      await ensureNamespace(fleet.client(name), "far");
      await setProfile(hub(), name, "p");
    }
    const { metadata } = await run("c", "api-1", {
      namespace: "far",
      labels: { app: "api" },
      address: "10.2.0.9",
    });
    await run("c", "api-2", { namespace: "far", labels: { app: "api" }, address: "10.2.0.10" });
    await admit(fleet.client("b"), "api-of-c", {
      namespace: "far",
      labels: { app: "api", [CLUSTER_LABEL]: "c" },
    });
    const { status } = await attachPods(fleet.client("c"), "n1", [metadata.uid ?? ""]);
    await admit(fleet.client("b"), "web-of-a", {
      namespace: "far",
      labels: { app: "web", [CLUSTER_LABEL]: "a" },
    });
    const [attached] = status?.allocations ?? [];
    await known("b", [`${attached?.ipv4},${attached?.ipv6} {"app":"api"}`]);
    const demandOf = (name: string) => objectKey(mailboxOf(name), name);
    await eventuallyOne(hub(), IDENTITY_DEMANDS, demandOf("b"), (it) => it.spec.requests.length === 2);
    // It is of another network.
    const ofA = await hub().get(IDENTITY_DEMANDS, demandOf("a"));
    expect(ofA.status?.wanted?.requests).toEqual([]);
  }, 40_000);

  it("are all asked for by CIDRs of Cilium's kinds only if these can match fleet addresses", async () => {
    const client = fleet.client("b");
    const demand = objectKey(mailboxOf("b"), "b");
    const before = (await hub().get(IDENTITY_DEMANDS, demand)).spec.requests;
    const metadata = { namespace: "far", name: "outside" };
    const spec = { endpointSelector: {}, egress: [{ toCIDR: ["203.0.113.0/24"] }] };
    await client.create(CILIUM_NETWORK_POLICIES, { metadata, spec });
    // The policy is read: it needs the nodes.
    const read = await eventuallyOne(hub(), IDENTITY_DEMANDS, demand, (it) => it.spec.nodes === true);
    expect(read.spec.requests).toEqual(before);
    const network = await client.get(MESH_NETWORKS, objectKey("fleet-system", "p"));
    const egress = [{ toCIDR: [(network.spec as ParallelNetwork).ipv4] }];
    await client.mergePatch(CILIUM_NETWORK_POLICIES, objectKey("far", "outside"), { spec: { egress } });
    await eventuallyOne(hub(), IDENTITY_DEMANDS, demand, (it) =>
      sameJson(it.spec.requests, [{ addresses: true }]),
    );
    await client.delete(CILIUM_NETWORK_POLICIES, objectKey("far", "outside"));
    await eventuallyOne(hub(), IDENTITY_DEMANDS, demand, (it) => sameJson(it.spec.requests, before));
  });
});
