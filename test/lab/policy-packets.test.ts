/** Network policies with packets: two nodes with the real kernel, and an API server in memory. */

import { existsSync, statSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { defined } from "@fairlead/base/defined.ts";
import { exec } from "@fairlead/base/exec.ts";
import { byText } from "@fairlead/base/text.ts";
import type { CiliumNetworkPolicy } from "@fairlead/fleet/api/cilium.io/v2/types.ts";
import { NAMESPACES, NODES } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { NetworkPolicy } from "@fairlead/kube/api/networking/v1/types.ts";
import { inNetns } from "@fairlead/os/netns/netns.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";
import { describeOtherCluster } from "./policy-other-cluster.ts";
import { PolicyWorld, PORTS, silence } from "./policy-world.ts";

let world: PolicyWorld;

/** Sends an ICMP error about a UDP packet from its destination to its source, which was never sent. */
const FORGED = `use Socket;
my ($to, $from, $code) = @ARGV;
my $inner = pack("CCnnnCCna4a4nnnn", 0x45, 0, 28, 1, 0, 64, 17, 0, inet_aton($to), inet_aton($from), 4444, 80, 8, 0);
my $icmp = pack("CCnnn", 3, $code, 0, 0, 1300) . $inner;
my $sum = 0;
$sum += $_ for unpack("n*", $icmp);
$sum = ($sum & 0xffff) + ($sum >> 16) while $sum >> 16;
substr($icmp, 2, 2) = pack("n", ~$sum & 0xffff);
socket(my $s, PF_INET, SOCK_RAW, 1) or die $!;
send($s, $icmp, 0, sockaddr_in(0, inet_aton($to))) or die $!;`;

/** UDP datagrams in parts, from an address to a port of another one: arguments are both addresses of each family, the port, and a number. */
const UDP_6 = `use Socket qw(:DEFAULT inet_pton AF_INET6 pack_sockaddr_in6);
my ($from4, $to4, $from6, $to6, $port, $id) = @ARGV;
my ($s, $d) = map { inet_pton(AF_INET6, $_) } $from6, $to6;
my $data = "x" x 16;
my $udp = pack("nnnn", 4000 + $id, $port, 24, 0) . $data;
my $sum = 0;
$sum += $_ for unpack("n*", $s . $d . pack("NN", 24, 17) . $udp);
$sum = ($sum & 0xffff) + ($sum >> 16) while $sum >> 16;
substr($udp, 6, 2) = pack("n", ~$sum & 0xffff);
sub out { my ($protocol, $bytes) = @_; socket(my $k, AF_INET6, SOCK_RAW, $protocol) or die $!;
  send($k, $bytes, 0, pack_sockaddr_in6(0, $d)) or die $!; }
`;
/** Destination options of padding, twice. */
const EXTENSIONS = `${UDP_6} my $pad = pack("CCC4", 1, 4, 0, 0, 0, 0); out(60, pack("CC", 60, 0) . $pad . pack("CC", 17, 0) . $pad . $udp);`;
const FRAGMENTS_6 = `${UDP_6} out(44, pack("CCnN", 17, 0, 1, 77 + $id) . substr($udp, 0, 16));
out(44, pack("CCnN", 17, 0, 16, 77 + $id) . substr($udp, 16));`;
const FRAGMENTS_4 = `use Socket; my ($from, $to, $from6, $to6, $port, $id) = @ARGV;
my $udp = pack("nnnn", 4000 + $id, $port, 24, 0) . "x" x 16;
socket(my $k, PF_INET, SOCK_RAW, 255) or die $!;
for ([0x2000, substr($udp, 0, 16)], [2, substr($udp, 16)]) { my ($at, $part) = @$_;
  my $ip = pack("CCnnnCCna4a4", 0x45, 0, 20 + length $part, 99 + $id, $at, 64, 17, 0, inet_aton($from), inet_aton($to));
  send($k, $ip . $part, 0, sockaddr_in(0, inet_aton($to))) or die $!; }`;

function words(netns: string, command: string, args: readonly string[]): [string, readonly string[]] {
  const line = inNetns(netns, command, args);
  return [line.command, line.args];
}

function policy(namespace: string, name: string, spec: NetworkPolicy["spec"]): NetworkPolicy {
  return { metadata: { namespace, name }, spec: spec ?? {} };
}

/** Denied connections, as "from -> to:port", of those that the filter names. */
async function denied(
  isOf: (from: string, to: string) => boolean,
  ids: readonly string[] = world.ids,
): Promise<readonly string[]> {
  const tries = ids.flatMap((from) =>
    ids.flatMap((to) => (from === to || !isOf(from, to) ? [] : PORTS.map((port) => ({ from, to, port })))),
  );
  const unanswered = async (all: typeof tries, timeoutMs?: number) => {
    const answers = await Promise.all(
      all.map((it) => world.asks(it.from, it.to, { port: it.port, ...defined({ timeoutMs }) })),
    );
    return all.filter((_, at) => answers[at] !== true);
  };
  // What a busy machine answers late is not denied.
  const silent = await unanswered(await unanswered(tries), 500);
  return silent.map((it) => `${it.from} -> ${it.to}:${it.port}`);
}

describeOnKernel("the table of policies", () => {
  beforeAll(async () => {
    world = await PolicyWorld.start([
      { namespace: "x", name: "a", node: 1 },
      { namespace: "x", name: "b", node: 1 },
      { namespace: "x", name: "c", node: 2 },
      { namespace: "y", name: "a", node: 1 },
      { namespace: "y", name: "b", node: 2 },
      { namespace: "x", name: "a", node: 2, cluster: "far" },
    ]);
  });
  afterAll(() => world?.[Symbol.asyncDispose]());

  it("lets everything pass without policies", async () => {
    expect(await denied(() => true)).toEqual([]);
  });

  // Before others are denied: 25 Events about a pod are written, and one more every five minutes (client-go's limits).
  it("reports connections that it denied, with both ends and the policy", async () => {
    await world.setPolicies(onlyFromB);
    await world.denials();
    expect(await world.asks("far:x/a", "x/a", { port: 80 })).toBe(false);
    expect(await world.asks("x/c", "x/a", { port: 81, verb: "udp", family: 6 })).toBe(false);
    // They may come one after another.
    const seen = new Set<string>();
    const seenSoFar = async (): Promise<readonly string[]> => {
      for (const it of await world.denials()) seen.add(it);
      return [...seen].toSorted(byText);
    };
    await expect
      .poll(seenSoFar)
      .toEqual([
        `Denied ingress TCP from far/x/a [${world.pod("far:x/a").peer.v4}] to own/x/a [${world.pod("x/a").peer.v4}] port 80 by default of NetworkPolicy x/p`,
        `Denied ingress UDP from own/x/c [${world.pod("x/c").peer.v6}] to own/x/a [${world.pod("x/a").peer.v6}] port 81 by default of NetworkPolicy x/p`,
      ]);
  });

  it("cuts off a cluster that a rule does not name", async () => {
    const own = { matchLabels: { "io.cilium.k8s.policy.cluster": "own" } };
    const far = { matchLabels: { "io.cilium.k8s.policy.cluster": "far" } };
    await world.setPolicies([
      policy("x", "p", {
        podSelector: { matchLabels: { pod: "b" } },
        ingress: [{ from: [{ podSelector: own }] }],
      }),
    ]);
    const to = (_: string, it: string): boolean => it === "x/b";
    expect(await denied(to)).toEqual(
      ["far:x/a", "y/a", "y/b"].flatMap((it) => PORTS.map((port) => `${it} -> x/b:${port}`)),
    );
    await world.setPolicies([
      policy("x", "p", {
        podSelector: { matchLabels: { pod: "b" } },
        ingress: [{ from: [{ podSelector: far }] }],
      }),
    ]);
    expect(await denied(to)).toEqual(
      ["x/a", "x/c", "y/a", "y/b"].flatMap((it) => PORTS.map((port) => `${it} -> x/b:${port}`)),
    );
  });

  const onlyFromB = [
    policy("x", "p", {
      podSelector: { matchLabels: { pod: "a" } },
      ingress: [{ from: [{ podSelector: { matchLabels: { pod: "b" } } }] }],
    }),
  ];

  it("ends an established connection that a policy has come to deny, and keeps the others", async () => {
    await world.setPolicies([]);
    const host = world.pod("x/a").peer.v4;
    const open = async (from: string) => {
      const { peer } = world.pod(from);
      const { handle } = await peer.ask("open", { host, port: 80 });
      return async () => (await Promise.race([peer.ask("say", { handle }), silence()])) !== undefined;
    };
    const [kept, lost, far] = [await open("x/b"), await open("x/c"), await open("y/a")];
    await world.setPolicies(onlyFromB);
    // Conntrack is read for a share of the time only.
    await expect.poll(lost, { interval: 300 }).toBe(false);
    await expect.poll(far, { interval: 300 }).toBe(false);
    expect(await kept()).toBe(true);
  });

  describeOtherCluster(() => world);

  it.each([4, 6] as const)(
    "ends a UDP flow that a policy has come to deny, and keeps the others: IPv%d",
    async (family) => {
      await world.setPolicies([]);
      const host = world.pod("x/a").peer[family === 4 ? "v4" : "v6"];
      // Always from one port: to conntrack these are packets of one flow.
      const asks = async (from: string): Promise<boolean> => {
        const question = { host, port: 80, from: 7777, timeoutMs: 250 };
        return (await world.pod(from).peer.ask("udp", question)).error === "";
      };
      for (const it of ["x/b", "x/c", "y/a"]) expect(await asks(it)).toBe(true);
      await world.setPolicies(onlyFromB);
      for (const it of ["x/c", "y/a"]) await expect.poll(() => asks(it), { interval: 300 }).toBe(false);
      expect(await asks("x/b")).toBe(true);
    },
  );

  describe("with a policy that costs much", () => {
    const times = <T>(count: number, make: (at: number) => T): T[] =>
      Array.from({ length: count }, (_, at) => make(at));
    const blocks = times(500, (at) => ({ ipBlock: { cidr: `10.${at >> 8}.${at & 255}.0/28` } }));
    const isX = (from: string, to: string): boolean => from === "y/a" && to.startsWith("x/");

    /** A pod of another namespace, which no policy selects, is new on its node while the policy is. */
    async function untilNewPodIsReached(): Promise<void> {
      await world.setAddresses("y/b", false);
      await world.setAddresses("y/b", true);
      await expect.poll(() => world.asks("far:x/a", "y/b", { port: 80 }), { timeout: 5000 }).toBe(true);
    }

    it("of 500 CIDRs and 500 named ports reaches new pods of other namespaces, and denies what it does not allow", async () => {
      const ports = times(500, (at) => ({ port: `p${at}` }));
      const bomb = policy("x", "bomb", { podSelector: {}, ingress: [{ from: blocks, ports }] });
      await world.setPolicies([bomb]);
      await untilNewPodIsReached();
      expect(await denied(isX, ["x/a", "y/a"])).toEqual(["y/a -> x/a:80", "y/a -> x/a:81"]);
      const from = [...blocks, { ipBlock: { cidr: "10.244.0.0/16" } }];
      const named = [...ports, { port: "serve-81-tcp" }];
      await world.setPolicies([policy("x", "bomb", { podSelector: {}, ingress: [{ from, ports: named }] })]);
      expect(await denied(isX, ["x/a", "y/a"])).toEqual(["y/a -> x/a:80"]);
    });

    it("because it has more rules than one may have closes its own pods, and no others", async () => {
      const rules = times(2000, (at) => ({ from: [{ podSelector: {} }], ports: [{ port: 1 + at }] }));
      await world.setPolicies([policy("x", "bomb", { podSelector: {}, ingress: [{}, ...rules] })]);
      await untilNewPodIsReached();
      expect(await denied(isX, ["x/a", "y/a"])).toEqual(["y/a -> x/a:80", "y/a -> x/a:81"]);
    });

    it("because it has ranges of ports that are a set of their own lets these ports pass, and no others", async () => {
      const ports = times(40, (at) => ({ port: 3 * at + 3, endPort: 3 * at + 4, protocol: "TCP" as const }));
      // 81 and 82 are a range; 80 is between two.
      await world.setPolicies([policy("x", "p", { podSelector: {}, ingress: [{ ports }] })]);
      expect(await denied(isX, ["x/a", "y/a"])).toEqual(["y/a -> x/a:80"]);
      expect(await world.asks("y/a", "x/a", { port: 81, family: 6 })).toBe(true);
      expect(await world.asks("y/a", "x/a", { port: 81, verb: "udp" })).toBe(false);
    });
  });

  describe("with ICMP errors", () => {
    const closed = policy("x", "closed", {
      podSelector: { matchLabels: { pod: "b" } },
      policyTypes: ["Ingress"],
    });
    const inPod = async (id: string, command: string, ...args: readonly string[]): Promise<string> => {
      const line = inNetns(world.pod(id).netns, command, args);
      return (await exec(line.command, line.args, { timeoutMs: 10_000, allowFailure: true })).stdout;
    };
    beforeAll(() => world.setPolicies([...onlyFromB, closed]));

    it.each([4, 6] as const)("of a flow that is allowed, brings a pod these: IPv%d", async (family) => {
      const v = family === 4 ? "v4" : "v6";
      // Nothing is at this port: the server's kernel says so to a pod that takes in nothing.
      const ask = async (from: string) =>
        (await world.pod(from).peer.ask("udp", { host: world.pod("x/a").peer[v], port: 99, timeoutMs: 500 }))
          .error;
      expect(await ask("x/b")).toBe("ECONNREFUSED");
      expect(await ask("x/c")).toBe("ETIMEDOUT");
      // A node on the way has a smaller MTU.
      const far = world.pod("x/c").peer[v];
      const netns = await world.netns(2);
      const to = JSON.parse((await exec(...words(netns, "ip", ["-j", "route", "get", far]))).stdout) as [
        { dev: string },
      ];
      await exec(...words(netns, "ip", ["link", "set", to[0].dev, "mtu", "1300"]));
      await inPod("x/b", "bash", "-c", `timeout 2 head -c 100000 /dev/zero > /dev/tcp/${far}/80`);
      expect(await inPod("x/b", "ip", "route", "get", far)).toContain("mtu 1300");
    });

    it("does not bring a pod those of flows that are not there", async () => {
      const count = async () =>
        Number(/packets (\d+)/.exec(await inPod("x/b", "nft", "list", "table", "ip", "seen"))?.[1]);
      await inPod(
        "x/b",
        "nft",
        "add table ip seen; add chain ip seen in { type filter hook input priority 0; }; add rule ip seen in icmp type destination-unreachable counter",
      );
      const { v4 } = world.pod("x/b").peer;
      for (const code of ["3", "4"])
        await inPod("x/c", "perl", "-e", FORGED, v4, world.pod("x/c").peer.v4, code);
      expect(await count()).toBe(0);
      await world.setPolicies(onlyFromB);
      for (const code of ["3", "4"])
        await inPod("x/c", "perl", "-e", FORGED, v4, world.pod("x/c").peer.v4, code);
      await expect.poll(count).toBe(2);
    });
  });

  it("cuts a pod off whose policies are not known yet, except from its node", async () => {
    await world.setPolicies(onlyFromB);
    await world.setAddresses("x/a", false);
    expect(await world.asks("x/b", "x/a", { port: 80 })).toBe(false);
    expect(await world.asks("x/a", "y/a", { port: 80 })).toBe(false);
    await world.setAddresses("x/a", true);
    expect(await world.asks("x/b", "x/a", { port: 80 })).toBe(true);
    expect(await world.asks("x/c", "x/a", { port: 80 })).toBe(false);
    expect(await world.asks("x/a", "y/a", { port: 80 })).toBe(true);
  });

  describe("where nodes have podCIDRs that the network plugin does not go by", () => {
    const cidrs = (node: number, podCIDRs: readonly string[]) =>
      world.client.mergePatch(NODES, objectKey(undefined, `n${node}`), {
        spec: { podCIDRs: [...podCIDRs] },
      });
    const [one, two] = [1, 2].map((it) => [`10.244.${it}.0/24`, `fd00:244:0:${it}::/64`]) as [
      string[],
      string[],
    ];
    afterAll(async () => {
      await cidrs(1, one);
      await cidrs(2, two);
    });

    it("loses no packet that policies allow if two nodes have each other's", async () => {
      await world.setPolicies(onlyFromB);
      await cidrs(1, two);
      await cidrs(2, one);
      await world.settled();
      const isFree = (_: string, to: string): boolean => to !== "x/a";
      expect(await denied(isFree)).toEqual([]);
      expect(await world.asks("x/b", "x/a", { port: 80, family: 6 })).toBe(true);
      expect(await world.asks("x/c", "x/a", { port: 80, family: 6 })).toBe(false);
    });

    it("loses none of pods of another node, and drops and reports those of unknown pods, if a node has the prefixes of both", async () => {
      await cidrs(1, [...one, ...two]);
      await cidrs(2, two);
      await world.settled();
      expect(await denied((from, to) => from === "x/b" || to === "x/b")).toEqual([]);
      await world.denials();
      await world.setAddresses("y/b", false);
      expect(await world.asks("x/b", "y/b", { port: 80 })).toBe(false);
      const [from, to] = [world.pod("x/b").peer.v4, world.pod("y/b").peer.v4];
      await expect
        .poll(() => world.denials())
        .toContain(
          `Denied ingress TCP from own/x/b [${from}] to - [${to}] port 80 by unknown-pod-of-this-node`,
        );
      await world.setAddresses("y/b", true);
    });
  });

  describe("with a rule for a port", () => {
    const one = (): NetworkPolicy => {
      const from = [{ podSelector: { matchLabels: { pod: "b" } } }];
      const ports = [{ port: 80, protocol: "UDP" as const }];
      return policy("x", "p", { podSelector: { matchLabels: { pod: "a" } }, ingress: [{ from, ports }] });
    };
    /** Each packet is of a flow of its own: the agent ends those that a policy revokes a moment after the table is there. */
    let flows = 0;
    /** Packets from x/b, or parts of them, that arrive at x/a. */
    async function arriving(program: string, port: number): Promise<number> {
      const { netns, peer: to } = world.pod("x/a");
      const { peer: from, netns: sender } = world.pod("x/b");
      const inside = async (...args: readonly string[]) => (await exec(...words(netns, "nft", args))).stdout;
      await inside(
        `table inet seen { chain in { type filter hook prerouting priority -450; ip saddr ${from.v4} counter; ip6 saddr ${from.v6} icmpv6 type != { 135, 136 } counter; ip6 saddr ${from.v6} ip6 nexthdr != 58 counter; }; }`,
      );
      try {
        for (let at = 0; at < 3; at++, flows++)
          await exec(
            ...words(sender, "perl", ["-e", program, from.v4, to.v4, from.v6, to.v6, `${port}`, `${flows}`]),
          );
        const text = await inside("list", "table", "inet", "seen");
        const counts = [...text.matchAll(/packets (\d+)/g)].map((it) => Number(it[1]));
        return (counts[0] ?? 0) + (counts[2] ?? 0);
      } finally {
        await inside("delete", "table", "inet", "seen");
      }
    }

    it.each([
      ["extension headers of IPv6", EXTENSIONS],
      ["fragments of IPv6", FRAGMENTS_6],
      ["fragments of IPv4", FRAGMENTS_4],
    ])("sees the port behind %s, and lets no part pass to another one", async (_, program) => {
      await world.setPolicies([]);
      expect(await arriving(program, 81)).toBeGreaterThan(0);
      await world.setPolicies([one()]);
      expect(await arriving(program, 80)).toBeGreaterThan(0);
      expect(await arriving(program, 81)).toBe(0);
    });
  });

  describe("while the agent is dead", () => {
    it("keeps a new pod at an address without a pod closed, and gives one at a reused address the policies of the pod before, until an agent runs", async () => {
      await world.setPolicies(onlyFromB);
      await world.setAddresses("y/a", false);
      await world.stopAgent(1);
      // The pod runs already, and what runs at x/a has become another pod, whose label the policy does not select.
      await world.label("x/a", { pod: "z" });
      expect(await world.asks("x/b", "y/a", { port: 80 })).toBe(false);
      expect(await world.asks("x/b", "x/a", { port: 80 })).toBe(true);
      expect(await world.asks("x/c", "x/a", { port: 80 })).toBe(false);
      await world.setAddresses("y/a", true);
      await world.startAgent(1);
      expect(await world.asks("x/b", "y/a", { port: 80 })).toBe(true);
      expect(await world.asks("x/c", "x/a", { port: 80 })).toBe(true);
      await world.label("x/a", { pod: "a" });
    });
  });

  it("notes a bounded number of the connections of one pod that it denies, and still those of others", async () => {
    await world.setPolicies(onlyFromB);
    await world.denials();
    const to = world.pod("x/a").peer.v4;
    const from = world.pod("y/a").peer.v4;
    const FLOOD = `use Socket; my $to = inet_aton($ARGV[0]); socket(my $s, PF_INET, SOCK_DGRAM, 17) or die $!;
for my $port (1..5000) { send($s, "x", 0, sockaddr_in($port, $to)); }`;
    await exec(...words(world.pod("y/a").netns, "perl", ["-e", FLOOD, to]));
    const line = inNetns(await world.netns(1), "nft", ["list", "set", "inet", "fairlead-policy", "denied-4"]);
    const noted = (await exec(line.command, line.args)).stdout.split(`${from} . ${to} . udp`).length - 1;
    expect(noted).toBeGreaterThan(100);
    expect(noted).toBeLessThan(500);
    expect(await world.asks("far:x/a", "x/a", { port: 80 })).toBe(false);
    await expect.poll(async () => (await world.denials()).join("\n")).toContain("from far/x/a");
  });

  it("changes nothing, and no connection, when its agent starts again", async () => {
    await world.setPolicies(onlyFromB);
    const { peer } = world.pod("x/b");
    const { handle } = await peer.ask("open", { host: world.pod("x/a").peer.v6, port: 80 });
    const before = await world.table(1);
    await world.stopAgent(1);
    expect(await world.table(1)).toBe(before);
    await world.startAgent(1);
    expect(await world.table(1)).toBe(before);
    expect((await peer.ask("say", { handle })).from).toBe("x/a");
  });

  it("is made whole again by an agent that finds a part of it", async () => {
    await world.setPolicies(onlyFromB);
    /** Whatever the order in which it was made. */
    const lines = async () =>
      (await world.table(1))
        .replaceAll(/ # handle \d+/g, "")
        .split("\n")
        .toSorted(byText);
    const before = await lines();
    for (const damage of [
      ["flush", "chain", "inet", "fairlead-policy", "forward"],
      ["flush", "set", "inet", "fairlead-policy", "isolated-4"],
      ["flush", "map", "inet", "fairlead-policy", "ingress-4"],
      ["delete", "table", "inet", "fairlead-policy"],
    ]) {
      await world.stopAgent(1);
      await world.nft(1, ...damage);
      await world.startAgent(1);
      expect(await lines()).toEqual(before);
    }
  });

  it("is made again at once where another program deletes it, and that is reported", async () => {
    await world.setPolicies(onlyFromB);
    world.lost.length = 0;
    for (const damage of [
      ["delete", "table", "inet", "fairlead-policy"],
      ["flush", "ruleset"],
    ]) {
      await world.nft(1, ...damage);
      await expect.poll(() => world.lost, { timeout: 20_000 }).toEqual(["fairlead-policy"]);
      expect(await world.asks("far:x/a", "x/a", { port: 80 })).toBe(false);
      expect(await world.asks("x/b", "x/a", { port: 80 })).toBe(true);
      world.lost.length = 0;
    }
    // What the agent deletes itself is not reported.
    await world.stopAgent(1);
    await world.startAgent(1);
    expect(world.lost).toEqual([]);
  });

  describe("with policies of nodes, and of pods about nodes", () => {
    const ONE = { matchLabels: { number: "1" } };
    const A = { matchLabels: { pod: "a" } };
    const spec = (name: string, rules: NonNullable<CiliumNetworkPolicy["spec"]>): CiliumNetworkPolicy => ({
      metadata: { name },
      spec: rules,
    });

    beforeAll(async () => {
      await world.setPolicies([]);
      await world.serveNodes();
    });
    afterAll(() => world.setClusterwidePolicies([]));

    /** @param denied - Of all pairs of a node with a node or pod, "from -> to" or "from -> to:port". */
    it.each<[string, CiliumNetworkPolicy, readonly string[]]>([
      [
        "a node takes only what its policy names, also from its own pods",
        spec("p", {
          nodeSelector: ONE,
          ingress: [
            { fromEndpoints: [{ matchLabels: { pod: "b" } }], toPorts: [{ ports: [{ port: "80" }] }] },
          ],
        }),
        ["node/2", "far:x/a", "x/a", "x/c", "y/a"]
          .map((from) => `${from} -> node/1`)
          .concat(["x/b -> node/1:81", "y/b -> node/1:81"]),
      ],
      [
        "a node takes nothing from a peer that its policy denies",
        spec("p", {
          nodeSelector: ONE,
          enableDefaultDeny: { ingress: false },
          ingressDeny: [{ fromEntities: ["remote-node"] }, { fromEndpoints: [A] }],
        }),
        ["node/2", "x/a", "y/a"].map((from) => `${from} -> node/1`),
      ],
      [
        "a node sends only what its policy names, and to its own pods all",
        spec("p", {
          nodeSelector: ONE,
          egress: [{ toEndpoints: [{ matchLabels: { pod: "c" } }] }],
        }),
        ["node/2", "far:x/a", "y/b"].map((to) => `node/1 -> ${to}`),
      ],
      [
        "pods take from their own node all, and from other nodes what a rule for remote-node names",
        spec("p", { endpointSelector: A, ingress: [{ fromEntities: ["remote-node"] }] }),
        [],
      ],
      [
        "pods that take from the host only are closed for other nodes",
        spec("p", { endpointSelector: A, ingress: [{ fromEntities: ["host"] }] }),
        ["x/a", "y/a"].map((to) => `node/2 -> ${to}`),
      ],
      [
        "a rule that denies the host does not stop the probes of the kubelet",
        spec("p", { endpointSelector: A, ingressDeny: [{ fromEntities: ["host", "remote-node"] }] }),
        ["x/a", "y/a"].map((to) => `node/2 -> ${to}`),
      ],
      [
        "pods send to their own node where a rule names the host",
        spec("p", { endpointSelector: A, egress: [{ toEntities: ["host"] }] }),
        ["x/a", "y/a"].map((from) => `${from} -> node/2`),
      ],
      [
        "pods send to other nodes where a rule names remote-node",
        spec("p", { endpointSelector: A, egress: [{ toEntities: ["remote-node"] }] }),
        ["x/a", "y/a"].map((from) => `${from} -> node/1`),
      ],
      [
        "pods do not send to nodes that a rule denies by their labels, which never means their own",
        spec("p", {
          endpointSelector: A,
          enableDefaultDeny: { egress: false },
          egressDeny: [{ toNodes: [{}] }],
        }),
        ["x/a", "y/a"].map((from) => `${from} -> node/2`),
      ],
    ])("%s", async (_, policyOfNodes, expected) => {
      await world.setClusterwidePolicies([policyOfNodes]);
      const nodes = ["node/1", "node/2"];
      const found = await denied(
        (from, to) => nodes.includes(from) || nodes.includes(to),
        [...nodes, ...world.ids],
      );
      expect(found.toSorted(byText)).toEqual(
        expected
          .flatMap((it) => (/:\d+$/.test(it) ? [it] : PORTS.map((port) => `${it}:${port}`)))
          .toSorted(byText),
      );
    });
  });

  describe("of a node that lost its table, as at a boot,", () => {
    const toNode1 = (from: string, to: string): boolean => to === "x/a" || from === "x/a" || to === "node/1";
    const ids = ["x/a", "x/c", "far:x/a", "node/1"];
    const open = [policy("y", "p", { podSelector: {}, ingress: [{}] })];

    beforeAll(async () => {
      await world.setPolicies(onlyFromB);
      await world.stopAgent(1);
      await world.nft(1, "delete", "table", "inet", "fairlead-policy");
    });
    afterAll(() => world.startAgent(1));

    const all = PORTS.flatMap((port) =>
      ["far:x/a -> x/a", "x/a -> far:x/a", "x/a -> node/1", "x/a -> x/c", "x/c -> x/a"].map(
        (it) => `${it}:${port}`,
      ),
    ).toSorted(byText);

    it("is open without the saved one", async () => {
      expect(await denied(toNode1, ids)).toEqual([]);
    });

    it("is closed for its pods with the saved one, without an agent, and open for what the node sends", async () => {
      await world.nft(1, "--file", world.savedTable(1));
      expect((await denied(toNode1, ids)).toSorted(byText)).toEqual(all);
    });

    it("is closed as soon as its agent starts, though the API server is away", async () => {
      await world.nft(1, "delete", "table", "inet", "fairlead-policy");
      await world.startAgent(1, "restored");
      expect((await denied(toNode1, ids)).toSorted(byText)).toEqual(all);
      await world.stopAgent(1);
    });

    it("lets pass what policies allow once the agent has read them, and the table in the kernel stays in use until then", async () => {
      const before = await world.table(1);
      await world.startAgent(1, "restored");
      expect(await world.table(1)).toBe(before);
      await world.stopAgent(1);
      await world.startAgent(1);
      expect(await world.asks("x/b", "x/a", { port: 80 })).toBe(true);
      expect(await world.asks("x/c", "x/a", { port: 80 })).toBe(false);
    });

    it("has nothing saved that only its owner may not read, and nothing without policies", async () => {
      expect(statSync(world.savedTable(1)).mode & 0o777).toBe(0o600);
      await world.setPolicies([]);
      expect(existsSync(world.savedTable(1))).toBe(false);
      await world.setPolicies(open);
      expect(existsSync(world.savedTable(1))).toBe(true);
      await world.setPolicies([]);
      await world.stopAgent(1);
    });
  });

  it("enforces the policies of a namespace that is being deleted until the namespace is gone", async () => {
    await world.setPolicies(onlyFromB);
    const key = objectKey(undefined, "x");
    await world.client.mergePatch(NAMESPACES, key, { metadata: { finalizers: ["example.com/content"] } });
    await world.client.delete(NAMESPACES, key);
    await world.setPolicies([]);
    expect(await world.asks("x/c", "x/a", { port: 80 })).toBe(false);
    await world.client.mergePatch(NAMESPACES, key, { metadata: { finalizers: [] } });
    await world.settled();
    expect(await world.client.find(NAMESPACES, key)).toBeUndefined();
    expect(await world.table(1)).not.toContain("goto deny");
  });
});
