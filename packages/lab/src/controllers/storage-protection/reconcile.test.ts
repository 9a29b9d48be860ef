import { beforeEach, describe, expect, it } from "vitest";
import { type Pod, PODS } from "@fairlead/kube/api/core/v1/types.ts";
import { PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES } from "@fairlead/kube/api/core/v1/volumes.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { VOLUME_ATTRIBUTES_CLASSES } from "@fairlead/kube/api/storage/v1/types.ts";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { noMetrics } from "@fairlead/base/metrics.none.ts";
import { seededRng } from "@fairlead/base/rng.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { createLabInformers } from "../informers.ts";
import { storageProtectionControllers } from "./reconcile.ts";

const CLAIM = objectKey("work", "data");
const VOLUME = objectKey(undefined, "disk");
const CLASS = objectKey(undefined, "fast");
const finalizersOf = (kind: string) => [`kubernetes.io/${kind}-protection`];

let clock: FakeClock;
let client: FakeKubeClient;

const pod = (name: string, nodeName: string): Pod => ({
  metadata: { name, namespace: "work" },
  spec: {
    ...(nodeName === "" ? {} : { nodeName }),
    containers: [],
    volumes: [{ name: "v", persistentVolumeClaim: { claimName: "data" } }],
  },
});
const claims = () => client.objects(PERSISTENT_VOLUME_CLAIMS).map((it) => it.metadata.name);

beforeEach(async () => {
  clock = new FakeClock();
  client = new FakeKubeClient(clock);
  client.seed(PERSISTENT_VOLUME_CLAIMS, {
    metadata: { name: "data", namespace: "work", finalizers: finalizersOf("pvc") },
    spec: { volumeAttributesClassName: "fast" },
  });
  client.seed(PERSISTENT_VOLUMES, {
    metadata: { name: "disk", finalizers: finalizersOf("pv") },
    status: { phase: "Bound" },
  });
  client.seed(VOLUME_ATTRIBUTES_CLASSES, {
    metadata: { name: "fast", finalizers: finalizersOf("vac") },
    driverName: "example.com/d",
  });
  const deps = { clock, rng: seededRng(1), log: silentLogger, metrics: noMetrics };
  const controllers = storageProtectionControllers(client, createLabInformers(client, deps), deps);
  const starting = controllers.map((it) => it.start(new AbortController().signal));
  await clock.advance(0);
  await Promise.all(starting);
  await clock.advance(0);
});

describe("a claim that is deleted", () => {
  it("is deleted if no pod uses it", async () => {
    await client.delete(PERSISTENT_VOLUME_CLAIMS, CLAIM);
    await clock.advance(0);
    expect(claims()).toEqual([]);
  });

  it("stays until the last scheduled pod that uses it is gone", async () => {
    client.seed(PODS, pod("a", "n1"), pod("b", "n1"), pod("c", ""));
    await client.delete(PERSISTENT_VOLUME_CLAIMS, CLAIM);
    await clock.advance(0);
    await client.delete(PODS, objectKey("work", "a"));
    await clock.advance(0);
    expect(claims()).toEqual(["data"]);
    await client.delete(PODS, objectKey("work", "b"));
    await clock.advance(0);
    expect(claims()).toEqual([]);
  });

  it("stays for a pod that the cache does not have yet", async () => {
    client.deafTo.add("pods");
    client.seed(PODS, pod("a", "n1"));
    await client.delete(PERSISTENT_VOLUME_CLAIMS, CLAIM);
    await clock.advance(0);
    expect(claims()).toEqual(["data"]);
  });
});

describe("a volume that is deleted", () => {
  it("stays while it is bound", async () => {
    await client.delete(PERSISTENT_VOLUMES, VOLUME);
    await clock.advance(0);
    expect(client.objects(PERSISTENT_VOLUMES)).toHaveLength(1);
    const released = { status: { phase: "Released" } };
    await client.mergePatch(PERSISTENT_VOLUMES, VOLUME, released, { subresource: "status" });
    await clock.advance(0);
    expect(client.objects(PERSISTENT_VOLUMES)).toEqual([]);
  });
});

describe("a class that is deleted", () => {
  it("stays while a claim has it", async () => {
    await client.delete(VOLUME_ATTRIBUTES_CLASSES, CLASS);
    await clock.advance(0);
    expect(client.objects(VOLUME_ATTRIBUTES_CLASSES)).toHaveLength(1);
    await client.delete(PERSISTENT_VOLUME_CLAIMS, CLAIM);
    await clock.advance(0);
    expect(client.objects(VOLUME_ATTRIBUTES_CLASSES)).toEqual([]);
  });
});

it("what lost its finalizer while it lives gets it back, and nothing is written otherwise", async () => {
  expect(client.writes).toEqual([]);
  await client.mergePatch(PERSISTENT_VOLUME_CLAIMS, CLAIM, { metadata: { finalizers: null } });
  await clock.advance(0);
  expect(client.objects(PERSISTENT_VOLUME_CLAIMS)[0]?.metadata.finalizers).toEqual(finalizersOf("pvc"));
});
