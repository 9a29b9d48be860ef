import { describe, expect, it } from "vitest";
import { TargetUse } from "./target-use.ts";

const TARGETS = [
  { id: "tunnel/a", device: "fl-wg01" },
  { id: "tunnel/b", device: "fl-wg01" },
  { id: "node/n", device: "fl-vxlan" },
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
    /** A second of traffic, and a look after it. */
    async second(
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
    const { use, second, reads } = world();
    for (let at = 0; at < 20; at += 1) await second(at * 1000, { packets: 4, a: 200 });
    expect(reads()).toBe(0);
    expect(use.isUsed("tunnel/a", 20_000)).toBe(false);
  });

  it("finds the tunnel that carries traffic, for ten seconds after it", async () => {
    const { use, second } = world();
    for (let at = 0; at < 5; at += 1) await second(at * 1000, { packets: 1000, a: 1_000_000 });
    expect(use.isUsed("tunnel/a", 5000)).toBe(true);
    expect(use.isUsed("tunnel/b", 5000)).toBe(false);
    expect(use.isUsed("tunnel/a", 13_999)).toBe(true);
    expect(use.isUsed("tunnel/a", 14_000)).toBe(false);
  });

  it("takes traffic between nodes for all targets of the device", async () => {
    const { use, second } = world();
    for (let at = 0; at < 3; at += 1) await second(at * 1000, { device: "fl-vxlan", packets: 100 });
    expect(use.isUsed("node/n", 3000)).toBe(true);
    expect(use.isUsed("tunnel/a", 3000)).toBe(false);
  });

  it("looks once a second", async () => {
    const { use, second, reads } = world();
    for (let at = 0; at < 40; at += 1) await second(at * 250, { packets: 1000, a: 1_000_000 });
    expect(reads()).toBeLessThanOrEqual(10);
    expect(use.isUsed("tunnel/a", 10_000)).toBe(true);
  });
});
