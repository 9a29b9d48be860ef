import { beforeEach, describe, expect, it } from "vitest";
import { CONTROLLER_REVISIONS, STATEFUL_SETS, type StatefulSet } from "@fairlead/kube/api/apps/v1/types.ts";
import { PODS } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { noMetrics } from "@fairlead/base/metrics.none.ts";
import { seededRng } from "@fairlead/base/rng.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import type { EventRecorder } from "@fairlead/kube/events/events.ts";
import { createLabInformers } from "../informers.ts";
import { statefulSetController } from "./reconcile.ts";

const key = objectKey("work", "db");
let clock: FakeClock;
let client: FakeKubeClient;
let reported: string[];

const set: StatefulSet = {
  metadata: { name: "db", namespace: "work", uid: "db-1" },
  spec: {
    replicas: 2,
    serviceName: "peers",
    selector: { matchLabels: { app: "db" } },
    template: {
      metadata: { labels: { app: "db" } },
      spec: { containers: [{ name: "c", image: "fairlead.dev/echo" }] },
    },
  },
};
const names = () => client.objects(PODS).map((it) => it.metadata.name);
const images = () => client.objects(PODS).map((it) => it.spec?.containers[0]?.image);

async function run(name: string): Promise<void> {
  const ready = { type: "Ready", status: "True", lastTransitionTime: "2026-01-01T00:00:00Z" };
  const status = { phase: "Running", conditions: [ready] };
  await client.mergePatch(PODS, objectKey("work", name), { status }, { subresource: "status" });
  await clock.advance(0);
}

async function start(...seeds: StatefulSet[]): Promise<void> {
  client.seed(STATEFUL_SETS, ...seeds);
  const deps = { clock, rng: seededRng(1), log: silentLogger, metrics: noMetrics };
  const events: EventRecorder = {
    record: (_of, _object, { reason }) => void reported.push(reason),
    flushed: () => Promise.resolve(),
  };
  const controller = statefulSetController(
    { client, informers: createLabInformers(client, deps), events },
    deps,
  );
  const starting = controller.start(new AbortController().signal);
  await clock.advance(0);
  await starting;
  await clock.advance(0);
}

beforeEach(() => {
  clock = new FakeClock();
  client = new FakeKubeClient(clock);
  reported = [];
});

describe("a StatefulSet", () => {
  it("gets its pods in order, then rests", async () => {
    await start(set);
    expect(names()).toEqual(["db-0"]);
    await run("db-0");
    expect(names()).toEqual(["db-0", "db-1"]);
    await run("db-1");
    expect(client.objects(STATEFUL_SETS)[0]?.status).toMatchObject({ replicas: 2, readyReplicas: 2 });
    client.writes.splice(0);
    await client.mergePatch(PODS, objectKey("work", "db-0"), { metadata: { annotations: { note: "1" } } });
    await clock.advance(0);
    expect(client.writes.map((it) => it.resource)).toEqual(["pods"]);
  });

  it("is rolled out by revisions, and rolled back to a previous one", async () => {
    await start({ ...set, spec: { ...set.spec, replicas: 1 } as StatefulSet["spec"] } as StatefulSet);
    await run("db-0");
    const [first] = client.objects(CONTROLLER_REVISIONS);
    const imageTo = async (image: string): Promise<void> => {
      const template = { spec: { containers: [{ name: "c", image }] } };
      await client.mergePatch(STATEFUL_SETS, key, { spec: { template } });
      await clock.advance(0);
      await run("db-0");
    };
    await imageTo("nginx");
    expect(images()).toEqual(["nginx"]);
    expect(client.objects(CONTROLLER_REVISIONS).map((it) => it.revision)).toEqual([1, 2]);
    await imageTo("fairlead.dev/echo");
    expect(images()).toEqual(["fairlead.dev/echo"]);
    const { status } = client.objects(STATEFUL_SETS)[0] ?? {};
    expect(status).toMatchObject({ currentRevision: first?.metadata.name, updatedReplicas: 1 });
    expect(client.objects(CONTROLLER_REVISIONS).map((it) => it.revision)).toEqual([3, 2]);
  });

  it("reports volumes that it requests, which the lab does not provide", async () => {
    const spec = { ...set.spec, volumeClaimTemplates: [{}] };
    await start({ ...set, spec } as StatefulSet);
    expect(names()).toEqual([]);
    expect(reported).toEqual(["FailedCreate"]);
  });
});
