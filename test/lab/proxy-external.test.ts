import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { SERVICES, type ServiceSpec } from "@fairlead/kube/api/core/v1/types.ts";
import { type Endpoint, ENDPOINT_SLICES } from "@fairlead/kube/api/discovery/v1/types.ts";
import { systemClock } from "@fairlead/base/clock.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { seededRng } from "@fairlead/base/rng.ts";
import { createFlowTable } from "@fairlead/fleet/dataplane/service-proxy/flows.ts";
import { PROXY_TABLE } from "@fairlead/fleet/dataplane/service-proxy/names.ts";
import { createServiceProxy, type ServiceProxy } from "@fairlead/fleet/dataplane/service-proxy/proxy.ts";
import { diffTable } from "@fairlead/os/nft/diff.ts";
import { createExecNft } from "@fairlead/os/nft/exec.ts";
import { createNft } from "@fairlead/os/nft/netlink/driver.ts";
import {
  makeNode,
  makeService,
  makeSlice,
  manualInformer,
  nodeInformer,
  ready,
} from "../support/service-objects.ts";
import { until } from "../support/waiting.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";
import { createProxyWorld, type Peer, POD_CIDRS, type ProxyWorld } from "./proxy-world.ts";

/** Ways into a Service from elsewhere, and how long a client stays where it is, with real packets. */
describeOnKernel("a Service seen from outside", () => {
  const signal = AbortSignal.timeout(60_000);
  const NODE = { v4: "192.0.2.1", v6: "2001:db8::1" };
  const place = { addresses: [NODE.v4, NODE.v6], podCIDRs: [...POD_CIDRS], zone: "zone-1" };
  const BALANCER = { v4: "203.0.113.7", v6: "2001:db8:7::7" };
  const VIP = { v4: "10.96.0.10", v6: "fd00:96::10" };
  let world: ProxyWorld;
  let client: Peer;
  let outside: Peer;
  let a: Peer;
  let b: Peer;
  let proxy: ServiceProxy;
  let services = manualInformer(SERVICES);
  let slices = manualInformer(ENDPOINT_SLICES);
  let nodes = nodeInformer(makeNode("node", place));

  beforeAll(async () => {
    world = await createProxyWorld();
    [client, outside, a, b] = await Promise.all([
      world.pod("client", [8080]),
      world.outside(),
      world.pod("a", [8080]),
      world.pod("b", [8080]),
    ]);
  });
  afterAll(() => world[Symbol.asyncDispose]());

  beforeEach(async () => {
    services = manualInformer(SERVICES);
    slices = manualInformer(ENDPOINT_SLICES);
    nodes = nodeInformer(makeNode("node", place));
    proxy = createServiceProxy({
      services,
      endpointSlices: slices,
      nodeName: "node",
      nodes,
      clusterCidrs: POD_CIDRS,
      nft: createNft({ netns: world.nodeNetns }),
      flows: createFlowTable({ netns: world.nodeNetns, clock: systemClock, log: silentLogger }),
      health: { set() {}, async [Symbol.asyncDispose]() {} },
      clock: systemClock,
      rng: seededRng(1),
      log: silentLogger,
    });
    await proxy.start(signal);
  });
  afterEach(async () => {
    await proxy[Symbol.asyncDispose]();
    const nft = createExecNft({ prefix: world.nodePrefix });
    await nft.apply(PROXY_TABLE, diffTable(await nft.read(PROXY_TABLE, signal), undefined), signal);
  });

  const PORTS: NonNullable<ServiceSpec["ports"]> = [
    { name: "", protocol: "TCP", port: 80, nodePort: 30_080 },
    { name: "udp", protocol: "UDP", port: 80, nodePort: 30_080 },
    { name: "sctp", protocol: "SCTP", port: 80, nodePort: 30_081 },
  ];
  const SLICE_PORTS = [
    { name: "", protocol: "TCP", port: 8080 },
    { name: "udp", protocol: "UDP", port: 8080 },
    { name: "sctp", protocol: "SCTP", port: 8080 },
  ] as const;

  /** A Service with its endpoints, an even slice for each family. */
  async function serve(
    spec: ServiceSpec,
    endpoints: { readonly v4: readonly Endpoint[]; readonly v6?: readonly Endpoint[] },
    ingress: readonly string[] = [],
  ): Promise<void> {
    services.set(makeService("web", { clusterIPs: [VIP.v4, VIP.v6], ports: PORTS, ...spec }, ingress));
    slices.set(makeSlice("web-4", "web", { endpoints: [...endpoints.v4], ports: [...SLICE_PORTS] }));
    if (endpoints.v6 !== undefined)
      slices.set(makeSlice("web-6", "web", { endpoints: [...endpoints.v6], ports: [...SLICE_PORTS] }));
    await proxy.idle(signal);
  }

  async function askOften(peer: Peer, host: string, port: number, times = 16): Promise<ReadonlySet<string>> {
    const answers = await Promise.all(Array.from({ length: times }, () => peer.ask("tcp", { host, port })));
    return new Set(answers.map((it) => it.from || it.error));
  }

  it("answers at a port of the node in both families, for TCP and UDP, and not for SCTP", async () => {
    await serve({ type: "NodePort" }, { v4: [ready(a.v4), ready(b.v4)], v6: [ready(a.v6)] });
    expect(await askOften(outside, NODE.v4, 30_080)).toEqual(new Set(["a", "b"]));
    const v6 = await outside.ask("tcp", { host: NODE.v6, port: 30_080 });
    expect(v6).toMatchObject({ from: "a", error: "" });
    // The node stands in for the client: the answer has to come back this way.
    expect([outside.v4, outside.v6]).not.toContain(v6.sees);
    expect(await outside.ask("udp", { host: NODE.v4, port: 30_080 })).toMatchObject({ error: "" });
    expect(await client.ask("tcp", { host: NODE.v4, port: 30_080 })).toMatchObject({ error: "" });
    expect(await outside.ask("tcp", { host: NODE.v4, port: 30_081 })).toMatchObject({
      error: "ECONNREFUSED",
    });
  });

  it("follows the node's addresses, and closes the port with the Service", async () => {
    await serve({ type: "NodePort" }, { v4: [ready(a.v4)] });
    nodes.set(makeNode("node", { ...place, addresses: [NODE.v6] }));
    await proxy.idle(signal);
    expect(await outside.ask("tcp", { host: NODE.v4, port: 30_080 })).toMatchObject({
      error: "ECONNREFUSED",
    });
    nodes.set(makeNode("node", place));
    await proxy.idle(signal);
    expect(await outside.ask("tcp", { host: NODE.v4, port: 30_080 })).toMatchObject({ from: "a" });
    services.delete(makeService("web", {}));
    await proxy.idle(signal);
    expect(await outside.ask("tcp", { host: NODE.v4, port: 30_080 })).toMatchObject({
      error: "ECONNREFUSED",
    });
  });

  it("with externalTrafficPolicy Local shows the client's address at a port of the node, and stays here", async () => {
    const here = { nodeName: "node" };
    const v4 = [ready(a.v4, here), ready(b.v4, { nodeName: "other" })];
    await serve({ type: "NodePort", externalTrafficPolicy: "Local" }, { v4, v6: [ready(a.v6, here)] });
    const answers = await Promise.all(
      Array.from({ length: 12 }, () => outside.ask("tcp", { host: NODE.v4, port: 30_080 })),
    );
    expect(new Set(answers.map((it) => `${it.from} ${it.sees}`))).toEqual(new Set([`a ${outside.v4}`]));
    expect(await outside.ask("tcp", { host: NODE.v6, port: 30_080 })).toMatchObject({ sees: outside.v6 });
    // A pod of this node is inside: it reaches all of them.
    expect(await askOften(client, NODE.v4, 30_080)).toEqual(new Set(["a", "b"]));
  });

  it("admits to a load balancer's address only clients in its source ranges", async () => {
    const endpoints = { v4: [ready(a.v4)], v6: [ready(a.v6)] };
    const ingress = [BALANCER.v4, BALANCER.v6];
    await serve({ loadBalancerSourceRanges: ["192.0.2.0/24", "192.0.2.2/32"] }, endpoints, ingress);
    expect(await outside.ask("tcp", { host: BALANCER.v4, port: 80 })).toMatchObject({ from: "a" });
    expect((await client.ask("tcp", { host: BALANCER.v4, port: 80 })).error).not.toBe("");
    // Ranges of one family say nothing of the other.
    expect(await client.ask("tcp", { host: BALANCER.v6, port: 80 })).toMatchObject({ from: "a" });
    expect(await client.ask("tcp", { host: VIP.v4, port: 80 })).toMatchObject({ from: "a" });
    await serve({ loadBalancerSourceRanges: ["198.51.100.0/24", "2001:db8:9::/48"] }, endpoints, ingress);
    expect((await outside.ask("tcp", { host: BALANCER.v4, port: 80 })).error).not.toBe("");
    expect((await outside.ask("tcp", { host: BALANCER.v6, port: 80 })).error).not.toBe("");
    await serve({}, endpoints, ingress);
    expect(await client.ask("tcp", { host: BALANCER.v4, port: 80 })).toMatchObject({ from: "a" });
  });

  it("answers at its external addresses, at its own ports only", async () => {
    await serve({ externalIPs: [BALANCER.v4, BALANCER.v6] }, { v4: [ready(a.v4)], v6: [ready(a.v6)] });
    for (const host of [BALANCER.v4, BALANCER.v6])
      expect(await outside.ask("tcp", { host, port: 80 })).toMatchObject({ from: "a", error: "" });
    expect((await outside.ask("tcp", { host: BALANCER.v4, port: 81 })).from).toBe("");
  });

  it("prefers its zone and its node if endpoints have hints", async () => {
    const forZone = (name: string) => ({ hints: { forZones: [{ name }] } });
    await serve({}, { v4: [ready(a.v4, forZone("zone-1")), ready(b.v4, forZone("zone-2"))] });
    expect(await askOften(client, VIP.v4, 80)).toEqual(new Set(["a"]));
    nodes.set(makeNode("node", { ...place, zone: "zone-2" }));
    await proxy.idle(signal);
    expect(await askOften(client, VIP.v4, 80)).toEqual(new Set(["b"]));
    nodes.set(makeNode("node", { ...place, zone: "zone-9" }));
    await proxy.idle(signal);
    expect(await askOften(client, VIP.v4, 80)).toEqual(new Set(["a", "b"]));
  });

  it("with session affinity brings a client to the same endpoint, also when better ones come", async () => {
    const spec = { sessionAffinity: "ClientIP", type: "NodePort" } as const;
    await serve(spec, { v4: [ready(a.v4)], v6: [ready(a.v6)] });
    for (const host of [VIP.v4, VIP.v6, NODE.v4])
      expect(await client.ask("tcp", { host, port: host === NODE.v4 ? 30_080 : 80 })).toMatchObject({
        from: "a",
      });
    expect(await client.ask("udp", { host: VIP.v4, port: 80 })).toMatchObject({ from: "a" });
    await serve(spec, { v4: [ready(a.v4), ready(b.v4)], v6: [ready(a.v6), ready(b.v6)] });
    expect(await askOften(client, VIP.v4, 80)).toEqual(new Set(["a"]));
    // IPv6 clients go by a hash: always to the same one as long as the endpoints are the same.
    expect((await askOften(client, VIP.v6, 80)).size).toBe(1);
    expect(await askOften(client, NODE.v4, 30_080)).toEqual(new Set(["a"]));
    for (let at = 0; at < 8; at++)
      expect(await client.ask("udp", { host: VIP.v4, port: 80 })).toMatchObject({ from: "a" });
    // Affinity is per client: some of these clients get the other endpoint, and keep it.
    const [first] = await askOften(b, VIP.v4, 80, 1);
    expect(await askOften(b, VIP.v4, 80)).toEqual(new Set([first]));
  });

  it("drops an affinity when its endpoint is gone, and after its timeout without traffic", async () => {
    const spec = (timeoutSeconds: number): ServiceSpec => ({
      sessionAffinity: "ClientIP",
      sessionAffinityConfig: { clientIP: { timeoutSeconds } },
    });
    await serve(spec(3600), { v4: [ready(a.v4)] });
    expect(await client.ask("tcp", { host: VIP.v4, port: 80 })).toMatchObject({ from: "a" });
    await serve(spec(3600), { v4: [ready(b.v4)] });
    expect(await askOften(client, VIP.v4, 80)).toEqual(new Set(["b"]));
    await serve(spec(1), { v4: [ready(a.v4), ready(b.v4)] });
    const nft = createExecNft({ prefix: world.nodePrefix });
    const affinities = async (): Promise<number | undefined> =>
      (await nft.read(PROXY_TABLE, signal))?.sets.get("affinity-4")?.elements.size;
    const seen = new Set<string>();
    // By chance every other idle time ends at the other endpoint.
    for (let at = 0; at < 12 && seen.size < 2; at++) {
      const [given = ""] = await askOften(client, VIP.v4, 80, 4);
      seen.add(given);
      await until("no client remembered", affinities, (it) => it === 0);
    }
    expect(seen).toEqual(new Set(["a", "b"]));
  });

  it("keeps clients where they are when it is started again", async () => {
    const spec = { sessionAffinity: "ClientIP" } as const;
    await serve(spec, { v4: [ready(a.v4)] });
    expect(await client.ask("tcp", { host: VIP.v4, port: 80 })).toMatchObject({ from: "a" });
    await serve(spec, { v4: [ready(a.v4), ready(b.v4)] });
    const nft = createExecNft({ prefix: world.nodePrefix });
    const before = (await nft.read(PROXY_TABLE, signal))?.sets.get("affinity-4")?.elements;
    expect(before?.size).toBe(1);
    const again = createServiceProxy({
      services,
      endpointSlices: slices,
      nodeName: "node",
      nodes,
      clusterCidrs: POD_CIDRS,
      nft: createNft({ netns: world.nodeNetns }),
      flows: createFlowTable({ netns: world.nodeNetns, clock: systemClock, log: silentLogger }),
      health: { set() {}, async [Symbol.asyncDispose]() {} },
      clock: systemClock,
      rng: seededRng(2),
      log: silentLogger,
    });
    await proxy[Symbol.asyncDispose]();
    proxy = again;
    await proxy.start(signal);
    expect(await askOften(client, VIP.v4, 80)).toEqual(new Set(["a"]));
  });
});
