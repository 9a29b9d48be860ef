import * as fc from "fast-check";
import { afterAll, beforeAll, expect, it } from "vitest";
import { exec } from "@fairlead/base/exec.ts";
import {
  applyNetwork,
  type NetworkOptions,
  readLinks,
  readNetwork,
  runIpLines,
} from "@fairlead/os/iproute/driver.ts";
import { LinkReader } from "@fairlead/os/iproute/link-reader.ts";
import { addVethPair, setLink } from "@fairlead/os/iproute/lines.ts";
import { diffNetwork, type NetworkState } from "@fairlead/os/iproute/state.ts";
import { inNetns } from "@fairlead/os/netns/netns.ts";
import { STATIC_IPV6_SYSCTLS, writeSysctls } from "@fairlead/os/netns/sysctl.ts";
import { describeOnKernel, netnsFixture } from "../support/netns-fixture.ts";

const signal = AbortSignal.timeout(100_000);

describeOnKernel("next hops, metrics, tables and rules", () => {
  const fixture = netnsFixture();
  const devices = ["a", "b"];
  let options: NetworkOptions;
  beforeAll(async () => {
    const [netns, there] = [await fixture.netns("here"), await fixture.netns("there")];
    options = { netns, signal, rulePriorities: [5200, 5299], nextHopIds: [2000, 2999] };
    await writeSysctls(netns, STATIC_IPV6_SYSCTLS, signal);
    const pairs = ["a", "b"].map((device) => addVethPair({ device }, { device, netns: there }));
    await runIpLines([...pairs, ...["a", "b"].map((it) => setLink(it, { up: true }))], options);
    await runIpLines(
      ["a", "b"].map((it) => setLink(it, { up: true })),
      { netns: there, signal },
    );
  });
  afterAll(() => fixture[Symbol.asyncDispose]());

  const nextHops = [
    { id: 2001, device: "a" },
    { id: 2002, device: "b" },
  ];
  const members = [{ id: 2001, weight: 3 }, { id: 2002 }];
  const groups = [
    { id: 2020, members },
    { id: 2020, members: [{ id: 2002 }] },
    { id: 2020, members, resilient: { buckets: 32 } },
    { id: 2020, members: [{ id: 2001 }], resilient: { buckets: 64, idleSeconds: 5 } },
  ];
  const direct = [
    { to: "10.1.0.0/16", hops: [{ device: "a" }], mtu: 1392, advertisedMss: 1352 },
    { to: "10.1.0.0/16", hops: [{ device: "a", weight: 3 }, { device: "b" }], mtu: 1376 },
    { to: "10.1.0.0/16", hops: [{ device: "b" }], metric: 20 },
    { to: "10.1.0.0/16", hops: [{ device: "b" }], table: 300 },
    { to: "fd01::/48", hops: [{ device: "a" }], mtu: 1392 },
    { to: "fd01::/48", hops: [{ device: "b" }], metric: 20, table: 300 },
    { to: "fd01::/48", hops: [{ device: "b" }], metric: 2000 },
  ];
  const grouped = [
    { to: "10.2.0.0/16", hops: [], nextHop: 2020, mtu: 1392 },
    { to: "fd02::/48", hops: [], nextHop: 2020, advertisedMss: 1300 },
    { to: "fd02::/48", hops: [], nextHop: 2020, table: 301 },
  ];
  const rules = [
    { priority: 5200, family: "IPv4", from: "10.1.0.0/16", table: 300 },
    { priority: 5200, family: "IPv6", table: 300 },
    { priority: 5200, family: "IPv4", from: "10.1.0.0/16", table: 301 },
    { priority: 5299, family: "IPv4", to: "10.96.0.0/12", incoming: "a", table: 254 },
    { priority: 5299, family: "IPv6", from: "fd00::/8", mark: { value: 5, mask: 0xff }, table: 254 },
    { priority: 5298, family: "IPv4", mark: { value: 7, mask: 0xffff_ffff }, table: 4_000_000_000 },
  ] as const;
  const neighbours = [{ device: "a", address: "10.9.0.1", hardwareAddress: "02:00:00:00:00:09" }];
  const unique = <T>(key: (item: T) => string, items: readonly T[]): readonly T[] => [
    ...new Map(items.map((it) => [key(it), it])).values(),
  ];
  const routeKey = (it: { to: string; table?: number; metric?: number }): string =>
    `${it.to} ${it.table} ${it.metric}`;
  const state: fc.Arbitrary<NetworkState> = fc
    .tuple(
      fc.subarray(direct),
      fc.subarray(grouped),
      fc.option(fc.constantFrom(...groups), { nil: undefined }),
      fc.subarray([...rules]),
      fc.subarray(neighbours),
    )
    .map(([simple, shared, group, some, links]) => ({
      addresses: [],
      routes: unique(routeKey, group === undefined ? simple : [...simple, ...shared]),
      neighbours: links,
      nextHops: group === undefined ? [] : nextHops,
      nextHopGroups: group === undefined ? [] : [group],
      rules: some,
    }));

  it("converge to the desired state from any state, and then need no change", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(state, { minLength: 1, maxLength: 3 }), async (states) => {
        for (const desired of states) {
          await applyNetwork(devices, desired, options);
          const actual = await readNetwork(devices, options);
          expect(diffNetwork(actual, desired)).toEqual([]);
          // And nothing else is there but the addresses that the kernel gives to each device.
          const foreign = diffNetwork(desired, actual).filter((it) => !it.includes("address replace fe80::"));
          expect(foreign).toEqual([]);
        }
      }),
      { numRuns: 10 },
    );
  });

  it("leave rules and next hops out of their range alone, and replace those of others in it", async () => {
    const ip = (...args: readonly string[]) => {
      const line = inNetns(options.netns ?? "", "ip", args);
      return exec(line.command, line.args, { signal });
    };
    await ip("rule", "add", "priority", "5100", "from", "10.7.0.0/16", "lookup", "300");
    await ip("nexthop", "add", "id", "100", "dev", "a");
    await ip("rule", "add", "priority", "5250", "not", "from", "10.7.0.0/16", "blackhole");
    const desired = { addresses: [], routes: [], neighbours: [], rules: [{ ...rules[0], priority: 5250 }] };
    await applyNetwork(devices, desired, options);
    const shown = (await ip("rule", "show")).stdout;
    expect(shown).toMatch(/^5100:.*10\.7\.0\.0\/16/m);
    expect(shown.match(/^5250:.*/gm)).toEqual([expect.stringContaining("from 10.1.0.0/16 lookup 300")]);
    expect((await ip("nexthop", "show")).stdout).toContain("id 100 ");
    await expect(
      applyNetwork(devices, { ...desired, rules: [{ ...rules[0], priority: 5300 }] }, options),
    ).rejects.toThrow("out of the range of this program: rule priority 5300");
  });
});

describeOnKernel("links of every kind that the agent has", () => {
  const fixture = netnsFixture();
  afterAll(() => fixture[Symbol.asyncDispose]());

  it("are read by netlink as ip shows them", async () => {
    const [here, there] = [await fixture.netns("here"), await fixture.netns("there")];
    const tunnel = inNetns(here, "ip", ["tuntap", "add", "mode", "tun", "name", "tunnel"]);
    await exec(tunnel.command, tunnel.args, { signal });
    await runIpLines([addVethPair({ device: "pod", netns: here }, { device: "eth0", netns: there })], {
      signal,
    });
    await runIpLines([setLink("pod", { up: true, mtu: 1408 })], { netns: here, signal });
    for (const netns of [here, there])
      expect(await new LinkReader(netns).links(signal)).toEqual(await readLinks({ netns, signal }));
  });
});
