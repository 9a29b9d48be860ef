import { describe, expect, it } from "vitest";
import { type Pod, PODS } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { noMetrics } from "@fairlead/base/metrics.none.ts";
import { seededRng } from "@fairlead/base/rng.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import { Expectations } from "./expectations.ts";

async function setUp() {
  const clock = new FakeClock();
  const client = new FakeKubeClient(clock);
  const pods = createInformer(
    client,
    PODS,
    {},
    { clock, rng: seededRng(1), log: silentLogger, metrics: noMetrics },
  );
  pods.start(new AbortController().signal);
  await clock.advance(0);
  return { clock, client, pods, expectations: new Expectations(pods, clock) };
}
const key = objectKey("work", "p");
const pod: Pod = { metadata: { name: "p", namespace: "work" }, spec: { containers: [] } };

describe("what a controller did", () => {
  it("is waited for until the cache shows it", async () => {
    const { clock, client, pods, expectations } = await setUp();
    expectations.expectCreated("rs", key);
    expect(expectations.isMet("rs")).toBe(false);
    expect(expectations.isMet("other")).toBe(true);
    await client.create(PODS, pod);
    await clock.advance(0);
    expect(expectations.isMet("rs")).toBe(true);
    expectations.expectDeleted("rs", pods.store.get(key)!);
    expect(expectations.isMet("rs")).toBe(false);
    await client.delete(PODS, key);
    await clock.advance(0);
    expect(expectations.isMet("rs")).toBe(true);
  });

  it("is not waited for when it failed, or came and went unseen", async () => {
    const { clock, expectations } = await setUp();
    expectations.expectCreated("rs", key);
    expectations.forgetCreated(key);
    expect(expectations.isMet("rs")).toBe(true);
    expectations.expectCreated("rs", key);
    await clock.advance(31_000);
    expect(expectations.isMet("rs")).toBe(true);
  });
});
