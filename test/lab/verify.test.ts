/** The programs in the pods of `fairlead verify`, across two routers whose link takes smaller packets than those of the hosts. */

import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it } from "vitest";
import { delay, systemClock } from "@fairlead/base/clock.ts";
import { exec, start } from "@fairlead/base/exec.ts";
import { parseFindings } from "@fairlead/fleet/cli/verify/results.ts";
import { type Check, type Finding, PROBES, type ProbePlan } from "@fairlead/fleet/cli/verify/probes.ts";
import { inNetns } from "@fairlead/os/netns/netns.ts";
import { describeOnKernel, netnsFixture } from "../support/netns-fixture.ts";

const MAIN = fileURLToPath(new URL("../../packages/fairlead/src/main.ts", import.meta.url));
const SMALL = 1400;
const PODS = { IPv4: "10.9.2.2", IPv6: "fd00:9:2::2" };

describeOnKernel("the programs of verify across two routers", () => {
  const stack = new AsyncDisposableStack();
  const fixture = stack.use(netnsFixture());
  let client: string;
  let routers: readonly string[];

  beforeAll(async () => {
    client = await fixture.netns("client");
    const [near, far] = [await fixture.netns("near"), await fixture.netns("far")];
    const server = await fixture.netns("server");
    routers = [near, far];
    for (const it of routers)
      await sh(it, "echo 1 >/proc/sys/net/ipv4/ip_forward; echo 1 >/proc/sys/net/ipv6/conf/all/forwarding");
    await link({ host: client, router: near, network: 1, mtu: 1500 });
    await link({ host: server, router: far, network: 2, mtu: 1500 });
    await link({ host: far, router: near, network: 3, mtu: SMALL });
    for (const via of ["10.9.3.2", "fd00:9:3::2"])
      await sh(near, `ip route add ${via.includes(":") ? "fd00:9:2::/64" : "10.9.2.0/24"} via ${via}`);
    // The kernel announces links, and with them neighbours, up to a second later (linkwatch).
    for (const address of Object.values(PODS)) await sh(client, `ping -c 1 -w 15 ${address}`);
    const line = inNetns(server, process.execPath, [MAIN, "verify-pod", "serve", "--cluster", "west"]);
    const child = start(line.command, line.args, { stdio: ["ignore", "ignore", "inherit"] });
    stack.defer(async () => {
      const ended = new Promise((resolve) => child.once("exit", resolve));
      child.kill("SIGKILL");
      await ended;
    });
    const signal = AbortSignal.timeout(30_000);
    for (;;) {
      const { stdout } = await sh(server, "ss -Hltun sport = 7575");
      if (stdout.trim().split("\n").length === 2) break;
      await delay(systemClock, 50, signal);
    }
  });
  afterAll(() => stack.disposeAsync());

  async function probe(checks: readonly Check[], settleMs = 5000): Promise<readonly Finding[]> {
    const names = { service: "", pods: "" };
    const plan: ProbePlan = {
      checks,
      settleMs,
      targets: [{ cluster: "west", pods: PODS, vips: PODS, names }],
    };
    const args = [MAIN, "verify-pod", "probe", "--plan", JSON.stringify(plan)];
    const line = inNetns(client, process.execPath, args);
    const { stdout } = await exec(line.command, line.args, { timeoutMs: 60_000 });
    return parseFindings(stdout).toSorted((a, b) => (a.family < b.family ? -1 : 1));
  }

  const allowPing = (): Promise<unknown> =>
    sh(client, "echo 0 2147483647 >/proc/sys/net/ipv4/ping_group_range");

  it("skip ICMP with the reason where the pod may not open its sockets", async () => {
    await sh(client, "echo 1 0 >/proc/sys/net/ipv4/ping_group_range");
    const found = await probe(["icmp"]);
    expect(found.map((it) => [it.family, it.status])).toEqual([
      ["IPv4", "skipped"],
      ["IPv6", "skipped"],
    ]);
    expect(found[0]?.detail).toContain("net.ipv4.ping_group_range");
  });

  it("find a path that drops large packets silently: the size by loss, and TCP that stalls", async () => {
    const hole = `nft -f - <<'END'
table inet hole {
  chain out {
    type filter hook output priority 0;
    icmp type destination-unreachable drop
    icmpv6 type packet-too-big drop
  }
}
END`;
    for (const it of routers) await sh(it, hole);
    try {
      const found = await probe(["tcp", "mtu", "large"], 3000);
      const said = (check: Check) => found.filter((it) => it.check === check).map((it) => it.status);
      expect(said("tcp")).toEqual(["passed", "passed"]);
      expect(said("large")).toEqual(["failed", "failed"]);
      expect(found.filter((it) => it.check === "mtu").map((it) => it.detail)).toEqual(
        [SMALL, SMALL].map((it) => `${it} bytes`),
      );
    } finally {
      for (const it of routers) await sh(it, "nft delete table inet hole");
    }
  });

  it("name the cluster that answers in the place of another", async () => {
    const names = { service: "", pods: "" };
    const targets = [{ cluster: "east", pods: { IPv4: PODS.IPv4 }, vips: {}, names }];
    const plan: ProbePlan = { checks: ["tcp"], settleMs: 0, targets };
    const line = inNetns(client, process.execPath, [
      MAIN,
      "verify-pod",
      "probe",
      "--plan",
      JSON.stringify(plan),
    ]);
    const found = parseFindings((await exec(line.command, line.args, { timeoutMs: 60_000 })).stdout);
    expect(found.map((it) => [it.status, it.detail])).toEqual([["failed", "the pod of west answers"]]);
  });

  // Comes last: what routers say of the size is remembered.
  it("pass over both families, and find the largest packet of the path", async () => {
    await allowPing();
    const found = await probe(PROBES.filter((it) => !it.startsWith("dns-")));
    expect(found.filter((it) => it.status !== "passed")).toEqual([]);
    expect(found).toHaveLength(14);
    const of = (check: Check): readonly Finding[] => found.filter((it) => it.check === check);
    expect(of("mtu").map((it) => [it.family, it.mtu])).toEqual([
      ["IPv4", SMALL],
      ["IPv6", SMALL],
    ]);
    expect(of("tcp").map((it) => it.detail)).toEqual(["seen as 10.9.1.2", "seen as fd00:9:1::2"]);
  });
});

function sh(netns: string, script: string): ReturnType<typeof exec> {
  const line = inNetns(netns, "sh", ["-ec", script]);
  return exec(line.command, line.args, { timeoutMs: 20_000 });
}

interface Link {
  readonly host: string;
  readonly router: string;
  readonly network: number;
  readonly mtu: number;
}

/** Links a host, whose default route it becomes, to a router: .2 and .1 of a network of each family. */
async function link({ host, router, network, mtu }: Link): Promise<void> {
  const device = `net${network}`;
  await sh(router, `ip link add ${device} mtu ${mtu} type veth peer name ${device} mtu ${mtu} netns ${host}`);
  const address = (at: number): readonly string[] => [
    `10.9.${network}.${at}/24`,
    `fd00:9:${network}::${at}/64`,
  ];
  for (const it of address(1)) await sh(router, `ip address add ${it} dev ${device} nodad`);
  await sh(router, `ip link set ${device} up`);
  for (const it of address(2)) await sh(host, `ip address add ${it} dev ${device} nodad`);
  await sh(host, `ip link set ${device} up`);
  for (const it of address(1)) await sh(host, `ip route add default via ${it.split("/")[0]}`);
}
