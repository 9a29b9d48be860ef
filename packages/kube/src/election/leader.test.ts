import { beforeEach, describe, expect, it } from "vitest";
import { LEASES } from "#api/coordination/v1/types.ts";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { delay, offsetClock } from "@fairlead/base/clock.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { createMetrics } from "@fairlead/base/metrics.ts";
import { noMetrics } from "@fairlead/base/metrics.none.ts";
import { seededRng } from "@fairlead/base/rng.ts";
import { FakeKubeClient } from "#client/client.fake.ts";
import { PAUSED_ANNOTATION, runAsLeader, runAsLeaderOfAll } from "./leader.ts";
import { objectKey } from "#api/meta/key.ts";
import type { Resource } from "#api/meta/resource.ts";
import type { KubeObject } from "#api/meta/types.ts";
import type { WriteOptions } from "#types.ts";

let clock: FakeClock;
let client: FakeKubeClient;
beforeEach(() => {
  clock = new FakeClock(Date.UTC(2026, 0, 1));
  client = new FakeKubeClient(clock);
});

/** A candidate that leads until it is stopped or loses the lease. */
function candidate(
  identity: string,
  by: FakeKubeClient = client,
  unusual: { readonly offsetMs?: number; readonly isEquivalentHolder?: (holder: string) => boolean } = {},
) {
  const stop = new AbortController();
  const state = { leads: false, ended: "" };
  const { offsetMs = 0, isEquivalentHolder = () => false } = unusual;
  const options = {
    namespace: "fleet-system",
    name: "hub",
    identity,
    isEquivalentHolder,
    annotations: { version: "1" },
  };
  const deps = {
    clock: offsetClock(clock, offsetMs),
    rng: seededRng(7),
    log: silentLogger,
    metrics: noMetrics,
  };
  const lead = (signal: AbortSignal): Promise<void> => {
    state.leads = true;
    return new Promise((resolve) => {
      signal.addEventListener("abort", () => {
        state.leads = false;
        resolve();
      });
    });
  };
  const running = runAsLeader({ client: by, options, deps }, stop.signal, lead).then(
    () => (state.ended = "well"),
    (error: unknown) => (state.ended = error instanceof Error ? error.message : "badly"),
  );
  return { state, stop: () => stop.abort(), running };
}

/** A server, or a way to it, that lets some renewals wait: for so many milliseconds each. */
class SlowClient extends FakeKubeClient {
  waits: number[] = [];
  override async update<T extends KubeObject>(
    of: Resource<T>,
    object: T,
    options: WriteOptions = {},
  ): Promise<T> {
    const waitMs = this.waits.shift() ?? 0;
    if (waitMs > 0) await delay(clock, waitMs, options.signal ?? new AbortController().signal);
    return super.update(of, object, options);
  }
}

/** A server that carries out each write, of which the answer may be lost with the connection. */
class LossyClient extends FakeKubeClient {
  isLossy = false;
  override async update<T extends KubeObject>(
    of: Resource<T>,
    object: T,
    options: WriteOptions = {},
  ): Promise<T> {
    const written = await super.update(of, object, options);
    await this.#answer(options);
    return written;
  }
  override async create<T extends KubeObject>(
    of: Resource<T>,
    object: T,
    options: WriteOptions = {},
  ): Promise<T> {
    const written = await super.create(of, object, options);
    await this.#answer(options);
    return written;
  }
  async #answer({ signal = new AbortController().signal }: WriteOptions): Promise<void> {
    if (this.isLossy) await delay(clock, 60_000, signal).finally(() => (this.isLossy = false));
  }
}

const lease = () => client.objects(LEASES)[0]?.spec;

describe("leader election", () => {
  it.each([
    ["a connection swallows a renewal", [Number.POSITIVE_INFINITY]],
    ["the server takes 5.5 s for each", Array.from({ length: 40 }, () => 5500)],
  ])("keeps the lease where %s", async (_, waits) => {
    const slow = new SlowClient(clock);
    const one = candidate("one", slow);
    await clock.advance(0);
    slow.waits = [...waits];
    await clock.advance(60_000);
    expect(one.state).toEqual({ leads: true, ended: "" });
    slow.waits = [];
    one.stop();
    await one.running;
  });

  it("ends if every renewal is lost, before another candidate may lead", async () => {
    const slow = new SlowClient(clock);
    const one = candidate("one", slow);
    await clock.advance(0);
    slow.waits = Array.from({ length: 9 }, () => Number.POSITIVE_INFINITY);
    await clock.advance(10_000);
    expect(one.state.leads).toBe(false);
  });

  it("stops and releases a lease that is paused, which no candidate takes until it is resumed", async () => {
    const [one, two] = [candidate("one"), candidate("two")];
    await clock.advance(0);
    const pause = (why: string | null) =>
      client.mergePatch(LEASES, objectKey("fleet-system", "hub"), {
        metadata: { annotations: { [PAUSED_ANNOTATION]: why } },
      });
    await pause("the fleet moves");
    await clock.advance(10_000);
    expect(lease()?.holderIdentity).toBe("");
    expect(one.state).toEqual({
      leads: false,
      ended: "the lease fleet-system/hub is paused: the fleet moves",
    });
    await clock.advance(60_000);
    expect(two.state.leads).toBe(false);
    await pause(null);
    await clock.advance(10_000);
    expect(two.state.leads).toBe(true);
    two.stop();
    await two.running;
  });

  it("creates a missing lease, with times of six digits, and renews it", async () => {
    const one = candidate("one");
    await clock.advance(0);
    expect(one.state.leads).toBe(true);
    expect(lease()).toEqual({
      holderIdentity: "one",
      leaseDurationSeconds: 15,
      acquireTime: "2026-01-01T00:00:00.000000Z",
      renewTime: "2026-01-01T00:00:00.000000Z",
      leaseTransitions: 0,
    });
    await clock.advance(60_000);
    expect(one.state.leads).toBe(true);
    expect(Date.parse(lease()?.renewTime ?? "")).toBeGreaterThan(Date.UTC(2026, 0, 1, 0, 0, 54));
    expect(lease()?.acquireTime).toBe("2026-01-01T00:00:00.000000Z");
  });

  it("sets its annotations on the lease, and keeps those of others", async () => {
    const metadata = { namespace: "fleet-system", name: "hub", annotations: { theirs: "kept" } };
    await client.create(LEASES, { metadata, spec: { holderIdentity: "" } });
    candidate("one");
    await clock.advance(5000);
    const { items } = await client.list(LEASES);
    expect(items[0]?.metadata.annotations).toEqual({ theirs: "kept", version: "1" });
  });

  it("lets one candidate lead at a time, and the next as soon as the lease is released", async () => {
    const one = candidate("one");
    await clock.advance(0);
    const two = candidate("two");
    await clock.advance(120_000);
    expect([one.state.leads, two.state.leads]).toEqual([true, false]);
    one.stop();
    await clock.advance(0);
    expect(one.state.ended).toBe("well");
    expect(lease()?.holderIdentity).toBe("");
    await clock.advance(5000);
    expect(two.state.leads).toBe(true);
    expect(lease()?.leaseTransitions).toBe(1);
  });

  it("takes over from a silent leader once the lease has expired, not before", async () => {
    const spec = {
      holderIdentity: "dead",
      leaseDurationSeconds: 15,
      renewTime: "2031-01-01T00:00:00.000000Z",
    };
    client.seed(LEASES, { metadata: { namespace: "fleet-system", name: "hub" }, spec });
    const two = candidate("two");
    await clock.advance(14_000);
    expect(two.state.leads).toBe(false);
    await clock.advance(7000);
    expect(two.state.leads).toBe(true);
  });

  it("stops the leader if it could not renew for 10 s, before another may take over", async () => {
    const one = candidate("one");
    await clock.advance(0);
    client.stop();
    await clock.advance(9000);
    expect(one.state.leads).toBe(true);
    await clock.advance(5900);
    expect(one.state).toEqual({ leads: false, ended: "the lease fleet-system/hub was lost" });
  });

  it("stops the leader if another holder has the lease", async () => {
    const one = candidate("one");
    await clock.advance(0);
    const key = objectKey("fleet-system", "hub");
    await client.mergePatch(LEASES, key, { spec: { holderIdentity: "thief" } });
    await clock.advance(5000);
    expect(one.state.leads).toBe(false);
    expect(lease()?.holderIdentity).toBe("thief");
  });

  it("stops the leader if the server was restored from a backup: it has to read everything again", async () => {
    const one = candidate("one");
    await clock.advance(0);
    const restore = client.state.backup();
    await clock.advance(20_000);
    expect(one.state.leads).toBe(true);
    restore();
    await clock.advance(10_000);
    expect(one.state).toEqual({
      leads: false,
      ended: "the API server was restored from a backup: beginning again",
    });
  });

  it("recreates a lease that was deleted while it leads", async () => {
    const one = candidate("one");
    await clock.advance(0);
    await client.delete(LEASES, objectKey("fleet-system", "hub"));
    await clock.advance(10_000);
    expect(one.state.leads).toBe(true);
    expect(lease()?.holderIdentity).toBe("one");
  });

  it("leaves no lease behind if it is stopped before it leads", async () => {
    const one = candidate("one");
    await clock.advance(0);
    const two = candidate("two");
    two.stop();
    await clock.advance(0);
    expect(two.state.ended).toBe("the wait was cancelled");
    expect(lease()?.holderIdentity).toBe("one");
    expect(one.state.leads).toBe(true);
  });

  it.each(["is created", "is taken", "is renewed"])(
    "releases a lease if it is stopped while the lease %s and the answer is not there yet",
    async (how) => {
      const lossy = new LossyClient(clock);
      const metadata = { namespace: "fleet-system", name: "hub" };
      if (how === "is taken") lossy.seed(LEASES, { metadata, spec: { holderIdentity: "" } });
      lossy.isLossy = how !== "is renewed";
      const one = candidate("one", lossy);
      await clock.advance(0);
      lossy.isLossy = true;
      await clock.advance(4500);
      const holder = () => lossy.objects(LEASES)[0]?.spec?.holderIdentity;
      expect(holder()).toBe("one");
      one.stop();
      await one.running;
      expect(holder()).toBe("");
    },
  );

  it("does not depend on clocks: each candidate counts from its own observations", async () => {
    const dayMs = 86_400_000;
    const one = candidate("one", client, { offsetMs: -dayMs });
    await clock.advance(0);
    const two = candidate("two", client, { offsetMs: dayMs });
    await clock.advance(600_000);
    expect([one.state.leads, two.state.leads]).toEqual([true, false]);
    one.stop();
    await clock.advance(5000);
    expect(two.state.leads).toBe(true);
    // And by one that fell silent, though its times are of yesterday.
    await client.mergePatch(LEASES, objectKey("fleet-system", "hub"), { spec: { holderIdentity: "silent" } });
    const three = candidate("three", client, { offsetMs: 2 * dayMs });
    await clock.advance(14_000);
    expect(three.state.leads).toBe(false);
    await clock.advance(7000);
    expect([two.state.leads, three.state.leads]).toEqual([false, true]);
  });

  it("lets an equivalent candidate lead at the same time as the holder, and take over when the holder stops", async () => {
    const isEquivalentHolder = (holder: string): boolean => holder === "hub-side";
    const hub = candidate("hub-side");
    await clock.advance(0);
    const member = candidate("member-side", client, { isEquivalentHolder });
    await clock.advance(60_000);
    expect([hub.state.leads, member.state.leads]).toEqual([true, true]);
    expect(lease()?.holderIdentity).toBe("hub-side");
    hub.stop();
    await clock.advance(5000);
    expect(member.state.leads).toBe(true);
    expect(lease()?.holderIdentity).toBe("member-side");
    const stranger = candidate("original");
    await clock.advance(60_000);
    expect(stranger.state.leads).toBe(false);
  });

  it("reports the leader in a metric", async () => {
    const metrics = createMetrics();
    const stop = new AbortController();
    const deps = { clock, rng: seededRng(7), log: silentLogger, metrics };
    const options = { namespace: "fleet-system", name: "hub", identity: "one" };
    const running = runAsLeader({ client, options, deps }, stop.signal, async (signal) => {
      await new Promise<void>((resolve) => {
        signal.addEventListener("abort", () => resolve());
      });
    });
    await clock.advance(0);
    expect(await metrics.render()).toContain('leader_election_master_status{name="hub"} 1');
    stop.abort();
    await running;
    expect(await metrics.render()).toContain('leader_election_master_status{name="hub"} 0');
  });

  it("takes over several leases from a silent leader in the time of one", async () => {
    const names = ["a", "b", "c", "d"];
    const spec = {
      holderIdentity: "dead",
      leaseDurationSeconds: 15,
      renewTime: "2026-01-01T00:00:00.000000Z",
    };
    for (const name of names) client.seed(LEASES, { metadata: { namespace: "fleet-system", name }, spec });
    const deps = { clock, rng: seededRng(7), log: silentLogger, metrics: noMetrics };
    const options = names.map((name) => ({ namespace: "fleet-system", name, identity: "one" }));
    const stop = new AbortController();
    let leads = false;
    const running = runAsLeaderOfAll({ client, options, deps }, stop.signal, async (signal) => {
      leads = true;
      await new Promise<void>((resolve) => {
        signal.addEventListener("abort", () => resolve());
      });
    });
    await clock.advance(14_000);
    expect(leads).toBe(false);
    await clock.advance(16_000);
    expect(leads).toBe(true);
    stop.abort();
    await running;
    expect(client.objects(LEASES).map((it) => it.spec?.holderIdentity)).toEqual(["", "", "", ""]);
  });
});
