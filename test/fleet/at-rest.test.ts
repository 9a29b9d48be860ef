import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  INTERNAL_MEMBER_CLUSTERS,
  MEMBER_CLUSTERS,
  MEMBER_NAME_LABEL,
} from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { HUB_CRDS } from "@fairlead/fleet/api/crds.ts";
import { mailboxOf } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import { HUB_ACCESS } from "@fairlead/fleet/authz/programs.ts";
import { startHub } from "@fairlead/fleet/hub/hub.ts";
import { createMetrics } from "@fairlead/base/metrics.ts";
import { LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { installCrds } from "@fairlead/kube/definitions/crds.ts";
import { isConditionTrue, microTimestamp, timestamp } from "@fairlead/kube/objects/conditions.ts";
import { configAs } from "../support/access.ts";
import {
  aborted,
  connectProgram,
  Restartable,
  startCluster,
  testDeps,
  type TestCluster,
} from "../support/fleet.ts";
import { eventually } from "../support/waiting.ts";

const MEMBERS = ["a", "b", "c"];
const BEGIN_MS = Date.parse("2026-01-01T00:00:00Z");
const metrics = createMetrics();
let hub: TestCluster;
let program: Restartable;

beforeAll(async () => {
  hub = await startCluster("hub", [HUB_ACCESS]);
  const signal = AbortSignal.timeout(30_000);
  await installCrds(hub.client, { crds: HUB_CRDS, fieldManager: "test" }, testDeps("test"), signal);
  program = new Restartable(async (stopping) => {
    await using client = connectProgram(configAs(HUB_ACCESS, hub.config), testDeps("hub"));
    await using _hub = await startHub(client, {}, { ...testDeps("hub"), metrics }, stopping);
    await aborted(stopping);
  });
  program.start();
  for (const name of MEMBERS)
    await hub.client.create(MEMBER_CLUSTERS, {
      metadata: { name },
      spec: { identity: { kind: "User", name } },
    });
  await eventually(hub.client, INTERNAL_MEMBER_CLUSTERS, (all) => all.length === MEMBERS.length);
  for (const name of MEMBERS) {
    const metadata = { name, namespace: mailboxOf(name), labels: { [MEMBER_NAME_LABEL]: name } };
    const spec = { holderIdentity: name, renewTime: microTimestamp(BEGIN_MS) };
    await hub.client.create(LEASES, { metadata, spec });
    await report(name, 0);
  }
});
afterAll(async () => {
  await program.stop();
  await hub[Symbol.asyncDispose]();
});

/** As often as `at` says, and waits until the hub has taken it over. */
async function report(name: string, at: number): Promise<void> {
  const heartbeat = timestamp(BEGIN_MS + at * 60_000);
  const conditions = [
    {
      type: "Joined",
      status: "True",
      reason: "Joined",
      message: "",
      lastTransitionTime: timestamp(BEGIN_MS),
    },
  ] as const;
  const agentStatus = [{ type: "MemberAgent", conditions, lastReceivedHeartbeat: heartbeat }];
  const resourceUsage = {
    observationTime: heartbeat,
    allocatable: { cpu: "4" },
    available: { cpu: `${at % 4}` },
  };
  await hub.client.mergePatch(
    INTERNAL_MEMBER_CLUSTERS,
    objectKey(mailboxOf(name), name),
    { status: { agentStatus, resourceUsage } },
    { subresource: "status" },
  );
  await eventually(hub.client, MEMBER_CLUSTERS, (all) =>
    all.some(
      (it) => it.metadata.name === name && it.status?.agentStatus?.[0]?.lastReceivedHeartbeat === heartbeat,
    ),
  );
}

async function passesOf(controller: string): Promise<number> {
  const text = await metrics.render();
  const counts = text.matchAll(/^controller_runtime_reconcile_total\{controller="([^"]*)".*\} (\d+)/gm);
  return [...counts].reduce((sum, [, name, count]) => sum + (name === controller ? Number(count) : 0), 0);
}

describe("a fleet at rest", () => {
  it("has no pass over its networks because of heartbeats and of the usage of members, but one when a member changes", async () => {
    const before = await passesOf("clustermeshprofile");
    for (let at = 1; at <= 10; at += 1) for (const name of MEMBERS) await report(name, at);
    const label = { metadata: { labels: { changed: "true" } } };
    await hub.client.mergePatch(MEMBER_CLUSTERS, objectKey(undefined, "a"), label);
    await expect.poll(() => passesOf("clustermeshprofile")).toBeGreaterThan(before);
    // One pass may have been under way when the first heartbeat came, which makes another one due.
    expect((await passesOf("clustermeshprofile")) - before).toBeLessThanOrEqual(2);
  });

  it("has no pass over a member because it renews its Lease", async () => {
    await eventually(hub.client, MEMBER_CLUSTERS, (all) =>
      all.every((it) => isConditionTrue(it.status?.conditions, "Healthy")),
    );
    const before = await passesOf("membercluster");
    for (let at = 1; at <= 50; at += 1)
      for (const name of MEMBERS)
        await hub.client.mergePatch(LEASES, objectKey(mailboxOf(name), name), {
          spec: { renewTime: microTimestamp(BEGIN_MS + at * 5000) },
        });
    await report("a", 20);
    expect((await passesOf("membercluster")) - before).toBeLessThan(MEMBERS.length * 10);
  });
});
