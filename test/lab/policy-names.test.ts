/** Policies about DNS names with packets: the proxy of a node with the real kernel, and an API server in memory. */

import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it } from "vitest";
import { exec, start } from "@fairlead/base/exec.ts";
import { CILIUM_NETWORK_POLICIES } from "@fairlead/fleet/api/cilium.io/v2/types.ts";
import { NODES, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { ENDPOINT_SLICES } from "@fairlead/kube/api/discovery/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { inNetns } from "@fairlead/os/netns/netns.ts";
import { isFull } from "../support/sample.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";
import { PolicyWorld } from "./policy-world.ts";

const SCRIPT = fileURLToPath(new URL("dns-peer.ts", import.meta.url));
const SERVICE = "10.96.0.10";
/** Names that a hostile pod asks for. */
const FLOOD = isFull ? 100_000 : 2000;

let world: PolicyWorld;
/** Names that the server was asked for. */
let asked = "";

async function startServer(): Promise<Disposable> {
  const { v4: web, v6: web6 } = world.pod("out/web").peer;
  const all = {
    "web.example.com.": [web, web6],
    ...(world.ids.includes("out/host") && { "host.example.com.": [world.pod("out/host").peer.v4] }),
    "pod.example.com.": [world.pod("x/b").peer.v4],
    "many.example.com.": Array.from({ length: 80 }, (_, at) => `10.98.100.${at}`),
    "web.example.org.": [world.pod("out/other").peer.v4],
  };
  const { command, args } = inNetns(world.pod("x/dns").netns, process.execPath, [
    SCRIPT,
    "serve",
    JSON.stringify(all),
  ]);
  const child = start(command, args, { stdio: ["ignore", "pipe", "inherit"] });
  await new Promise<void>((resolve) => {
    child.stdout?.on("data", (data: Buffer) => {
      asked += data.toString();
      if (asked.includes("ready")) resolve();
    });
  });
  return { [Symbol.dispose]: () => void child.kill("SIGKILL") };
}

async function dns(from: string, server: string, ...words: readonly string[]): Promise<string> {
  const [name = "", type = "A", transport = "udp", port = "53", ...more] = words;
  const line = inNetns(world.pod(from).netns, process.execPath, [
    SCRIPT,
    "ask",
    server,
    name,
    type,
    transport,
    port,
    ...more,
  ]);
  return (await exec(line.command, line.args, { timeoutMs: 10_000 })).stdout;
}

const POLICY = {
  metadata: { namespace: "x", name: "names" },
  spec: {
    endpointSelector: { matchLabels: { pod: "a" } },
    egress: [
      {
        toEndpoints: [{ matchLabels: { pod: "dns" } }],
        toPorts: [
          { ports: [{ port: "53", protocol: "ANY" }], rules: { dns: [{ matchPattern: "*.example.com" }] } },
        ],
      },
      {
        toFQDNs: [
          { matchName: "web.example.com" },
          { matchName: "pod.example.com" },
          { matchName: "many.example.com" },
          { matchPattern: "h*.example.com" },
        ],
        toPorts: [{ ports: [{ port: "80", protocol: "TCP" }] }],
      },
    ],
  },
};

/** Of another namespace, whose pods may ask any server. */
const OTHERS = {
  metadata: { namespace: "y", name: "names" },
  spec: {
    endpointSelector: {},
    egress: [{ toEntities: ["cluster"] }, { toFQDNs: [{ matchPattern: "h*.example.com" }] }],
  },
};

describeOnKernel("policies about names", () => {
  const stack = new DisposableStack();
  beforeAll(async () => {
    world = await PolicyWorld.start(
      [
        { namespace: "x", name: "a", node: 1 },
        { namespace: "x", name: "b", node: 1 },
        { namespace: "x", name: "hostile", labels: { pod: "a" }, node: 1 },
        { namespace: "y", name: "other", node: 1 },
        { namespace: "x", name: "dns", node: 2 },
        { namespace: "out", name: "web", node: 2, isOutside: true },
        { namespace: "out", name: "other", node: 2, isOutside: true },
        { namespace: "out", name: "host", node: 2, isOutside: true },
      ],
      1,
    );
    const { v4 } = world.pod("x/dns").peer;
    world.client.seed(SERVICES, {
      metadata: { namespace: "x", name: "dns" },
      spec: {
        clusterIP: SERVICE,
        clusterIPs: [SERVICE],
        ports: [
          { name: "udp", port: 53, protocol: "UDP" },
          { name: "tcp", port: 53, protocol: "TCP" },
        ],
      },
    });
    world.client.seed(ENDPOINT_SLICES, {
      metadata: { namespace: "x", name: "dns-1", labels: { "kubernetes.io/service-name": "dns" } },
      addressType: "IPv4",
      endpoints: [{ addresses: [v4] }],
      ports: [
        { name: "udp", port: 53, protocol: "UDP" },
        { name: "tcp", port: 53, protocol: "TCP" },
      ],
    });
    const addresses = ["192.0.2.1", "2001:db8::1"].map((address) => ({ type: "InternalIP", address }));
    await world.client.mergePatch(
      NODES,
      objectKey(undefined, "n1"),
      { status: { addresses } },
      { subresource: "status" },
    );
    stack.use(await startServer());
    for (const it of [POLICY, OTHERS]) await world.client.create(CILIUM_NETWORK_POLICIES, it);
    await world.settled();
  });
  afterAll(async () => {
    stack.dispose();
    await world?.[Symbol.asyncDispose]();
  });

  const web = (family?: 6) => world.asks("x/a", "out/web", { port: 80, ...(family && { family }) });

  it("let a pod reach the addresses of a name as soon as it has the answer", async () => {
    expect(await web()).toBe(false);
    const { v4, v6 } = world.pod("out/web").peer;
    expect(await dns("x/a", SERVICE, "web.example.com.")).toBe(`0 ${v4}`);
    expect([await web(), await web(6)]).toEqual([true, false]);
    expect(await dns("x/a", world.pod("x/dns").peer.v6, "WEB.example.com.", "AAAA", "tcp")).toBe(`0 ${v6}`);
    expect(await web(6)).toBe(true);
    expect(await world.asks("x/a", "out/web", { port: 81 })).toBe(false);
  });

  it("keep new pods closed by their devices where the node has no podCIDRs", async () => {
    const cidrs = (podCIDRs: readonly string[] | null) =>
      world.client.mergePatch(NODES, objectKey(undefined, "n1"), {
        spec: { podCIDRs: podCIDRs as string[] },
      });
    const reached = (): Promise<boolean[]> =>
      Promise.all([world.asks("x/dns", "x/b", { port: 80 }), world.asks("x/b", "x/dns", { port: 80 })]);
    await cidrs(null);
    await world.settled();
    expect(await reached()).toEqual([true, true]);
    await world.setAddresses("x/b", false);
    expect(await reached()).toEqual([false, false]);
    await world.setAddresses("x/b", true);
    expect(await reached()).toEqual([true, true]);
    await cidrs(["10.244.1.0/24", "fd00:244:0:1::/64"]);
    await world.settled();
  });

  it("do not let a pod reach what only a pod of another namespace was answered", async () => {
    const { v4 } = world.pod("out/host").peer;
    expect(await dns("y/other", SERVICE, "host.example.com.")).toBe(`0 ${v4}`);
    expect(await world.asks("y/other", "out/host", { port: 80 })).toBe(true);
    expect(await world.asks("x/a", "out/host", { port: 80 })).toBe(false);
  });

  it("refuse other names, which the server does not come to see", async () => {
    expect(await dns("x/a", SERVICE, "web.example.org.")).toBe("5");
    expect(await dns("x/a", SERVICE, "web.example.org.", "A", "tcp")).toBe("5");
    expect(asked).not.toContain("web.example.org");
    expect(await dns("x/a", "192.0.2.2", "web.example.com.")).toBe("5");
    expect(await world.asks("x/a", "out/other", { port: 80 })).toBe(false);
  });

  it("never let pods of the fleet be reached by a name", async () => {
    expect(await dns("x/a", SERVICE, "pod.example.com.")).toBe(`0 ${world.pod("x/b").peer.v4}`);
    expect(await world.asks("x/a", "x/b", { port: 80 })).toBe(false);
  });

  it("keep so many addresses of a name, whatever a server answers", async () => {
    expect((await dns("x/a", SERVICE, "many.example.com.")).split(" ").length).toBe(81);
    const table = await world.table(1);
    expect(table.match(/10\.98\.100\.\d+/g)?.length).toBe(50);
  });

  it("are bounded for a pod that asks for very many, while others get their answers", async () => {
    const { command, args } = inNetns(world.pod("x/hostile").netns, process.execPath, [
      SCRIPT,
      "flood",
      SERVICE,
      `${FLOOD}`,
    ]);
    const state = { isOver: false };
    const flood = exec(command, args, { timeoutMs: 300_000 }).finally(() => (state.isOver = true));
    let others = 0;
    while (!state.isOver) {
      // As long as resolvers wait (resolv.conf(5), timeout).
      const answer = await dns("x/a", SERVICE, "web.example.com.", "A", "udp", "53", "5000");
      expect(answer).toContain("0 ");
      others++;
    }
    expect(Number((await flood).stdout)).toBeGreaterThan(FLOOD * 0.95);
    expect(others).toBeGreaterThan(1);
    const table = await world.table(1);
    expect(table.match(/\b11\.\d+\.\d+\.\d+/g)?.length).toBe(10_000);
    expect(await web()).toBe(true);
  }, 300_000);

  it("leave other pods alone, which do not reach the proxy", async () => {
    const direct = ["x/a", "x/b", "x/dns"].map((it) =>
      dns(it, "192.0.2.1", "web.example.com.", "A", "udp", "9253"),
    );
    expect(await Promise.all(direct)).toEqual(direct.map(() => "no answer"));
    expect(await dns("x/b", world.pod("x/dns").peer.v4, "web.example.org.")).toContain("0 ");
  });

  it("fail closed for DNS without the agent, and let known addresses pass before and after it starts again", async () => {
    await world.stopAgent(1);
    expect(await dns("x/a", SERVICE, "web.example.com.")).toBe("no answer");
    expect(await dns("x/b", world.pod("x/dns").peer.v4, "web.example.com.")).toContain("0 ");
    expect(await web()).toBe(true);
    await world.startAgent(1);
    expect([await web(), await web(6)]).toEqual([true, true]);
    expect(await dns("x/a", SERVICE, "web.example.com.")).toContain("0 ");
  });
});

describeOnKernel("policies about names in a parallel network", () => {
  const stack = new DisposableStack();
  beforeAll(async () => {
    asked = "";
    // The second node stands for `fleet`: pods are attached to it, too, and no proxy listens there.
    world = await PolicyWorld.start(
      [
        { namespace: "x", name: "a", node: 1 },
        { namespace: "x", name: "fleet-a", labels: { pod: "a" }, node: 2, reportedOn: 1 },
        { namespace: "x", name: "b", node: 2, reportedOn: 1 },
        { namespace: "x", name: "dns", node: 2, isOutside: true },
        { namespace: "out", name: "web", node: 2, isOutside: true },
        { namespace: "out", name: "other", node: 2, isOutside: true },
      ],
      1,
      "parallel",
    );
    stack.use(await startServer());
    const { v4, v6 } = world.pod("x/dns").peer;
    const [names] = POLICY.spec.egress.slice(1);
    const toServer = {
      toCIDR: [`${v4}/32`, `${v6}/128`],
      toPorts: [{ ports: [{ port: "53", protocol: "ANY" }], rules: { dns: [{ matchPattern: "*" }] } }],
    };
    await world.client.create(CILIUM_NETWORK_POLICIES, {
      ...POLICY,
      spec: { ...POLICY.spec, egress: [toServer, names ?? {}] },
    });
    await world.settled();
  });
  afterAll(async () => {
    stack.dispose();
    await world?.[Symbol.asyncDispose]();
  });

  it("let what a pod learned by the network of its node pass in the namespace fleet as well", async () => {
    const { v4: server } = world.pod("x/dns").peer;
    // Packets of the first pod pass both tables, those of the second one that of `fleet` only.
    const asks = (to: string) =>
      Promise.all(["x/a", "x/fleet-a", "x/b"].map((it) => world.asks(it, to, { port: 80 })));
    expect(await asks("out/web")).toEqual([false, false, true]);
    expect(await dns("x/a", server, "web.example.com.")).toBe(`0 ${world.pod("out/web").peer.v4}`);
    expect(await asks("out/web")).toEqual([true, true, true]);
    expect(await asks("out/other")).toEqual([false, false, true]);
  });

  it("drop in fleet the questions of pods that they select, and leave those of others alone", async () => {
    const { v4: server } = world.pod("x/dns").peer;
    for (const transport of ["udp", "tcp"])
      expect(await dns("x/fleet-a", server, "web.example.com.", "A", transport)).toBe("no answer");
    expect(await dns("x/b", server, "web.example.com.")).toContain("0 ");
  });
});
