/** What comes to a node through a tunnel of another member, which may send anything. */

import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { validateValue } from "@fairlead/apiserver/schema/validate.ts";
import { systemClock } from "@fairlead/base/clock.ts";
import { exec } from "@fairlead/base/exec.ts";
import { runIpLines } from "@fairlead/os/iproute/driver.ts";
import { replaceAddress, replaceRoute } from "@fairlead/os/iproute/lines.ts";
import { inNetns } from "@fairlead/os/netns/netns.ts";
import type { WireguardDevices } from "@fairlead/os/wireguard/devices.ts";
import { openWireguard } from "@fairlead/os/wireguard/open.ts";
import { until } from "../support/waiting.ts";
import { describeOnKernel, netnsFixture } from "../support/netns-fixture.ts";
import { type Peer, startPeer } from "./nat-peers.ts";
import { NodeAgentWorld } from "./node-agent-world.ts";
import { HUB_CRDS } from "@fairlead/fleet/api/crds.ts";
import { ADDRESS_BLOCKS, type Gateway, GATEWAYS } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/mesh.ts";
import { FLEET_SYSTEM_NAMESPACE } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { generateKeyPair } from "@fairlead/os/wireguard/keys.ts";
import { hostilities, schemaOf } from "../support/hostile.ts";

const signal = AbortSignal.timeout(110_000);
const DEVICE = "remote0";
/** The port of plane 0 and of epochs that are odd. */
const PORT = 31_821;
/** Of the member's own block. */
const OWN = ["10.112.8.5", "fd00:112:0:800::5"] as const;
const PREFIXES = ["10.112.0.0/12", "fd00:112::/48"];

describeOnKernel("a member whose gateway sends anything through its tunnel", () => {
  const fixture = netnsFixture();
  const stack = new AsyncDisposableStack();
  let netns: string;
  let pod: Awaited<ReturnType<NodeAgentWorld["published"]>>;
  let exported: Peer;
  let hidden: Peer;
  let sender: Peer;
  let devices: WireguardDevices;
  let world: NodeAgentWorld;
  let ports = 7000;

  beforeAll(async () => {
    stack.use(fixture);
    netns = await fixture.netns("remote");
    const podNetns = await fixture.netns("pod");
    world = stack.use(await NodeAgentWorld.start(podNetns));
    stack.use(world.startAgent());
    pod = await until("the pod has addresses", () => world.published(), Boolean, { timeoutMs: 60_000 });
    devices = stack.use(
      await openWireguard({ folder: join(world.folder, "remote"), netns, clock: systemClock }, signal),
    );
    stack.defer(() => devices.remove(DEVICE, signal));
    await devices.apply(
      {
        name: DEVICE,
        privateKey: world.remote.privateKey,
        listenPort: 40_000,
        mtu: 1408,
        peers: [{ publicKey: pod.publicKey, endpoint: `127.0.0.1:${PORT}`, allowedIPs: PREFIXES }],
      },
      signal,
    );
    const all = [...OWN, "10.112.16.9", "10.112.0.77", "fd00:112:0:1000::9", "fd00:112::77"];
    await runIpLines(
      all.map((it) => replaceAddress(DEVICE, `${it}/${it.includes(":") ? 128 : 32}`)),
      { netns, signal },
    );
    await sendFrom(...OWN);
    exported = stack.use(await startPeer(podNetns, 5353, "udp6"));
    hidden = stack.use(await startPeer(podNetns, 5354, "udp6"));
    sender = stack.use(await startPeer(netns, 6000, "udp4"));
  });
  afterAll(() => stack.disposeAsync());

  async function sendFrom(ipv4: string, ipv6: string): Promise<void> {
    const lines = PREFIXES.map((to) =>
      replaceRoute({ to, hops: [{ device: DEVICE }], source: to.includes(":") ? ipv6 : ipv4 }),
    );
    await runIpLines(lines, { netns, signal });
  }

  /** Another socket is answered: what was sent before has arrived, or never will. */
  async function passes(): Promise<void> {
    ports += 1;
    await using other = await startPeer(netns, ports, "udp4");
    await other.seenBy(pod.ipv4, 5353);
  }

  /** The agent carries out a change that has nothing to do with the member. */
  async function untilApplied(count: number): Promise<void> {
    const port = 20_000 + count;
    await world.expose(port);
    await until(
      "the port is open",
      () => world.table(),
      (it) => it.includes(` . udp . ${port}`),
      { everyMs: 20 },
    );
  }

  async function sentPackets(): Promise<number> {
    const { command, args } = inNetns(netns, "ip", ["-j", "-s", "link", "show", "dev", DEVICE]);
    const [link] = JSON.parse((await exec(command, args)).stdout) as {
      stats64: { tx: { packets: number } };
    }[];
    return link?.stats64.tx.packets ?? 0;
  }

  it("reaches what is exported, from its own addresses", async () => {
    expect(await sender.seenBy(pod.ipv4, 5353)).toMatch(/10\.112\.8\.5\/6000$/);
  });

  it("reaches no other port, and no address of a family that is not exported", async () => {
    const other = await startPeer(netns, 6001, "udp6");
    for (let at = 0; at < 5; at += 1) {
      sender.send(pod.ipv4, 5354);
      other.send(pod.ipv6, 5353);
    }
    await passes();
    expect(hidden.received()).toEqual([]);
    expect(exported.received().filter((it) => !it.startsWith("::ffff:"))).toEqual([]);
    await other[Symbol.asyncDispose]();
  });

  it("is not disturbed by another member whose gateway and block say anything", async () => {
    const at = { namespace: FLEET_SYSTEM_NAMESPACE, name: "c-0" };
    const sound: Gateway = {
      metadata: at,
      spec: {
        cluster: "c",
        ordinal: 0,
        node: "n1",
        index: 2,
        basePort: 31_820,
        fleetAddress: "10.112.16.1",
        keys: [{ epoch: 1, publicKey: generateKeyPair().publicKey }],
        candidates: [{ type: "public", address: "192.0.2.9" }],
      },
    };
    world.client.seed(GATEWAYS, sound);
    // The block of b, too: a hub that lets it pass.
    const ipv4 = ["10.112.16.0/21", "10.112.8.0/21"];
    world.client.seed(ADDRESS_BLOCKS, {
      metadata: { ...at, name: "c" },
      spec: { profile: "p", cluster: "c", ipv4, ipv6: ["fd00:112:0:1000::/56"] },
    });
    const sameKey = {
      ...sound,
      spec: { ...sound.spec, keys: [{ epoch: 1, publicKey: world.remote.publicKey }] },
    };
    // Its tunnels would have ports that there are not.
    const highPort = { ...sound, spec: { ...sound.spec, basePort: 65_535 } };
    const schema = schemaOf(HUB_CRDS, "Gateway");
    // All that API servers store: the hub may let it pass.
    const attacks = hostilities(sound, schema, ["spec"])
      .map((it) => it.object as Gateway)
      .filter((it) => validateValue({ value: it, schema, path: "", resolve: () => undefined }).length === 0);
    expect(attacks.length).toBeGreaterThanOrEqual(10);
    for (const [count, { spec }] of [sound, sameKey, highPort, ...attacks].entries()) {
      const { metadata } = await world.client.get(GATEWAYS, objectKey(at.namespace, at.name));
      await world.client.update(GATEWAYS, { metadata, spec }).catch(() => {});
      // A pass that fails holds up everybody.
      await untilApplied(count).catch((cause: unknown) => {
        throw new Error(`after ${JSON.stringify(spec).slice(0, 300)}: ${world.failures[0]}`, { cause });
      });
      if (count < 3 || count % 16 === 0) await passes();
    }
    await world.client.delete(GATEWAYS, objectKey(at.namespace, at.name));
    await passes();
    expect(world.failures).toEqual([]);
  });

  it.each([
    ["a third member", "10.112.16.9", "fd00:112:0:1000::9"],
    ["the node's own cluster", "10.112.0.77", "fd00:112::77"],
  ])("does not pass for %s: WireGuard drops what has a source of another block", async (_, ipv4, ipv6) => {
    await sendFrom(ipv4, ipv6);
    const before = await sentPackets();
    for (let at = 0; at < 5; at += 1) sender.send(pod.ipv4, 5353);
    await until("all are sent", sentPackets, (it) => it >= before + 5);
    await sendFrom(...OWN);
    await passes();
    const sources = exported.received().map((it) => it.replace(/^::ffff:|\/\d+$/g, ""));
    expect([...new Set(sources)]).toEqual([OWN[0]]);
  });
});
