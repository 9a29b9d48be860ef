import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { NAMESPACES, SECRETS, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import {
  ENDPOINT_SLICES,
  MANAGED_BY_LABEL as SLICE_MANAGER_LABEL,
} from "@fairlead/kube/api/discovery/v1/types.ts";
import { HUB_SECRET } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import {
  MCS_SERVICE_EXPORTS,
  MCS_SERVICE_IMPORTS,
} from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import { FLEET_SERVICE_IMPORTS } from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { FLEET_SERVICE_EXPORTS } from "@fairlead/fleet/api/networking.fleet.azure.com/v1beta1/types.ts";
import { joinCluster, planJoin } from "@fairlead/fleet/cli/fleet/join.ts";
import { leaveFleet } from "@fairlead/fleet/cli/fleet/leave.ts";
import { renderPlan } from "@fairlead/fleet/cli/fleet/render-plan.ts";
import { renderStatus } from "@fairlead/fleet/cli/fleet/render-status.ts";
import { readFleet, summarizeFleet } from "@fairlead/fleet/cli/fleet/status.ts";
import {
  deploy,
  ensureNamespace,
  exportBy,
  PATIENCE_MS,
  startFleet,
  testDeps,
  type TestFleet,
} from "../support/fleet.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";

let fleet: TestFleet;
beforeAll(async () => {
  fleet = await startFleet({ members: ["a", "b"] });
});
afterAll(() => fleet[Symbol.asyncDispose]());

const secretKey = objectKey("fleet-system", HUB_SECRET);
const hello = objectKey("work", "hello");

/** What the last joins found out before they changed anything. */
const found: string[] = [];

async function join(name: string, member: string, more: { server?: string; timeoutMs?: number } = {}) {
  const hub = more.server === undefined ? fleet.hub.config : { ...fleet.hub.config, server: more.server };
  const config = member === "hub" ? fleet.hub.config : fleet.members.get(member)!.config;
  const options = { name, hub, member: config, timeoutMs: more.timeoutMs ?? PATIENCE_MS };
  const deps = {
    ...testDeps("join"),
    onFinding: (it: { readonly message: string }) => void found.push(it.message),
  };
  return joinCluster(options, deps, AbortSignal.timeout(PATIENCE_MS));
}

describe("fairlead join", () => {
  it("done again for the same cluster changes nothing but the token", async () => {
    const before = await fleet.client("hub").get(MEMBER_CLUSTERS, objectKey(undefined, "a"));
    await join("a", "a");
    const after = await fleet.client("hub").get(MEMBER_CLUSTERS, objectKey(undefined, "a"));
    expect(after.metadata.uid).toBe(before.metadata.uid);
  });

  it.each([
    ["a bad name", "Not_A_Name", "a", /is not a valid member name/],
    ["a name that another cluster has", "a", "b", /another cluster named a; choose another name/],
    ["a second name for a cluster", "c", "a", /already a member, as a; run "fairlead leave a" first/],
  ])("refuses %s, and says what to do", async (_, name, member, message) => {
    await expect(join(name, member)).rejects.toMatchObject({ code: "OPTION_INVALID", message });
  });

  it("prints its plan, for a new member and for one that has joined, and changes nothing", async () => {
    const install = {
      image: "example.org/fairlead:1",
      imagePullPolicy: "IfNotPresent",
      replicas: 2,
      dns: true,
    } as const;
    const { server } = fleet.hub.config;
    for (const [name, member] of [
      ["new", fleet.hub.config],
      ["a", fleet.members.get("a")!.config],
    ] as const) {
      const options = { name, hub: fleet.hub.config, member, install };
      const plan = await planJoin(options, testDeps("join"), AbortSignal.timeout(PATIENCE_MS));
      await expect(renderPlan(plan).replaceAll(server, "https://hub")).toMatchFileSnapshot(
        `goldens/join-dry-run-${name}.txt`,
      );
    }
    expect(await fleet.client("hub").find(MEMBER_CLUSTERS, objectKey(undefined, "new"))).toBeUndefined();
  });

  it("reports the address of a hub that does not answer", async () => {
    await expect(join("c", "a", { server: "https://127.0.0.1:1" })).rejects.toMatchObject({
      code: "API_UNAVAILABLE",
      message: expect.stringContaining("the hub at https://127.0.0.1:1 does not answer") as string,
    });
  });

  it("rolls back when the member's agent never reports", async () => {
    // The hub's own cluster has no agent that would report for this member.
    await expect(join("absent", "hub", { timeoutMs: 1500 })).rejects.toMatchObject({
      code: "TIMED_OUT",
      message: expect.stringContaining('check that "fairlead member" runs in the cluster') as string,
    });
    const same = "the hub and absent are the same cluster, which becomes a member of its own fleet";
    expect(found.filter((it) => it.includes("are the same cluster"))).toEqual([same]);
    const hub = fleet.client("hub");
    await eventually(hub, MEMBER_CLUSTERS, (all) => !all.some((it) => it.metadata.name === "absent"));
    await eventually(hub, NAMESPACES, (all) => !all.some((it) => it.metadata.name === "fleet-member-absent"));
    expect(await hub.find(SECRETS, secretKey)).toBeUndefined();
  });
});

describe("fairlead leave", () => {
  it("withdraws the member on both sides, keeps users' objects, and allows it to join again", async () => {
    const [a, b, hub] = [fleet.client("a"), fleet.client("b"), fleet.client("hub")];
    await ensureNamespace(b, "work");
    await deploy(a, { addresses: ["10.1.0.1"] });
    await deploy(b, { addresses: ["10.2.0.1"] });
    await exportBy("fleet", a);
    await exportBy("mcs", b);
    await eventuallyOne(a, MCS_SERVICE_IMPORTS, hello, (it) => it.status?.clusters?.length === 2);
    await eventuallyOne(b, MCS_SERVICE_IMPORTS, hello, (it) => it.status?.clusters?.length === 2);
    const options = {
      name: "a",
      hub: fleet.hub.config,
      member: fleet.members.get("a")!.config,
      timeoutMs: PATIENCE_MS,
    };
    await leaveFleet(options, testDeps("leave"), AbortSignal.timeout(PATIENCE_MS));
    expect(await hub.find(MEMBER_CLUSTERS, objectKey(undefined, "a"))).toBeUndefined();
    await eventually(hub, NAMESPACES, (all) => !all.some((it) => it.metadata.name === "fleet-member-a"));
    await eventuallyOne(hub, FLEET_SERVICE_IMPORTS, hello, (it) => it.status?.clusters?.length === 1);
    await eventuallyOne(b, MCS_SERVICE_IMPORTS, hello, (it) => it.status?.clusters?.length === 1);
    expect(await a.find(SECRETS, secretKey)).toBeUndefined();
    expect((await a.list(MCS_SERVICE_IMPORTS)).items).toEqual([]);
    expect((await a.list(ENDPOINT_SLICES, { labelSelector: SLICE_MANAGER_LABEL })).items).toEqual([]);
    const services = (await a.list(SERVICES, { namespace: "work" })).items.map((it) => it.metadata.name);
    expect(services).toEqual(["hello"]);
    expect(await a.find(FLEET_SERVICE_EXPORTS, hello)).toBeDefined();

    await join("a", "a");
    await eventuallyOne(b, MCS_SERVICE_IMPORTS, hello, (it) => it.status?.clusters?.length === 2);
    await eventuallyOne(a, MCS_SERVICE_IMPORTS, hello, (it) => it.status?.clusters?.length === 2);
  }, 60_000);

  it("of an unknown member reports that", async () => {
    const options = { name: "absent", hub: fleet.hub.config, member: undefined, force: true };
    await expect(
      leaveFleet(options, testDeps("leave"), AbortSignal.timeout(PATIENCE_MS)),
    ).rejects.toMatchObject({
      code: "OPTION_INVALID",
      message: 'the fleet has no member named "absent"; see "fairlead status"',
    });
  });

  it("changes nothing in a cluster that is not the named member", async () => {
    const options = {
      name: "b",
      hub: fleet.hub.config,
      member: fleet.members.get("a")!.config,
      timeoutMs: PATIENCE_MS,
    };
    await expect(
      leaveFleet(options, testDeps("leave"), AbortSignal.timeout(PATIENCE_MS)),
    ).rejects.toMatchObject({
      code: "OPTION_INVALID",
      message: expect.stringContaining("the cluster of --member-context is not b") as string,
    });
    expect(await fleet.client("a").find(SECRETS, secretKey)).toBeDefined();
    const left = await fleet.client("hub").get(MEMBER_CLUSTERS, objectKey(undefined, "b"));
    expect(left.metadata.deletionTimestamp).toBeUndefined();
  });

  it("by force does not wait for an agent that is gone", async () => {
    await fleet.agents.get("b")!.stop();
    const options = {
      name: "b",
      hub: fleet.hub.config,
      member: undefined,
      force: true,
      timeoutMs: PATIENCE_MS,
    };
    await leaveFleet(options, testDeps("leave"), AbortSignal.timeout(PATIENCE_MS));
    await eventuallyOne(
      fleet.client("a"),
      MCS_SERVICE_IMPORTS,
      hello,
      (it) => it.status?.clusters?.length === 1,
    );
    expect(await fleet.client("b").find(MCS_SERVICE_EXPORTS, hello)).toBeDefined();
  }, 60_000);
});

describe("fairlead status", () => {
  it("shows clusters, services and the time of their last sync", async () => {
    const status = summarizeFleet(await readFleet(fleet.client("hub"), AbortSignal.timeout(PATIENCE_MS)));
    expect(status).toMatchObject({
      clusters: [{ name: "a", joined: "True", exports: 1, imports: 1, endpoints: 1 }],
      services: [
        {
          namespace: "work",
          name: "hello",
          type: "ClusterSetIP",
          ports: ["http:TCP/80"],
          exports: [{ cluster: "a", doors: ["fleet"], conflicts: [], endpoints: 1 }],
          importedBy: ["a"],
        },
      ],
    });
    const text = renderStatus(status, "text", Date.now());
    expect(text).toMatch(/^CLUSTER +JOINED +HEALTHY +EXPORTS +IMPORTS +ENDPOINTS +LAST SYNC +AGE\na +True/);
    expect(renderStatus(status, "name", 0)).toBe(
      "membercluster.cluster.kubernetes-fleet.io/a\nserviceimport.networking.fleet.azure.com/work/hello",
    );
  });
});
