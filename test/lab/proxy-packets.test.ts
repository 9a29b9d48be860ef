import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { ENDPOINT_SLICES } from "@fairlead/kube/api/discovery/v1/types.ts";
import { systemClock } from "@fairlead/base/clock.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { exec } from "@fairlead/base/exec.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { seededRng } from "@fairlead/base/rng.ts";
import { createFlowTable, type FlowTableOptions } from "@fairlead/fleet/dataplane/service-proxy/flows.ts";
import { PROXY_TABLE } from "@fairlead/fleet/dataplane/service-proxy/names.ts";
import { createServiceProxy, type ServiceProxy } from "@fairlead/fleet/dataplane/service-proxy/proxy.ts";
import { diffTable } from "@fairlead/os/nft/diff.ts";
import { createExecNft } from "@fairlead/os/nft/exec.ts";
import { createNft } from "@fairlead/os/nft/netlink/driver.ts";
import { TableWatch } from "@fairlead/os/nft/netlink/table-watch.ts";
import {
  makeNode,
  makeService,
  makeSlice,
  manualInformer,
  nodeInformer,
  notReady,
  ready,
  terminating,
} from "../support/service-objects.ts";
import { until } from "../support/waiting.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";
import { createProxyWorld, type Peer, POD_CIDRS, type ProxyWorld } from "./proxy-world.ts";

describeOnKernel("the service proxy, with real packets", () => {
  const signal = AbortSignal.timeout(110_000);
  let world: ProxyWorld;
  let client: Peer;
  let outside: Peer;
  let a: Peer;
  let b: Peer;
  let proxy: ServiceProxy;
  const NODE = { v4: "192.0.2.1", v6: "2001:db8::1" };
  const place = { addresses: [NODE.v4, NODE.v6], podCIDRs: [...POD_CIDRS], zone: "zone-1" };
  let nodes = nodeInformer(makeNode("node", place));
  let services = manualInformer(SERVICES);
  let slices = manualInformer(ENDPOINT_SLICES);

  beforeAll(async () => {
    world = await createProxyWorld();
    [client, outside, a, b] = await Promise.all([
      world.pod("client", [8080]),
      world.outside(),
      world.pod("a", [8080, 9090]),
      world.pod("b", [8080, 9090]),
    ]);
  });
  afterAll(() => world[Symbol.asyncDispose]());

  beforeEach(async () => {
    services = manualInformer(SERVICES);
    slices = manualInformer(ENDPOINT_SLICES);
    nodes = nodeInformer(makeNode("node", place));
    proxy = await startProxy();
  });
  afterEach(async () => {
    await proxy[Symbol.asyncDispose]();
    const nft = createExecNft({ prefix: world.nodePrefix });
    await nft.apply(PROXY_TABLE, diffTable(await nft.read(PROXY_TABLE, signal), undefined), signal);
  });

  async function startProxy(libc: Pick<FlowTableOptions, "loadLibC"> = {}): Promise<ServiceProxy> {
    const made = createServiceProxy({
      services,
      endpointSlices: slices,
      nodeName: "node",
      nodes,
      health: { set() {}, async [Symbol.asyncDispose]() {} },
      watchTable: (onDeleted) =>
        new TableWatch({
          netns: world.nodeNetns,
          tables: [PROXY_TABLE.name],
          onDeleted,
          deps: systemDeps(silentLogger),
        }),
      clusterCidrs: POD_CIDRS,
      nft: createNft({ netns: world.nodeNetns }),
      flows: createFlowTable({ netns: world.nodeNetns, clock: systemClock, log: silentLogger, ...libc }),
      clock: systemClock,
      rng: seededRng(1),
      log: silentLogger,
    });
    await made.start(signal);
    return made;
  }

  const VIP = { v4: "10.96.0.10", v6: "fd00:96::10" };
  const BALANCER = { v4: "203.0.113.7", v6: "2001:db8:7::7" };
  const web = makeService("web", {
    clusterIPs: [VIP.v4, VIP.v6],
    ports: [
      { name: "", protocol: "TCP", port: 80 },
      { name: "", protocol: "UDP", port: 80 },
    ],
  });
  const bothPorts = [
    { name: "", protocol: "TCP", port: 8080 },
    { name: "", protocol: "UDP", port: 8080 },
  ] as const;
  const slice = (endpoints: Parameters<typeof makeSlice>[2]["endpoints"], name = "web-1") =>
    makeSlice(name, "web", { endpoints, ports: [...bothPorts] });

  async function askOften(peer: Peer, host: string, times = 24): Promise<ReadonlySet<string>> {
    const answers = await Promise.all(
      Array.from({ length: times }, () => peer.ask("tcp", { host, port: 80 })),
    );
    return new Set(answers.map((it) => it.from || it.error));
  }

  it("spreads TCP and UDP over the endpoints, in both families, and preserves the client's address", async () => {
    services.set(web);
    slices.set(slice([ready(a.v4), ready(b.v4)]));
    slices.set(slice([ready(a.v6), ready(b.v6)], "web-2"));
    await proxy.idle(signal);
    expect(await askOften(client, VIP.v4)).toEqual(new Set(["a", "b"]));
    expect(await askOften(client, VIP.v6)).toEqual(new Set(["a", "b"]));
    for (const [host, sees] of [
      [VIP.v4, client.v4],
      [VIP.v6, client.v6],
    ] as const) {
      expect(await client.ask("tcp", { host, port: 80 })).toMatchObject({ sees });
      expect(await client.ask("udp", { host, port: 80 })).toMatchObject({ sees });
    }
  });

  it("takes the port from the slice of each cluster", async () => {
    services.set(web);
    slices.set(slice([ready(a.v4)], "ours"));
    slices.set(makeSlice("theirs", "web", { endpoints: [ready(b.v4)], ports: [{ name: "", port: 9090 }] }));
    slices.set(
      makeSlice("named", "web", { endpoints: [ready("10.244.9.9")], ports: [{ name: "x", port: 1 }] }),
    );
    await proxy.idle(signal);
    expect(await askOften(client, VIP.v4)).toEqual(new Set(["a", "b"]));
  });

  it("rejects at once without endpoints, and on ports that no Service has", async () => {
    services.set(web);
    slices.set(slice([notReady(a.v4)]));
    await proxy.idle(signal);
    for (const host of [VIP.v4, VIP.v6]) {
      for (const port of [80, 81]) {
        const tcp = await client.ask("tcp", { host, port });
        expect(tcp).toMatchObject({ error: "ECONNREFUSED" });
        expect(tcp.ms).toBeLessThan(1000);
        expect(await client.ask("udp", { host, port })).toMatchObject({ error: "ECONNREFUSED" });
      }
    }
  });

  it("falls back to endpoints that serve while they terminate, and leaves them when one is ready", async () => {
    services.set(web);
    slices.set(slice([terminating(a.v4)]));
    await proxy.idle(signal);
    expect(await askOften(client, VIP.v4, 4)).toEqual(new Set(["a"]));
    slices.set(slice([terminating(a.v4), ready(b.v4)]));
    await proxy.idle(signal);
    expect(await askOften(client, VIP.v4, 12)).toEqual(new Set(["b"]));
  });

  it("can choose an endpoint for its own request", async () => {
    services.set(web);
    slices.set(slice([ready(a.v4, { nodeName: "node" })]));
    slices.set(slice([ready(a.v6, { nodeName: "node" })], "web-2"));
    await proxy.idle(signal);
    expect(await a.ask("tcp", { host: VIP.v4, port: 80 })).toMatchObject({ from: "a", error: "" });
    expect(await a.ask("tcp", { host: VIP.v6, port: 80 })).toMatchObject({ from: "a", error: "" });
  });

  it("serves a load balancer's address to the outside by the node's address, and to pods by their own", async () => {
    services.set(makeService("web", web.spec!, [BALANCER.v4, BALANCER.v6]));
    slices.set(slice([ready(a.v4)]));
    slices.set(slice([ready(a.v6)], "web-2"));
    await proxy.idle(signal);
    for (const host of [BALANCER.v4, BALANCER.v6]) {
      const answer = await outside.ask("tcp", { host, port: 80 });
      expect(answer).toMatchObject({ from: "a", error: "" });
      expect([outside.v4, outside.v6, ""]).not.toContain(answer.sees);
    }
    expect(await client.ask("tcp", { host: BALANCER.v4, port: 80 })).toMatchObject({ sees: client.v4 });
    expect(await client.ask("tcp", { host: BALANCER.v6, port: 80 })).toMatchObject({ sees: client.v6 });
  });

  it("with externalTrafficPolicy Local shows the outside's address, and uses this node's endpoints for it", async () => {
    services.set(makeService("web", { ...web.spec, externalTrafficPolicy: "Local" }, [BALANCER.v4]));
    slices.set(slice([ready(a.v4, { nodeName: "node" }), ready(b.v4, { nodeName: "other" })]));
    await proxy.idle(signal);
    const answers = await Promise.all(
      Array.from({ length: 12 }, () => outside.ask("tcp", { host: BALANCER.v4, port: 80 })),
    );
    expect(new Set(answers.map((it) => `${it.from} ${it.sees}`))).toEqual(new Set([`a ${outside.v4}`]));
    expect(await askOften(client, BALANCER.v4)).toEqual(new Set(["a", "b"]));
  });

  it("with internalTrafficPolicy Local uses this node's endpoints only", async () => {
    services.set(makeService("web", { ...web.spec, internalTrafficPolicy: "Local" }));
    slices.set(slice([ready(a.v4, { nodeName: "node" }), ready(b.v4, { nodeName: "other" })]));
    await proxy.idle(signal);
    expect(await askOften(client, VIP.v4)).toEqual(new Set(["a"]));
  });

  it.each([
    ["netlink", 40_000, {}],
    ["the conntrack program", 40_001, { loadLibC: async () => undefined }],
  ])(
    "moves a UDP client that keeps its port off an endpoint that went away, by %s",
    async (_, from, libc) => {
      await proxy[Symbol.asyncDispose]();
      proxy = await startProxy(libc);
      services.set(web);
      slices.set(slice([ready(a.v4)]));
      slices.set(slice([ready(a.v6)], "web-2"));
      await proxy.idle(signal);
      const requests = [VIP.v4, VIP.v6].map((host) => ({ host, port: 80, from }));
      for (const request of requests) expect(await client.ask("udp", request)).toMatchObject({ from: "a" });
      slices.set(slice([ready(b.v4)]));
      slices.set(slice([ready(b.v6)], "web-2"));
      await proxy.idle(signal);
      for (const request of requests) expect(await client.ask("udp", request)).toMatchObject({ from: "b" });
    },
  );

  it("moves all UDP clients of an endpoint at once, and leaves those of another alone", async () => {
    const other = makeService("other", { clusterIPs: ["10.96.0.11"], ports: [...(web.spec?.ports ?? [])] });
    services.set(web);
    services.set(other);
    slices.set(slice([ready(a.v4)]));
    slices.set(makeSlice("other-1", "other", { endpoints: [ready(a.v4)], ports: [...bothPorts] }));
    await proxy.idle(signal);
    const ports = Array.from({ length: 400 }, (_, at) => 41_000 + at);
    const ask = async (from: number): ReturnType<typeof client.ask> => {
      const answer = await client.ask("udp", { host: VIP.v4, port: 80, from });
      // So many datagrams at once may overrun a buffer on a busy machine.
      return answer.error === "ETIMEDOUT" ? client.ask("udp", { host: VIP.v4, port: 80, from }) : answer;
    };
    const askAll = async (): Promise<ReadonlySet<string>> => {
      const answers = await Promise.all(ports.map(ask));
      return new Set(answers.map((it) => it.from || it.error));
    };
    expect(await askAll()).toEqual(new Set(["a"]));
    const kept = { host: "10.96.0.11", port: 80, from: 42_000 };
    expect(await client.ask("udp", kept)).toMatchObject({ from: "a" });
    slices.set(slice([ready(b.v4)]));
    await proxy.idle(signal);
    expect(await askAll()).toEqual(new Set(["b"]));
    const [nsenter = "", ...rest] = world.nodePrefix;
    const listed = await exec(nsenter, [...rest, "conntrack", "-L", "-p", "udp", "--orig-dst", kept.host]);
    expect(listed.stdout).toContain(`src=${a.v4}`);
  });

  /** Lines of `conntrack -L` about a Service's address. */
  async function remembered(host: string): Promise<readonly string[]> {
    const [nsenter = "", ...rest] = world.nodePrefix;
    const family = host.includes(":") ? "ipv6" : "ipv4";
    const args = [...rest, "conntrack", "-L", "-f", family, "-p", "tcp", "--orig-dst", host];
    return (await exec(nsenter, args)).stdout.split("\n").filter((it) => it !== "");
  }

  /** Puts a flow into conntrack's memory as if packets had made it. */
  async function remember(
    state: string,
    { host, from, of, service: port = 80 }: { host: string; from: number; of: Peer; service?: number },
  ): Promise<void> {
    const [nsenter = "", ...rest] = world.nodePrefix;
    const [source, endpoint] = host.includes(":") ? [client.v6, of.v6] : [client.v4, of.v4];
    const original = ["-s", source, "-d", host, "--sport", String(from), "--dport", String(port)];
    const reply = ["--reply-src", endpoint, "--reply-dst", source, "--reply-port-src", "8080"];
    const flow = [...original, ...reply, "--reply-port-dst", String(from)];
    const args = ["-I", "-p", "tcp", ...flow, "--state", state, "-t", "110"];
    await exec(nsenter, [...rest, "conntrack", ...args, "-u", "SEEN_REPLY"]);
  }

  const stateOf = (line: string): string => line.trim().split(/ +/)[3] ?? "";

  it.each([
    ["netlink", {}, ["CLOSE_WAIT", "ESTABLISHED", "FIN_WAIT"]],
    [
      "the conntrack program, which leaves those that a SYN replaces",
      { loadLibC: async () => undefined },
      ["CLOSE_WAIT", "ESTABLISHED", "FIN_WAIT", "TIME_WAIT"],
    ],
  ])(
    "ends TCP flows of an endpoint that went in every state but those that may carry data, by %s",
    async (_, libc, kept) => {
      await proxy[Symbol.asyncDispose]();
      proxy = await startProxy(libc);
      services.set(web);
      slices.set(slice([ready(a.v4), ready(b.v4)]));
      slices.set(slice([ready(a.v6), ready(b.v6)], "web-2"));
      await proxy.idle(signal);
      const silent = ["SYN_SENT", "SYN_RECV", "LAST_ACK", "TIME_WAIT", "CLOSE"];
      const states = [...new Set([...kept, ...silent])];
      for (const host of [VIP.v4, VIP.v6])
        for (const [at, state] of states.entries()) {
          await remember(state, { host, from: 44_000 + at, of: a });
          await remember(state, { host, from: 44_100 + at, of: b });
        }
      slices.set(slice([ready(b.v4)]));
      slices.set(slice([ready(b.v6)], "web-2"));
      await proxy.idle(signal);
      for (const host of [VIP.v4, VIP.v6]) {
        const of = (peer: Peer, lines: readonly string[]): readonly string[] =>
          lines.filter((it) => it.includes(`src=${host === VIP.v4 ? peer.v4 : peer.v6} `)).map(stateOf);
        const lines = await until(
          "what carries no data is forgotten",
          () => remembered(host),
          (it) => of(a, it).length <= kept.length,
        );
        expect(of(a, lines).toSorted()).toEqual(kept);
        expect(of(b, lines).toSorted()).toEqual(states.toSorted());
        // A client that begins again has an endpoint that is there, also where its last connection is remembered.
        const from = 44_000 + states.indexOf("TIME_WAIT");
        expect(await client.ask("tcp", { host, port: 80, from })).toMatchObject({ from: "b" });
      }
      const [nsenter = "", ...rest] = world.nodePrefix;
      for (const family of ["ipv4", "ipv6"])
        await exec(nsenter, [...rest, "conntrack", "-D", "-f", family, "-p", "tcp"]);
    },
  );

  it("rejects a client whose SYN was never answered, and not a pod of another Service that now has the address", async () => {
    services.set(web);
    services.set(makeService("other", { clusterIPs: ["10.96.0.12", "fd00:96::12"], ports: [{ port: 80 }] }));
    const dead = { v4: "10.244.0.99", v6: "fd00:244::99" };
    for (const address of [dead.v4, dead.v6]) await world.lead(address, a, "has it not");
    slices.set(slice([ready(dead.v4)]));
    slices.set(slice([ready(dead.v6)], "web-2"));
    await proxy.idle(signal);
    const requests = [VIP.v4, VIP.v6].map((host) => ({ host, port: 80, from: 45_000 }));
    const unanswered = await Promise.all(requests.map((it) => client.ask("tcp", it)));
    for (const it of unanswered)
      expect(it).toMatchObject({ from: "", error: expect.not.stringMatching(/REFUSED/) as string });
    for (const { host } of requests) expect((await remembered(host)).map(stateOf)).toEqual(["SYN_SENT"]);
    slices.set(slice([]));
    slices.set(slice([], "web-2"));
    slices.set(makeSlice("other-1", "other", { endpoints: [ready(dead.v4)], ports: [...bothPorts] }));
    slices.set(makeSlice("other-2", "other", { endpoints: [ready(dead.v6)], ports: [...bothPorts] }));
    await proxy.idle(signal);
    for (const address of [dead.v4, dead.v6]) await world.lead(address, b, "has it");
    for (const request of requests) {
      await until(
        "the SYN is forgotten",
        () => remembered(request.host),
        (it) => it.length === 0,
      );
      expect(await client.ask("tcp", request)).toMatchObject({ from: "", error: "ECONNREFUSED" });
    }
    expect(await askOften(client, "10.96.0.12", 2)).toEqual(new Set(["b"]));
  });

  it("keeps a connection whose client closed its side and may wait for an answer, and ends one that the endpoint closed", async () => {
    services.set(web);
    slices.set(slice([ready(a.v4)]));
    await proxy.idle(signal);
    expect(await client.ask("bye", { host: VIP.v4, port: 80, from: 47_000 })).toMatchObject({ from: "a" });
    expect(await client.ask("half", { host: VIP.v4, port: 80, from: 47_001 })).toMatchObject({ from: "a" });
    const own = async (): Promise<readonly string[]> =>
      (await remembered(VIP.v4)).filter((it) => /sport=4700[01] dport=80 /.test(it));
    await until("both are half open", own, (it) => it.map(stateOf).join() === "CLOSE_WAIT,CLOSE_WAIT");
    slices.set(slice([ready(b.v4)]));
    await proxy.idle(signal);
    const left = await until("one is forgotten", own, (it) => it.length < 2);
    expect(left).toEqual([expect.stringContaining("sport=47001 ")]);
  });

  it("ends what a proxy left that died before it could", async () => {
    services.set(web);
    slices.set(slice([ready(b.v4)]));
    await proxy.idle(signal);
    await proxy[Symbol.asyncDispose]();
    await remember("SYN_SENT", { host: VIP.v4, from: 46_000, of: a });
    await remember("SYN_SENT", { host: VIP.v4, from: 46_001, of: b });
    // No Service has this port.
    await remember("SYN_SENT", { host: VIP.v4, from: 46_002, of: a, service: 8443 });
    proxy = await startProxy();
    const left = await until(
      "the flow to what is not an endpoint is forgotten",
      async () => (await remembered(VIP.v4)).filter((it) => / sport=4600\d /.test(it)),
      (it) => it.length < 3,
    );
    const ports = left.map((it) => /sport=(\d+)/.exec(it)?.[1]);
    expect(new Set(ports)).toEqual(new Set(["46001", "46002"]));
  });

  it("keeps connections, and changes nothing, when it is started again", async () => {
    services.set(web);
    slices.set(slice([ready(a.v4), ready(b.v4)]));
    await proxy.idle(signal);
    const { handle, from } = await client.ask("open", { host: VIP.v4, port: 80 });
    await proxy[Symbol.asyncDispose]();
    expect(await client.ask("say", { handle })).toMatchObject({ from });
    const nft = createExecNft({ prefix: world.nodePrefix });
    const before = await nft.read(PROXY_TABLE, signal);
    proxy = await startProxy();
    expect(await nft.read(PROXY_TABLE, signal)).toEqual(before);
    expect(await client.ask("say", { handle })).toMatchObject({ from });
    expect(await askOften(client, VIP.v4)).toEqual(new Set(["a", "b"]));
  });

  it("keeps a connection to an endpoint that is terminating, while new ones go elsewhere", async () => {
    services.set(web);
    slices.set(slice([ready(a.v4)]));
    await proxy.idle(signal);
    const { handle } = await client.ask("open", { host: VIP.v4, port: 80 });
    slices.set(slice([terminating(a.v4), ready(b.v4)]));
    await proxy.idle(signal);
    expect(await client.ask("say", { handle })).toMatchObject({ from: "a" });
    expect(await askOften(client, VIP.v4, 6)).toEqual(new Set(["b"]));
  });

  it("repairs foreign changes as soon as it finds them", async () => {
    services.set(web);
    slices.set(slice([ready(a.v4)]));
    await proxy.idle(signal);
    const nft = createExecNft({ prefix: world.nodePrefix });
    const actual = await nft.read(PROXY_TABLE, signal);
    await nft.apply(PROXY_TABLE, diffTable(actual, undefined), signal);
    slices.set(slice([ready(b.v4)]));
    await proxy.idle(signal);
    expect(await askOften(client, VIP.v4, 4)).toEqual(new Set(["b"]));
  });

  it("puts its table back when another program deletes it, without any other change", async () => {
    services.set(web);
    slices.set(slice([ready(a.v4)]));
    await proxy.idle(signal);
    const nft = createExecNft({ prefix: world.nodePrefix });
    await nft.apply(PROXY_TABLE, diffTable(await nft.read(PROXY_TABLE, signal), undefined), signal);
    await until(
      "a request is answered again",
      () => client.ask("tcp", { host: VIP.v4, port: 80, timeoutMs: 1000 }),
      (it) => it.from === "a",
      { timeoutMs: 10_000 },
    );
  });

  it("withdraws a Service that is deleted", async () => {
    services.set(web);
    slices.set(slice([ready(a.v4)]));
    await proxy.idle(signal);
    services.delete(web);
    await proxy.idle(signal);
    const table = await createExecNft({ prefix: world.nodePrefix }).read(PROXY_TABLE, signal);
    const left = [...table!.sets].filter(
      ([name]) => !name.startsWith("cluster-") && !name.startsWith("own-"),
    );
    expect(left.flatMap(([, set]) => [...set.elements])).toEqual([]);
  });

  it("finds its way among 1 000 Services, and changes one without the others", async () => {
    for (let at = 0; at < 1000; at++) {
      const name = `other-${at}`;
      services.set(
        makeService(name, { clusterIPs: [`10.97.${at >> 8}.${at & 255}`], ports: [{ port: 80 }] }),
      );
      slices.set(makeSlice(name, name, { endpoints: [ready(a.v4), ready(b.v4)] }));
    }
    services.set(web);
    slices.set(slice([ready(a.v4)]));
    await proxy.idle(signal);
    expect(await askOften(client, VIP.v4, 6)).toEqual(new Set(["a"]));
    expect(await askOften(client, "10.97.3.231")).toEqual(new Set(["a", "b"]));
    const { handle } = await client.ask("open", { host: "10.97.0.1", port: 80 });
    slices.set(slice([ready(b.v4)]));
    await proxy.idle(signal);
    expect(await askOften(client, VIP.v4, 6)).toEqual(new Set(["b"]));
    expect(await client.ask("say", { handle })).toMatchObject({ error: "" });
  });
});
