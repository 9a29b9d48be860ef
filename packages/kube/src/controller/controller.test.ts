import { beforeEach, describe, expect, it } from "vitest";
import { CONFIG_MAPS, type ConfigMap } from "#api/core/v1/types.ts";
import { objectKey, type ObjectKey } from "#api/meta/key.ts";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { type Logger, silentLogger } from "@fairlead/base/log.ts";
import { createMetrics } from "@fairlead/base/metrics.ts";
import { seededRng } from "@fairlead/base/rng.ts";
import { FakeKubeClient } from "#client/client.fake.ts";
import { createController } from "./controller.ts";
import { createInformer } from "#informer/informer.ts";
import { watching } from "./source.ts";
import type { ControllerOptions, ReconcileResult } from "#types.ts";

const forever = new AbortController().signal;
const one = objectKey("work", "one");

let clock: FakeClock;
let client: FakeKubeClient;
let metrics: ReturnType<typeof createMetrics>;
let passes: string[];
beforeEach(() => {
  clock = new FakeClock();
  client = new FakeKubeClient(clock);
  metrics = createMetrics();
  passes = [];
});

function configMap(name: string, data: Record<string, string> = {}): ConfigMap {
  return { metadata: { name, namespace: "work" }, data };
}

async function started(
  reconcile: ControllerOptions["reconcile"],
  { log = silentLogger, ...options }: Partial<ControllerOptions> & { readonly log?: Logger } = {},
) {
  const deps = { clock, rng: seededRng(1), log, metrics };
  const informer = createInformer(client, CONFIG_MAPS, {}, deps);
  const controller = createController(
    { name: "copier", sources: [watching(informer)], reconcile, ...options },
    deps,
  );
  const starting = controller.start(forever);
  await clock.advance(0);
  await starting;
  await clock.advance(0);
  return { controller, informer };
}

const note = async (key: ObjectKey): Promise<void> => {
  passes.push(key);
  await Promise.resolve();
};

describe("a controller", () => {
  it("logs an unreachable API server once, however many reconciles fail", async () => {
    client.seed(CONFIG_MAPS, ...["one", "two", "three"].map((it) => configMap(it)));
    const lines: string[] = [];
    const report = (level: string) => (message: string) => void lines.push(`${level} ${message}`);
    const log: Logger = {
      debug: () => {},
      info: report("info"),
      warn: report("warn"),
      error: report("error"),
      child: () => log,
    };
    let isAway = true;
    // Its pass asks no server, and says nothing of whether there is one.
    const reconcile = async (key: ObjectKey): Promise<void> => {
      await Promise.resolve();
      if (isAway && key !== one) throw new FleetError("API_UNAVAILABLE", "no route");
    };
    await started(reconcile, { log });
    for (let second = 0; second < 120; second++) await clock.advance(1000);
    expect(lines.splice(0)).toEqual(["error reconciles fail until an API server answers"]);
    isAway = false;
    for (let second = 0; second < 60; second++) await clock.advance(1000);
    expect(lines).toEqual(["info no reconcile waits for an API server any more"]);
  });

  it("reconciles every existing object, and each that changes", async () => {
    client.seed(CONFIG_MAPS, configMap("one"), configMap("two"));
    await started(note);
    expect(passes.splice(0)).toEqual(["work/one", "work/two"]);
    await client.mergePatch(CONFIG_MAPS, one, { data: { v: "1" } });
    await clock.advance(0);
    expect(passes).toEqual(["work/one"]);
  });

  it("does not reconcile before all its informers have synced", async () => {
    client.seed(CONFIG_MAPS, configMap("one"));
    client.stop();
    const deps = { clock, rng: seededRng(1), log: silentLogger, metrics };
    const reachable = createInformer(new FakeKubeClient(clock), CONFIG_MAPS, {}, deps);
    const sources = [watching(reachable), watching(createInformer(client, CONFIG_MAPS, {}, deps))];
    const controller = createController({ name: "copier", sources, reconcile: note }, deps);
    const starting = controller.start(forever);
    controller.enqueue(one);
    await clock.advance(10_000);
    expect(passes).toEqual([]);
    client.restore();
    await clock.advance(60_000);
    await starting;
    await clock.advance(0);
    expect(passes).toEqual(["work/one"]);
  });

  it("retries with growing delays after an error, and resets the delay after a success", async () => {
    let failures = 3;
    const at: number[] = [];
    const { controller } = await started(async () => {
      at.push(clock.now());
      await Promise.resolve();
      if (failures-- > 0) throw new FleetError("API_UNAVAILABLE", "not now");
    });
    controller.enqueue(one);
    await clock.advance(1000);
    expect(at.map((ms) => ms - (at[0] ?? 0))).toEqual([0, 5, 15, 35]);
    failures = 1;
    controller.enqueue(one);
    await clock.advance(1000);
    expect((at[5] ?? 0) - (at[4] ?? 0)).toBe(5);
  });

  it("retries within seconds once an unreachable server returns, however long the outage was", async () => {
    let isAway = true;
    let passedAt = 0;
    const { controller } = await started(async () => {
      await Promise.resolve();
      if (isAway) throw new FleetError("API_UNAVAILABLE", "away");
      passedAt = clock.now();
    });
    controller.enqueue(one);
    await clock.advance(3_600_000);
    isAway = false;
    const backAt = clock.now();
    await clock.advance(60_000);
    expect(passedAt - backAt).toBeLessThanOrEqual(10_000);
    expect(passedAt).toBeGreaterThan(0);
  });

  it("waits for a retry as long as its options allow, however often it failed", async () => {
    let isBroken = true;
    let passedAt = 0;
    const { controller } = await started(
      async () => {
        await Promise.resolve();
        if (isBroken) throw new Error("the program wg is missing");
        passedAt = clock.now();
      },
      { maxRetryMs: 10_000 },
    );
    controller.enqueue(one);
    await clock.advance(3_600_000);
    isBroken = false;
    const mendedAt = clock.now();
    await clock.advance(60_000);
    expect(passedAt - mendedAt).toBeLessThanOrEqual(10_000);
    expect(passedAt).toBeGreaterThan(0);
  });

  it("runs again after requeueAfterMs, unless a later reconcile does not request it", async () => {
    const results: ReconcileResult[] = [{ requeueAfterMs: 5000 }, { requeueAfterMs: 5000 }, {}];
    const { controller } = await started(async (key) => {
      await note(key);
      return results.shift() ?? {};
    });
    controller.enqueue(one);
    await clock.advance(5000);
    expect(passes).toHaveLength(2);
    controller.enqueue(one);
    await clock.advance(60_000);
    expect(passes).toHaveLength(3);
  });

  it("never reconciles one key twice at a time, and at most the configured number of keys", async () => {
    const running = new Map<ObjectKey, () => void>();
    const { controller } = await started(
      (key) => {
        expect(running.has(key)).toBe(false);
        return new Promise((resolve) => {
          running.set(key, () => {
            running.delete(key);
            resolve();
          });
        });
      },
      { concurrency: 2 },
    );
    for (const name of ["one", "two", "three", "one"]) controller.enqueue(objectKey("work", name));
    await clock.advance(0);
    controller.enqueue(one);
    await clock.advance(0);
    expect([...running.keys()]).toEqual(["work/one", "work/two"]);
    running.get(one)?.();
    await clock.advance(0);
    expect([...running.keys()]).toEqual(["work/two", "work/three"]);
  });

  it("is idle if no key is due, in work or waiting for a retry", async () => {
    let fails = true;
    const { controller } = await started(async () => {
      await Promise.resolve();
      if (fails) throw new Error("not yet");
    });
    controller.enqueue(one);
    let isIdle = false;
    const idle = controller.idle(forever).then(() => (isIdle = true));
    await clock.advance(100);
    expect(isIdle).toBe(false);
    fails = false;
    await clock.advance(1000);
    await idle;
    expect(isIdle).toBe(true);
  });

  it("on dispose aborts the running reconcile, and starts no other", async () => {
    const { controller } = await started(
      (key, signal) =>
        new Promise((_, reject) => {
          passes.push(key);
          signal.addEventListener("abort", () => reject(new Error("cut off")), { once: true });
        }),
    );
    controller.enqueue(one);
    await clock.advance(0);
    await controller[Symbol.asyncDispose]();
    controller.enqueue(one);
    await clock.advance(100_000);
    expect(passes).toEqual(["work/one"]);
  });

  it("reads input during thousands of consecutive reconciles without waits", async () => {
    const keys = Array.from({ length: 2000 }, (_, at) => objectKey("work", `key-${at}`));
    const fakeNow = clock.monotonic.bind(clock);
    let spentMs = 0;
    clock.monotonic = () => fakeNow() + spentMs;
    const { controller } = await started(async (key) => {
      spentMs += 1;
      await note(key);
    });
    for (const key of keys) controller.enqueue(key);
    const seenAfter = await new Promise<number>((resolve) => {
      setImmediate(() => resolve(passes.length));
    });
    expect(seenAfter).toBeLessThan(50);
    await controller.idle(AbortSignal.timeout(10_000));
    expect(passes).toHaveLength(keys.length);
  });

  it("counts reconciles under controller-runtime's metric names", async () => {
    let fails = true;
    const { controller } = await started(async () => {
      await Promise.resolve();
      if (!fails) return;
      fails = false;
      throw new Error("once");
    });
    controller.enqueue(one);
    await clock.advance(100);
    const text = await metrics.render();
    expect(text).toContain('controller_runtime_reconcile_total{controller="copier",result="error"} 1');
    expect(text).toContain('controller_runtime_reconcile_total{controller="copier",result="success"} 1');
    expect(text).toContain('controller_runtime_reconcile_errors_total{controller="copier"} 1');
    expect(text).toContain('controller_runtime_max_concurrent_reconciles{controller="copier"} 4');
    expect(text).toContain('workqueue_depth{name="copier",controller="copier"} 0');
  });
});
