/** A member that leaves a fleet whose hub is gone. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { SECRETS, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import {
  ENDPOINT_SLICES,
  MANAGED_BY_LABEL as SLICE_MANAGER_LABEL,
} from "@fairlead/kube/api/discovery/v1/types.ts";
import { DAEMON_SETS } from "@fairlead/kube/api/apps/v1/types.ts";
import { MESH_NETWORKS } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/mesh.ts";
import { NODE_AGENTS } from "@fairlead/fleet/api/fairlead.dev/node-agents.ts";
import { imageOf, isRemoval, nodeDaemonSet } from "@fairlead/fleet/domain/node-daemon-set.ts";
import {
  ACTIVE_CONDITION,
  HUB_SECRET,
  MANAGED_BY,
  MANAGED_BY_LABEL,
} from "@fairlead/fleet/api/fairlead.dev/names.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Condition, KubeObject } from "@fairlead/kube/api/meta/types.ts";
import {
  MCS_SERVICE_EXPORTS,
  MCS_SERVICE_IMPORTS,
} from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import { FINALIZERS } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import {
  FLEET_SERVICE_IMPORTS,
  MULTI_CLUSTER_SERVICES,
} from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { FLEET_SERVICE_EXPORTS } from "@fairlead/fleet/api/networking.fleet.azure.com/v1beta1/types.ts";
import { leaveFleet, type LeaveOptions } from "@fairlead/fleet/cli/fleet/leave.ts";
import { deploy, exportBy, PATIENCE_MS, startFleet, testDeps, type TestFleet } from "../support/fleet.ts";
import { eventuallyOne } from "../support/waiting.ts";

const NAME = "a";
const hello = objectKey("work", "hello");
const secretKey = objectKey("fleet-system", HUB_SECRET);

let fleet: TestFleet;
beforeAll(async () => {
  fleet = await startFleet({ members: [NAME, "b"] });
  const [a, b] = [fleet.client(NAME), fleet.client("b")];
  await deploy(a, { addresses: ["10.1.0.1"] });
  await deploy(b, { addresses: ["10.2.0.1"] });
  for (const api of ["fleet", "mcs"] as const) for (const client of [a, b]) await exportBy(api, client);
  await a.create(MULTI_CLUSTER_SERVICES, {
    metadata: { namespace: "work", name: "front" },
    spec: { serviceImport: { name: "hello" } },
  });
  await eventuallyOne(a, MCS_SERVICE_IMPORTS, hello, (it) => it.status?.clusters?.length === 2);
  await eventuallyOne(a, MULTI_CLUSTER_SERVICES, objectKey("work", "front"), (it) =>
    (it.status?.conditions ?? []).some((one) => one.type === "Valid" && one.status === "True"),
  );
  // As a legacy agent leaves it on objects that it managed.
  for (const [of, key, finalizer] of [
    [FLEET_SERVICE_EXPORTS, hello, FINALIZERS.serviceExport],
    [MULTI_CLUSTER_SERVICES, objectKey("work", "front"), FINALIZERS.multiClusterService],
    [FLEET_SERVICE_IMPORTS, hello, FINALIZERS.serviceImport],
  ] as const)
    await a.mergePatch<KubeObject>(of, key, { metadata: { finalizers: [finalizer] } });
  await fleet.hub.server.close();
});
afterAll(() => fleet[Symbol.asyncDispose]());

/** @returns What it told. */
async function leave(more: Partial<LeaveOptions>): Promise<readonly string[]> {
  const reported: string[] = [];
  await leaveFleet(
    {
      name: NAME,
      hub: fleet.hub.config,
      member: fleet.members.get(NAME)!.config,
      timeoutMs: PATIENCE_MS,
      ...more,
    },
    { ...testDeps("leave"), progress: ({ step }) => reported.push(step) },
    AbortSignal.timeout(PATIENCE_MS),
  );
  return reported;
}

const conditionsOf = (it: { status?: { conditions?: Condition[] } } | undefined): readonly string[] =>
  (it?.status?.conditions ?? []).map(({ type, status, reason }) => `${type} ${status} ${reason}`).toSorted();

describe("fairlead leave without a hub", () => {
  it("changes nothing without --force, and the error names that flag", async () => {
    await expect(leave({})).rejects.toMatchObject({
      code: "API_UNAVAILABLE",
      message: expect.stringContaining("pass --force to clean up the member without it") as string,
    });
    expect(await fleet.client(NAME).find(SECRETS, secretKey)).toBeDefined();
  });

  it("changes nothing in a cluster that is another member", async () => {
    await expect(leave({ name: "b", force: true })).rejects.toMatchObject({
      code: "OPTION_INVALID",
      message: "the cluster of --member-context is member a, not b; check the name and the context",
    });
    expect(await fleet.client(NAME).find(SECRETS, secretKey)).toBeDefined();
  });

  it("by force removes everything that came from the fleet, keeps users' objects, and reports what stays on the hub", async () => {
    const a = fleet.client(NAME);
    const reported = await leave({ force: true });
    expect(reported).toHaveLength(2);
    expect(reported[0]).toMatch(
      /^cleaned up without the hub: MemberCluster a and namespace fleet-member-a remain there.*"fairlead leave a --force"/,
    );
    expect(reported[1]).toBe("a has left the fleet");

    expect(await a.find(SECRETS, secretKey)).toBeUndefined();
    expect((await a.list(MCS_SERVICE_IMPORTS)).items).toEqual([]);
    expect((await a.list(FLEET_SERVICE_IMPORTS)).items).toEqual([]);
    expect((await a.list(ENDPOINT_SLICES, { labelSelector: SLICE_MANAGER_LABEL })).items).toEqual([]);
    const services = (await a.list(SERVICES)).items.map((it) => it.metadata.name);
    expect(services.toSorted()).toEqual(["hello", "kubernetes"]);

    expect(conditionsOf(await a.find(FLEET_SERVICE_EXPORTS, hello))).toEqual([
      "Valid True ServiceIsValid",
      `${ACTIVE_CONDITION} False LeftFleet`,
    ]);
    expect(conditionsOf(await a.find(MCS_SERVICE_EXPORTS, hello))).toEqual([
      "Ready False Pending",
      "Valid True Valid",
      `${ACTIVE_CONDITION} False LeftFleet`,
    ]);
    const front = await a.find(MULTI_CLUSTER_SERVICES, objectKey("work", "front"));
    expect(conditionsOf(front)).toEqual([
      "Valid Unknown UnknownServiceImport",
      `${ACTIVE_CONDITION} False LeftFleet`,
    ]);
    expect(front?.metadata.labels ?? {}).toEqual({});
  });

  it("removes finalizers from users' objects, because no agent remains to do so", async () => {
    const a = fleet.client(NAME);
    for (const [of, key] of [
      [FLEET_SERVICE_EXPORTS, hello],
      [MULTI_CLUSTER_SERVICES, objectKey("work", "front")],
    ] as const) {
      await a.delete<KubeObject>(of, key);
      expect(await a.find<KubeObject>(of, key)).toBeUndefined();
    }
  });

  it("can run again without a context of the hub, and deletes the exports on request", async () => {
    const a = fleet.client(NAME);
    expect(await a.find(MCS_SERVICE_EXPORTS, hello)).toBeDefined();
    expect(await leave({ hub: undefined, deleteExports: true })).toContain(
      "deleted the exports and MultiClusterServices of a",
    );
    expect(await a.find(MCS_SERVICE_EXPORTS, hello)).toBeUndefined();
  });

  it("has the node agents remove the parallel network before it deletes them, and says what is left if they do not", async () => {
    const a = fleet.client(NAME);
    const labels = { [MANAGED_BY_LABEL]: MANAGED_BY };
    await a.create(MESH_NETWORKS, {
      metadata: { namespace: "fleet-system", name: "p", labels },
      spec: {
        mode: "parallel",
        ipv4: "10.112.0.0/12",
        ipv6: "fd00:112::/48",
        vipIPv4: "10.127.0.0/16",
        vipIPv6: "fd00:112:0:ff00::/64",
        keyEpoch: 1,
      },
    });
    const wanted = { image: "registry.example/fairlead:0.2.0", isRemoving: false };
    await a.apply(DAEMON_SETS, nodeDaemonSet(wanted), { fieldManager: "fairlead-member" });
    const key = objectKey("fleet-system", NODE_AGENTS);
    const left = (await leave({ force: true, timeoutMs: 200 })).at(-2) ?? "";
    expect(left).toContain(
      "DaemonSet fleet-system/fairlead-node still removes the parallel network from nodes",
    );
    expect(left).toContain("run the same command again");
    expect((await a.list(MESH_NETWORKS)).items).toEqual([]);
    const daemonSet = await a.get(DAEMON_SETS, key);
    expect(isRemoval(daemonSet)).toBe(true);
    expect(imageOf(daemonSet)).toBe(wanted.image);

    const again = leave({ force: true });
    const count = {
      desiredNumberScheduled: 2,
      currentNumberScheduled: 2,
      updatedNumberScheduled: 2,
      numberMisscheduled: 0,
      numberReady: 2,
      numberAvailable: 2,
    };
    const status = { observedGeneration: daemonSet.metadata.generation ?? 0, ...count };
    await a.mergePatch(DAEMON_SETS, key, { status }, { subresource: "status" });
    expect(await again).toHaveLength(2);
    expect(await a.find(DAEMON_SETS, key)).toBeUndefined();
  });

  it("requires a context of the member if there is no hub to identify it by", async () => {
    await expect(leave({ hub: undefined, member: undefined, force: true })).rejects.toMatchObject({
      code: "OPTION_INVALID",
      message: "cannot remove a without its hub: pass --member-context",
    });
  });
});
