import { expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { noMetrics } from "@fairlead/base/metrics.none.ts";
import { seededRng } from "@fairlead/base/rng.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import type { WriteOptions } from "@fairlead/kube/types.ts";
import { INTERNAL_MEMBER_CLUSTERS } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { sync } from "./sync.ts";

const clock = new FakeClock(Date.UTC(2026, 0, 1));
const KEY = objectKey("fleet-member-a", "a");

/** A hub that the member still reports to: it writes between what the copy reads and what it writes. */
class Reported extends FakeKubeClient {
  reports = 3;
  override async update<T extends KubeObject>(
    of: Resource<T>,
    object: T,
    options: WriteOptions = {},
  ): Promise<T> {
    if (this.reports > 0) {
      this.reports -= 1;
      const metadata = { annotations: { report: String(this.reports) } };
      await this.mergePatch(INTERNAL_MEMBER_CLUSTERS, KEY, { metadata });
    }
    return super.update(of, object, options);
  }
}

it("a copy is written over what members report to that hub at the same time", async () => {
  const [from, client] = [new FakeKubeClient(clock), new Reported(clock)];
  const metadata = { namespace: "fleet-member-a", name: "a" };
  for (const [hub, heartbeatPeriodSeconds] of [
    [from, 5],
    [client, 60],
  ] as const)
    await hub.create(INTERNAL_MEMBER_CLUSTERS, { metadata, spec: { state: "Join", heartbeatPeriodSeconds } });
  const deps = { clock, rng: seededRng(1), log: silentLogger, metrics: noMetrics };
  const target = { client, deps, signal: new AbortController().signal };
  await sync({ from, target, identityOf: (_, identity) => identity });
  expect(client.reports).toBe(0);
  expect((await client.get(INTERNAL_MEMBER_CLUSTERS, KEY)).spec.heartbeatPeriodSeconds).toBe(5);
});
