/** A fleet that moves to another hub, and back: real API servers, every controller, and a witness in each member. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  INTERNAL_MEMBER_CLUSTERS,
  MEMBER_CLUSTERS,
} from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { HUB_MANAGER } from "@fairlead/fleet/api/fairlead.dev/field-managers.ts";
import { MOVE_JOURNAL } from "@fairlead/fleet/api/fairlead.dev/hub-move.ts";
import { HUB_SECRET } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import { GATES } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/updates.ts";
import {
  CLUSTER_RESOURCE_BINDINGS,
  CLUSTER_RESOURCE_PLACEMENTS,
  CLUSTER_RESOURCE_SNAPSHOTS,
  CLUSTER_SCHEDULING_POLICY_SNAPSHOTS,
} from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { WORKS } from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { HUB_ACCESS, HUB_PLACEMENT_ACCESS } from "@fairlead/fleet/authz/programs.ts";
import { joinCluster } from "@fairlead/fleet/cli/fleet/join.ts";
import { DEPLOYMENTS } from "@fairlead/kube/api/apps/v1/types.ts";
import { CONFIG_MAPS, NAMESPACES, type Secret, SECRETS } from "@fairlead/kube/api/core/v1/types.ts";
import { LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import { ENDPOINT_SLICES } from "@fairlead/kube/api/discovery/v1/types.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
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
import { electedHub, Mortal, moveBetween, Witness } from "../support/hub-move.ts";
import { RunsInProgress } from "../support/runs-in-progress.ts";
import { isFull, sampleOf } from "../support/sample.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";

const MEMBERS = ["a", "b", "c"];
const LEASE_SECONDS = 5;
/** Several renewals of that. Unit: milliseconds. */
const AWAY_MS = 5000;
let fleet: TestFleet;
let one: TestCluster;
let two: TestCluster;
let programs: Restartable[] = [];
const stack = new AsyncDisposableStack();
const named = (name: string) => objectKey(undefined, name);
const config = objectKey("shop", "config");

beforeAll(async () => {
  fleet = stack.use(await startFleet({ members: MEMBERS, join: [], placement: true, upgradable: MEMBERS }));
  await fleet.hubProgram.stop();
  one = fleet.hub;
  two = stack.use(await startCluster("two", [HUB_ACCESS, HUB_PLACEMENT_ACCESS]));
  programs = [one, two].map((it) => stack.use(electedHub(it, LEASE_SECONDS)));
  for (const it of programs) it.start();
  await Promise.all(MEMBERS.map(join));
  for (const [at, name] of ["a", "b"].entries()) {
    await deploy(fleet.client(name), { addresses: [`10.${at + 1}.0.1`, `10.${at + 1}.0.2`] });
    await exportBy("mcs", fleet.client(name));
  }
  await ensureNamespace(fleet.client("c"), "work");
  await one.client.create(NAMESPACES, { metadata: { name: "shop" } });
  await one.client.create(CONFIG_MAPS, { metadata: { namespace: "shop", name: "config" }, data: { v: "0" } });
  const labels = { app: "web" };
  const template = { metadata: { labels }, spec: { containers: [{ name: "web", image: "nginx" }] } };
  await one.client.create(DEPLOYMENTS, {
    metadata: { namespace: "shop", name: "web" },
    spec: { replicas: 1, selector: { matchLabels: labels }, template },
  });
  const selecting = (name: string) => [{ group: "", version: "v1", kind: "Namespace", name }];
  await one.client.create(CLUSTER_RESOURCE_PLACEMENTS, {
    metadata: { name: "shop" },
    spec: { resourceSelectors: selecting("shop") },
  });
  await Promise.all(MEMBERS.map((name) => placed(name, "0")));
  await imported(["10.1.0.1", "10.1.0.2", "10.2.0.1", "10.2.0.2"]);
}, 120_000);
afterAll(() => stack[Symbol.asyncDispose]());

async function join(name: string): Promise<void> {
  const member = fleet.members.get(name)?.config;
  if (member === undefined) throw new Error(name);
  const options = { name, hub: one.config, member, heartbeatSeconds: 1, timeoutMs: 45_000 };
  await joinCluster(options, testDeps("join"), AbortSignal.timeout(50_000));
}

const placed = (name: string, v: string) =>
  eventuallyOne(fleet.client(name), CONFIG_MAPS, config, (it) => it.data?.["v"] === v);
const imported = (want: readonly string[]) =>
  eventually(fleet.client("c"), ENDPOINT_SLICES, (all) => {
    const got = addressesOf(all.filter((it) => it.metadata.namespace === "work"));
    return JSON.stringify(got.toSorted()) === JSON.stringify(want);
  });

const serverIn = ({ data }: Secret): string => Buffer.from(data?.["server"] ?? "", "base64").toString("utf8");
const hubOf = async (name: string): Promise<string> =>
  serverIn(await fleet.client(name).get(SECRETS, objectKey("fleet-system", HUB_SECRET)));

/** What a move must not change, in all members. */
function identities(): Promise<unknown> {
  const uids = async (client: KubeClient) => {
    const found = await Promise.all([
      client.get(CONFIG_MAPS, config),
      client.get(DEPLOYMENTS, objectKey("shop", "web")),
      client.get(NAMESPACES, named("shop")),
    ]);
    return found.map((it) => it.metadata.uid);
  };
  return Promise.all(MEMBERS.map((name) => uids(fleet.client(name))));
}

const namesOn = async (hub: TestCluster): Promise<readonly string[]> => {
  const lists = await Promise.all(
    [
      CLUSTER_RESOURCE_SNAPSHOTS,
      CLUSTER_SCHEDULING_POLICY_SNAPSHOTS,
      CLUSTER_RESOURCE_BINDINGS,
      WORKS,
      GATES,
    ].map((of: Resource) => hub.client.list(of)),
  );
  return lists.flatMap((it) => it.items.map(keyOf));
};

/** Nothing is withdrawn or deleted while `body` runs, and what is placed are the same objects. */
async function undisturbed(body: () => Promise<void>): Promise<void> {
  const before = await identities();
  const witnesses = await Promise.all(
    MEMBERS.map((name) => Witness.of(name, fleet.client(name), ["work", "shop"])),
  );
  await body();
  // Each watch has received what was before this.
  for (const it of witnesses) await it.caughtUp();
  for (const it of witnesses) await it[Symbol.asyncDispose]();
  expect(witnesses.flatMap((it) => it.seen)).toEqual([]);
  expect(await identities()).toEqual(before);
}

let content = 0;
/** What changes on the hub, and in a member, arrives in all members. */
async function works(hub: TestCluster): Promise<void> {
  content += 1;
  const v = String(content);
  await hub.client.mergePatch(CONFIG_MAPS, config, { data: { v } });
  await Promise.all(MEMBERS.map((name) => placed(name, v)));
  const added = ["10.1.0.3", "10.1.0.4"].slice(0, content % 3);
  const slice = sliceOf({ addresses: ["10.1.0.1", "10.1.0.2", ...added] });
  await fleet.client("a").mergePatch(ENDPOINT_SLICES, objectKey("work", slice.metadata.name), {
    endpoints: slice.endpoints,
  });
  await imported(["10.1.0.1", "10.1.0.2", ...added, "10.2.0.1", "10.2.0.2"]);
}

describe("a fleet", () => {
  it("does not move to a hub that has other objects where its placements would find them, and neither hub is changed", async () => {
    await ensureNamespace(two.client, "shop");
    await two.client.create(CONFIG_MAPS, {
      metadata: { namespace: "shop", name: "config" },
      data: { v: "other" },
    });
    await two.client.create(CONFIG_MAPS, { metadata: { namespace: "shop", name: "other" } });
    await expect(moveBetween(one, two)).rejects.toThrow(
      /two has other objects.*ConfigMap shop\/config; .* would select there, too: ConfigMap shop\/other/,
    );
    for (const name of ["config", "other"]) await two.client.delete(CONFIG_MAPS, objectKey("shop", name));
    const journal = objectKey("fleet-system", MOVE_JOURNAL);
    for (const hub of [one, two]) expect(await hub.client.find(CONFIG_MAPS, journal)).toBeUndefined();
    await expect(moveBetween(one, two, { isBack: true })).rejects.toThrow(
      /there is no move between hub and two/,
    );
    await expect(moveBetween(one, one)).rejects.toThrow("the same hub");
  });

  it("moves to another hub, where it continues, without a withdrawn endpoint or a deleted object", async () => {
    const names = await namesOn(one);
    await undisturbed(async () => {
      expect(await moveBetween(one, two)).toEqual({ moved: MEMBERS, away: [] });
      expect(await Promise.all(MEMBERS.map(hubOf))).toEqual(MEMBERS.map(() => two.config.server));
      await eventually(two.client, MEMBER_CLUSTERS, (all) =>
        all.every((it) => it.status?.conditions?.some((c) => c.type === "Joined" && c.status === "True")),
      );
      // The hub that the fleet has left does nothing any more.
      await one.client.mergePatch(CONFIG_MAPS, config, { data: { v: "not from here" } });
    });
    expect(await namesOn(two)).toEqual(names);
    // Appliers can remove later what they applied on the other hub.
    const { metadata } = await two.client.get(INTERNAL_MEMBER_CLUSTERS, objectKey("fleet-member-a", "a"));
    const owners = metadata.managedFields?.filter((it) => it.fieldsV1?.["f:spec"] !== undefined);
    expect(owners).toMatchObject([{ manager: HUB_MANAGER, operation: "Apply" }]);
    await works(two);
  }, 90_000);

  it("goes back while runs are in progress and wait for approval: they continue, and no upgrade begins twice", async () => {
    const runs = await RunsInProgress.start(two.client, fleet, MEMBERS);
    await undisturbed(async () => {
      expect(await moveBetween(two, one, { isBack: true })).toEqual({ moved: MEMBERS, away: [] });
    });
    await runs.finish(one.client);
    await works(one);
  }, 90_000);

  it("goes back after its members could not reach the other hub, and has lost nothing", async () => {
    await undisturbed(async () => {
      const unreachable = { hubServer: "https://127.0.0.1:9", timeoutMs: 2000 };
      await expect(moveBetween(one, two, unreachable)).rejects.toThrow(
        /^a, b, c did not switch to two within 2 s, and stay with hub \(a: .*127\.0\.0\.1:9/,
      );
      expect(await Promise.all(MEMBERS.map(hubOf))).toEqual(MEMBERS.map(() => one.config.server));
      expect(await moveBetween(two, one, { isBack: true })).toEqual({ moved: MEMBERS, away: [] });
    });
    await works(one);
  }, 90_000);

  it("does not move both ways at the same time: the second command waits for the first one", async () => {
    const steps: string[] = [];
    const progress = (it: string): void => void steps.push(it);
    await undisturbed(async () => {
      const there = moveBetween(one, two, { identity: "there" });
      for (const { client } of [one, two])
        await eventuallyOne(
          client,
          LEASES,
          objectKey("fleet-system", MOVE_JOURNAL),
          (it) => it.spec?.holderIdentity === "there",
        );
      const back = moveBetween(two, one, { isBack: true, identity: "back", progress });
      const all = { moved: MEMBERS, away: [] };
      expect(await Promise.all([there, back])).toEqual([all, all]);
    });
    expect(steps[0]).toContain('waiting for another "fairlead hub move" (there)');
    await works(one);
  }, 90_000);

  it(
    "arrives after it was killed again and again, at later and later writes",
    async () => {
      const killedAt: number[] = [];
      await undisturbed(async () => {
        for (let writes = 1; ; writes = isFull ? writes + 1 : Math.ceil(writes * 1.7)) {
          const mortal = new Mortal(writes);
          const ended = await moveBetween(one, two, { mortal }).catch((error: unknown) => error);
          if (!mortal.isDead) {
            expect(ended).toEqual({ moved: MEMBERS, away: [] });
            break;
          }
          killedAt.push(writes);
        }
      });
      expect(killedAt.length).toBeGreaterThan(isFull ? 20 : 4);
      await works(two);
    },
    isFull ? 900_000 : 120_000,
  );

  it.each(
    sampleOf(
      Array.from({ length: 60 }, (_, at) => at + 1),
      [12, 44],
    ),
  )(
    "goes back when the move is killed after write %i, as if nothing had been",
    async (writes) => {
      await undisturbed(async () => {
        const mortal = new Mortal(writes);
        await moveBetween(two, one, { mortal }).catch(() => {});
        expect(await moveBetween(one, two, { isBack: true })).toEqual({ moved: MEMBERS, away: [] });
        expect(await Promise.all(MEMBERS.map(hubOf))).toEqual(MEMBERS.map(() => two.config.server));
      });
      await works(two);
    },
    90_000,
  );

  it("moves without a member that is away, which follows when it is back, and has lost nothing", async () => {
    await fleet.agents.get("c")?.stop();
    await undisturbed(async () => {
      expect(await moveBetween(two, one, { awayMs: AWAY_MS })).toEqual({ moved: ["a", "b"], away: ["c"] });
      fleet.agents.get("c")?.start();
      await eventuallyOne(
        fleet.client("c"),
        SECRETS,
        objectKey("fleet-system", HUB_SECRET),
        (it) => serverIn(it) === one.config.server,
      );
    });
    await works(one);
  }, 90_000);

  it("is watched by witnesses that report each withdrawn endpoint and each deleted object", async () => {
    const c = fleet.client("c");
    await using witness = await Witness.of("c", c, ["work", "shop"]);
    const imports = (await c.list(ENDPOINT_SLICES, { namespace: "work" })).items.find((it) =>
      addressesOf([it]).includes("10.2.0.1"),
    );
    await fleet
      .client("b")
      .mergePatch(ENDPOINT_SLICES, objectKey("work", sliceOf({ addresses: [] }).metadata.name), {
        endpoints: sliceOf({ addresses: ["10.2.0.2"] }).endpoints,
      });
    await c.delete(CONFIG_MAPS, config);
    await eventuallyOne(c, CONFIG_MAPS, config, () => true);
    await eventually(c, ENDPOINT_SLICES, (all) => !addressesOf(all).includes("10.2.0.1"));
    await witness.caughtUp();
    expect(witness.seen.toSorted()).toEqual([
      "c: ConfigMap shop/config deleted",
      `c: EndpointSlice work/${imports?.metadata.name} lost 10.2.0.1`,
    ]);
  });
});
