/** A fleet that moves to another hub, and back: real API servers, every controller, and a witness in each member. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { HUB_SECRET } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import {
  CLUSTER_RESOURCE_BINDINGS,
  CLUSTER_RESOURCE_PLACEMENTS,
  CLUSTER_RESOURCE_SNAPSHOTS,
} from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { WORKS } from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { HUB_ACCESS, HUB_PLACEMENT_ACCESS } from "@fairlead/fleet/authz/programs.ts";
import { joinCluster } from "@fairlead/fleet/cli/fleet/join.ts";
import { DEPLOYMENTS } from "@fairlead/kube/api/apps/v1/types.ts";
import { CONFIG_MAPS, NAMESPACES, SECRETS } from "@fairlead/kube/api/core/v1/types.ts";
import { ENDPOINT_SLICES } from "@fairlead/kube/api/discovery/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import {
  addressesOf,
  deploy,
  ensureNamespace,
  exportBy,
  type Restartable,
  sliceOf,
  startCluster,
  startFleet,
  type TestCluster,
  testDeps,
  type TestFleet,
} from "../support/fleet.ts";
import { electedHub, moveBetween, Witness } from "../support/hub-move.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";

const MEMBERS = ["a", "b", "c"];
const LEASE_SECONDS = 5;
let fleet: TestFleet;
let one: TestCluster;
let two: TestCluster;
let programs: Restartable[] = [];
const stack = new AsyncDisposableStack();
const config = objectKey("shop", "config");

beforeAll(async () => {
  fleet = stack.use(await startFleet({ members: MEMBERS, join: [], placement: true }));
  await fleet.hubProgram.stop();
  one = fleet.hub;
  two = stack.use(await startCluster("two", [HUB_ACCESS, HUB_PLACEMENT_ACCESS]));
  programs = [one, two].map((it) => stack.use(electedHub(it, LEASE_SECONDS)));
  for (const it of programs) it.start();
  await Promise.all(
    MEMBERS.map((name) => {
      const member = fleet.members.get(name)?.config;
      if (member === undefined) throw new Error(name);
      return joinCluster(
        { name, hub: one.config, member, heartbeatSeconds: 1, timeoutMs: 45_000 },
        testDeps("join"),
        AbortSignal.timeout(50_000),
      );
    }),
  );
  for (const [at, name] of ["a", "b"].entries()) {
    await deploy(fleet.client(name), { addresses: [`10.${at + 1}.0.1`, `10.${at + 1}.0.2`] });
    await exportBy("mcs", fleet.client(name));
  }
  await ensureNamespace(fleet.client("c"), "work");
  await one.client.create(NAMESPACES, { metadata: { name: "shop" } });
  await one.client.create(CONFIG_MAPS, { metadata: { namespace: "shop", name: "config" }, data: { v: "0" } });
  const labels = { app: "web" };
  await one.client.create(DEPLOYMENTS, {
    metadata: { namespace: "shop", name: "web" },
    spec: {
      replicas: 1,
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { containers: [{ name: "web", image: "nginx" }] } },
    },
  });
  await one.client.create(CLUSTER_RESOURCE_PLACEMENTS, {
    metadata: { name: "shop" },
    spec: { resourceSelectors: [{ group: "", version: "v1", kind: "Namespace", name: "shop" }] },
  });
  await Promise.all(MEMBERS.map((name) => placed(name, "0")));
  await imported(["10.1.0.1", "10.1.0.2", "10.2.0.1", "10.2.0.2"]);
}, 120_000);
afterAll(() => stack[Symbol.asyncDispose]());

const placed = (name: string, v: string) =>
  eventuallyOne(fleet.client(name), CONFIG_MAPS, config, (it) => it?.data?.["v"] === v);
const imported = (want: readonly string[]) =>
  eventually(fleet.client("c"), ENDPOINT_SLICES, (all) => {
    const got = addressesOf(all.filter((it) => it.metadata.namespace === "work"));
    return JSON.stringify(got.toSorted()) === JSON.stringify(want);
  });

async function hubOf(name: string): Promise<string> {
  const secret = await fleet.client(name).get(SECRETS, objectKey("fleet-system", HUB_SECRET));
  return Buffer.from(secret.data?.["server"] ?? "", "base64").toString("utf8");
}

/** What a move must not change, in all members. */
async function identities(): Promise<unknown> {
  return Promise.all(
    MEMBERS.map(async (name) => {
      const client = fleet.client(name);
      const found = await Promise.all([
        client.get(CONFIG_MAPS, config),
        client.get(DEPLOYMENTS, objectKey("shop", "web")),
        client.get(NAMESPACES, objectKey(undefined, "shop")),
      ]);
      return found.map((it) => it.metadata.uid);
    }),
  );
}

describe("a fleet", () => {
  it("moves to another hub, where it goes on, without a withdrawn endpoint or a deleted object", async () => {
    const before = await identities();
    const witnesses = await Promise.all(
      MEMBERS.map((name) => Witness.of(name, fleet.client(name), ["work", "shop"])),
    );
    const snapshots = (await one.client.list(CLUSTER_RESOURCE_SNAPSHOTS)).items.map((it) => it.metadata.name);
    const bindings = (await one.client.list(CLUSTER_RESOURCE_BINDINGS)).items.map((it) => it.metadata.name);
    expect(await moveBetween(one, two)).toEqual({ moved: MEMBERS, away: [] });
    expect(await Promise.all(MEMBERS.map(hubOf))).toEqual(MEMBERS.map(() => two.config.server));
    await one.client.mergePatch(CONFIG_MAPS, config, { data: { v: "not from here" } });
    await two.client.mergePatch(CONFIG_MAPS, config, { data: { v: "1" } });
    await Promise.all(MEMBERS.map((name) => placed(name, "1")));
    const slice = sliceOf({ addresses: ["10.1.0.1", "10.1.0.2", "10.1.0.3"] });
    await fleet
      .client("a")
      .mergePatch(ENDPOINT_SLICES, objectKey("work", slice.metadata.name), { endpoints: slice.endpoints });
    await imported(["10.1.0.1", "10.1.0.2", "10.1.0.3", "10.2.0.1", "10.2.0.2"]);
    expect((await two.client.list(CLUSTER_RESOURCE_SNAPSHOTS)).items.map((it) => it.metadata.name)).toEqual(
      expect.arrayContaining(snapshots),
    );
    expect((await two.client.list(CLUSTER_RESOURCE_BINDINGS)).items.map((it) => it.metadata.name)).toEqual(
      bindings,
    );
    expect((await two.client.list(WORKS)).items).toHaveLength(3);
    await eventually(two.client, MEMBER_CLUSTERS, (all) =>
      all.every((it) => it.status?.conditions?.some((c) => c.type === "Joined" && c.status === "True")),
    );
    for (const it of witnesses) await it[Symbol.asyncDispose]();
    expect(witnesses.flatMap((it) => it.seen)).toEqual([]);
    expect(await identities()).toEqual(before);
  });
});
