/** A hub that is gone for an hour, and one that comes back from an old backup, while pods come and go in the members. */

import { cp, rm } from "node:fs/promises";
import { isDeepStrictEqual } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import { delay, systemClock } from "@fairlead/base/clock.ts";
import {
  IDENTITY_DEMANDS,
  IDENTITY_SLICES,
  type IdentitySlice,
} from "@fairlead/fleet/api/fairlead.dev/v1alpha1/identities.ts";
import { FLEET_SYSTEM_NAMESPACE } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import { NAMESPACES, PODS, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { ENDPOINT_SLICES, SERVICE_NAME_LABEL } from "@fairlead/kube/api/discovery/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { NETWORK_POLICIES } from "@fairlead/kube/api/networking/v1/types.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import { addressesOf, deploy, sliceOf, startFleet, type TestFleet } from "../support/fleet.ts";
import { addNode } from "../support/mesh.ts";
import { admit, runPod } from "../support/pods.ts";
import { SteppedClock } from "../support/stepped-clock.ts";
import { eventually } from "../support/waiting.ts";

const HOUR_MS = 3_600_000;
const STEPS = 12;
/** Time between two steps, in which what came due happens. Unit: milliseconds. */
const REST_MS = 100;
const MEMBERS = ["a", "b", "c"] as const;
type Cluster = (typeof MEMBERS)[number];
const CLUSTER_LABEL = "io.cilium.k8s.policy.cluster";
/** What nodes of a member work by. */
const KINDS: readonly Resource[] = [IDENTITY_SLICES, ENDPOINT_SLICES, SERVICES, NETWORK_POLICIES];

const clock = new SteppedClock();
/** Addresses at which no pod answers. */
const dead = new Set<string>();
let fleet: TestFleet;
let backup = "";

beforeAll(async () => {
  fleet = await startFleet({
    members: MEMBERS,
    clocks: { a: clock, b: clock, c: clock, hub: clock, "hub/apiserver": clock },
    hubJournal: true,
    probe: () => (address) => Promise.resolve(dead.has(address) ? "silent" : "connected"),
  });
  for (const [at, name] of MEMBERS.entries()) {
    const client = fleet.client(name);
    await addNode(client, "n1", { address: `192.168.${at}.1`, podCIDR: `10.${at + 1}.0.0/16` });
    await deploy(client, { namespace: "shop", addresses: [`10.${at + 1}.0.1`] });
    const metadata = { annotations: { "service.cilium.io/global": "true" } };
    await client.mergePatch(SERVICES, objectKey("shop", "hello"), { metadata });
  }
  await eventually(fleet.client("hub"), IDENTITY_DEMANDS, (all) => all.length === MEMBERS.length);
  await run("a", "web-1", "10.1.0.5");
  await run("a", "web-2", "10.1.0.6");
  await admit(fleet.client("b"), "web-of-a", {
    namespace: "shop",
    labels: { app: "web", [CLUSTER_LABEL]: "a" },
  });
  await untilKnown("b", ["10.1.0.5 web", "10.1.0.6 web"]);
  await untilServed({ a: ["10.1.0.1"], b: ["10.2.0.1"], c: ["10.3.0.1"] });
  backup = `${fleet.hub.dataDir}-backup`;
  await fleet.hubProgram.stop();
  await fleet.hub.restart((dataDir) => cp(dataDir, backup, { recursive: true }));
  fleet.hubProgram.start();
  // The backup is old: much was written since.
  for (let at = 0; at < 500; at += 1)
    await fleet.client("hub").mergePatch(NAMESPACES, objectKey(undefined, "default"), {
      metadata: { annotations: { at: String(at) } },
    });
}, 90_000);
afterAll(async () => {
  await fleet[Symbol.asyncDispose]();
  await rm(backup, { recursive: true, force: true });
});

const run = (cluster: Cluster, name: string, address: string) =>
  runPod(fleet.client(cluster), name, {
    namespace: "shop",
    labels: { app: name.split("-")[0] ?? "" },
    address,
  });

const end = (cluster: Cluster, name: string) =>
  fleet.client(cluster).delete(PODS, objectKey("shop", name), { gracePeriodSeconds: 0 });

/** The addresses of the global Service in one cluster become these. */
const serve = (cluster: Cluster, addresses: readonly string[]) =>
  fleet.client(cluster).mergePatch(ENDPOINT_SLICES, objectKey("shop", "hello-abcde"), {
    endpoints: sliceOf({ addresses }).endpoints,
  });

function podsIn(slices: readonly IdentitySlice[]): readonly string[] {
  return slices
    .flatMap(({ spec }) => (spec.pods ?? []).map((it) => `${it.addresses.join()} ${spec.labels?.["app"]}`))
    .toSorted();
}

/** Waits until a cluster knows these pods of others: "address app". */
async function untilKnown(cluster: Cluster, wanted: readonly string[]): Promise<void> {
  await eventually(
    fleet.client(cluster),
    IDENTITY_SLICES,
    (all) => podsIn(all).join() === wanted.toSorted().join(),
    { namespace: FLEET_SYSTEM_NAMESPACE },
  );
}

/** Waits until the global Service has these endpoints, by the cluster that they are in, in each cluster. */
async function untilServed(of: Readonly<Record<Cluster, readonly string[]>>): Promise<void> {
  const wanted = Object.values(of).flat().toSorted().join();
  for (const name of MEMBERS)
    await eventually(
      fleet.client(name),
      ENDPOINT_SLICES,
      (all) =>
        addressesOf(all.filter((it) => it.metadata.labels?.[SERVICE_NAME_LABEL] === "hello")).join() ===
        wanted,
      { namespace: "shop" },
    );
}

/** Versions of all objects of these kinds. */
async function versions(name: Cluster): Promise<readonly string[]> {
  const lists = await Promise.all(KINDS.map(async (kind) => (await fleet.client(name).list(kind)).items));
  return lists
    .flat()
    .map(({ metadata }) => `${metadata.namespace}/${metadata.name} ${metadata.resourceVersion}`);
}

/** Once nothing is written any more. */
async function settled(): Promise<readonly (readonly string[])[]> {
  for (let before: readonly (readonly string[])[] = []; ;) {
    const now = await Promise.all(MEMBERS.map(versions));
    if (isDeepStrictEqual(before, now)) return now;
    before = now;
    await delay(systemClock, 3 * REST_MS, new AbortController().signal);
  }
}

/** An hour passes for all programs. */
async function passHour(): Promise<void> {
  for (let step = 0; step < STEPS; step += 1) {
    clock.skip(HOUR_MS / STEPS);
    await delay(systemClock, REST_MS, new AbortController().signal);
  }
}

it("identities, policies and global Services stay as they are while the hub is gone for an hour, and catch up when it is back", async () => {
  await fleet.hubProgram.stop();
  await fleet.hub.restart(async () => {
    await end("a", "web-1");
    await run("a", "web-3", "10.1.0.7");
    await run("c", "db-1", "10.3.0.5");
    await admit(fleet.client("b"), "db-of-c", {
      namespace: "shop",
      labels: { app: "db", [CLUSTER_LABEL]: "c" },
    });
    await serve("a", ["10.1.0.1", "10.1.0.2"]);
    await serve("c", []);
    await fleet.agents.get("b")?.stop();
    fleet.agents.get("b")?.start();
    const before = await settled();
    await passHour();
    expect(await Promise.all(MEMBERS.map(versions))).toEqual(before);
    await untilKnown("b", ["10.1.0.5 web", "10.1.0.6 web"]);
    const { items } = await fleet.client("b").list(ENDPOINT_SLICES, { namespace: "shop" });
    const served = items.filter((it) => it.metadata.labels?.[SERVICE_NAME_LABEL] === "hello");
    expect(addressesOf(served)).toEqual(["10.1.0.1", "10.2.0.1", "10.3.0.1"]);
  });
  fleet.hubProgram.start();
  await untilKnown("b", ["10.1.0.6 web", "10.1.0.7 web", "10.3.0.5 db"]);
  await untilServed({ a: ["10.1.0.1", "10.1.0.2"], b: ["10.2.0.1"], c: [] });
}, 90_000);

it("a member that starts without the hub leaves out endpoints that do not answer, and the hub's return brings none of them back", async () => {
  const served = async (): Promise<string> => {
    const { items } = await fleet.client("b").list(ENDPOINT_SLICES, { namespace: "shop" });
    return addressesOf(items.filter((it) => it.metadata.labels?.[SERVICE_NAME_LABEL] === "hello")).join();
  };
  const untilServes = async (...wanted: readonly string[]): Promise<void> => {
    await expect.poll(served).toBe(wanted.join());
  };
  const [kept, gone, own] = ["10.1.0.1", "10.1.0.2", "10.2.0.1"] as const;
  await fleet.hubProgram.stop();
  await fleet.hub.restart(async () => {
    await fleet.agents.get("b")?.stop();
    dead.add(gone);
    await serve("a", [kept]);
    fleet.agents.get("b")?.start();
    await settled();
    expect(await served()).toBe([kept, gone, own].join());
    clock.skip(10_000);
    await untilServes(kept, own);
    dead.delete(gone);
    await untilServes(kept, gone, own);
    dead.add(kept).add(gone);
    await untilServes(own);
    dead.delete(kept);
    await untilServes(kept, own);
  });
  const stop = new AbortController();
  const seen = new Set<string>();
  const watched = (async () => {
    const options = { namespace: "shop", sendInitialEvents: true, allowWatchBookmarks: true };
    for await (const { type, object } of fleet.client("b").watch(ENDPOINT_SLICES, options, stop.signal))
      if (type !== "BOOKMARK" && type !== "ERROR")
        for (const it of addressesOf([object])) seen.add(type === "DELETED" ? `no ${it}` : it);
  })().catch(() => {});
  fleet.hubProgram.start();
  await untilServed({ a: [kept], b: [own], c: [] });
  stop.abort();
  await watched;
  expect([...seen].toSorted()).toEqual([kept, own]);
  dead.clear();
  await serve("a", [kept, gone]);
  await untilServed({ a: [kept, gone], b: [own], c: [] });
}, 90_000);

it("identities and global Services are as the members say after the hub was restored from an old backup, and later changes arrive", async () => {
  await fleet.hubProgram.stop();
  await fleet.hub.restart(async (dataDir) => {
    await rm(dataDir, { recursive: true });
    await cp(backup, dataDir, { recursive: true });
    await end("a", "web-2");
    await passHour();
  });
  fleet.hubProgram.start();
  await untilKnown("b", ["10.1.0.7 web", "10.3.0.5 db"]);
  await untilServed({ a: ["10.1.0.1", "10.1.0.2"], b: ["10.2.0.1"], c: [] });
  await run("a", "web-4", "10.1.0.8");
  await serve("b", ["10.2.0.2"]);
  await untilKnown("b", ["10.1.0.7 web", "10.1.0.8 web", "10.3.0.5 db"]);
  await untilServed({ a: ["10.1.0.1", "10.1.0.2"], b: ["10.2.0.2"], c: [] });
}, 90_000);
