/** Packets of pods with sources of others, in a flat network and in a parallel one, with the real kernel. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { OWN_CLUSTER_LABEL } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import { vethName } from "@fairlead/fleet/dataplane/pod-attachment/names.ts";
import { ROUTER_SYSCTLS, STATIC_IPV6_SYSCTLS, writeSysctls } from "@fairlead/os/netns/sysctl.ts";
import { describeOnKernel, netnsFixture } from "../support/netns-fixture.ts";
import { until } from "../support/waiting.ts";
import { Forger, type Forged, NOBODYS, type Sender } from "./forger.ts";
import { NodeAgentWorld, SECOND } from "./node-agent-world.ts";
import { PolicyWorld } from "./policy-world.ts";
import { addPod, ip } from "./proxy-world.ts";

const signal = AbortSignal.timeout(600_000);

describeOnKernel("a node of a flat network", () => {
  let world: PolicyWorld;
  let forger: Forger;
  let node: string;
  const guest = netnsFixture();
  const senders: Record<string, Sender> = {};
  /** Addresses by their owners. */
  const sources: Record<string, readonly string[]> = {};

  beforeAll(async () => {
    world = await PolicyWorld.start([
      { namespace: "x", name: "mal", node: 1 },
      { namespace: "x", name: "near", node: 1 },
      { namespace: "x", name: "there", node: 2 },
      { namespace: "x", name: "a", node: 2, cluster: "far" },
    ]);
    node = await world.netns(1);
    const other = await world.netns(2);
    await addBridge(node, await guest.netns("guest"));
    await world.stopAgent(1);
    await world.startAgent(1);
    const ids = ["x/mal", "x/near", "x/there", "far:x/a"];
    for (const id of ids) sources[id] = addressesOf(id);
    Object.assign(sources, {
      "node 1": ["192.0.2.1", "2001:db8::1"],
      "node 2": ["192.0.2.2", "2001:db8::2"],
      "the gateway of pods": ["169.254.1.1", "fe80::1"],
      "no pod of node 1": ["10.244.1.99", "fd00:244:0:1::99"],
      "no pod of node 2": ["10.244.2.99", "fd00:244:0:2::99"],
      guest: ["10.244.77.5", "fd00:244:0:77::5"],
      ...NOBODYS,
    });
    senders["x/mal"] = {
      netns: world.pod("x/mal").netns,
      device: "eth0",
      towards: { netns: node, device: "p-10" },
    };
    senders["guest"] = {
      netns: await guest.netns("guest"),
      device: "eth0",
      towards: { netns: node, device: "cni9" },
    };
    senders["the network of nodes"] = {
      netns: other,
      device: "wire",
      towards: { netns: node, device: "wire" },
    };
    forger = await Forger.start([
      ...["x/near", "x/there", "far:x/a"].map((it) => ({ netns: world.pod(it).netns })),
      { netns: node, hook: "input" },
      { netns: other, hook: "input" },
    ]);
  });
  afterAll(async () => {
    forger?.[Symbol.dispose]();
    await world?.[Symbol.asyncDispose]();
    await guest[Symbol.asyncDispose]();
  });

  function addressesOf(id: string): readonly string[] {
    const { v4, v6 } = world.pod(id).peer;
    return [v4, v6];
  }

  /** From one sender with these sources to all receivers, the honest packets last. */
  function packetsOf(sender: string, forged: readonly string[], to = RECEIVERS): readonly Forged[] {
    const all = [...forged, sender].flatMap((source) =>
      to.flatMap((receiver) =>
        [0, 1].map((family) => ({
          sender: senders[sender] as Sender,
          source: sources[source]?.[family] ?? "",
          destination: sources[receiver]?.[family] ?? "",
          name: `${sender} as ${source} to ${receiver}: IPv${family === 0 ? 4 : 6}`,
        })),
      ),
    );
    // Addresses of a link are for the node at its end, as neighbour discovery has them, and go no further.
    return all.filter(
      (it) => it.source !== "" && !(it.source.startsWith("fe80") && it.name.includes("node 1")),
    );
  }

  const RECEIVERS = ["x/near", "x/there", "far:x/a", "node 1", "node 2"];
  const honest = (sender: string, to: readonly string[]) =>
    to.flatMap((it) => [4, 6].map((family) => `${sender} as ${sender} to ${it}: IPv${family}`));

  describe.each([0, 1, 2])("with rp_filter %d", (filter) => {
    beforeAll(async () => {
      const devices = ["all", "default", "p-10", "p-11", "wire", "cni9"];
      await writeSysctls(
        node,
        Object.fromEntries(devices.map((it) => [`net/ipv4/conf/${it}/rp_filter`, filter])),
        signal,
      );
    });

    it("passes on what a pod sends with its own addresses only", async () => {
      const forged = Object.keys(sources).filter((it) => it !== "x/mal");
      expect(await forger.arrivals(packetsOf("x/mal", forged))).toEqual(honest("x/mal", RECEIVERS));
    });

    it("passes on what pods at a bridge send with addresses of the bridge only", async () => {
      const forged = Object.keys(sources).filter((it) => it !== "guest");
      expect(await forger.arrivals(packetsOf("guest", forged))).toEqual(honest("guest", RECEIVERS));
    });

    it("takes nothing from its own network that has the source of one of its pods", async () => {
      const forged = ["x/mal", "no pod of node 1"].flatMap((source) =>
        packetsOf("the network of nodes", [source], ["x/near"]),
      );
      const control = packetsOf("the network of nodes", ["node 2"], ["x/near"]);
      expect(await forger.arrivals([...forged, ...control])).toEqual(control.map((it) => it.name));
    });
  });

  it("would pass on forged packets without its rules", async () => {
    for (const it of ["all", "default", "p-10", "wire"])
      await writeSysctls(node, { [`net/ipv4/conf/${it}/rp_filter`]: 0 }, signal);
    await world.nft(1, "flush", "chain", "inet", "fairlead-policy", "sources");
    const forged = ["x/there", "far:x/a", "no pod of node 2", "guest", "the Internet"];
    const packets = packetsOf("x/mal", forged, ["x/near"]);
    expect(await forger.arrivals(packets)).toEqual(packets.map((it) => it.name));
    await world.stopAgent(1);
    await world.startAgent(1);
    expect(await forger.arrivals(packets)).toEqual(honest("x/mal", ["x/near"]));
  });
});

/** Pods of a node at a bridge, as of flannel: one of them. */
async function addBridge(node: string, pod: string): Promise<void> {
  await writeSysctls(pod, STATIC_IPV6_SYSCTLS, signal);
  await ip(node, [
    "link add cni9 type bridge forward_delay 0",
    `link add cni9p type veth peer name eth0 netns ${pod}`,
    "link set cni9p master cni9",
    "link set cni9p up",
    "link set cni9 up",
    "addr add 10.244.77.1/24 dev cni9",
    "addr add fd00:244:0:77::1/64 dev cni9 nodad",
  ]);
  await ip(pod, [
    "link set lo up",
    "link set eth0 up",
    "addr add 10.244.77.5/24 dev eth0",
    "addr add fd00:244:0:77::5/64 dev eth0 nodad",
    "route add default via 10.244.77.1",
    "route add default via fd00:244:0:77::1",
  ]);
}

describeOnKernel("a node of a parallel network", () => {
  const fixture = netnsFixture();
  let world: NodeAgentWorld;
  let agent: AsyncDisposable;
  let forger: Forger;
  const senders: Record<string, Sender> = {};
  /** Those of the exported pod, and of a pod behind a tunnel. */
  let receivers: readonly string[];
  let sources: Readonly<Record<string, readonly (string | undefined)[]>>;
  /** As the node has them in its own network. */
  const OWN = { mal: ["10.244.0.8", "fd00:244::8"], server: ["10.244.0.7", "fd00:244::7"] } as const;

  beforeAll(async () => {
    // Of this process: the node is in its network.
    const node = "/proc/thread-self/ns/net";
    await writeSysctls(undefined, { ...ROUTER_SYSCTLS, ...STATIC_IPV6_SYSCTLS }, signal);
    const outside = await fixture.netns("outside");
    await ip(node, [
      `link add name up0 type veth peer name eth0 netns ${outside}`,
      "link set lo up",
      "link set up0 up",
      "addr add 192.0.2.1/24 dev up0",
      "addr add 2001:db8::1/64 dev up0 nodad",
      "route replace default via 192.0.2.2",
      "route replace default via 2001:db8::2",
    ]);
    await ip(outside, [
      "link set eth0 up",
      "addr add 192.0.2.2/24 dev eth0",
      "addr add 2001:db8::2/64 dev eth0 nodad",
    ]);
    for (const [name, [v4, v6]] of Object.entries(OWN)) await addPod(fixture, node, { name, v4, v6 });
    const [server, mal] = [await fixture.netns("server"), await fixture.netns("mal")];
    world = await NodeAgentWorld.start(server, { [OWN_CLUSTER_LABEL]: "a" });
    world.addPod(mal);
    agent = world.startAgent();
    const state = await until(
      "both pods are attached",
      () => world.state(),
      (it) =>
        [...it.matchAll(/^eth-fleet .*fd00:112/gm)].length === 2 &&
        ["5353", "basePort", "podUID", "10.112.8.0/21"].every((part) => it.includes(part)),
      { timeoutMs: 60_000, everyMs: 300 },
    );
    const [[, ...first] = [], [, ...second] = []] = [
      ...state.matchAll(/^eth-fleet \S+ (10[.\d]+)\/32 .*?(fd00:112[:\da-f]*)\/128/gm),
    ];
    const { ipv4 } = await world.published();
    const [fleetOfServer, fleetOfMal] = first[0] === ipv4 ? [first, second] : [second, first];
    receivers = [ipv4, "10.112.8.5", "fd00:112:0:800::5"];
    sources = {
      mal: OWN.mal,
      "mal in fleet": fleetOfMal,
      server: OWN.server,
      "server in fleet": fleetOfServer,
      "a pod of another node": ["10.112.1.7", "fd00:112:0:1::7"],
      "a pod of another member": ["10.112.8.9", "fd00:112:0:800::9"],
      "no pod": ["10.112.0.99", "fd00:112::99"],
      "no member": ["10.112.64.9", "fd00:112:0:4000::9"],
      "a virtual IP": ["10.127.0.9", "fd00:112:0:ff00::9"],
      "the node in fleet": ["10.112.0.1", "fd00:112::1"],
      "the node": ["192.0.2.1", "2001:db8::1"],
      "the gateway": ["192.0.2.2", "2001:db8::2"],
      ...NOBODYS,
    };
    senders["eth0"] = { netns: mal, device: "eth0", towards: { netns: undefined, device: "p-mal" } };
    senders["eth-fleet"] = {
      netns: mal,
      device: "eth-fleet",
      towards: { netns: world.fleet, device: vethName(SECOND.uid) },
    };
    senders["the network of nodes"] = {
      netns: outside,
      device: "eth0",
      towards: { netns: undefined, device: "up0" },
    };
    forger = await Forger.start([{ netns: world.fleet, hook: "postrouting" }]);
  });
  afterAll(async () => {
    forger?.[Symbol.dispose]();
    await agent?.[Symbol.asyncDispose]();
    await world?.[Symbol.asyncDispose]();
    await fixture[Symbol.asyncDispose]();
  });

  const packetsOf = (sender: string, all: readonly string[]): readonly Forged[] =>
    all.flatMap((it) =>
      receivers.map((destination) => ({
        sender: senders[sender] as Sender,
        source: sources[it]?.[destination.includes(":") ? 1 : 0] ?? "",
        destination,
        name: `${sender} as ${it} to ${destination}`,
      })),
    );
  const namesOf = (packets: readonly Forged[]): readonly string[] => packets.map((it) => it.name);
  /** From one sender, the honest packets last. */
  const arrivals = async (sender: string, honest: readonly string[]) => {
    const forged = Object.keys(sources).filter((it) => !honest.includes(it));
    return forger.arrivals(packetsOf(sender, [...forged, ...honest]));
  };

  it.each([0, 1, 2])(
    "takes from a pod its own addresses only, by each of its links, with rp_filter %d",
    async (filter) => {
      for (const it of ["all", "p-mal", "fl-host", "up0"])
        await writeSysctls(undefined, { [`net/ipv4/conf/${it}/rp_filter`]: filter }, signal);
      expect(await arrivals("eth0", ["mal"])).toEqual(namesOf(packetsOf("eth0", ["mal"])));
      expect(await arrivals("eth-fleet", ["mal in fleet"])).toEqual(
        namesOf(packetsOf("eth-fleet", ["mal in fleet"])),
      );
    },
  );

  it("takes from its own network neither addresses of the fleet nor those of its pods", async () => {
    const left = Object.keys(NOBODYS);
    const forged = Object.keys(sources).filter((it) => !left.includes(it) && it !== "the gateway");
    expect(await forger.arrivals(packetsOf("the network of nodes", forged))).toEqual([]);
  });

  it("would take forged packets without its rules", async () => {
    const nft = (netns: string | undefined, ...words: readonly string[]) => world.run(netns, "nft", words);
    await nft(undefined, "flush", "chain", "inet", "fairlead-host", "guard");
    await nft(undefined, "flush", "chain", "inet", "fairlead-policy", "sources");
    await nft(world.fleet, "flush", "chain", "inet", "fairlead", "guard");
    await nft(world.fleet, "flush", "chain", "inet", "fairlead-policy", "sources");
    for (const it of ["all", "p-mal", "fl-host", "up0"])
      await writeSysctls(undefined, { [`net/ipv4/conf/${it}/rp_filter`]: 0 }, signal);
    for (const sender of ["eth0", "the network of nodes"]) {
      const packets = packetsOf(sender, [
        "server",
        "a pod of another node",
        "a pod of another member",
        "no pod",
      ]);
      expect(await forger.arrivals(packets)).toEqual(namesOf(packets));
    }
  });
});
