/** Packets between the nodes of a cluster in a parallel network: encrypted, and of those nodes alone. */

import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it } from "vitest";
import { exec, start } from "@fairlead/base/exec.ts";
import { parseAddress } from "@fairlead/base/netaddr/address.ts";
import {
  ADDRESS_BLOCKS,
  type AddressBlock,
  GATEWAYS,
  MESH_NETWORKS,
} from "@fairlead/fleet/api/fairlead.dev/v1alpha1/mesh.ts";
import { FLEET_SYSTEM_NAMESPACE } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import { PODS } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { nodeNetns, siteNetns } from "@fairlead/lab/places.ts";
import { loadLibC } from "@fairlead/os/libc/libc.ts";
import { listNetns, inNetns } from "@fairlead/os/netns/netns.ts";
import { openPacketSocket } from "@fairlead/os/packet/socket.ts";
import { found, startLab, type TestLab } from "../support/lab-fixture.ts";
import { mcsExport, namespace, service, shellPod } from "../support/lab-manifests.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";
import { eventually, until } from "../support/waiting.ts";
import {
  type Datagram,
  datagramFrame,
  honestPayload,
  type Inner,
  observeMarks,
  seenMarks,
  sendFrom,
  vxlanPayload,
  wireGuardGarbage,
} from "./forged-packets.ts";
import { untilConnected } from "./parallel-lab.ts";
import { vipsOf } from "./virtual-ips.ts";

const MEMBERS = ["member-1", "member-2"] as const;
type Member = (typeof MEMBERS)[number];
const SERVER_PORT = 5353;
/** Of WireGuard between nodes; before that, the first one was that of VXLAN. */
const PORTS = [4801, 4802, 4803, 4804, 4805, 4806, 4807, 4808];
/** Marks of packets of this test. */
const FIRST_MARK = 0x5e_00_00_00;
/** Outside of all networks of the lab. */
const OUTSIDE = "203.0.113.9";

let lab: TestLab;
let mark = FIRST_MARK;
/** What each mark stands for, for the message of a test that fails. */
const meanings = new Map<number, string>();

interface PodPlace {
  readonly name: string;
  readonly netns: string;
  readonly own: string;
  readonly ipv4: string;
  readonly ipv6: string;
}

/** By name. */
const pods = new Map<string, PodPlace>();

const pod = (name: string): PodPlace => found(pods.get(name));
const nodeOf = (at: number) => found(lab.cluster("member-1").nodes[at - 1]);
const nodePlace = (at: number): string => lab.layout.netnsOf(nodeNetns(nodeOf(at)));
const sitePlace = (member: Member): string => lab.layout.netnsOf(siteNetns(lab.cluster(member)));

function nextMark(meaning: string): number {
  mark += 1;
  meanings.set(mark, meaning);
  return mark;
}

function onNode(name: string, node: string): Readonly<Record<string, unknown>> {
  const manifest = shellPod({ namespace: "work", name }) as { readonly spec: object };
  return { ...manifest, spec: { ...manifest.spec, nodeName: node } };
}

/** A pod whose port 5353 is exported. */
function server(name: string, node: string): readonly Readonly<Record<string, unknown>>[] {
  const ports = [{ name: "marks", protocol: "UDP", port: 53, targetPort: SERVER_PORT }];
  const named = { namespace: "work", name };
  return [onNode(name, node), service(named, {}, { ports }), mcsExport(named)];
}

async function findPod(member: Member, name: string, node: string): Promise<void> {
  const client = await lab.client(member);
  const { metadata, status } = await client.get(PODS, objectKey("work", name));
  const uid = metadata.uid ?? "";
  const allocationOf = (blocks: readonly AddressBlock[]) =>
    blocks.flatMap((it) => it.status?.allocations ?? []).find((it) => it.podUID === uid);
  const blocks = await eventually(client, ADDRESS_BLOCKS, (all) => allocationOf(all) !== undefined, {
    namespace: FLEET_SYSTEM_NAMESPACE,
    timeoutMs: 60_000,
  });
  const { ipv4, ipv6 } = found(allocationOf(blocks));
  const netns = found((await listNetns(lab.layout.node(node))).find((it) => it.includes(uid)));
  pods.set(name, { name, netns, own: found(status?.podIPs?.[0]?.ip), ipv4, ipv6 });
}

async function answersPing(from: string, address: string): Promise<boolean> {
  const line = inNetns(from, "ping", ["-c", "1", "-W", "1", address]);
  return (await exec(line.command, line.args, { allowFailure: true })).exitCode === 0;
}

/** The block of a node of member-1. */
async function blockOf(node: string): Promise<AddressBlock["spec"]> {
  const blocks = await eventually(
    await lab.client("member-1"),
    ADDRESS_BLOCKS,
    (all) => all.some((it) => it.spec.node === node),
    { namespace: FLEET_SYSTEM_NAMESPACE },
  );
  return found(blocks.find((it) => it.spec.node === node)).spec;
}

const lastOf = (prefix: string, last: number): string => prefix.replace(/\.\d+\/\d+$/, `.${last}`);

/** Forged packets in VXLAN datagrams for each node of member-1, at each port, with each source, for each destination. */
async function forgeries(from: string): Promise<readonly Datagram[]> {
  const first = await blockOf(nodeOf(1).name);
  const [vip4 = ""] = await vipsOf(lab, "member-1", "server-2");
  const sources = [
    ["a pod of another node", pod("client-3")],
    ["a pod of the attacker's node", pod("evil")],
    ["a pod of member-2", pod("far")],
    ["an address without a pod", { ipv4: lastOf(first.ipv4[0] ?? "", 250) }],
    ["a node", { ipv4: lastOf(first.ipv4[0] ?? "", 1) }],
    ["a virtual IP", { ipv4: vip4 }],
    ["an address outside", { ipv4: OUTSIDE }],
  ] as const;
  const destinations = ["server-2", "server-3", "far"].map((name) => [name, pod(name)] as const);
  const inner = sources.flatMap(([what, source]) => {
    const given: { readonly ipv4: string; readonly ipv6?: string } = source;
    return [
      ...destinations.flatMap(([to, { ipv4, ipv6 }]) => [
        { what: `${what} for ${to}`, source: given.ipv4, destination: ipv4 },
        ...(given.ipv6 === undefined
          ? []
          : [{ what: `${what} for ${to}`, source: given.ipv6, destination: ipv6 }]),
      ]),
      { what: `${what} for the own address of hidden`, source: given.ipv4, destination: pod("hidden").own },
    ];
  });
  return lab.cluster("member-1").nodes.flatMap((node) =>
    PORTS.flatMap((port) =>
      inner.map(({ what, source, destination }) => {
        const at = nextMark(`${from}: ${what}, to ${node.name} port ${port}`);
        const packet: Inner = { source, destination, port: SERVER_PORT, mark: at };
        return { to: node.address.v4, port, payload: vxlanPayload(node.name, packet) };
      }),
    ),
  );
}

/** What arrived of packets that did not come honestly, at any pod. */
async function arrived(): Promise<readonly string[]> {
  const seen = await Promise.all([...pods.values()].map((it) => seenMarks(it.netns)));
  return seen.flatMap((marks) => [...marks].map((it) => meanings.get(it))).filter((it) => it !== undefined);
}

/** Waits until a packet from an ordinary socket of each of these arrives at each server. What was sent before has arrived by then. */
async function honestPacketsArrive(): Promise<void> {
  for (const from of ["evil", "client-3"])
    for (const to of ["server-2", "server-3", "far"])
      for (const address of [pod(to).ipv4, pod(to).ipv6]) {
        const at = nextMark(`${from}: honest for ${to}`);
        await until(
          `a packet from ${from} at ${address} of ${to}`,
          async () => {
            await sendFrom(pod(from).netns, [{ to: address, port: SERVER_PORT, payload: honestPayload(at) }]);
            return (await seenMarks(pod(to).netns)).has(at);
          },
          Boolean,
        );
        meanings.delete(at);
      }
}

/** Sends a datagram by a packet socket, with any outer source. */
async function sendRaw(
  at: { readonly netns: string; readonly device: string },
  source: string,
  datagrams: readonly Datagram[],
): Promise<void> {
  const libc = found(await loadLibC());
  const line = inNetns(at.netns, "ip", ["-j", "-4", "neigh", "show", "dev", at.device]);
  const neighbours = JSON.parse((await exec(line.command, line.args)).stdout) as readonly {
    readonly lladdr?: string;
  }[];
  const hardware = found(neighbours.find((it) => it.lladdr !== undefined)?.lladdr);
  using socket = openPacketSocket(libc, at);
  const to = Buffer.from(hardware.replaceAll(":", ""), "hex");
  for (const it of datagrams) socket.send(datagramFrame(source, it, to));
}

interface Capture extends AsyncDisposable {
  end(): Promise<{ readonly frames: number; readonly inClear: number; readonly first: string }>;
}

/** Of each link of each node of both members, and of the members' links to others. */
async function capture(): Promise<Capture> {
  const places = MEMBERS.flatMap((member) => {
    const netns = sitePlace(member);
    return ["up", ...lab.cluster(member).nodes.map((it) => it.link)].map((device) => ({ netns, device }));
  });
  const addresses = [...pods.values()];
  const bytesOf = (text: string): string => {
    const address = parseAddress(text);
    return typeof address === "number"
      ? address.toString(16).padStart(8, "0")
      : address.toString(16).padStart(32, "0");
  };
  const needles = addresses.flatMap((a) =>
    addresses.flatMap((b) =>
      a === b ? [] : [bytesOf(a.ipv4) + bytesOf(b.ipv4), bytesOf(a.ipv6) + bytesOf(b.ipv6)],
    ),
  );
  const program = fileURLToPath(new URL("clear-capture.ts", import.meta.url));
  const child = start(process.execPath, [program, JSON.stringify(places), JSON.stringify(needles)], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const lines = createInterface({ input: found(child.stdout ?? undefined) })[Symbol.asyncIterator]();
  expect((await lines.next()).value).toBe("ready");
  return {
    async end() {
      child.stdin?.end();
      return JSON.parse(String((await lines.next()).value)) as Awaited<ReturnType<Capture["end"]>>;
    },
    async [Symbol.asyncDispose]() {
      if (child.exitCode !== null) return;
      child.kill("SIGKILL");
      await once(child, "close");
    },
  };
}

/** Pings of both families from the node that is not a gateway, in its cluster and to the other member. Ends by itself. */
function traffic(seconds: number): Promise<unknown> {
  const { netns } = pod("client-3");
  return Promise.all(
    ["server-2", "far"].flatMap((name) =>
      [pod(name).ipv4, pod(name).ipv6].map((address) => {
        const line = inNetns(netns, "ping", ["-q", "-i", "0.05", "-w", String(seconds), address]);
        return exec(line.command, line.args, { allowFailure: true, timeoutMs: (seconds + 20) * 1000 });
      }),
    ),
  );
}

describeOnKernel("packets between the nodes of a cluster", () => {
  beforeAll(async () => {
    lab = await startLab({ name: "t-btw", members: 2, nodes: 3, flags: ["--topology", "nat"] });
    const [near, far] = MEMBERS.map((it) => lab.cluster(it).nodes.map(({ name }) => name));
    const [n1 = "", n2 = "", n3 = ""] = near ?? [];
    const [f1 = ""] = far ?? [];
    const wanted = [
      ["member-1", n1, "evil", [onNode("evil", n1)]],
      ["member-1", n3, "client-3", [onNode("client-3", n3)]],
      ["member-1", n2, "hidden", [onNode("hidden", n2)]],
      ["member-1", n2, "server-2", server("server-2", n2)],
      ["member-1", n3, "server-3", server("server-3", n3)],
      ["member-2", f1, "far", server("far", f1)],
    ] as const;
    await Promise.all(
      MEMBERS.map(async (member) => {
        await lab.apply(member, namespace("work"));
        await lab.kubectl(member, ["-n", "work", "wait", "--for=create", "serviceaccount/default"]);
        await lab.apply(member, ...wanted.flatMap(([at, , , objects]) => (at === member ? objects : [])));
        await lab.kubectl(member, [
          "-n",
          "work",
          "wait",
          "--for=condition=Ready",
          "pod",
          "--all",
          "--timeout=60s",
        ]);
      }),
    );
    await untilConnected(lab, MEMBERS);
    for (const [member, node, name] of wanted) await findPod(member, name, node);
    for (const it of pods.values()) await observeMarks(it.netns);
  });
  afterAll(() => lab?.[Symbol.asyncDispose]());

  it("arrive from pods of other nodes and members", async () => {
    await honestPacketsArrive();
    // One of the nodes is not a gateway.
    const client = await lab.client("member-1");
    const gateways = (await client.list(GATEWAYS, { namespace: FLEET_SYSTEM_NAMESPACE })).items;
    const own = gateways.filter((it) => it.spec.cluster === "member-1").map((it) => it.spec.node);
    expect(own.toSorted()).toEqual([nodeOf(1).name, nodeOf(2).name]);
  });

  it("do not arrive when a pod forges them with a UDP socket, from the servers' nodes or another one", async () => {
    for (const from of ["evil", "hidden", "client-3"]) await sendFrom(pod(from).netns, await forgeries(from));
    await honestPacketsArrive();
    expect(await arrived()).toEqual([]);
  });

  it("do not arrive when a pod forges them with a packet socket, as datagrams of another node", async () => {
    const at = { netns: pod("evil").netns, device: "eth0" };
    await answersPing(at.netns, pod("hidden").own);
    for (const source of [nodeOf(2).address.v4, nodeOf(3).address.v4])
      await sendRaw(at, source, await forgeries(`evil as ${source}`));
    await honestPacketsArrive();
    expect(await arrived()).toEqual([]);
  });

  it("do not arrive when a process on a node forges them", async () => {
    for (const at of [1, 2, 3]) await sendFrom(nodePlace(at), await forgeries(nodeOf(at).name));
    await honestPacketsArrive();
    expect(await arrived()).toEqual([]);
  });

  it("do not arrive when a host of the nodes' network forges them that is not of the cluster", async () => {
    await sendFrom(sitePlace("member-1"), await forgeries("the site"));
    for (const at of [1, 2, 3]) {
      const place = { netns: sitePlace("member-1"), device: nodeOf(at).link };
      await answersPing(place.netns, nodeOf(at).address.v4);
      const source = nodeOf((at % 3) + 1).address.v4;
      const all = await forgeries(`the site as ${source}`);
      await sendRaw(
        place,
        source,
        all.filter((it) => it.to === nodeOf(at).address.v4),
      );
    }
    await honestPacketsArrive();
    expect(await arrived()).toEqual([]);
  });

  it("arrive while garbage comes to the ports of WireGuard", async () => {
    const garbage = lab
      .cluster("member-1")
      .nodes.flatMap(({ address }) =>
        PORTS.flatMap((port) => wireGuardGarbage(port).map((payload) => ({ to: address.v4, port, payload }))),
      );
    for (const netns of [pod("evil").netns, nodePlace(1), sitePlace("member-1")])
      await sendFrom(netns, garbage);
    await honestPacketsArrive();
  });

  it("are never in the clear while keys are exchanged, programs of gateways are killed and pods end", async () => {
    await using captured = await capture();
    const running = traffic(20);
    const hub = "annotate clustermeshprofile parallel fairlead.dev/rotate-keys=1 --overwrite".split(" ");
    await lab.kubectl("hub", hub);
    await eventually(await lab.client("member-1"), MESH_NETWORKS, (all) =>
      all.some((it) => it.spec.mode === "parallel" && it.spec.keyEpoch === 2),
    );
    await eventually(
      await lab.client("member-1"),
      ADDRESS_BLOCKS,
      (all) => {
        const nodes = all.filter((it) => it.spec.node !== undefined);
        return nodes.length === 3 && nodes.every((it) => it.status?.keys?.some(({ epoch }) => epoch === 2));
      },
      { namespace: FLEET_SYSTEM_NAMESPACE, timeoutMs: 60_000 },
    );
    await lab.lab("kill", [nodeOf(1).name]);
    await lab.kubectl("member-1", ["-n", "work", "delete", "pod", "server-2", "--now"]);
    await running;
    const { frames, inClear, first } = await captured.end();
    expect({ inClear, first }).toEqual({ inClear: 0, first: "" });
    expect(frames).toBeGreaterThan(500);
  });

  it("are seen by the capture of this test when a node sends them in the clear", async () => {
    await using captured = await capture();
    const at = nextMark("in the clear");
    const inner = { source: pod("client-3").ipv4, destination: pod("far").ipv4, port: SERVER_PORT, mark: at };
    const payload = vxlanPayload(nodeOf(1).name, inner);
    await sendFrom(nodePlace(3), [{ to: nodeOf(2).address.v4, port: 4790, payload }]);
    await answersPing(nodePlace(3), nodeOf(2).address.v4);
    // The packet, and maybe the message that its port is closed.
    expect((await captured.end()).inClear).toBeGreaterThan(0);
  });
});
