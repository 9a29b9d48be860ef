import { openSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { EAGAIN, type LibC } from "@fairlead/os/libc/libc.ts";
import { createFlowTable } from "./flows.ts";
import type { Choices, Protocol, ServiceFlow } from "./stale-flows.ts";

const NOTHING_USED: Choices = { isUsed: () => false, isService: () => true };
const signal = new AbortController().signal;

function flow(protocol: Protocol, at: number): ServiceFlow {
  const endpoint = { address: `10.0.${at >> 8}.${at & 255}`, port: 8080 };
  return { protocol, address: `10.96.${at >> 8}.${at & 255}`, port: 80, endpoint };
}

/** Time also passes in calls that this program waits for. */
class BusyClock extends FakeClock {
  spentMs = 0;
  override monotonic(): number {
    return super.monotonic() + this.spentMs;
  }
}

/** A kernel without flows that takes `readMs` to find that out. */
function world(readMs: number) {
  const clock = new BusyClock();
  let reads = 0;
  const libc: LibC = {
    socket: () => openSync("/dev/null", "r"),
    bind: () => 0,
    connect: () => 0,
    setOption: () => 0,
    send(_fd, _bytes, length) {
      reads += 1;
      clock.spentMs += readMs;
      return length;
    },
    recv: () => -1,
    poll: () => 0,
    deviceIndex: () => 0,
    setns: () => 0,
    errno: () => EAGAIN,
  };
  const flows = createFlowTable({ clock, log: silentLogger, loadLibC: () => Promise.resolve(libc) });
  return { clock, flows, reads: () => reads };
}

describe("flows of removed endpoints", () => {
  it("are read for a tenth of the time at most, however often endpoints change", async () => {
    const { clock, flows, reads } = world(10);
    using _flows = flows;
    const startMs = clock.monotonic();
    for (let at = 0; at < 1000; at += 1) {
      await flows.end({ gone: [flow("udp", at)], isWhole: false }, () => NOTHING_USED, signal);
      await clock.advance(5);
    }
    const elapsedMs = clock.monotonic() - startMs;
    expect(reads()).toBeGreaterThan(elapsedMs / 10 / 20);
    expect(reads()).toBeLessThanOrEqual(elapsedMs / 10 / 10 + 1);
  });

  it("are read with one question for each family, however many endpoints went", async () => {
    const { flows, reads } = world(0);
    using _flows = flows;
    const gone = [1, 2, 3, 4].map((at) => flow("udp", at));
    await flows.end({ gone, isWhole: false }, () => NOTHING_USED, signal);
    expect(reads()).toBe(1);
  });

  it("of TCP are ended when handshakes have had their time, together", async () => {
    const { clock, flows, reads } = world(0);
    using _flows = flows;
    for (const at of [1, 2, 3])
      await flows.end({ gone: [flow("tcp", at)], isWhole: false }, () => NOTHING_USED, signal);
    expect(reads()).toBe(0);
    await clock.advance(100);
    expect(reads()).toBe(1);
  });

  it("of TCP have the time of a handshake each, also those that go while others wait", async () => {
    const { clock, flows, reads } = world(0);
    using _flows = flows;
    const go = (at: number) =>
      flows.end({ gone: [flow("tcp", at)], isWhole: false }, () => NOTHING_USED, signal);
    await go(1);
    await clock.advance(99);
    await go(2);
    await clock.advance(1);
    expect(reads()).toBe(1);
    await clock.advance(99);
    expect(reads()).toBe(1);
    await clock.advance(1);
    expect(reads()).toBe(2);
  });

  it("keep no one waiting for flows of TCP, and wait for those of UDP", async () => {
    const { clock, flows, reads } = world(10);
    using _flows = flows;
    for (const protocol of ["udp", "tcp", "udp"] as const)
      await flows.end({ gone: [flow(protocol, 1)], isWhole: false }, () => NOTHING_USED, signal);
    let isIdle = false;
    const idle = flows.idle(signal).then(() => (isIdle = true));
    await clock.advance(80);
    expect([reads(), isIdle]).toEqual([1, false]);
    await clock.advance(15);
    await idle;
    expect(reads()).toBe(2);
  });

  it("are not read for endpoints that are in use again", async () => {
    const { flows, reads } = world(0);
    using _flows = flows;
    const used: Choices = { isUsed: () => true, isService: () => true };
    await flows.end({ gone: [flow("udp", 1)], isWhole: false }, () => used, signal);
    expect(reads()).toBe(0);
  });
});
