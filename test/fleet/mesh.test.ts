import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { INTERNAL_MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { VIEW_NAMESPACE } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import {
  ADDRESS_BLOCKS,
  CLUSTER_MESH_PROFILES,
  GATEWAYS,
  MESH_NETWORKS,
  type MeshNetwork,
  type NetworkMode,
  type PathKind,
  RELAYS,
  RELEASED_AT_ANNOTATION,
  VIRTUAL_IPS,
} from "@fairlead/fleet/api/fairlead.dev/v1alpha1/mesh.ts";
import { NAMESPACE_REPORTS } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/types.ts";
import { derivedServiceName, mailboxName } from "@fairlead/fleet/api/fairlead.dev/cluster-names.ts";
import {
  MCS_SERVICE_EXPORTS,
  MCS_SERVICE_IMPORTS,
  MCS_SOURCE_CLUSTER_LABEL,
} from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import { FLEET_SYSTEM_NAMESPACE, mailboxOf } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import {
  ENDPOINT_SLICE_EXPORTS,
  ENDPOINT_SLICE_IMPORTS,
} from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { containsPrefix, parsePrefix } from "@fairlead/base/netaddr/prefix.ts";
import { EVENTS, NAMESPACES, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { ROTATE_KEYS_ANNOTATION } from "@fairlead/fleet/hub/mesh/plan-epoch.ts";
import { ENDPOINT_SLICES, type EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import { findCondition } from "@fairlead/kube/objects/conditions.ts";
import {
  addressesOf,
  deploy,
  ensureNamespace,
  exportBy,
  sliceOf,
  startFleet,
  type TestCluster,
  type TestFleet,
} from "../support/fleet.ts";
import { WrongClock } from "../support/wrong-clock.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";
import {
  addNode,
  attachPods,
  createProfile,
  newPublicKey,
  reportPaths,
  setProfile,
  showGateway,
} from "../support/mesh.ts";

const VIEW = "fleet-view-p";
const isOfMode =
  (mode: NetworkMode) =>
  ({ spec }: MeshNetwork): boolean =>
    spec.mode === mode;

let fleet: TestFleet;
const hub = () => fleet.client("hub");
const system = (name: string) => objectKey(FLEET_SYSTEM_NAMESPACE, name);
const view = (name: string) => objectKey(VIEW, name);
const within = (outer: readonly string[], inner: readonly string[]): boolean =>
  inner.every((it) => outer.some((one) => containsPrefix(parsePrefix(one), parsePrefix(it))));
const HOUR_MS = 3_600_000;
/** Clocks of members, which are two hours apart once they have joined: all of it holds whatever they are. */
const CLOCKS = {
  a: new WrongClock(),
  "a/apiserver": new WrongClock(),
  b: new WrongClock(),
  "b/apiserver": new WrongClock(),
};
const KEYS = { a: newPublicKey(), b: newPublicKey() };

beforeAll(async () => {
  fleet = await startFleet({ members: ["a", "b", "c", "d"], clocks: CLOCKS });
  for (const [name, clock] of Object.entries(CLOCKS))
    clock.aheadMs = name.startsWith("a") ? HOUR_MS : -HOUR_MS;
  for (const name of ["a", "b", "c", "d"]) {
    await ensureNamespace(fleet.client(name), "work");
    for (const node of ["n1", "n2"])
      await addNode(fleet.client(name), node, {
        address: `192.168.7.${node.slice(1)}`,
        // Those of a and b overlap.
        ...(name < "c" ? { podCIDR: "10.1.0.0/16" } : { podCIDR: `10.${name === "c" ? 3 : 4}.0.0/16` }),
      });
  }
  await hub().create(RELAYS, {
    metadata: { namespace: FLEET_SYSTEM_NAMESPACE, name: "r1" },
    spec: { addresses: ["8.8.8.8"], basePort: 20_000, publicKey: newPublicKey() },
  });
  await createProfile(hub(), "p");
  for (const name of ["a", "b"]) await setProfile(hub(), name, "p");
});
afterAll(() => fleet[Symbol.asyncDispose]());

describe("a parallel network", () => {
  it("gives its members blocks, and their nodes parts of these", async () => {
    const profile = await eventuallyOne(
      hub(),
      CLUSTER_MESH_PROFILES,
      objectKey(undefined, "p"),
      (it) => it.status?.members === 2 && findCondition(it.status.conditions, "Ready")?.reason === "NoPath",
    );
    expect(profile.status).toMatchObject({ members: 2, keyEpoch: 1, addresses: { ipv4: "10.112.0.0/12" } });
    for (const name of ["a", "b"]) {
      const client = fleet.client(name);
      const network = await eventuallyOne(client, MESH_NETWORKS, system("p"));
      expect(network.spec).toMatchObject({
        ...profile.status?.addresses,
        mode: "parallel",
        vipIPv4: "10.127.0.0/16",
        relays: [{ name: "r1", basePort: 20_000 }],
      });
      const { spec } = await eventuallyOne(
        hub(),
        INTERNAL_MEMBER_CLUSTERS,
        objectKey(mailboxOf(name), name),
        (it) => it.spec.network?.ipv4 !== undefined,
      );
      const own = await eventuallyOne(client, ADDRESS_BLOCKS, system(name));
      const { ipv4, ipv6 } = own.spec;
      expect(spec.network).toEqual({ profile: "p", mode: "parallel", ipv4, ipv6 });
      const other = await eventuallyOne(client, ADDRESS_BLOCKS, system(name === "a" ? "b" : "a"));
      expect(own.spec.ipv4).not.toEqual(other.spec.ipv4);
      const nodes = await eventually(client, ADDRESS_BLOCKS, (all) => all.length === 4);
      for (const { spec: block } of nodes.filter((it) => it.spec.node !== undefined)) {
        expect(block).toMatchObject({
          profile: "p",
          cluster: name,
          nodeAddress: `192.168.7.${block.node?.slice(1)}`,
        });
        expect(within(own.spec.ipv4, block.ipv4) && within(own.spec.ipv6, block.ipv6)).toBe(true);
      }
      expect(new Set(nodes.flatMap((it) => it.spec.ipv4)).size).toBe(4);
    }
  });

  it("gives a service the same virtual addresses in every member, and keeps them for it after its last export", async () => {
    const service = { namespace: "work", name: "shop" };
    const key = objectKey("work", "shop");
    const addressesIn = async (name: string): Promise<string[] | undefined> => {
      const found = await eventuallyOne(
        fleet.client(name),
        MCS_SERVICE_IMPORTS,
        key,
        (it) => findCondition(it.status?.conditions, "Ready")?.status === "True",
      );
      return found.spec?.ips;
    };
    await deploy(fleet.client("a"), { ...service, addresses: ["10.244.1.9"] });
    await exportBy("mcs", fleet.client("a"), service);
    // Of the family that the Service has.
    const [ipv4 = "", ...others] = (await addressesIn("a")) ?? [];
    expect(within(["10.127.0.0/16"], [`${ipv4}/32`]) && others.length === 0).toBe(true);
    expect(await addressesIn("b")).toEqual([ipv4]);
    // The Service for load balancers and proxies has an address of its own cluster.
    const derived = await eventuallyOne(
      fleet.client("b"),
      SERVICES,
      objectKey("work", derivedServiceName("work", "shop")),
    );
    expect(derived.spec?.clusterIPs).not.toContain(ipv4);
    await fleet.client("a").delete(MCS_SERVICE_EXPORTS, key);
    const kept = await eventuallyOne(
      hub(),
      VIRTUAL_IPS,
      view(mailboxName("work", "shop")),
      (it) => it.metadata.annotations?.[RELEASED_AT_ANNOTATION] !== undefined,
    );
    expect(kept.spec.ipv4).toBe(ipv4);
    expect(kept.spec.ipv6).toMatch(/^fd/);
    await exportBy("mcs", fleet.client("a"), service);
    expect(await addressesIn("b")).toEqual([ipv4]);
    await fleet.client("a").delete(MCS_SERVICE_EXPORTS, key);
  });

  it("shows each member the gateways of the others, each with a number of its own", async () => {
    for (const name of ["a", "b"] as const)
      await showGateway(fleet.client(name), `${name}-0`, {
        keys: [{ epoch: 1, publicKey: KEYS[name] }],
        basePort: 31_820,
        candidates: [
          { type: "private", address: "192.168.70.1" },
          { type: "reflexive", address: "127.0.0.1" },
        ],
      });
    const isShown = (it: { spec: { index?: number; keys?: unknown[] } }): boolean =>
      it.spec.index !== undefined && it.spec.keys?.length === 1;
    const ofB = await eventuallyOne(fleet.client("a"), GATEWAYS, system("b-0"), isShown);
    const ofA = await eventuallyOne(fleet.client("b"), GATEWAYS, system("a-0"), isShown);
    expect(ofB.spec).toMatchObject({
      cluster: "b",
      ordinal: 0,
      node: "n1",
      keys: [{ epoch: 1, publicKey: KEYS.b }],
      basePort: 31_820,
      candidates: [{ type: "private", address: "192.168.70.1" }],
    });
    expect(ofA.spec.index).not.toBe(ofB.spec.index);
    const own = await eventuallyOne(
      fleet.client("a"),
      GATEWAYS,
      system("a-0"),
      (it) =>
        findCondition(it.status?.conditions, "Accepted")?.status === "True" &&
        it.spec.index === ofA.spec.index,
    );
    expect(own.status?.conditions?.[0]?.message).toContain("1 of 2 candidates cannot be used");
    await eventually(hub(), GATEWAYS, (all) => all.length === 4, { namespace: VIEW });
  });

  it("has gateways make new keys when its profile asks for it, once", async () => {
    const metadata = { annotations: { [ROTATE_KEYS_ANNOTATION]: "now" } };
    await hub().mergePatch(CLUSTER_MESH_PROFILES, objectKey(undefined, "p"), { metadata });
    for (const name of ["a", "b"] as const) {
      await eventuallyOne(
        fleet.client(name),
        MESH_NETWORKS,
        system("p"),
        ({ spec }) => spec.mode === "parallel" && spec.keyEpoch === 2,
      );
      const keys = [1, 2].map((epoch) => ({ epoch, publicKey: epoch === 1 ? KEYS[name] : newPublicKey() }));
      await showGateway(fleet.client(name), `${name}-0`, { keys, basePort: 31_820 });
    }
    await eventually(hub(), GATEWAYS, (all) => all.filter((it) => it.spec.keys?.length === 2).length === 2, {
      namespace: VIEW,
    });
    await eventually(hub(), EVENTS, (all) => all.some((it) => it.reason === "KeysRotated"));
    const { status } = await hub().get(CLUSTER_MESH_PROFILES, objectKey(undefined, "p"));
    expect(status?.keyEpoch).toBe(2);
  });

  it("gives members the same addresses again when the view is deleted by hand", async () => {
    const key = objectKey(undefined, VIEW);
    const before = await hub().get(NAMESPACES, key);
    const blocks = await hub().list(ADDRESS_BLOCKS, { namespace: VIEW });
    await hub().delete(NAMESPACES, key);
    await eventuallyOne(hub(), NAMESPACES, key, (it) => it.metadata.uid !== before.metadata.uid);
    const again = await eventually(hub(), ADDRESS_BLOCKS, (all) => all.length === 2, { namespace: VIEW });
    expect(again.map((it) => it.spec)).toEqual(blocks.items.map((it) => it.spec));
    await eventually(hub(), GATEWAYS, (all) => all.length === 4, { namespace: VIEW });
  });

  it("shows the hub what a gateway reports of its tunnels, next to what the hub says of it", async () => {
    const gateway = { client: fleet.client("a"), hub: hub(), cluster: "a" };
    const reported = await reportPaths(gateway, [{ cluster: "b", ordinal: 0, path: "relay", keyEpoch: 1 }]);
    expect(reported.status?.pathsReportedAt).toBe("2026-01-01T00:00:00Z");
    expect(findCondition(reported.status?.conditions, "Accepted")?.status).toBe("True");
    await reportPaths(gateway, []);
  });

  it("has exports carry the fleet addresses of their pods, and no endpoint without one", async () => {
    const client = fleet.client("a");
    await deploy(client, { addresses: ["10.1.0.1", "10.1.0.2"] });
    const slice = await client.get(ENDPOINT_SLICES, objectKey("work", "hello-abcde"));
    await client.update(ENDPOINT_SLICES, {
      ...slice,
      endpoints: slice.endpoints.map((it, at) => ({ ...it, targetRef: { kind: "Pod", uid: `pod-${at}` } })),
    });
    await exportBy("mcs", client);
    const exported = (count: number) =>
      eventually(
        hub(),
        ENDPOINT_SLICE_EXPORTS,
        (all) => all.length === 1 && all[0]!.spec.endpoints.length === count,
      );
    await exported(0);
    const { status } = await attachPods(client, "n1", ["pod-1"]);
    const address = status?.allocations?.[0]?.ipv4 ?? "";
    const [one] = await exported(1);
    expect(one!.spec.endpoints[0]).toMatchObject({ addresses: [address], nodeName: "node-1" });
    const imported = await eventually(
      fleet.client("b"),
      ENDPOINT_SLICES,
      (all) => addressesOf(all).join() === address,
    );
    expect(imported).toHaveLength(1);
    await attachPods(client, "n1", []);
    await exported(0);
    await attachPods(client, "n1", ["pod-1", "pod-0"]);
    await exported(2);
  });

  it("has no endpoints of a member whose tunnels do not answer, unless no others are left", async () => {
    const client = fleet.client("b");
    const ofA = (count: number) =>
      eventually(
        client,
        ENDPOINT_SLICES,
        (all) =>
          addressesOf(all.filter((it) => it.metadata.labels?.[MCS_SOURCE_CLUSTER_LABEL] === "a")).length ===
          count,
      );
    const report = (path: "relay" | "none") =>
      reportPaths({ client, hub: hub(), cluster: "b" }, [{ cluster: "a", ordinal: 0, path, keyEpoch: 1 }]);
    await ofA(2);
    await deploy(client, { addresses: ["10.1.0.7"] });
    const key = objectKey("work", "hello-abcde");
    const slice = await client.get(ENDPOINT_SLICES, key);
    const endpoints = slice.endpoints.map((it) => ({ ...it, targetRef: { kind: "Pod", uid: "pod-b" } }));
    await client.update(ENDPOINT_SLICES, { ...slice, endpoints });
    await attachPods(client, "n1", ["pod-b"]);
    await exportBy("mcs", client);
    await eventually(hub(), ENDPOINT_SLICE_EXPORTS, (all) => all.length === 2);
    await report("none");
    await ofA(0);
    await report("relay");
    await ofA(2);
    await report("none");
    await ofA(0);
    await client.delete(MCS_SERVICE_EXPORTS, objectKey("work", "hello"));
    await ofA(2);
    await client.delete(ENDPOINT_SLICES, key);
    await client.delete(SERVICES, objectKey("work", "hello"));
    await report("relay");
  });

  it("leaves members of no profile as they are", async () => {
    const client = fleet.client("c");
    for (const kind of [MESH_NETWORKS, ADDRESS_BLOCKS, GATEWAYS] as readonly Resource[])
      expect((await client.list(kind)).items).toEqual([]);
    expect((await hub().get(ADDRESS_BLOCKS, view("a"))).spec.cluster).toBe("a");
  });
});

describe("members without a profile, and those of a flat one", () => {
  const deployed = objectKey("work", "flat-abcde");
  const ofD = (all: readonly EndpointSlice[]) =>
    addressesOf(all.filter((it) => it.metadata.labels?.[MCS_SOURCE_CLUSTER_LABEL] === "d"));
  const seen = (address: string, timeoutMs = 20_000) =>
    eventually(fleet.client("c"), ENDPOINT_SLICES, (all) => ofD(all).join() === address, { timeoutMs });
  const isRead = (cluster: string, namespace: string) =>
    eventuallyOne(
      hub(),
      NAMESPACE_REPORTS,
      objectKey(mailboxOf(cluster), cluster),
      (it) => it.spec.view === namespace,
    );
  const slicesIn = (namespace: string, count: number) =>
    eventually(hub(), ENDPOINT_SLICE_IMPORTS, (all) => all.length === count, { namespace });
  const change = async (address: string) => {
    const { endpoints } = sliceOf({ addresses: [address] });
    await fleet.client("d").mergePatch(ENDPOINT_SLICES, deployed, { endpoints });
    await seen(address);
  };

  /** Counts how often c was without the endpoint of d, until disposed. */
  function watchLosses(): { readonly losses: () => number } & AsyncDisposable {
    const stop = new AbortController();
    let losses = 0;
    const done = (async () => {
      const options = { allowWatchBookmarks: true, sendInitialEvents: true };
      for await (const { type, object } of fleet.client("c").watch(ENDPOINT_SLICES, options, stop.signal)) {
        if (type === "ERROR" || type === "BOOKMARK") continue;
        const isOfD = object.metadata.labels?.[MCS_SOURCE_CLUSTER_LABEL] === "d";
        if (isOfD && (type === "DELETED" || object.endpoints.length === 0)) losses += 1;
      }
    })().catch(() => {});
    return {
      losses: () => losses,
      async [Symbol.asyncDispose]() {
        stop.abort();
        await done;
      },
    };
  }

  it("see the services of their own network only, and move to another without losing an endpoint", async () => {
    await deploy(fleet.client("d"), { name: "flat", addresses: ["10.4.0.1"] });
    await exportBy("mcs", fleet.client("d"), { name: "flat" });
    await seen("10.4.0.1");
    await using watched = watchLosses();
    await createProfile(hub(), "f", { network: { mode: "flat" } });
    for (const name of ["c", "d"]) await setProfile(hub(), name, "f");
    for (const name of ["c", "d"]) await isRead(name, "fleet-view-f");
    const network = await eventuallyOne(
      fleet.client("c"),
      MESH_NETWORKS,
      system("f"),
      ({ spec }) => spec.podNetworks?.length === 2,
    );
    expect(network.spec).toEqual({
      mode: "flat",
      dataplane: "fairlead",
      defaultGlobalNamespace: true,
      policyDefaultLocalCluster: true,
      podNetworks: [
        { cluster: "c", podCIDRs: ["10.3.0.0/16"] },
        { cluster: "d", podCIDRs: ["10.4.0.0/16"] },
      ],
    });
    await change("10.4.0.2");
    await slicesIn("fleet-view-f", 1);
    for (const namespace of [VIEW_NAMESPACE, mailboxOf("c")]) await slicesIn(namespace, 0);
    const { spec } = await hub().get(INTERNAL_MEMBER_CLUSTERS, objectKey(mailboxOf("c"), "c"));
    expect(spec.network).toEqual({ profile: "f", mode: "flat" });
    await hub().delete(CLUSTER_MESH_PROFILES, objectKey(undefined, "f"));
    for (const name of ["c", "d"]) await isRead(name, VIEW_NAMESPACE);
    await eventually(fleet.client("c"), MESH_NETWORKS, (all) => all.length === 0);
    await change("10.4.0.3");
    await eventually(hub(), NAMESPACES, (all) => !all.some((it) => it.metadata.name === "fleet-view-f"));
    await slicesIn(VIEW_NAMESPACE, 1);
    expect(watched.losses()).toBe(0);
    const inA = await fleet.client("a").list(ENDPOINT_SLICES);
    expect(ofD(inA.items)).toEqual([]);
    expect((await slicesIn(VIEW, 1))[0]?.spec.endpointSliceReference.clusterId).toBe("a");
  }, 60_000);

  it("are not written to for the parallel network, nor ask the hub for it", () => {
    const kinds = new Set([ADDRESS_BLOCKS, GATEWAYS].map((it) => it.plural));
    const ofMesh = (cluster: TestCluster) => cluster.asked.all().filter((it) => kinds.has(it.resource));
    const writes = ofMesh(fleet.members.get("c")!).filter((it) => !["list", "watch"].includes(it.verb));
    expect(writes).toEqual([]);
    const onHub = ofMesh(fleet.hub).filter((it) => it.user.includes("fleet:member:c"));
    expect(onHub).toEqual([]);
    expect(ofMesh(fleet.hub).some((it) => it.user.includes("fleet:member:a"))).toBe(true);
  });

  it("become parallel when there are paths, go back when these are lost on the way, and become flat again, without losing an endpoint", async () => {
    const { endpoints } = await fleet.client("d").get(ENDPOINT_SLICES, deployed);
    const targetRef = { kind: "Pod", uid: "pod-of-d" };
    await fleet.client("d").mergePatch(ENDPOINT_SLICES, deployed, {
      endpoints: endpoints.map((it) => ({ ...it, targetRef })),
    });
    await createProfile(hub(), "g", { network: { mode: "flat" } });
    for (const name of ["c", "d"]) await setProfile(hub(), name, "g");
    for (const name of ["c", "d"]) await isRead(name, "fleet-view-g");
    await using watched = watchLosses();
    const setMode = (mode: "flat" | "parallel") =>
      hub().mergePatch(CLUSTER_MESH_PROFILES, objectKey(undefined, "g"), { spec: { network: { mode } } });
    const phaseOfD = (phase: string | undefined) =>
      eventuallyOne(
        hub(),
        ADDRESS_BLOCKS,
        objectKey("fleet-view-g", "d"),
        (it) => it.spec.transition?.phase === phase,
      );
    await setMode("parallel");
    await phaseOfD("prepare");
    await eventuallyOne(fleet.client("c"), MESH_NETWORKS, system("g"), isOfMode("parallel"));
    await seen("10.4.0.3");
    const { status } = await attachPods(fleet.client("d"), "n1", ["pod-of-d"]);
    for (const name of ["c", "d"])
      await showGateway(fleet.client(name), `${name}-0`, { keys: [{ epoch: 1, publicKey: newPublicKey() }] });
    const fleetAddress = status?.allocations?.[0]?.ipv4 ?? "";
    const ready = (reason: string) =>
      eventuallyOne(
        hub(),
        CLUSTER_MESH_PROFILES,
        objectKey(undefined, "g"),
        (it) => findCondition(it.status?.conditions, "Ready")?.reason === reason,
      );
    const report = async (path: PathKind) => {
      for (const [from, to] of [["c", "d"] as const, ["d", "c"] as const]) {
        const tunnel = { cluster: to, ordinal: 0, path, keyEpoch: 1 };
        await reportPaths({ client: fleet.client(from), hub: hub(), cluster: from }, [tunnel]);
      }
    };
    await report("none");
    const { status: waiting } = await ready("NoPath");
    expect(findCondition(waiting?.conditions, "Ready")?.message).toContain("no path between c and d");
    await phaseOfD("prepare");
    await seen("10.4.0.3");
    await report("direct");
    await seen(fleetAddress);
    await phaseOfD("switch");
    await report("none");
    await phaseOfD("prepare");
    await seen("10.4.0.3");
    await ready("NoPath");
    await report("relay");
    await seen(fleetAddress, 60_000);
    await phaseOfD(undefined);
    await seen(fleetAddress);
    await ready("Ready");
    await setMode("flat");
    await seen("10.4.0.3");
    await eventuallyOne(fleet.client("c"), MESH_NETWORKS, system("g"), isOfMode("flat"));
    await seen("10.4.0.3");
    const ofC = await eventuallyOne(
      hub(),
      INTERNAL_MEMBER_CLUSTERS,
      objectKey(mailboxOf("c"), "c"),
      (it) => it.spec.network?.mode === "flat",
    );
    expect(ofC.spec.network).toEqual({ profile: "g", mode: "flat" });
    await seen("10.4.0.3");
    expect(watched.losses()).toBe(0);
  }, 120_000);

  it("see no gateways, addresses and virtual IPs of another parallel network in their own one", async () => {
    await createProfile(hub(), "q");
    for (const name of ["c", "d"]) await setProfile(hub(), name, "q");
    for (const name of ["c", "d"]) {
      await isRead(name, "fleet-view-q");
      await eventuallyOne(fleet.client(name), ADDRESS_BLOCKS, system(name === "c" ? "d" : "c"));
      await showGateway(fleet.client(name), `${name}-0`, { keys: [{ epoch: 1, publicKey: newPublicKey() }] });
    }
    const clustersIn = async (name: string) => {
      const gateways = await fleet.client(name).list(GATEWAYS);
      const blocks = await fleet.client(name).list(ADDRESS_BLOCKS);
      const all = [...gateways.items, ...blocks.items];
      return [...new Set(all.map((it) => it.spec.cluster))].toSorted();
    };
    await expect.poll(() => clustersIn("c")).toEqual(["c", "d"]);
    expect(await clustersIn("a")).toEqual(["a", "b"]);
    const networks = (await fleet.client("c").list(MESH_NETWORKS)).items;
    expect(networks.map((it) => it.metadata.name)).toEqual(["q"]);
    const shown = (await hub().list(GATEWAYS, { namespace: "fleet-view-q" })).items;
    const others = (await hub().list(GATEWAYS, { namespace: VIEW })).items;
    const indexes = [...shown, ...others].map((it) => it.spec.index);
    expect(new Set(indexes).size).toBe(indexes.length);
    const vips = (await hub().list(VIRTUAL_IPS, { namespace: VIEW })).items;
    expect(vips.map((it) => it.spec.service.name)).not.toContain("flat");
  }, 60_000);

  it("are named in the condition where no block of addresses is free, and the others keep theirs", async () => {
    const readyOf = async (name: string) =>
      findCondition(
        (await hub().get(CLUSTER_MESH_PROFILES, objectKey(undefined, name))).status?.conditions,
        "Ready",
      );
    const blocksOf = async (name: string) =>
      (await fleet.client(name).list(ADDRESS_BLOCKS)).items.map(({ metadata, spec: { profile, ipv4 } }) => ({
        name: metadata.name,
        profile,
        ipv4,
      }));
    const [before, blocks] = [await readyOf("p"), await blocksOf("a")];
    // Two blocks of members, of which the virtual IPs have one.
    await createProfile(hub(), "s", {
      network: { mode: "parallel", addresses: { ipv4: "10.200.0.0/20" } },
    });
    await setProfile(hub(), "c", "s");
    const own = await eventuallyOne(
      fleet.client("c"),
      ADDRESS_BLOCKS,
      system("c"),
      (it) => it.spec.profile === "s",
    );
    await setProfile(hub(), "d", "s");
    await expect.poll(() => readyOf("s")).toMatchObject({ status: "False", reason: "AddressesExhausted" });
    expect((await readyOf("s"))?.message).toContain(
      "10.200.0.0/20 has no free block of 21 bits for d: use a profile with a shorter spec.network.addresses.ipv4",
    );
    // Nothing of the network before stays, and there are no addresses of its own.
    await expect.poll(async () => (await blocksOf("d")).map((it) => it.name)).toEqual(["c"]);
    const kept = await fleet.client("c").get(ADDRESS_BLOCKS, system("c"));
    expect(kept.spec.ipv4).toEqual(own.spec.ipv4);
    expect(await readyOf("p")).toEqual(before);
    expect(await blocksOf("a")).toEqual(blocks);
    await setProfile(hub(), "d", "q");
    await expect.poll(async () => (await readyOf("s"))?.reason).not.toBe("AddressesExhausted");
  }, 60_000);
});
