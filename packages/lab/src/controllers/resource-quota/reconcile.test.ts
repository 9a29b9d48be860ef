import type { CountedObject } from "@fairlead/kube/quota/types.ts";
import { expect, it } from "vitest";
import { SECRETS } from "@fairlead/kube/api/core/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { noMetrics } from "@fairlead/base/metrics.none.ts";
import { seededRng } from "@fairlead/base/rng.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { createLabInformers, RESOURCE_QUOTAS } from "../informers.ts";
import { resourceQuotaController } from "./reconcile.ts";

/** Serves Secrets, also in discovery. */
class Client extends FakeKubeClient {
  override async request(_method: string, path: string): Promise<unknown> {
    if (path === "/api") return Promise.resolve({ versions: ["v1"] });
    return { resources: [{ name: "secrets", kind: "Secret", namespaced: true, verbs: ["list", "watch"] }] };
  }
}

const KEY = objectKey("work", "q");
const hard = { secrets: "9" };
const secret = (name: string) => ({ metadata: { namespace: "work", name } });
const quota = (used: string): CountedObject => ({
  apiVersion: "v1",
  kind: "ResourceQuota",
  metadata: { namespace: "work", name: "q" },
  spec: { hard },
  status: { hard, used: { secrets: used } },
});

it("keeps the usage of an object that the API server has counted and the watch has not delivered yet", async () => {
  const clock = new FakeClock();
  const client = new Client(clock);
  client.seed(SECRETS, secret("a"));
  client.seed(RESOURCE_QUOTAS, quota("1"));
  const deps = { clock, rng: seededRng(1), log: silentLogger, metrics: noMetrics };
  const controller = resourceQuotaController(client, createLabInformers(client, deps), deps);
  const stop = new AbortController();
  const idle = async (): Promise<void> => {
    const done = controller.idle(stop.signal);
    await clock.advance(0);
    await done;
  };
  const starting = controller.start(stop.signal);
  await clock.advance(0);
  await starting;
  await idle();
  client.deafTo.add("secrets");
  client.seed(SECRETS, secret("b"));
  const present = client.state.get(RESOURCE_QUOTAS, KEY);
  client.state.update(RESOURCE_QUOTAS, { ...quota("2"), metadata: present.metadata }, "status");
  await idle();
  expect(client.writes).toEqual([]);
  expect(client.objects(RESOURCE_QUOTAS).map((it) => it["status"])).toEqual([quota("2")["status"]]);
  // The usage of a deleted object is removed.
  client.deafTo.clear();
  client.dropWatches();
  await client.delete(SECRETS, objectKey("work", "a"));
  await clock.advance(60_000);
  await idle();
  expect(client.objects(RESOURCE_QUOTAS).map((it) => it["status"])).toEqual([quota("1")["status"]]);
  stop.abort();
  await controller[Symbol.asyncDispose]();
});
