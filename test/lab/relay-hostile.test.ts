import { randomBytes } from "node:crypto";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it } from "vitest";
import { exec } from "@fairlead/base/exec.ts";
import { inNetns } from "@fairlead/os/netns/netns.ts";
import { relayTableName } from "@fairlead/fleet/relay/kernel-table.ts";
import { createNft } from "@fairlead/os/nft/netlink/driver.ts";
import { describeOnKernel } from "../support/netns-fixture.ts";
import { BASE_PORT, createRelayWorld, RELAY, type RelayWorld } from "./relay-world.ts";

/** Seconds at the rate of one process, which is some 100 000/s on an idle core. */
const FLOOD = 150_000;
/** Of another pair, while the flood lasts: one each millisecond. */
const DATAGRAMS = 1000;
/** What mallory puts on the wire. */
interface Flood {
  readonly payloads: readonly Uint8Array[];
  /** Rules of mallory's own that change sources. */
  readonly sources?: string;
}

interface Counted {
  readonly packets: number;
  readonly bytes: number;
}

describeOnKernel("a relay that is flooded", () => {
  let world: RelayWorld;
  beforeAll(async () => {
    world = await createRelayWorld();
    await world.startRelay("--forward", "kernel");
    await inside(
      "relay",
      "nft",
      `
      table inet count {
        counter in {}
        counter out {}
        chain in { type filter hook prerouting priority -400; iifname "eth0" udp dport 21000-22023 ip saddr != { 203.0.3.2, 203.0.4.2 } counter name in; }
        chain out { type filter hook output priority 400; oifname "eth0" ip daddr != { 203.0.3.2, 203.0.4.2 } counter name out; }
      }`,
    );
    const [c, d] = [world.gateway("c"), world.gateway("d")];
    await c.register(d.index);
    await d.register(c.index);
  });
  afterAll(() => world[Symbol.asyncDispose]());

  async function inside(name: string, program: string, input: string): Promise<string> {
    const line = inNetns(await world.netns(name), program, ["-f", "-"]);
    return (await exec(line.command, line.args, { input })).stdout;
  }

  async function count(): Promise<{ readonly in: Counted; readonly out: Counted }> {
    const line = inNetns(await world.netns("relay"), "nft", [
      "-j",
      "list",
      "counters",
      "table",
      "inet",
      "count",
    ]);
    const { nftables } = JSON.parse((await exec(line.command, line.args)).stdout) as {
      nftables: { counter?: Counted & { name: string } }[];
    };
    const of = (name: string): Counted =>
      nftables.find((it) => it.counter?.name === name)?.counter ?? { packets: 0, bytes: 0 };
    return { in: of("in"), out: of("out") };
  }

  /** Floods the ports of all gateways, while c sends to d. Returns what went in and out, and how much of c's arrived. */
  async function flood({ payloads, sources = "" }: Flood) {
    const script = fileURLToPath(new URL("udp-flood.ts", import.meta.url));
    const texts = payloads.map((it) => Buffer.from(it).toString("base64"));
    await inside(
      "mallory",
      "nft",
      `table ip spoof {}; delete table ip spoof; table ip spoof {
 chain post { type filter hook postrouting priority 300; ${sources}
 }
 }
`,
    );
    const line = inNetns(await world.netns("mallory"), process.execPath, [
      script,
      RELAY.v4,
      String(BASE_PORT),
      "4",
      String(FLOOD),
      ...texts,
    ]);
    const before = await count();
    const [c, d] = [world.gateway("c"), world.gateway("d")];
    const own = Buffer.concat([Buffer.from([4, 0, 0, 0]), randomBytes(64)]);
    const flooding = exec(line.command, line.args, { timeoutMs: 60_000 });
    c.peer.send(31_820, { host: RELAY.v4, port: BASE_PORT + d.index, times: DATAGRAMS }, own);
    await flooding;
    const last = Buffer.concat([own, Buffer.from("last")]);
    await expect
      .poll(
        async () => {
          c.peer.send(31_820, { host: RELAY.v4, port: BASE_PORT + d.index }, last);
          return d.peer.arrivals.filter((it) => it.payload.equals(own)).length;
        },
        { timeout: 10_000, interval: 200 },
      )
      .toBeGreaterThanOrEqual(0.99 * DATAGRAMS);
    const after = await count();

    const difference = (of: "in" | "out"): Counted => ({
      packets: after[of].packets - before[of].packets,
      bytes: after[of].bytes - before[of].bytes,
    });
    return { in: difference("in"), out: difference("out") };
  }

  /** Where the kernel forwards to and from. */
  async function learned(): Promise<ReadonlyMap<string, string>> {
    using nft = createNft({ netns: await world.netns("relay") });
    return await nft.readMap(relayTableName(BASE_PORT), "legs4", AbortSignal.timeout(10_000));
  }

  /** A REGISTER of c, as an eavesdropper has it: one with a valid cookie. */
  async function recorded(): Promise<Uint8Array> {
    const [c, d] = [world.gateway("c"), world.gateway("d")];
    await c.register(d.index);
    return c.registration(d.index).request();
  }

  it("answers no datagram that is forged, of a wrong length, or of a gateway that is not registered", async () => {
    const { packets, bytes } = await flood({ payloads: GARBAGE }).then((it) => {
      expect(it.in.packets).toBeGreaterThan(FLOOD / 2);
      return it.out;
    });
    expect({ packets, bytes }).toEqual({ packets: 0, bytes: 0 });
  });

  it("answers none with spoofed sources either, among them that of a gateway", async () => {
    const before = await learned();
    const sources = Array.from({ length: 250 }, (_, at) => `${at} : 10.66.${at}.1`);
    const flooded = await flood({
      payloads: GARBAGE,
      sources: `ip saddr set numgen inc mod 251 map { ${sources.join(", ")}, 250 : 203.0.3.2 } udp sport set 31820`,
    });
    expect(flooded.out.packets).toBe(0);
    expect(await learned()).toEqual(before);
  });

  it("sends no more than it gets where a gateway's own registration is replayed, and moves no address", async () => {
    const replayed = await recorded();
    const before = await learned();
    for (const sources of ["", "ip saddr set 203.0.3.2 udp sport set 31820", "ip saddr set 10.66.0.1"]) {
      const flooded = await flood({ payloads: [replayed], sources });
      expect(flooded.out.bytes).toBeLessThanOrEqual(flooded.in.bytes);
      expect(await learned()).toEqual(before);
    }
  });

  it("takes the renewal of a gateway afterwards as before", async () => {
    const [c, d] = [world.gateway("c"), world.gateway("d")];
    expect(await c.register(d.index)).toEqual({ address: "203.0.3.2", port: 31_820 });
  });
});

/** Not one of them is authentic, though they begin as if they were. */
const FORGED = Buffer.concat([Buffer.from([0xf1, 1, 0, 0, 0, 3, 0, 0, 0, 0, 0, 1]), randomBytes(56)]);
const GARBAGE = [
  FORGED,
  Buffer.concat([FORGED, randomBytes(1300)]),
  Buffer.concat([FORGED, randomBytes(8000)]),
  Buffer.concat([Buffer.from([4, 0, 0, 0]), randomBytes(28)]),
  randomBytes(1),
  Buffer.from([0xf1]),
];
