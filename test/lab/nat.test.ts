/** Members behind NAT routers of their own, with the same addresses inside. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { RELAYS } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/mesh.ts";
import { NODES, PODS, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { exec, start } from "@fairlead/base/exec.ts";
import { API_PORT, type DualAddress } from "@fairlead/lab/topology.ts";
import { FABRIC_NETNS, nodeNetns, siteNetns } from "@fairlead/lab/places.ts";
import { inNetns } from "@fairlead/os/netns/netns.ts";
import { eventually, until } from "../support/waiting.ts";
import { found, startLab, type TestLab } from "../support/lab-fixture.ts";
import { echoDeployment, namespace, service, shellPod } from "../support/lab-manifests.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";
import { type Peer, startPeer } from "./nat-peers.ts";

const MEMBERS = ["member-1", "member-2", "member-3"] as const;
type Member = (typeof MEMBERS)[number];
/** The name of its Service also decides variables in its environment, such as ECHO_PORT. */
const ECHO = { namespace: "work", name: "echo" };
/** The port from which every node sends: that of WireGuard. */
const PORT = 31_820;

let lab: TestLab;

const site = (cluster: string): string => lab.layout.netnsOf(siteNetns(lab.cluster(cluster)));
const node = (member: string) => found(lab.cluster(member).nodes[0]);
const nodePlace = (member: string): string => lab.layout.netnsOf(nodeNetns(node(member)));
const uplink = (cluster: string): DualAddress => found(lab.cluster(cluster).uplink);
const FAMILIES = [
  ["IPv4", "v4", "udp4"],
  ["IPv6", "v6", "udp6"],
] as const;

async function canPing(netns: string, address: string): Promise<boolean> {
  const line = inNetns(netns, "ping", ["-c", "1", "-W", "1", address]);
  return (await exec(line.command, line.args, { allowFailure: true })).exitCode === 0;
}

/** Whether anything answers an attempt to connect, if only with a reset. */
async function isAnswered(netns: string, address: string, port: number): Promise<boolean> {
  const line = inNetns(netns, "curl", ["-sk", "-o", "/dev/null", "-m", "1", urlOf(address, port)]);
  // Of curl: 28 is a timeout.
  return (await exec(line.command, line.args, { allowFailure: true })).exitCode !== 28;
}

function urlOf(address: string, port: number): string {
  return `https://${address.includes(":") ? `[${address}]` : address}:${port}/livez`;
}

/** Where two destinations, both at the hub, see a socket of the member's node. */
async function seenAtHub(
  member: string,
  family: "v4" | "v6",
  type: "udp4" | "udp6",
): Promise<readonly string[]> {
  await using peers = new AsyncDisposableStack();
  const ports = [4101, 4102];
  for (const port of ports) peers.use(await startPeer(site("hub"), port, type));
  const sender = peers.use(await startPeer(nodePlace(member), PORT, type));
  return await Promise.all(ports.map((port) => sender.seenBy(uplink("hub")[family], port)));
}

describeOnKernel("a lab whose members are behind NAT", () => {
  beforeAll(async () => {
    lab = await startLab({ name: "t-nat", members: MEMBERS.length, flags: ["--topology", "nat"] });
    await Promise.all(
      MEMBERS.map(async (member) => {
        await lab.apply(member, namespace(ECHO.namespace));
        await lab.kubectl(member, ["-n", "work", "wait", "--for=create", "serviceaccount/default"]);
        await lab.apply(
          member,
          echoDeployment(ECHO, member === "member-2" ? 2 : 1),
          service(ECHO, { http: 80 }, { type: "LoadBalancer" }),
          shellPod({ namespace: "work", name: "client" }),
        );
        await lab.kubectl(member, ["-n", "work", "rollout", "status", "deployment/echo", "--timeout=60s"]);
        await lab.kubectl(member, [
          "-n",
          "work",
          "wait",
          "--for=condition=Ready",
          "pod/client",
          "--timeout=60s",
        ]);
      }),
    );
  });
  afterAll(() => lab?.[Symbol.asyncDispose]());

  it("has members with the same pod, node and Service addresses in both families", async () => {
    const networks = await Promise.all(
      MEMBERS.map(async (member) => {
        const client = await lab.client(member);
        const nodes = await client.list(NODES, {});
        const { stdout } = await lab.kubectl(member, [
          "get",
          "servicecidrs",
          "-o",
          "jsonpath={.items[*].spec.cidrs}",
        ]);
        return {
          nodes: nodes.items.map((it) => ({
            podCidrs: it.spec?.podCIDRs,
            addresses: it.status?.addresses?.filter(({ type }) => type === "InternalIP"),
          })),
          services: stdout,
        };
      }),
    );
    expect(found(networks[0]).nodes[0]?.podCidrs).toHaveLength(2);
    expect(found(networks[0]).nodes[0]?.addresses).toHaveLength(2);
    expect(networks[1]).toEqual(networks[0]);
    expect(networks[2]).toEqual(networks[0]);
  });

  it("keeps the address of a pod in its cluster: the same address elsewhere is another pod, or none", async () => {
    const addressesOf = async (member: Member) => {
      const { items } = await (await lab.client(member)).list(PODS, { namespace: "work" });
      const echoes = items.filter((it) => it.metadata.labels?.["app"] === ECHO.name);
      return echoes.flatMap((it) => it.status?.podIPs?.map(({ ip }) => ip) ?? []);
    };
    const mine = new Set(await addressesOf("member-1"));
    for (const address of [...mine, ...(await addressesOf("member-2"))]) {
      const url = `http://${address.includes(":") ? `[${address}]` : address}:8080/`;
      const [answer] = await lab.ask("member-1", "work/client", { url, count: 1 });
      expect({ url, from: answer?.cluster }).toEqual({
        url,
        from: mine.has(address) ? "member-1" : undefined,
      });
    }
  });

  it("has working names, Services and load balancers in each member", async () => {
    for (const member of MEMBERS) {
      const [answer] = await lab.ask(member, "work/client", {
        url: "http://echo.work.svc.cluster.local/",
        count: 1,
      });
      expect(answer?.cluster).toBe(member);
      const services = await eventually(await lab.client(member), SERVICES, (all) =>
        all.some(
          (it) => it.metadata.name === ECHO.name && it.status?.loadBalancer?.ingress?.[0]?.ip !== undefined,
        ),
      );
      const ip = services.find((it) => it.metadata.name === ECHO.name)?.status?.loadBalancer?.ingress?.[0]
        ?.ip;
      const reply = await fetch(`http://${ip}/`, { headers: { accept: "application/json" } });
      expect(await reply.json()).toMatchObject({ cluster: member });
    }
  });

  it.each(FAMILIES)("lets nodes and pods of members reach the hub in %s", async (_, family) => {
    const { api } = lab.cluster("hub");
    for (const member of MEMBERS) expect(await canPing(nodePlace(member), api[family])).toBe(true);
    await lab.inPod("member-3", "work/client", `ping -c 1 -W 5 ${api[family]}`);
    expect(await lab.inPod("member-3", "work/client", `curl -sk ${urlOf(api.v4, API_PORT)}`)).toBe("ok");
  });

  it("drops, without an answer, new connections from members and the hub to a member", async () => {
    const { api, loadBalancerCidr } = lab.cluster("member-1");
    const balancer = {
      v4: loadBalancerCidr.v4.replace(/128\/25$/, "129"),
      v6: loadBalancerCidr.v6.replace(/::\/112$/, "::1"),
    };
    const attempts = [nodePlace("member-2"), site("member-2"), site("hub")].flatMap((from) =>
      FAMILIES.flatMap(([, family]) => [
        isAnswered(from, api[family], API_PORT),
        isAnswered(from, uplink("member-1")[family], API_PORT),
        isAnswered(from, balancer[family], 80),
      ]),
    );
    expect(new Set(await Promise.all(attempts))).toEqual(new Set([false]));
    for (const [, family] of FAMILIES)
      expect(await isAnswered(nodePlace("member-1"), api[family], API_PORT)).toBe(true);
  });

  it.each(FAMILIES)("drops what is routed to a node or pod of a member in %s", async (_, family) => {
    const { link, api } = lab.cluster("member-1");
    const [address, pods] = [node("member-1").address[family], node("member-1").podCidr[family]];
    const gateway = family === "v4" ? api.v4 : "fe80::2";
    const route = (verb: string, to: string) => {
      const args = ["route", verb, to, "via", gateway, "dev", link, "onlink"];
      const line = inNetns(lab.layout.netnsOf(FABRIC_NETNS), "ip", args);
      return exec(line.command, line.args);
    };
    for (const to of [address, pods]) await route("add", to);
    try {
      expect(await canPing(site("hub"), address)).toBe(false);
      expect(await canPing(site("member-2"), node("member-2").address[family])).toBe(true);
      expect(await canPing(lab.layout.netnsOf(FABRIC_NETNS), address)).toBe(false);
    } finally {
      for (const to of [address, pods]) await route("delete", to);
    }
  });

  it.each(FAMILIES)(
    "maps a port to itself behind a friendly NAT, whatever the destination, in %s",
    async (_, family, type) => {
      for (const member of ["member-1", "member-2"]) {
        const expected = `${uplink(member)[family]}/${PORT}`;
        expect(await seenAtHub(member, family, type)).toEqual([expected, expected]);
      }
    },
  );

  it.each(FAMILIES)(
    "maps a port to another one for each destination behind a random NAT in %s",
    async (_, family, type) => {
      const seen = await seenAtHub("member-3", family, type);
      for (const it of seen) expect(it.split("/")[0]).toBe(uplink("member-3")[family]);
      expect(new Set([...seen, `${uplink("member-3")[family]}/${PORT}`]).size).toBe(3);
    },
  );

  it("lets members behind friendly NATs open a path to each other, and none to a random one", async () => {
    await using peers = new AsyncDisposableStack();
    const [first, second, third] = (await Promise.all(
      MEMBERS.map(async (it) => peers.use(await startPeer(nodePlace(it), PORT))),
    )) as [Peer, Peer, Peer];
    await Promise.all([
      first.seenBy(uplink("member-2").v4, PORT),
      second.seenBy(uplink("member-1").v4, PORT),
    ]);
    for (let at = 0; at < 5; at += 1) {
      first.send(uplink("member-3").v4, PORT);
      third.send(uplink("member-1").v4, PORT);
    }
    // One that arrives is behind those that were sent before it.
    await first.seenBy(uplink("member-2").v4, PORT);
    expect(first.received()).toEqual([`${uplink("member-2").v4}/${PORT}`]);
    expect(third.received()).toEqual([]);
  });

  it("keeps UDP mappings for the times of the spec", async () => {
    const { natUdpSeconds, natUdpStreamSeconds } = lab.topology.spec;
    const keys = ["nf_conntrack_udp_timeout", "nf_conntrack_udp_timeout_stream"];
    const line = inNetns(site("member-1"), "sysctl", ["-n", ...keys.map((it) => `net.netfilter.${it}`)]);
    const { stdout } = await exec(line.command, line.args);
    expect(stdout.trim().split("\n")).toEqual([String(natUdpSeconds), String(natUdpStreamSeconds)]);
  });

  it("runs a relay at the hub, which can be reached at the hub's uplink", async () => {
    const { items } = await (await lab.client("hub")).list(RELAYS, {});
    expect(items.map((it) => it.spec.addresses)).toEqual([[uplink("hub").v4, uplink("hub").v6]]);
  });

  it("suffers and repairs faults as any lab does, and a flow keeps its mapping through a repair", async () => {
    await using peers = new AsyncDisposableStack();
    peers.use(await startPeer(site("hub"), 4103));
    const sender = peers.use(await startPeer(nodePlace("member-3"), PORT));
    const before = await sender.seenBy(uplink("hub").v4, 4103);
    await lab.lab("kill", ["link/member-3"]);
    expect(await canPing(nodePlace("member-3"), uplink("hub").v4)).toBe(false);
    await lab.lab("restore", ["link/member-3"]);
    // The kernel reports that a link is up within a second, and looks for a neighbour that did not answer again.
    await expect.poll(() => canPing(nodePlace("member-3"), uplink("hub").v4)).toBe(true);
    await lab.lab("kill", ["member-2-node-1"]);
    await lab.lab("restore", ["member-2-node-1"]);
    await until(
      "all nodes are ready",
      async () => (await lab.lab("status")).stdout,
      (it) => it.match(/1\/1 +\d\/\d$/gm)?.length === MEMBERS.length,
    );
    expect(await canPing(nodePlace("member-2"), uplink("hub").v6)).toBe(true);
    await lab.lab("up");
    expect(await sender.seenBy(uplink("hub").v4, 4103)).toBe(before);
  });

  describe("a link that lab link changes", () => {
    const link = (place: string, ...flags: readonly string[]) => lab.lab("link", [...flags, place]);
    /** Round trips from the node of member-1 to the hub. */
    const ping = async (flags: readonly string[] = [], to = uplink("hub").v4) => {
      const line = inNetns(nodePlace("member-1"), "ping", ["-q", ...flags, to]);
      const { stdout } = await exec(line.command, line.args, { allowFailure: true });
      return {
        received: Number(/(\d+) received/.exec(stdout)?.[1]),
        shortestMs: Number(/= ([\d.]+)\//.exec(stdout)?.[1]),
      };
    };

    it("delays packets in each direction, by another time when told, and leaves NAT mappings alone", async () => {
      await using peers = new AsyncDisposableStack();
      peers.use(await startPeer(site("hub"), 4104));
      const sender = peers.use(await startPeer(nodePlace("member-1"), PORT));
      const before = await sender.seenBy(uplink("hub").v4, 4104);
      await link("member-1", "--delay", "30ms");
      expect((await ping(["-c", "2", "-i", "0.2"])).shortestMs).toBeGreaterThanOrEqual(60);
      expect((await ping(["-c", "2", "-i", "0.2"], uplink("hub").v6)).shortestMs).toBeGreaterThanOrEqual(60);
      await link("member-1", "--delay", "80ms", "--mtu", "1400");
      await until(
        "the wire follows",
        () => ping(["-c", "1"]),
        (it) => it.shortestMs >= 160,
      );
      expect((await lab.lab("status")).stdout).toMatch(/^member-1 +mtu 1400, delay 80 ms$/m);
      expect((await lab.lab("kill", ["member-1/wire"])).stdout).toContain("is dead");
      expect((await ping(["-c", "1", "-W", "1"])).received).toBe(0);
      await lab.lab("up");
      await until(
        "the wire is back",
        () => ping(["-c", "1"]),
        (it) => it.shortestMs >= 160,
      );
      expect((await link("member-1", "--reset")).stdout).toBe("member-1: an ordinary link\n");
      expect((await ping(["-c", "1"])).received).toBe(1);
      expect(await sender.seenBy(uplink("hub").v4, 4104)).toBe(before);
      expect((await lab.lab("status")).stdout).not.toContain("CONDITIONS");
    });

    it("refuses packets above its MTU, in both families", async () => {
      await link("member-1", "--mtu", "1400");
      for (const [to, header] of [
        [uplink("hub").v4, 28],
        [uplink("hub").v6, 48],
      ] as const) {
        const whole = (mtu: number) =>
          ping(["-c", "1", "-W", "1", "-M", "do", "-s", String(mtu - header)], to);
        expect((await whole(1401)).received).toBe(0);
        expect((await whole(1400)).received).toBe(1);
      }
      await link("member-1", "--reset");
    });

    it("loses its share of packets", async () => {
      await link("member-1-node-1", "--loss", "30%");
      const { received } = await ping(["-c", "200", "-i", "0.002", "-W", "1"]);
      // Both directions lose: 98 of 200 are expected to come back.
      expect(received).toBeGreaterThan(40);
      expect(received).toBeLessThan(160);
      await link("member-1-node-1", "--reset");
    });

    it("carries no more than its rate", async () => {
      const size = 500_000;
      const program = `require("node:http").createServer((_, it) => it.end(Buffer.alloc(${size}))).listen(4105, () => console.log("ready"))`;
      const server = inNetns(site("hub"), process.execPath, ["-e", program]);
      const child = start(server.command, server.args, { stdio: ["ignore", "pipe", "inherit"] });
      try {
        await new Promise<void>((resolve) => child.stdout?.once("data", () => resolve()));
        await link("member-1", "--rate", "8mbit");
        const url = `http://${uplink("hub").v4}:4105/`;
        const line = inNetns(nodePlace("member-1"), "curl", [
          "-s",
          "-o",
          "/dev/null",
          "-w",
          "%{time_total}",
          url,
        ]);
        const { stdout } = await exec(line.command, line.args);
        // Half of the time that the rate asks for: its bursts go faster.
        expect(Number(stdout)).toBeGreaterThan((size * 8) / 8e6 / 2);
      } finally {
        child.kill("SIGKILL");
        await link("member-1", "--reset");
      }
    });

    it("drops fragments of UDP, or all of UDP, and nothing else", async () => {
      await using peers = new AsyncDisposableStack();
      const hub = peers.use(await startPeer(site("hub"), 4106));
      const [small, large] = [4107, 4108];
      const sender = peers.use(await startPeer(nodePlace("member-1"), small));
      const other = peers.use(await startPeer(nodePlace("member-1"), large));
      await link("member-1", "--drop-udp-fragments");
      for (let at = 0; at < 3; at += 1) other.send(uplink("hub").v4, 4106, 3000);
      expect(await sender.seenBy(uplink("hub").v4, 4106)).toBe(`${uplink("member-1").v4}/${small}`);
      expect((await ping(["-c", "1", "-s", "3000"])).received).toBe(1);
      expect(hub.received()).toEqual([`${uplink("member-1").v4}/${small}`]);
      await link("member-1", "--reset", "--drop-udp");
      for (let at = 0; at < 3; at += 1) other.send(uplink("hub").v4, 4106);
      expect((await ping(["-c", "1"])).received).toBe(1);
      expect(hub.received()).toHaveLength(1);
      await link("member-1", "--reset");
    });
  });
});
