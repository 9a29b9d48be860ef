import { expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { noMetrics } from "@fairlead/base/metrics.none.ts";
import { seededRng } from "@fairlead/base/rng.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { createEventRecorder } from "@fairlead/kube/events/events.ts";
import { INTERNAL_MEMBER_CLUSTERS, MEMBER_CLUSTERS } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { HUB_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import {
  CLUSTER_UPGRADES,
  UPDATE_GROUP_LABEL,
  UPDATE_RUNS,
  UPGRADER_ANNOTATION,
} from "#api/fairlead.dev/v1alpha1/updates.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { createHubInformers } from "../../informers.ts";
import { createUpdateRuns } from "./reconcile.ts";

it("a run looks at its member again when the hub loses that member, and when the hub has it again", async () => {
  const clock = new FakeClock(Date.UTC(2026, 0, 1));
  const client = new FakeKubeClient(clock);
  client.seed(MEMBER_CLUSTERS, {
    metadata: {
      name: "a",
      labels: { [UPDATE_GROUP_LABEL]: "all" },
      annotations: { [UPGRADER_ANNOTATION]: "External" },
    },
    spec: { identity: { kind: "User", name: "a" } },
  });
  client.seed(INTERNAL_MEMBER_CLUSTERS, {
    metadata: { namespace: mailboxOf("b"), name: "b" },
    spec: { state: "Join" },
  });
  client.seed(CLUSTER_UPGRADES, {
    metadata: { namespace: mailboxOf("a"), name: "a" },
    spec: { engine: "External", measure: true },
    status: {
      kubernetesVersion: "1.35.1",
      nodes: [],
      measurements: {
        nodes: 1,
        readyNodes: 1,
        services: 0,
        servicesWithoutEndpoints: 0,
        readyEndpoints: 0,
      },
    },
  });
  const health = { toleratedSeconds: 600, rules: [{ name: "fine", expression: "true" }] };
  client.seed(UPDATE_RUNS, {
    metadata: { name: "run" },
    spec: {
      strategy: { stages: [{ name: "one", groups: [{ name: "all" }], health }] },
      managedClusterUpdate: { upgrade: { type: "Full", kubernetesVersion: "1.35.2" } },
      state: "Run",
    },
  });
  const deps = { clock, log: silentLogger, rng: seededRng(1), metrics: noMetrics };
  const stop = new AbortController();
  const informers = createHubInformers(client, {}, deps);
  const events = createEventRecorder(client, HUB_MANAGER, deps);
  await using controller = createUpdateRuns({
    client,
    informers,
    events,
    deps,
    compile: () => () => true,
  });
  await controller.start(stop.signal);
  const settle = async () => {
    for (let round = 0; round < 5; round++) {
      await clock.advance(0);
      await controller.idle(AbortSignal.timeout(5000));
    }
    const [run] = client.objects(UPDATE_RUNS);
    return run?.status?.stages[0]?.groups[0]?.members[0];
  };
  const lose = (...clusters: readonly string[]): Promise<unknown> =>
    client.mergePatch(INTERNAL_MEMBER_CLUSTERS, objectKey(mailboxOf("b"), "b"), {
      spec: { suspects: clusters.map((cluster) => ({ cluster, since: "2026-01-01T00:00:00Z" })) },
    });
  const id = (await settle())?.operationId ?? "";
  await client.mergePatch(
    CLUSTER_UPGRADES,
    objectKey(mailboxOf("a"), "a"),
    { status: { operation: { id, state: "Running" } } },
    { subresource: "status" },
  );
  expect((await settle())?.unhealthySince).toBeUndefined();
  await lose("a");
  expect((await settle())?.message).toContain("the member does not answer");
  await lose();
  expect((await settle())?.unhealthySince).toBeUndefined();
  stop.abort();
});
