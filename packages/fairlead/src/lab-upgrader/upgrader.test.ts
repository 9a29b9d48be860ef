import { expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { noMetrics } from "@fairlead/base/metrics.none.ts";
import { seededRng } from "@fairlead/base/rng.ts";
import { CLUSTER_UPGRADES, type ClusterUpgrade } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/updates.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import type { Applied, ApplyOptions } from "@fairlead/kube/types.ts";
import { createUpgrader } from "./upgrader.ts";

const KEY = objectKey("fleet-member-a", "a");
const OPERATION = { id: "one-1", target: { type: "Full" as const, kubernetesVersion: "1.36.0" } };

/** A hub that withdraws the operation in the moment in which it is taken. */
class Hub extends FakeKubeClient {
  readonly reported: string[] = [];

  override async apply<T extends KubeObject>(
    of: Resource<T>,
    object: Applied<T>,
    options: ApplyOptions,
  ): Promise<T> {
    const { spec } = await this.get(CLUSTER_UPGRADES, KEY);
    if (spec.operation?.stop !== true)
      await this.mergePatch(CLUSTER_UPGRADES, KEY, { spec: { operation: { stop: true } } });
    const applied = await super.apply(of, object, options);
    this.reported.push((applied as unknown as ClusterUpgrade).status?.operation?.state ?? "");
    return applied;
  }
}

it("an operation that the hub withdraws while it is taken is not begun", async () => {
  const clock = new FakeClock(Date.UTC(2026, 0, 1));
  const hub = new Hub(clock);
  hub.seed(CLUSTER_UPGRADES, {
    metadata: { namespace: "fleet-member-a", name: "a" },
    spec: { engine: "External", operation: OPERATION },
  });
  const deps = { clock, log: silentLogger, rng: seededRng(1), metrics: noMetrics };
  await using upgrader = createUpgrader(hub, "/nonexistent/lab", deps);
  await upgrader.start(new AbortController().signal);
  await clock.advance(10_000);
  expect(hub.reported).toEqual(["Failed"]);
  expect((await hub.get(CLUSTER_UPGRADES, KEY)).status?.operation).toEqual({
    id: OPERATION.id,
    state: "Failed",
    message: "the upgrade was stopped",
  });
});
