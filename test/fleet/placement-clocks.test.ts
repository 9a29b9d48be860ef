/** Placements, staged update runs and update runs of clusters while a member is away for a day, and while clocks are wrong by a day. */

import { afterAll, beforeAll, expect, it } from "vitest";
import { systemDeps } from "@fairlead/base/deps.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { type ConfigMap, CONFIG_MAPS, NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { keyOf, objectKey, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import { findCondition, isConditionTrue } from "@fairlead/kube/objects/conditions.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import {
  CLUSTER_RESOURCE_BINDINGS,
  CLUSTER_RESOURCE_PLACEMENTS,
} from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import {
  CLUSTER_STAGED_UPDATE_RUNS,
  CLUSTER_STAGED_UPDATE_STRATEGIES,
  type StagedUpdateRun,
} from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/staged.ts";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import {
  CLUSTER_UPGRADES,
  UPDATE_GROUP_LABEL,
  UPDATE_RUNS,
  type UpdateRun,
  UPGRADER_ANNOTATION,
} from "@fairlead/fleet/api/fairlead.dev/v1alpha1/updates.ts";
import { WORKS } from "@fairlead/fleet/api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { startFleet, type TestFleet } from "../support/fleet.ts";
import { sampleOf } from "../support/sample.ts";
import { SteppedClock } from "../support/stepped-clock.ts";
import { eventually, eventuallyOne, until } from "../support/waiting.ts";
import { WrongClock } from "../support/wrong-clock.ts";

const DAY_MS = 86_400_000;
/** Of a stage. */
const WAIT_MS = 3_600_000;
const MEMBERS = ["a", "b"];
/** The time that passes for the hub. */
const time = new SteppedClock();
const clocks = {
  hub: new WrongClock(0, time),
  "hub/apiserver": new WrongClock(0, time),
  a: new WrongClock(),
  "a/apiserver": new WrongClock(),
};
type Whose = keyof typeof clocks;

let fleet: TestFleet;
let hub: KubeClient;
const stack = new AsyncDisposableStack();
/** What was deleted in members, and the uids that each placed object had. */
const deleted: string[] = [];
const uids = new Map<string, Set<string>>();
let version = 0;

beforeAll(async () => {
  fleet = stack.use(await startFleet({ members: MEMBERS, placement: true, clocks }));
  hub = fleet.client("hub");
  for (const name of ["web", "staged"]) await hub.create(NAMESPACES, { metadata: { name } });
  await write();
  const strategies = {
    web: { type: "RollingUpdate", rollingUpdate: { maxUnavailable: 2 } },
    staged: { type: "External" },
  } as const;
  for (const [name, strategy] of Object.entries(strategies))
    await hub.create(CLUSTER_RESOURCE_PLACEMENTS, {
      metadata: { name },
      spec: { resourceSelectors: [{ group: "", version: "v1", kind: "Namespace", name }], strategy },
    });
  await hub.create(CLUSTER_STAGED_UPDATE_STRATEGIES, {
    metadata: { name: "all" },
    spec: {
      stages: [
        {
          name: "all",
          labelSelector: {},
          maxConcurrency: 2,
          afterStageTasks: [{ type: "TimedWait", waitTime: "1s" }],
        },
      ],
    },
  });
  for (const member of MEMBERS) await watch(member);
}, 90_000);
afterAll(() => stack.disposeAsync());

async function watch(member: string): Promise<void> {
  const stop = new AbortController();
  stack.defer(() => stop.abort());
  const deps = systemDeps(silentLogger);
  const informer = stack.use(createInformer(fleet.client(member), CONFIG_MAPS, {}, deps));
  informer.subscribe(({ key, after }) => {
    if (!key.endsWith("/config")) return;
    const where = `${member} ${key}`;
    if (after === undefined) deleted.push(where);
    else uids.set(where, (uids.get(where) ?? new Set()).add(after.metadata.uid ?? ""));
  });
  informer.start(stop.signal);
  await informer.synced(stop.signal);
}

const named = (name: string): ObjectKey => objectKey(undefined, name);

/** Another version of what is placed. */
async function write(): Promise<void> {
  version += 1;
  for (const namespace of ["web", "staged"])
    await hub.apply(
      CONFIG_MAPS,
      { metadata: { namespace, name: "config" }, data: { version: String(version) } },
      { fieldManager: "test" },
    );
}

const versionIn = async (member: string, namespace: string): Promise<string | undefined> =>
  (await fleet.client(member).find<ConfigMap>(CONFIG_MAPS, objectKey(namespace, "config")))?.data?.[
    "version"
  ];

/** A changed version is collected for some time before it is rolled out: that time is skipped. */
async function isRolledOut(members: readonly string[] = MEMBERS): Promise<void> {
  await until(
    `version ${version} in ${members.join(" and ")}`,
    () => {
      time.skip(5000);
      return Promise.all(members.map((it) => versionIn(it, "web")));
    },
    (all) => all.every((it) => it === String(version)),
  );
}

async function start(): Promise<ObjectKey> {
  const name = `run-${version}`;
  await eventuallyOne(
    hub,
    CONFIG_MAPS,
    objectKey("staged", "config"),
    (it) => it.data?.["version"] === String(version),
  );
  await hub.create(CLUSTER_STAGED_UPDATE_RUNS, {
    metadata: { name },
    spec: { placementName: "staged", stagedRolloutStrategyName: "all", state: "Run" },
  });
  return named(name);
}
const runIs = (key: ObjectKey, type: string, reason: string): Promise<StagedUpdateRun> =>
  eventuallyOne(
    hub,
    CLUSTER_STAGED_UPDATE_RUNS,
    key,
    (it) => findCondition(it.status?.conditions, type)?.reason === reason,
  );
const hasSucceeded = (key: ObjectKey) => runIs(key, "Succeeded", "UpdateRunSucceeded");

function expectNothingMoved(): void {
  expect(deleted).toEqual([]);
  expect([...uids.values()].every((it) => it.size === 1)).toBe(true);
}

it("a member that was away for a day gets what it missed, and nothing is deleted or placed twice", async () => {
  await isRolledOut();
  await hasSucceeded(await start());
  await fleet.agents.get("a")?.stop();
  const works = async (): Promise<string[]> =>
    (await hub.list(WORKS, { namespace: "fleet-member-a" })).items.map(
      (it) => `${keyOf(it)} ${it.metadata.uid}`,
    );
  const before = await works();
  await write();
  const run = await start();
  await isRolledOut(["b"]);
  await eventuallyOne(hub, CLUSTER_STAGED_UPDATE_RUNS, run, ({ status }) => {
    const [a, b] = status?.stagesStatus?.[0]?.clusters ?? [];
    return isConditionTrue(a?.conditions, "Started") && isConditionTrue(b?.conditions, "Succeeded");
  });
  time.skip(DAY_MS / 2);
  await runIs(run, "Progressing", "UpdateRunStuck");
  time.skip(DAY_MS / 2);
  await write();
  await isRolledOut(["b"]);
  expect(await works()).toEqual(before);
  expect([await versionIn("a", "web"), await versionIn("a", "staged")]).toEqual(["1", "1"]);
  await eventually(hub, CLUSTER_RESOURCE_BINDINGS, (all) => all.length === 4);
  fleet.agents.get("a")?.start();
  await hasSucceeded(run);
  await isRolledOut();
  await hasSucceeded(await start());
  expect(await Promise.all(MEMBERS.map((it) => versionIn(it, "staged")))).toEqual(["3", "3"]);
  expectNothingMoved();
}, 90_000);

const JUMPS: readonly (readonly [string, Partial<Record<Whose, number>>])[] = [
  ["the hub is a day ahead, and a member a day behind", { hub: DAY_MS, a: -DAY_MS }],
  ["the hub is a day behind, and a member a day ahead", { hub: -DAY_MS, a: DAY_MS }],
  [
    "the hub's API server is a day ahead, and a member's a day behind",
    { "hub/apiserver": DAY_MS, "a/apiserver": -DAY_MS },
  ],
  [
    "the hub's API server is a day behind, and a member's a day ahead",
    { "hub/apiserver": -DAY_MS, "a/apiserver": DAY_MS },
  ],
];

it.each(sampleOf(JUMPS, [0, 3]))(
  "while the clock of %s, and when it is right again, versions are rolled out and nothing is deleted or placed twice",
  async (_, jump) => {
    for (const isWrong of [true, false]) {
      for (const [whose, clock] of Object.entries(clocks))
        clock.aheadMs = isWrong ? (jump[whose as Whose] ?? 0) : 0;
      await write();
      const run = await start();
      await isRolledOut();
      await hasSucceeded(run);
    }
    expectNothingMoved();
  },
  60_000,
);

/** The hub learns the clock of its API server from answers to its requests. */
async function answersHub(name: string): Promise<void> {
  const identity = { kind: "User", name, apiGroup: "rbac.authorization.k8s.io" } as const;
  await hub.create(MEMBER_CLUSTERS, { metadata: { name }, spec: { identity } });
  await eventually(hub, NAMESPACES, (all) => all.some((it) => it.metadata.name === `fleet-member-${name}`));
  await hub.delete(MEMBER_CLUSTERS, named(name));
  await eventually(hub, MEMBER_CLUSTERS, (all) => !all.some((it) => it.metadata.name === name));
}

/** Starts a run of clusters with the one member "a", and has its engine succeed. */
async function waitsAfterStage(name: string): Promise<void> {
  const kubernetesVersion = "1.36.99";
  const metadata = { annotations: { [UPGRADER_ANNOTATION]: "External" }, labels: { upgraded: "yes" } };
  await hub.mergePatch(MEMBER_CLUSTERS, named("a"), { metadata });
  await hub.create(UPDATE_RUNS, {
    metadata: { name },
    spec: {
      state: "Run",
      managedClusterUpdate: { upgrade: { type: "ControlPlaneOnly", kubernetesVersion } },
      strategy: {
        stages: [
          {
            name: "s",
            memberSelector: { byLabel: "upgraded=yes" },
            afterStageWaitInSeconds: WAIT_MS / 1000,
          },
        ],
      },
    },
  });
  const { spec } = await eventuallyOne(
    hub,
    CLUSTER_UPGRADES,
    objectKey("fleet-member-a", "a"),
    (it) => it.spec.operation !== undefined && it.status?.operation?.id !== it.spec.operation.id,
  );
  const operation = { id: spec.operation?.id ?? "", state: "Succeeded" as const };
  const status = { kubernetesVersion, operation };
  await hub.mergePatch(
    CLUSTER_UPGRADES,
    objectKey("fleet-member-a", "a"),
    { status },
    { subresource: "status" },
  );
  await waitOf(name, (it) => it.state === "Running");
}

type Wait = { readonly state: string; readonly startTime?: string };

async function waitOf(name: string, isSo: (wait: Wait) => boolean): Promise<Wait> {
  const of = (it: UpdateRun): Wait | undefined => it.status?.stages[0]?.afterStageWaitStatus?.status;
  const run = await eventuallyOne(hub, UPDATE_RUNS, named(name), (it) => {
    const wait = of(it);
    return wait !== undefined && isSo(wait);
  });
  return of(run) ?? { state: "" };
}

async function endsAfter(name: string, waitMs: number): Promise<void> {
  time.skip(waitMs);
  const ended = await eventuallyOne(hub, UPDATE_RUNS, named(name), (it) => it.status?.outcome !== undefined);
  expect(ended.status?.outcome).toBe("Succeeded");
  await hub.delete(UPDATE_RUNS, named(name));
}

it.each([
  ["ahead", DAY_MS],
  ["behind", -DAY_MS],
])(
  "an update run of clusters that waits while the clock of the hub's API server is a day %s, and then right again, takes no longer",
  async (_, jump) => {
    const name = jump > 0 ? "ahead" : "behind";
    clocks["hub/apiserver"].aheadMs = jump;
    clocks.hub.aheadMs = -jump;
    await waitsAfterStage(name);
    for (const clock of Object.values(clocks)) clock.aheadMs = 0;
    await answersHub(`after-${name}`);
    await endsAfter(name, WAIT_MS);
  },
  60_000,
);

it("an update run of clusters that waits while the clock of the hub's API server is set a day ahead takes no less", async () => {
  await waitsAfterStage("jump");
  const before = await waitOf("jump", () => true);
  clocks["hub/apiserver"].aheadMs = DAY_MS;
  await answersHub("after-jump");
  // Another pass over the run.
  await hub.mergePatch(MEMBER_CLUSTERS, named("a"), { metadata: { labels: { [UPDATE_GROUP_LABEL]: "x" } } });
  const after = await waitOf("jump", (it) => it.state !== "Running" || it.startTime !== before.startTime);
  expect(after.state).toBe("Running");
  const movedMs = Date.parse(after.startTime ?? "") - Date.parse(before.startTime ?? "");
  expect(Math.abs(movedMs - DAY_MS)).toBeLessThan(3000);
  clocks["hub/apiserver"].aheadMs = 0;
  await endsAfter("jump", WAIT_MS);
});
