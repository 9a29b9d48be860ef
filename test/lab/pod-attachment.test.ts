/** Links of pods to the fleet namespace: real namespaces, devices and packets. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exec } from "@fairlead/base/exec.ts";
import { attachPod, deletePodDevice, detachPod } from "@fairlead/fleet/dataplane/pod-attachment/attach.ts";
import { fleetSide, type PodLink, podSide } from "@fairlead/fleet/dataplane/pod-attachment/link.ts";
import { vethName } from "@fairlead/fleet/dataplane/pod-attachment/names.ts";
import { readLinks, readNetwork, runIpLines } from "@fairlead/os/iproute/driver.ts";
import {
  addVethPair,
  deleteLink,
  type IpLine,
  replaceAddress,
  replaceRoute,
  setLink,
} from "@fairlead/os/iproute/lines.ts";
import { addRule } from "@fairlead/os/iproute/rules.ts";
import { deleteNetns, inNetns } from "@fairlead/os/netns/netns.ts";
import { ROUTER_SYSCTLS, STATIC_IPV6_SYSCTLS, writeSysctls } from "@fairlead/os/netns/sysctl.ts";
import { describeOnKernel, devicesIn, netnsFixture } from "../support/netns-fixture.ts";

const signal = AbortSignal.timeout(110_000);
const PREFIXES = ["10.112.0.0/12", "fd00:112::/48"];
const linkOf = (at: number, more: Partial<PodLink> = {}): PodLink => ({
  podUID: `uid-${at}`,
  addresses: [`10.112.1.${at}`, `fd00:112:0:1::${at}`],
  ownAddresses: ["10.244.0.2", "fd00:244::2"],
  prefixes: PREFIXES,
  mtu: 1400,
  ...more,
});

describeOnKernel("pods with a fleet address", () => {
  const fixture = netnsFixture();
  const names = ["fleet", "node", "a", "b", "c"] as const;
  const at: Record<(typeof names)[number], string> = { fleet: "", node: "", a: "", b: "", c: "" };
  const place = (pod: string) => ({ fleet: at.fleet, pod, signal });
  const inside = async (netns: string, command: string, ...args: readonly string[]): Promise<string> => {
    const line = inNetns(netns, command, args);
    return (await exec(line.command, line.args, { signal })).stdout;
  };
  const ip = (netns: string, ...lines: readonly IpLine[]) => runIpLines(lines, { netns, signal });
  const ping = (netns: string, to: string, ...args: readonly string[]) =>
    inside(netns, "ping", "-c", "1", "-W", "3", "-n", ...args, to);

  /** Each pod has an eth0 with a default route to the node, which knows no fleet address but those of the nodes' route. */
  beforeAll(async () => {
    for (const name of names) at[name] = await fixture.netns(name);
    for (const name of ["fleet", "node"] as const)
      await writeSysctls(at[name], { ...ROUTER_SYSCTLS, ...STATIC_IPV6_SYSCTLS }, signal);
    await ip(
      at.node,
      addVethPair({ device: "fl-host" }, { device: "to-node", netns: at.fleet }),
      setLink("fl-host", { up: true }),
      replaceAddress("fl-host", "192.0.2.1/32"),
      replaceAddress("fl-host", "fd00:192::1/128"),
      ...PREFIXES.map((to) => replaceRoute({ to, hops: [{ device: "fl-host" }] })),
    );
    await ip(
      at.fleet,
      setLink("to-node", { up: true }),
      replaceRoute({ to: "192.0.2.1", hops: [{ device: "to-node" }] }),
      replaceRoute({ to: "fd00:192::1", hops: [{ device: "to-node" }] }),
      // Answers to ARP and neighbour discovery.
      replaceAddress("to-node", "10.112.1.254/32"),
      replaceAddress("to-node", "fd00:112:0:1::fffe/128"),
    );
    for (const sysctl of ["net/ipv4/conf/to-node/proxy_arp", "net/ipv6/conf/to-node/proxy_ndp"])
      await writeSysctls(at.fleet, { [sysctl]: 1 }, signal);
    for (const name of ["a", "b"] as const) {
      await ip(at.node, addVethPair({ device: `pod-${name}` }, { device: "eth0", netns: at[name] }));
      await ip(
        at.node,
        setLink(`pod-${name}`, { up: true }),
        replaceAddress(`pod-${name}`, "169.254.1.1/32"),
      );
      await ip(
        at[name],
        setLink("eth0", { up: true }),
        replaceAddress("eth0", "10.244.0.2/32"),
        replaceRoute({ to: "0.0.0.0/0", hops: [{ device: "eth0", via: "169.254.1.1", isOnlink: true }] }),
      );
    }
    // As runtimes leave a pod without an IPv6 address, and with a strict filter.
    for (const scope of ["all", "default"])
      await writeSysctls(
        at.a,
        { [`net/ipv6/conf/${scope}/disable_ipv6`]: 1, [`net/ipv4/conf/${scope}/rp_filter`]: 1 },
        signal,
      );
    for (const index of [5, 6])
      for (const address of linkOf(index).addresses.filter((it) => it.includes(":")))
        await inside(at.fleet, "ip", "-6", "neighbour", "add", "proxy", address, "dev", "to-node");
  });
  afterAll(() => fixture[Symbol.asyncDispose]());

  it("are attached while they run, and a second pass changes nothing", async () => {
    expect(await attachPod(linkOf(5), place(at.a))).toBe(true);
    expect(await attachPod(linkOf(6), place(at.b))).toBe(true);
    for (const [index, netns] of [
      [5, at.a],
      [6, at.b],
    ] as const)
      expect(await attachPod(linkOf(index), place(netns))).toBe(false);
    expect(await devicesIn(at.a)).toEqual(["lo", "eth0", "eth-fleet"]);
    expect(await devicesIn(at.fleet)).toContain(vethName("uid-5"));
  });

  it("reach each other from their fleet addresses, with the MTU of the link, in both families", async () => {
    const [v4 = "", v6 = ""] = linkOf(6).addresses;
    expect(await inside(at.a, "ip", "route", "get", v4)).toMatch(/dev eth-fleet .*src 10\.112\.1\.5/);
    await ping(at.a, v4, "-s", "1372", "-M", "do");
    await ping(at.a, v6, "-s", "1352", "-M", "do");
    await expect(ping(at.a, v4, "-s", "1373", "-M", "do")).rejects.toThrow(/message too long/);
  });

  it("send datagrams that arrive, from sockets that are not connected, once a way became narrower", async () => {
    const { routes } = fleetSide(linkOf(6)).state;
    await ip(at.fleet, ...routes.map((it) => replaceRoute({ ...it, mtu: 1300 })));
    // For the first one, a message with the size of the way comes back. The port is closed: its kernel counts what arrives.
    const script = `const {createSocket}=require("node:dgram");for(const to of process.argv.slice(1)){const socket=createSocket(to.includes(":")?"udp6":"udp4");let sent=0;const send=()=>{if(sent++<5)socket.send(Buffer.alloc(1340),9,to,()=>setTimeout(send,20));else socket.close()};send()}`;
    const arrived = async (): Promise<readonly number[]> => {
      const [v4, v6] = [
        await inside(at.b, "cat", "/proc/net/snmp"),
        await inside(at.b, "cat", "/proc/net/snmp6"),
      ];
      return [/^Udp: \d+ (\d+)/m.exec(v4)?.[1], /^Udp6NoPorts\s+(\d+)/m.exec(v6)?.[1]].map(Number);
    };
    const before = await arrived();
    await inside(at.a, process.execPath, "-e", script, ...linkOf(6).addresses);
    const after = await arrived();
    expect(await attachPod(linkOf(6), place(at.b))).toBe(true);
    const hasArrived = after.map((it, index) => it > (before[index] ?? it));
    expect(hasArrived, "IPv4, IPv6").toEqual([true, true]);
  });

  it("keep the way of connections that they opened from their own addresses before they had a link", async () => {
    const { ownAddresses } = linkOf(6);
    await ip(
      at.b,
      replaceAddress("eth0", `${ownAddresses[1]}/128`),
      replaceRoute({ to: "::/0", hops: [{ device: "eth0" }] }),
    );
    for (const [index, to] of linkOf(5).addresses.entries()) {
      const get = (...from: readonly string[]) => inside(at.b, "ip", "route", "get", to, ...from);
      expect(await get("from", ownAddresses[index] ?? "")).toContain("dev eth0");
      expect(await get()).toContain("dev eth-fleet");
    }
  });

  it("answer clients outside of the fleet on the way on which these came", async () => {
    for (const address of linkOf(5).addresses) await ping(at.node, address);
    expect(await inside(at.a, "ip", "route", "get", "192.0.2.1")).toContain("dev eth0");
  });

  it("cannot send IPv4 packets from an address that another pod has", async () => {
    const dropped = async (): Promise<number> => {
      const text = await inside(at.fleet, "cat", "/proc/net/netstat");
      const [counters = [], values = []] = text
        .split("\n")
        .filter((it) => it.startsWith("TcpExt:"))
        .map((it) => it.split(" "));
      return Number(values[counters.indexOf("IPReversePathFilter")]);
    };
    const before = await dropped();
    await ip(at.b, replaceAddress("lo", "10.112.1.77/32"));
    await expect(ping(at.b, "10.112.1.5", "-I", "10.112.1.77", "-W", "1")).rejects.toThrow(
      "100% packet loss",
    );
    expect(await dropped()).toBeGreaterThan(before);
  });

  describe("have a link that is repaired", () => {
    const isWhole = async (link: PodLink, netns: string): Promise<void> => {
      expect(await attachPod(link, place(netns))).toBe(true);
      expect(await attachPod(link, place(netns))).toBe(false);
      for (const address of link.addresses) await ping(at.node, address);
    };

    it.each<[string, () => Promise<unknown>]>([
      ["that was deleted in the fleet namespace", () => ip(at.fleet, deleteLink(vethName("uid-5")))],
      ["that was deleted in the pod", () => ip(at.a, deleteLink("eth-fleet"))],
      ["that went down", () => ip(at.a, setLink("eth-fleet", { up: false }))],
      [
        "that went down in the fleet namespace",
        () => ip(at.fleet, setLink(vethName("uid-5"), { up: false })),
      ],
      [
        "with another rule of its priority",
        () => ip(at.a, addRule({ priority: 10_112, family: "IPv4", from: "10.9.9.9", table: 10_112 })),
      ],
      ["without its routes", () => inside(at.a, "ip", "route", "flush", "table", "10114")],
    ])("%s", async (_, damage) => {
      await damage();
      await isWhole(linkOf(5), at.a);
    });

    it("whose pair leads to a namespace that the pod no longer has", async () => {
      await attachPod(linkOf(7), place(at.c));
      await attachPod(linkOf(7), place(at.b)).catch(() => undefined);
      // The pod of UID 6 is in the namespace b: its device is not that of another pod.
      expect(await devicesIn(at.b)).toContain("eth-fleet");
      const again = await fixture.netns("c-again");
      expect(await attachPod(linkOf(7), place(again))).toBe(true);
      expect(await devicesIn(at.c)).toEqual(["lo"]);
      expect(await devicesIn(again)).toContain("eth-fleet");
      await deletePodDevice(vethName("uid-7"), place(again));
    });

    it("after each step of an attachment at which the agent may have ended", async () => {
      const link = linkOf(8);
      const [fleet, pod] = [fleetSide(link), podSide(link)];
      const pair = addVethPair(
        { device: fleet.device, hardwareAddress: fleet.hardwareAddress },
        { device: pod.device, hardwareAddress: pod.hardwareAddress, netns: at.c },
      );
      const steps = [
        () => ip(at.fleet, pair),
        () =>
          ip(
            at.fleet,
            setLink(fleet.device, { addressGeneration: "none" }),
            setLink(fleet.device, { up: true }),
          ),
        () => ip(at.fleet, ...fleet.state.routes.map((it) => replaceRoute(it))),
        () => ip(at.c, setLink(pod.device, { up: true })),
      ];
      for (let done = 1; done <= steps.length; done++) {
        await deletePodDevice(vethName(link.podUID), place(at.c));
        for (const step of steps.slice(0, done)) await step();
        expect(await attachPod(link, place(at.c))).toBe(true);
        expect(await attachPod(link, place(at.c))).toBe(false);
      }
      await detachPod(link.podUID, place(at.c));
    });
  });

  it("follow a change of MTU, prefixes and families without a new device", async () => {
    const index = async () =>
      (await readLinks({ netns: at.a, signal })).find((it) => it.device === "eth-fleet")?.index;
    const before = await index();
    const changed = linkOf(5, { mtu: 1300, prefixes: ["10.112.0.0/12"], addresses: ["10.112.1.5"] });
    expect(await attachPod(changed, place(at.a))).toBe(true);
    expect(await attachPod(changed, place(at.a))).toBe(false);
    const { addresses, routes } = await readNetwork(["eth-fleet"], { netns: at.a, signal });
    expect(addresses.filter((it) => !it.address.startsWith("fe80:"))).toEqual([
      { device: "eth-fleet", address: "10.112.1.5/32" },
    ]);
    expect(new Set(routes.map((it) => it.mtu))).toEqual(new Set([1300]));
    expect(await attachPod(linkOf(5), place(at.a))).toBe(true);
    expect(await index()).toBe(before);
  });

  it("are refused when they have a device of that name, which is left alone", async () => {
    const own = await fixture.netns("own");
    await ip(own, addVethPair({ device: "eth-fleet" }, { device: "other" }));
    await expect(attachPod(linkOf(9), place(own))).rejects.toMatchObject({ code: "PRECONDITION_FAILED" });
    expect(await devicesIn(own)).toEqual(expect.arrayContaining(["eth-fleet", "other"]));
    expect(await devicesIn(at.fleet)).not.toContain(vethName("uid-9"));
  });

  it("are as before once detached, and what is left of a pod that ended goes by itself", async () => {
    const before = await readNetwork(["eth0", "lo"], { netns: at.b, signal });
    await detachPod("uid-6", place(at.b));
    await detachPod("uid-6", place(at.b));
    expect(await devicesIn(at.b)).toEqual(["lo", "eth0"]);
    expect(await readNetwork(["eth0", "lo"], { netns: at.b, signal })).toEqual(before);
    expect(await inside(at.b, "ip", "rule", "show")).not.toContain("10112");
    await attachPod(linkOf(8), place(at.c));
    await deleteNetns(at.c, signal);
    await expect.poll(() => devicesIn(at.fleet)).not.toContain(vethName("uid-8"));
  });
});
