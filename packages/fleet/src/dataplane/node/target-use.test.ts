import { describe, expect, it } from "vitest";
import { TargetUse } from "./target-use.ts";

const TARGETS = [
  { id: "tunnel/a", device: "fl-wg01" },
  { id: "tunnel/b", device: "fl-wg01" },
  { id: "node/n", device: "fl-nodes01" },
];

function world() {
  const packets = new Map<string, number>();
  const bytes = new Map([
    ["tunnel/a", 0],
    ["tunnel/b", 0],
  ]);
  let reads = 0;
  const use = new TargetUse({
    packets: () => new Map(packets),
    bytes: () => {
      reads += 1;
      return Promise.resolve(new Map(bytes));
    },
  });
  const add = (map: Map<string, number>, key: string, value: number): unknown =>
    map.set(key, (map.get(key) ?? 0) + value);
  return {
    use,
    reads: () => reads,
    /** Traffic, and a look after it. */
    async turn(
      nowMs: number,
      carried: { readonly device?: string; readonly packets: number; readonly a?: number },
    ) {
      add(packets, carried.device ?? "fl-wg01", carried.packets);
      add(bytes, "tunnel/a", carried.a ?? 0);
      await use.look(TARGETS, nowMs);
    },
  };
}

describe("the use of targets", () => {
  it("reads no tunnel while devices carry probes alone", async () => {
    const { use, turn, reads } = world();
    // Of both sides, for two targets: requests and answers, all at once.
    for (let at = 0; at < 80; at += 1) await turn(at * 250, { packets: at % 8 === 0 ? 8 : 0, a: 100 });
    expect(reads()).toBe(0);
    expect(use.isUsed("tunnel/a", 20_000)).toBe(false);
  });

  it("takes all tunnels of a device for used as soon as there is traffic, and then the one that carries it", async () => {
    const { use, turn } = world();
    for (let at = 0; at < 8; at += 1) await turn(at * 250, { packets: 0 });
    await turn(2000, { packets: 50, a: 5000 });
    expect(["tunnel/a", "tunnel/b", "node/n"].map((it) => use.isUsed(it, 2001))).toEqual([true, true, false]);
    for (let at = 9; at <= 40; at += 1) await turn(at * 250, { packets: 50, a: 5000 });
    expect(["tunnel/a", "tunnel/b"].map((it) => use.isUsed(it, 10_001))).toEqual([true, false]);
  });

  it("ends ten seconds after the traffic", async () => {
    const { use, turn } = world();
    for (let at = 0; at < 40; at += 1) await turn(at * 250, { packets: 100, a: 10_000 });
    const used: boolean[] = [];
    for (let at = 40; at < 120; at += 1) {
      await turn(at * 250, { packets: 0 });
      used.push(use.isUsed("tunnel/a", at * 250));
    }
    const endedAfterMs = used.indexOf(false) * 250;
    expect(endedAfterMs).toBeGreaterThan(8000);
    expect(endedAfterMs).toBeLessThanOrEqual(12_000);
  });

  it("ends although both sides probe the tunnel as one in use, small packets and large ones", async () => {
    const { use, turn } = world();
    for (let at = 0; at < 40; at += 1) await turn(at * 250, { packets: 100, a: 10_000 });
    // In each second 16 small ones, and four of the size of the MTU.
    for (let at = 40; at < 200; at += 1) {
      const large = at % 4 === 0 ? 4 : 0;
      await turn(at * 250, { packets: 8 + 2 * large, a: 4 * 128 + large * 1440 });
    }
    expect(use.isUsed("tunnel/a", 50_000)).toBe(false);
  });

  it("reads no tunnel while many of a device carry probes that come at the same time", async () => {
    let [packets, reads] = [0, 0];
    const use = new TargetUse({
      packets: () => new Map([["fl-wg01", packets]]),
      bytes: () => {
        reads += 1;
        return Promise.resolve(new Map());
      },
    });
    const targets = Array.from({ length: 254 }, (_, at) => ({ id: `tunnel/${at}`, device: "fl-wg01" }));
    for (let at = 0; at < 400; at += 1) {
      // Every two seconds a request of either side, with its answer; every five one of each of the size of the MTU.
      packets += (at % 8 === 0 ? 4 * 254 : 0) + (at % 20 === 0 ? 4 * 254 : 0);
      await use.look(targets, at * 250);
    }
    expect(reads).toBe(0);
  });

  it("takes note of a flow of few packets by the bytes that were read for a report, and not of probes", async () => {
    const { use, turn } = world();
    const probes = 4 * 128 * 2 + 4 * 1440;
    for (let second = 0; second < 30; second += 5) {
      await turn(second * 1000, { packets: 10 });
      use.note(
        new Map([
          ["tunnel/a", second * 40_000],
          ["tunnel/b", second * probes],
        ]),
        second * 1000,
      );
    }
    expect(["tunnel/a", "tunnel/b"].map((it) => use.isUsed(it, 26_000))).toEqual([true, false]);
  });

  it("takes traffic between nodes for all targets of the device", async () => {
    const { use, turn } = world();
    for (let at = 0; at < 20; at += 1) await turn(at * 250, { device: "fl-nodes01", packets: 100 });
    expect(use.isUsed("node/n", 5000)).toBe(true);
    expect(use.isUsed("tunnel/a", 5000)).toBe(false);
  });

  it("reads the tunnels of a busy device once a second", async () => {
    const { turn, reads } = world();
    for (let at = 0; at < 40; at += 1) await turn(at * 250, { packets: 1000, a: 1_000_000 });
    expect(reads()).toBeLessThanOrEqual(10);
    expect(reads()).toBeGreaterThan(8);
  });
});
