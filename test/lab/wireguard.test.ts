import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  statSync,
  symlinkSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { systemClock } from "@fairlead/base/clock.ts";
import { exec } from "@fairlead/base/exec.ts";
import { applyNetwork, readLinks, runIpLines } from "@fairlead/os/iproute/driver.ts";
import { addVethPair, deleteLink, replaceAddress, setLink } from "@fairlead/os/iproute/lines.ts";
import { createNetns, deleteNetns, inNetns } from "@fairlead/os/netns/netns.ts";
import { pidsByNetns } from "@fairlead/os/netns/processes.ts";
import { describeWireguard, type WireguardMachine } from "@fairlead/os/wireguard/contract.ts";
import { WireguardDevices } from "@fairlead/os/wireguard/devices.ts";
import type { WireguardDriver } from "@fairlead/os/wireguard/driver.ts";
import { createKernelDriver, kernelHasWireguard } from "@fairlead/os/wireguard/kernel.ts";
import { generateKeyPair, publicKeyOf } from "@fairlead/os/wireguard/keys.ts";
import { openWireguard } from "@fairlead/os/wireguard/open.ts";
import type { WireguardOptions } from "@fairlead/os/wireguard/options.ts";
import { fileRecords } from "@fairlead/os/wireguard/records.ts";
import type { WireguardDevice } from "@fairlead/os/wireguard/state.ts";
import { createUserspaceDriver } from "@fairlead/os/wireguard/userspace.ts";
import { changeByWg, readByWg } from "@fairlead/os/wireguard/wg.ts";
import { describeOnKernel, netnsFixture, prefixOf } from "../support/netns-fixture.ts";
import { type Arrival, startUdpPeer } from "./udp-world.ts";

const signal = AbortSignal.timeout(900_000);
const hadSockets = existsSync("/var/run/wireguard");
const isInKernel = process.getuid?.() === 0 && (await kernelHasWireguard(signal));

/** Two nodes with a link between them; each has a namespace for its devices. */
interface Site {
  readonly options: WireguardOptions;
  readonly address: string;
}

async function twoSites(
  fixture: ReturnType<typeof netnsFixture>,
  name: string,
): Promise<readonly [Site, Site]> {
  const folder = mkdtempSync(join(tmpdir(), "fairlead-wireguard-"));
  folders.push(folder);
  const [here, there] = [await fixture.netns(`${name}-here`), await fixture.netns(`${name}-there`)];
  await runIpLines([addVethPair({ device: "uplink", netns: here }, { device: "uplink", netns: there })], {
    signal,
  });
  const sites = [
    { netns: here, address: "192.0.2.1" },
    { netns: there, address: "192.0.2.2" },
  ].map(async ({ netns: birthNetns, address }, at): Promise<Site> => {
    const lines = [
      setLink("uplink", { up: true }),
      replaceAddress("uplink", `${address}/24`),
      // A second way, for endpoints that change.
      replaceAddress("uplink", `${address.replace("192.0.2", "198.51.100")}/24`),
    ];
    await runIpLines(lines, { netns: birthNetns, signal });
    const netns = await fixture.netns(`${name}-fleet-${at}`);
    return { address, options: { folder: join(folder, String(at)), netns, birthNetns, clock: systemClock } };
  });
  return Promise.all([sites[0] as Promise<Site>, sites[1] as Promise<Site>]);
}

const folders: string[] = [];
afterAll(() => {
  for (const it of folders) rmSync(it, { recursive: true, force: true });
});

/** Machines of which each has namespaces of its own, and a caller on the other side of a link. */
function machines(
  fixture: ReturnType<typeof netnsFixture>,
  create: (options: WireguardOptions) => WireguardDriver,
): () => Promise<WireguardMachine> {
  let count = 0;
  return async () => {
    count += 1;
    const [here, there] = await twoSites(fixture, `${create.name}-${count}`);
    const caller = new WireguardDevices(create(there.options), fileRecords(there.options.folder));
    callers.push(caller);
    return {
      start: async () => new WireguardDevices(create(here.options), fileRecords(here.options.folder)),
      async call(device, privateKey) {
        const peer = {
          publicKey: publicKeyOf(device.privateKey),
          endpoint: `${here.address}:${device.listenPort}`,
          allowedIPs: [],
          persistentKeepaliveSeconds: 1,
        };
        await caller.apply(
          { name: "caller", privateKey, listenPort: 40_000, mtu: 1408, peers: [peer] },
          signal,
        );
        return `${there.address}:40000`;
      },
      async lose(name) {
        await runIpLines([deleteLink(name)], { netns: here.options.netns, signal });
        const files = (): readonly string[] =>
          readdirSync(here.options.folder).filter((it) => it.endsWith(".sock"));
        await expect.poll(files).toEqual([]);
      },
    };
  };
}

const callers: WireguardDevices[] = [];

async function endCallers(): Promise<void> {
  for (const it of callers.splice(0)) await it.remove("caller", signal);
}

describeOnKernel("in user space", () => {
  const fixture = netnsFixture();
  afterAll(async () => {
    await endCallers();
    await fixture[Symbol.asyncDispose]();
  });

  describeWireguard("WireGuard by wireguard-go", machines(fixture, createUserspaceDriver), { runs: 10 });

  describe("configured by another program", () => {
    /** Where wg(8) looks for the sockets of wireguard-go. */
    const sockets = "/var/run/wireguard";
    afterAll(() => rmSync(sockets, { force: true }));
    /** The part of the kernel's back end that can be tested on wireguard-go, which wg(8) configures too. */
    const wgOnUserspace = (options: WireguardOptions): WireguardDriver => {
      const { folder, netns } = options;
      const userspace = createUserspaceDriver(options);
      const look = (): void => {
        rmSync(sockets, { force: true });
        symlinkSync(folder, sockets);
      };
      return {
        ...userspace,
        async read(name, aborted) {
          const device = await userspace.read(name, aborted);
          if (device === undefined) return undefined;
          look();
          const { mtu, isUp } = device;
          return { name, mtu, isUp, ...(await readByWg(name, netns, aborted)) };
        },
        async change(name, change, aborted) {
          look();
          await changeByWg(name, change, { netns, signal: aborted });
        },
      };
    };
    describeWireguard("WireGuard by wg on wireguard-go", machines(fixture, wgOnUserspace), { runs: 3 });
  });
});

describe.skipIf(!isInKernel)(
  isInKernel ? "in the kernel" : "in the kernel (skipped: this one has no WireGuard)",
  () => {
    const fixture = netnsFixture();
    afterAll(async () => {
      await endCallers();
      await fixture[Symbol.asyncDispose]();
    });
    describeWireguard("WireGuard of the kernel", machines(fixture, createKernelDriver), { runs: 10 });
  },
);

describeOnKernel("a tunnel between two nodes", () => {
  const fixture = netnsFixture();
  const [a, b] = [generateKeyPair(), generateKeyPair()];
  let sites: readonly [Site, Site];
  let devices: [WireguardDevices, WireguardDevices];
  const desired = (at: 0 | 1, endpoint?: string): WireguardDevice => ({
    name: "fl-wg00",
    privateKey: (at === 0 ? a : b).privateKey,
    listenPort: 31_820,
    mtu: 1408,
    peers: [
      {
        publicKey: (at === 0 ? b : a).publicKey,
        allowedIPs: [at === 0 ? "10.112.1.0/24" : "10.112.0.0/24"],
        ...(endpoint === undefined ? {} : { endpoint }),
      },
    ],
  });
  const processes = async (at: 0 | 1): Promise<readonly number[]> => {
    const file = sites[at].options.birthNetns ?? "";
    return (await pidsByNetns([file])).get(file) ?? [];
  };

  beforeAll(async () => {
    sites = await twoSites(fixture, "tunnel");
    devices = [await openWireguard(sites[0].options, signal), await openWireguard(sites[1].options, signal)];
    await devices[0].apply(desired(0, "192.0.2.2:31820"), signal);
    await devices[1].apply(desired(1), signal);
    for (const [at, { options }] of sites.entries()) {
      const [own, other] = [`10.112.${at}.1/32`, `10.112.${1 - at}.0/24`];
      const state = {
        addresses: [{ device: "fl-wg00", address: own }],
        routes: [{ to: other, hops: [{ device: "fl-wg00" }] }],
        neighbours: [],
      };
      await applyNetwork(["fl-wg00"], state, { netns: options.netns, signal });
    }
  });
  afterAll(async () => {
    for (const it of devices) await it.remove("fl-wg00", signal);
    await fixture[Symbol.asyncDispose]();
  });

  const ping = (...args: readonly string[]) =>
    exec(...commandOf(inNetns(sites[0].options.netns, "ping", ["-q", ...args, "10.112.1.1"])), {
      signal,
      allowFailure: true,
    });
  const commandOf = (line: { readonly command: string; readonly args: readonly string[] }) =>
    [line.command, line.args] as const;

  it("carries packets, while its sockets are in the namespaces of the nodes", async () => {
    await expect.poll(async () => (await ping("-c1", "-W1")).exitCode, { timeout: 30_000 }).toBe(0);
    for (const { options } of sites) {
      const names = async (file: string | undefined) =>
        (await readLinks({ signal, netns: file ?? "" })).map((it) => it.device);
      expect(await names(options.birthNetns)).toEqual(["lo", "uplink"]);
      expect(await names(options.netns)).toEqual(["lo", "fl-wg00"]);
      const sockets = await exec(...commandOf(inNetns(options.birthNetns ?? "", "ss", ["-Hlun"])), {
        signal,
      });
      expect(sockets.stdout).toContain(":31820");
    }
  });

  it.skipIf(isInKernel)("agrees with wg show", async () => {
    const sockets = "/var/run/wireguard";
    rmSync(sockets, { force: true });
    symlinkSync(sites[0].options.folder, sockets);
    try {
      const [command = "", ...prefix] = prefixOf(sites[0].options.netns);
      const { stdout } = await exec(command, [...prefix, "wg", "show", "fl-wg00"], { signal });
      const peer = (await devices[0].read("fl-wg00", signal))?.peers[0];
      expect(stdout).toContain(`public key: ${a.publicKey}`);
      expect(stdout).toContain(`peer: ${b.publicKey}`);
      expect(stdout).toContain(`endpoint: ${peer?.endpoint}`);
      expect(stdout).toContain("allowed ips: 10.112.1.0/24");
      expect(await readByWg("fl-wg00", sites[0].options.netns, signal)).toMatchObject({
        peers: [{ endpoint: peer?.endpoint }],
      });
    } finally {
      rmSync(sockets, { force: true });
    }
  });

  it("loses no packet while an endpoint moves, and while another agent takes over", async () => {
    const running = ping("-c", "400", "-i", "0.005", "-W", "5");
    await devices[0].apply(desired(0, "198.51.100.2:31820"), signal);
    const before = await processes(0);
    devices[0] = await openWireguard(sites[0].options, signal);
    await devices[0].apply(desired(0, "198.51.100.2:31820"), signal);
    const to = desired(0, "192.0.2.2:31820");
    const held = { ...to, peers: to.peers.map((it) => ({ ...it, isHeld: true })) };
    // A reply that the former endpoint sent may arrive later, and WireGuard goes back to where it came from.
    const endpointWhenHeld = async (): Promise<string | undefined> => {
      await devices[0].apply(held, signal);
      return (await devices[0].read("fl-wg00", signal))?.peers[0]?.endpoint;
    };
    await expect.poll(endpointWhenHeld).toBe("192.0.2.2:31820");
    expect((await running).stdout).toContain("400 received");
    expect(await processes(0)).toEqual(before);
    expect(await endpointWhenHeld()).toBe("192.0.2.2:31820");
  });

  it("leaves no mounts on the machine", () => {
    expect(readFileSync("/proc/self/mountinfo", "utf8")).not.toContain("/run/wireguard");
    expect(existsSync("/var/run/wireguard")).toBe(hadSockets);
  });

  it("loses no packet while other prefixes of the same peer are added and removed", async () => {
    const running = ping("-c", "300", "-i", "0.005", "-W", "5");
    const base = desired(0);
    for (let round = 0; round < 10; round++) {
      const more = base.peers.map((it) => ({
        ...it,
        allowedIPs: [...it.allowedIPs, "10.112.9.0/24", "fd00::/48"],
      }));
      await devices[0].apply({ ...base, peers: round % 2 === 0 ? more : base.peers }, signal);
    }
    expect((await running).stdout).toContain("300 received");
  });

  it.skipIf(isInKernel)("ends its process when it is removed, also one that hangs", async () => {
    const [pid] = await processes(1);
    process.kill(pid ?? 0, "SIGSTOP");
    await devices[1].remove("fl-wg00", signal);
    process.kill(pid ?? 0, "SIGCONT");
    await expect.poll(() => processes(1)).toEqual([]);
    expect(readdirSync(sites[1].options.folder)).toEqual([]);
  });
});

describeOnKernel("a handshake whose time is not after the last one", () => {
  it("is answered once the peer was forgotten", async () => {
    await using fixture = netnsFixture();
    const [site, other] = await twoSites(fixture, "again");
    await using between = await startUdpPeer(other.options.birthNetns ?? "", [7000]);
    using devices = await openWireguard(site.options, signal);
    const [caller, answering] = [generateKeyPair(), generateKeyPair()];
    const to = (
      name: string,
      listenPort: number,
      keys: readonly [own: string, other: string],
    ): WireguardDevice => ({
      name,
      privateKey: keys[0],
      listenPort,
      mtu: 1408,
      peers: [
        {
          publicKey: keys[1],
          endpoint: `${other.address}:7000`,
          allowedIPs: [],
          persistentKeepaliveSeconds: name === "caller" ? 1 : 0,
        },
      ],
    });
    const callee = to("callee", 31_821, [answering.privateKey, caller.publicKey]);
    await devices.apply(callee, signal);
    await devices.apply(to("caller", 31_820, [caller.privateKey, answering.publicKey]), signal);
    try {
      // First bytes of the messages of WireGuard: 1 is an initiation, 2 the response.
      const { payload } = await between.next((it) => it.port === 31_820 && it.payload[0] === 1);
      await devices.remove("caller", signal);
      const isAnswer = (it: Arrival): boolean => it.port === 31_821 && it.payload[0] === 2;
      const send = (): void => between.send(7000, { host: site.address, port: 31_821 }, payload);
      send();
      await between.next(isAnswer);
      send();
      await devices.forget(callee, new Set([caller.publicKey]), signal);
      send();
      await between.next(isAnswer);
      expect(between.arrivals.filter(isAnswer)).toHaveLength(2);
    } finally {
      for (const name of ["caller", "callee"]) await devices.remove(name, signal);
    }
  });
});

describe.skipIf(isInKernel)("wireguard-go", () => {
  describeOnKernel("on a node", () => {
    const fixture = netnsFixture();
    const device: WireguardDevice = {
      name: "fl-wg00",
      privateKey: generateKeyPair().privateKey,
      listenPort: 31_820,
      mtu: 1408,
      peers: [{ publicKey: generateKeyPair().publicKey, allowedIPs: ["10.112.1.0/24"] }],
    };
    let options: WireguardOptions;
    let devices: WireguardDevices;
    const ip = (netns: string | undefined, ...args: readonly string[]) => {
      const line = inNetns(netns ?? "", "ip", args);
      return exec(line.command, line.args, { signal });
    };
    const pids = async (): Promise<readonly number[]> => {
      const file = options.birthNetns ?? "";
      return (await pidsByNetns([file])).get(file) ?? [];
    };
    let count = 0;
    beforeEach(async () => {
      count += 1;
      // Longer than a path of a socket may be.
      const folder = join(mkdtempSync(join(tmpdir(), "fairlead-wireguard-")), "deep".repeat(30));
      folders.push(folder);
      const [birthNetns, netns] = [
        await fixture.netns(`node-${count}`),
        await fixture.netns(`fleet-${count}`),
      ];
      options = { folder, netns, birthNetns, clock: systemClock };
      devices = await openWireguard(options, signal);
      expect(await devices.apply(device, signal)).toMatchObject({ isCreated: true });
    });
    afterEach(async () => {
      await devices.remove(device.name, signal);
      await expect.poll(pids).toEqual([]);
    });
    afterAll(() => fixture[Symbol.asyncDispose]());
    const isMadeAgain = async (): Promise<void> => {
      await expect.poll(async () => devices.read(device.name, signal)).toBeUndefined();
      const { isCreated, change } = await devices.apply(device, signal);
      expect(isCreated).toBe(true);
      expect(change?.peers).toMatchObject([{ isNew: true }]);
      expect(await pids()).toHaveLength(1);
    };

    it("has the environment of the agent, by which the owner of a lab finds it", async () => {
      const [pid = 0] = await pids();
      const environment = readFileSync(`/proc/${pid}/environ`, "utf8").split("\0");
      expect(environment).toContain(`PATH=${process.env["PATH"]}`);
    });

    it("that is killed is reported at once, and started again by the next pass", async () => {
      const lost = Promise.withResolvers<string>();
      using watching = await openWireguard({ ...options, onLost: lost.resolve }, signal);
      await watching.apply(device, signal);
      for (const pid of await pids()) process.kill(pid, "SIGKILL");
      expect(await lost.promise).toBe(device.name);
      await isMadeAgain();
    });

    it("is in a cgroup of its own, not in that of a container which ends", async () => {
      const root = mkdtempSync(join(tmpdir(), "fairlead-cgroup-"));
      await exec("mount", ["-t", "cgroup2", "cgroup2", root]);
      // Ids of processes repeat between namespaces; cgroups are the machine's.
      const cgroup = join(root, basename(root));
      try {
        await devices.remove(device.name, signal);
        await expect.poll(pids).toEqual([]);
        using apart = await openWireguard({ ...options, cgroup }, signal);
        await apart.apply(device, signal);
        expect(readFileSync(join(cgroup, "cgroup.procs"), "utf8")).toBe(`${(await pids()).join("\n")}\n`);
        await apart.remove(device.name, signal);
        await expect.poll(pids).toEqual([]);
        // The kernel counts a process there until some time after its end.
        await expect.poll(() => rmdirSync(cgroup)).toBeUndefined();
      } finally {
        await exec("umount", ["--lazy", root]);
      }
    });

    it("is started again when the folder of its state is lost", async () => {
      rmSync(options.folder, { recursive: true });
      await expect.poll(pids).toEqual([]);
      await isMadeAgain();
    });

    it("is started again when the namespace of its device is made again", async () => {
      await deleteNetns(options.netns, signal);
      await createNetns(options.netns, signal);
      await isMadeAgain();
    });

    it("is started once by agents that start at the same time", async () => {
      await devices.remove(device.name, signal);
      await expect.poll(pids).toEqual([]);
      const agents = await Promise.all([1, 2, 3].map(() => openWireguard(options, signal)));
      await Promise.all(agents.map((it) => it.apply(device, signal)));
      await expect.poll(pids).toHaveLength(1);
      expect(await devices.apply(device, signal)).toMatchObject({
        isCreated: false,
        change: undefined,
        refused: [],
      });
    });

    it("that was started and not moved is moved by the next pass", async () => {
      const [pid] = await pids();
      await ip(options.netns, "link", "set", "dev", device.name, "netns", options.birthNetns ?? "");
      expect(await devices.read(device.name, signal)).toBeUndefined();
      await devices.apply(device, signal);
      expect(await pids()).toEqual([pid]);
      expect(await devices.read(device.name, signal)).toMatchObject({ isUp: true, mtu: 1408 });
    });

    it.each(["netns", "birthNetns"] as const)(
      "leaves a device of another program alone (in its %s)",
      async (where) => {
        await devices.remove(device.name, signal);
        await expect.poll(pids).toEqual([]);
        await ip(options[where], "link", "add", "name", device.name, "type", "veth", "peer", "name", "other");
        await expect(devices.apply(device, signal)).rejects.toMatchObject({
          code: "WIREGUARD_FAILED",
          message: expect.stringContaining(
            "has another device of that name; delete it: ip link delete dev fl-wg00",
          ) as string,
        });
        await devices.remove(device.name, signal);
        expect((await ip(options[where], "link", "show", "dev", device.name)).stdout).toContain("fl-wg00");
      },
    );

    it("that cannot start says why", async () => {
      await devices.remove(device.name, signal);
      rmSync(options.folder, { recursive: true });
      // Where its socket would be.
      mkdirSync(join(options.folder, "fl-wg00.sock", "full"), { recursive: true });
      await expect(devices.apply(device, signal)).rejects.toThrow(
        /cannot start wireguard-go for the device fl-wg00; the end of .*log/,
      );
      rmSync(join(options.folder, "fl-wg00.sock"), { recursive: true });
    });

    it("has its log emptied before it fills the disk", async () => {
      const log = join(options.folder, "fl-wg00.log");
      appendFileSync(log, Buffer.alloc(2 * 1024 * 1024, "x"));
      await devices.apply(device, signal);
      expect(statSync(log).size).toBe(0);
    });
  });
});
