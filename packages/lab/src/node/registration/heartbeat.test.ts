import { beforeEach, describe, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { noMetrics } from "@fairlead/base/metrics.none.ts";
import { seededRng } from "@fairlead/base/rng.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { type Lease, LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import type { ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import type { WriteOptions } from "@fairlead/kube/types.ts";
import { Heartbeat } from "./registration.ts";

/** Counts what is tried, also while it does not answer. */
class Server extends FakeKubeClient {
  tries = 0;

  override mergePatch<T extends KubeObject>(
    of: Resource<T>,
    key: ObjectKey,
    ...rest: [patch: object, options?: WriteOptions]
  ): Promise<T> {
    this.tries += 1;
    return super.mergePatch(of, key, ...rest);
  }
}

let clock: FakeClock;
let server: Server;

beforeEach(() => {
  clock = new FakeClock(Date.UTC(2026, 0, 1));
  server = new Server(clock);
});

async function start(leaseSeconds: number, seed = 1): Promise<Heartbeat> {
  const deps = { clock, log: silentLogger, rng: seededRng(seed), metrics: noMetrics };
  const heartbeat = new Heartbeat(server, { name: "n1", leaseSeconds }, deps);
  await heartbeat.start(new AbortController().signal);
  await clock.advance(1);
  return heartbeat;
}

/** Lets time pass. @returns The greatest age that the Lease had. Unit: milliseconds. */
async function oldest(ms: number): Promise<number> {
  let age = 0;
  for (let passed = 0; passed < ms; passed += 50) {
    await clock.advance(50);
    const [lease] = server.objects<Lease>(LEASES);
    age = Math.max(age, clock.now() - Date.parse(lease?.spec?.renewTime ?? ""));
  }
  return age;
}

describe("the heartbeat of a node", () => {
  it("renews the Lease three times within its duration", async () => {
    await using _heartbeat = await start(6);
    server.tries = 0;
    expect(await oldest(60_000)).toBeLessThanOrEqual(2050);
    expect(server.tries).toBe(30);
  });

  it.each([0, 500, 1000, 1600])(
    "keeps a Lease of 5 s when the API server is away for 2 s, from %i ms after a renewal on",
    async (ms) => {
      for (let seed = 1; seed <= 20; seed += 1) {
        await using _heartbeat = await start(5, seed);
        const before = await oldest(ms);
        server.stop();
        const during = await oldest(2000);
        server.restore();
        const after = await oldest(5000);
        expect(Math.max(before, during, after)).toBeLessThan(4700);
      }
    },
  );

  it("tries again at growing intervals while the API server is away, and as before when it is back", async () => {
    await using _heartbeat = await start(40);
    server.stop();
    server.tries = 0;
    await oldest(13_334);
    // At 13.3 s.
    expect(server.tries).toBe(1);
    await oldest(1000);
    expect(server.tries).toBeLessThanOrEqual(5);
    server.tries = 0;
    await oldest(600_000);
    expect(server.tries).toBeGreaterThan(600 / 8 - 2);
    expect(server.tries).toBeLessThan(600 / 6.6 + 6);
    server.restore();
    await oldest(10_000);
    expect(await oldest(60_000)).toBeLessThan(13_400);
  });
});
