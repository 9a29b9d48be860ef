import { closeSync, existsSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import * as fc from "fast-check";
import { afterAll, beforeAll, expect, it } from "vitest";
import { exec, start } from "@fairlead/base/exec.ts";
import { applyNetwork, readNetwork, runIpLines } from "@fairlead/os/iproute/driver.ts";
import { addVethPair, setLink } from "@fairlead/os/iproute/lines.ts";
import { diffNetwork, type NetworkState } from "@fairlead/os/iproute/state.ts";
import {
  createNetns,
  deleteNetns,
  inNetns,
  isNetns,
  listNetns,
  netnsInode,
} from "@fairlead/os/netns/netns.ts";
import { loadLibC } from "@fairlead/os/libc/libc.ts";
import { openPingSocket } from "@fairlead/os/libc/ping-socket.ts";
import { pidsByNetns } from "@fairlead/os/netns/processes.ts";
import { ROUTER_SYSCTLS, STATIC_IPV6_SYSCTLS, writeSysctls } from "@fairlead/os/netns/sysctl.ts";
import { describeOnKernel, netnsFixture } from "../support/netns-fixture.ts";

const signal = AbortSignal.timeout(100_000);

describeOnKernel("network namespaces", () => {
  const fixture = netnsFixture();
  afterAll(() => fixture[Symbol.asyncDispose]());

  it("are created once, also over a leftover file, and are deleted without a trace", async () => {
    const path = `${dirname(await fixture.netns("first"))}/again`;
    writeFileSync(path, "");
    await createNetns(path, signal);
    const inode = await netnsInode(path);
    await createNetns(path, signal);
    expect(await netnsInode(path)).toBe(inode);
    expect(await listNetns(dirname(path))).toContain(path);
    await deleteNetns(path, signal);
    await deleteNetns(path, signal);
    expect(existsSync(path)).toBe(false);
    expect(readFileSync("/proc/self/mountinfo", "utf8")).not.toContain(path);
  });

  it("lose their name also while a process holds the file open, and when the file is mounted twice", async () => {
    const path = `${dirname(await fixture.netns("first"))}/held`;
    await createNetns(path, signal);
    const other = await fixture.netns("first");
    await exec("mount", ["--bind", other, path], { signal });
    const fd = openSync(path, "r");
    await deleteNetns(path, signal);
    closeSync(fd);
    expect(existsSync(path)).toBe(false);
  });

  it("have lo up, and tell their processes", async () => {
    const path = await fixture.netns("busy");
    expect(await isNetns(path)).toBe(true);
    const { command, args } = inNetns(path, "sleep", ["60"]);
    const child = start(command, args);
    try {
      await expect.poll(async () => (await pidsByNetns([path])).get(path)).toEqual([child.pid]);
      const lo = inNetns(path, "ip", ["-j", "link", "show", "lo"]);
      expect((await exec(lo.command, lo.args, { signal })).stdout).toContain('"UP"');
    } finally {
      child.kill("SIGKILL");
    }
  });

  it("have no socket for echo requests over a device that is absent", async () => {
    const libc = await loadLibC();
    if (libc === undefined) return;
    const options = { netns: await fixture.netns("busy"), device: "absent", address: "127.0.0.1" };
    await writeSysctls(options.netns, { "net/ipv4/ping_group_range": "0 2147483647" }, signal);
    // Not bound to any device, it would send by the routes for ever.
    await expect(openPingSocket(libc, options)).rejects.toThrow("has no device absent");
    const socket = await openPingSocket(libc, { ...options, device: "lo" });
    socket.close();
  });

  it("accept kernel settings in one call, and reject unknown ones", async () => {
    const path = await fixture.netns("busy");
    await writeSysctls(path, { ...ROUTER_SYSCTLS, ...STATIC_IPV6_SYSCTLS }, signal);
    const read = inNetns(path, "cat", ["/proc/sys/net/ipv6/conf/all/forwarding"]);
    expect((await exec(read.command, read.args, { signal })).stdout).toBe("1\n");
    expect(readFileSync("/proc/sys/net/ipv6/conf/default/accept_dad", "utf8")).toBe("1\n");
    for (const key of ["net/../kernel/x", "-p", "net/ipv4/x y"])
      await expect(writeSysctls(path, { [key]: 1 }, signal)).rejects.toMatchObject({
        code: "OPTION_INVALID",
      });
  });
});

describeOnKernel("addresses, routes and neighbours", () => {
  const fixture = netnsFixture();
  const devices = ["a", "b"];
  let netns: string;
  beforeAll(async () => {
    netns = await fixture.netns("here");
    const there = await fixture.netns("there");
    await runIpLines(
      [
        ...devices.map((device) => addVethPair({ device, mtu: 1400 }, { device, netns: there })),
        ...devices.map((device) => setLink(device, { up: true })),
      ],
      { netns, signal },
    );
    await runIpLines(
      devices.map((device) => setLink(device, { up: true })),
      { netns: there, signal },
    );
    await writeSysctls(netns, STATIC_IPV6_SYSCTLS, signal);
  });
  afterAll(() => fixture[Symbol.asyncDispose]());

  const addresses = [
    { device: "a", address: "10.0.0.1/24" },
    { device: "a", address: "fd00:0:0::1/64" },
    { device: "b", address: "10.0.1.1/32" },
    { device: "b", address: "fd00:1::1/128" },
    { device: "b", address: "fe80::3/64" },
  ];
  const onlink = (via: string, device: string) => ({ via, device, isOnlink: true });
  const routes = [
    { to: "0.0.0.0/0", hops: [onlink("169.254.1.1", "a")] },
    { to: "0.0.0.0/0", hops: [onlink("169.254.1.1", "a"), onlink("169.254.1.2", "b")] },
    { to: "::/0", hops: [onlink("fe80::1", "a")] },
    { to: "::/0", hops: [onlink("fe80::1", "a"), onlink("fe80::2", "b")] },
    { to: "10.9.0.0/16", hops: [{ device: "b" }] },
    { to: "fd09::/64", hops: [{ device: "b" }] },
  ];
  const neighbours = [
    { device: "a", address: "169.254.1.1", hardwareAddress: "02:00:00:00:00:01" },
    { device: "a", address: "169.254.1.1", hardwareAddress: "02:00:00:00:00:02" },
    { device: "b", address: "fe80::2", hardwareAddress: "02:00:00:00:00:01" },
  ];
  const unique = <T>(key: (item: T) => string, items: readonly T[]): readonly T[] => [
    ...new Map(items.map((it) => [key(it), it])).values(),
  ];
  const state: fc.Arbitrary<NetworkState> = fc
    .tuple(fc.subarray(addresses), fc.subarray(routes), fc.subarray(neighbours))
    .map(([a, r, n]) => ({
      addresses: a,
      routes: unique((it) => it.to, r),
      neighbours: unique((it) => it.device + it.address, n),
    }));

  it("converge to the desired state from any state, and then need no change", async () => {
    const lo = await readNetwork(["lo"], { netns, signal });
    await fc.assert(
      fc.asyncProperty(fc.array(state, { minLength: 1, maxLength: 3 }), async (states) => {
        for (const desired of states) {
          await applyNetwork(devices, desired, { netns, signal });
          const actual = await readNetwork(devices, { netns, signal });
          expect(diffNetwork(actual, desired)).toEqual([]);
          // And nothing else is there but the addresses that the kernel gives to each device.
          const foreign = diffNetwork(desired, actual).filter((it) => !it.includes("address replace fe80::"));
          expect(foreign).toEqual([]);
        }
      }),
      { numRuns: 20 },
    );
    expect(await readNetwork(["lo"], { netns, signal })).toEqual(lo);
  });
});
