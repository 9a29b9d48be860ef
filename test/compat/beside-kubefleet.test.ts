import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  INTERNAL_MEMBER_CLUSTERS,
  MEMBER_CLUSTERS,
} from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { HUB_CRDS, MEMBER_CRDS } from "@fairlead/fleet/api/crds.ts";
import { ENDPOINT_SLICES } from "@fairlead/kube/api/discovery/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import {
  ENDPOINT_SLICE_IMPORTS,
  FLEET_SERVICE_IMPORTS,
  MULTI_CLUSTER_SERVICES,
} from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { ROLE_BINDINGS, ROLES } from "@fairlead/kube/api/rbac/v1/types.ts";
import { startHub } from "@fairlead/fleet/hub/hub.ts";
import type { MemberRole } from "@fairlead/fleet/member/roles.ts";
import { startMember } from "@fairlead/fleet/member/member.ts";
import { installCrds } from "@fairlead/kube/definitions/crds.ts";
import { runAsLeader } from "@fairlead/kube/election/leader.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { configAs, userOf } from "../support/access.ts";
import {
  aborted,
  addressesOf,
  connectProgram,
  deploy,
  ensureNamespace,
  exportBy,
  Restartable,
  sliceOf,
  startCluster,
  type TestCluster,
  testDeps,
} from "../support/fleet.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";
import { KubeFleet } from "../support/kubefleet.ts";
import { OriginalMember } from "./original-member.ts";
import { ORIGINAL_HUB_NET, ORIGINAL_MCS, ORIGINAL_MEMBER_NET } from "./original-rights.ts";

/** Our hub's part of service networking together with KubeFleet's hub agent, with the permissions of the original charts. */

const AGENT = { name: "agent-of-east", cluster: [], system: [] };
const hello = objectKey("work", "hello");
const WEST = { namespace: "fleet-member-west" };
let stack: AsyncDisposableStack;
let hub: TestCluster;
let east: TestCluster;
let west: OriginalMember;
let westAgent: Restartable;
let kubefleet: KubeFleet;

beforeAll(async () => {
  stack = new AsyncDisposableStack();
  hub = stack.use(await startCluster("hub", [ORIGINAL_HUB_NET, AGENT]));
  east = stack.use(await startCluster("east", [ORIGINAL_MEMBER_NET, ORIGINAL_MCS]));
  const by = { fieldManager: "test" };
  const signal = AbortSignal.timeout(20_000);
  await installCrds(hub.client, { crds: HUB_CRDS, ...by }, testDeps("test"), signal);
  await installCrds(east.client, { crds: MEMBER_CRDS, ...by }, testDeps("test"), signal);
  await ensureNamespace(hub.client, "work");
  kubefleet = new KubeFleet(hub.client);
  run((stopping) => kubefleet.run(stopping));
  for (const [name, user] of [
    ["east", userOf(AGENT)],
    ["west", "west"],
  ] as const) {
    const identity = { kind: "User", apiGroup: "rbac.authorization.k8s.io", name: user } as const;
    await hub.client.create(MEMBER_CLUSTERS, {
      metadata: { name },
      spec: { identity, heartbeatPeriodSeconds: 1 },
    });
    await eventuallyOne(hub.client, INTERNAL_MEMBER_CLUSTERS, objectKey(`fleet-member-${name}`, name));
  }
  run(async (stopping) => {
    await using client = connectProgram(configAs(ORIGINAL_HUB_NET, hub.config), testDeps("hub"));
    await using _hub = await startHub(
      client,
      { isBesideOthers: true, forceDeleteSeconds: 1 },
      testDeps("hub"),
      stopping,
    );
    await aborted(stopping);
  });
  runMember("member-net", ORIGINAL_MEMBER_NET);
  runMember("mcs", ORIGINAL_MCS);
  west = new OriginalMember(hub.client, "west");
  westAgent = stack.use(new Restartable((stopping) => west.run(stopping)));
  westAgent.start();
});
afterAll(() => stack.disposeAsync());

function run(program: (stopping: AbortSignal) => Promise<void>): void {
  stack.use(new Restartable(program)).start();
}

function runMember(role: MemberRole, access: typeof ORIGINAL_MCS): void {
  run(async (stopping) => {
    const deps = testDeps(`east-${role}`);
    const part = { roles: new Set([role]), isNetworking: true, isFleetOnly: true };
    await using local = connectProgram(configAs(access, east.config), deps);
    await using toHub = connectProgram(configAs(AGENT, hub.config), deps);
    await using _member = await startMember(
      { cluster: "east", local, hub: toHub, deps, part, probe: () => Promise.resolve("connected") },
      stopping,
    );
    await aborted(stopping);
  });
}

const behindEast = (addresses: readonly string[]) =>
  eventually(east.client, ENDPOINT_SLICES, (all) => addressesOf(all).join() === addresses.join(), {
    namespace: "fleet-system",
  });
const untilWest = (addresses: readonly string[]) =>
  eventually(
    hub.client,
    ENDPOINT_SLICE_IMPORTS,
    (all) =>
      [...west.imported.values()].flat().toSorted().join() === addresses.join() &&
      all.every(
        (it) =>
          it.metadata.annotations?.["networking.fleet.azure.com/last-observed-generation"] ===
          String(it.metadata.generation),
      ),
    WEST,
  );

async function managersOf(of: Resource, client: KubeClient): Promise<string[]> {
  const { items } = await client.list<KubeObject>(of);
  const ofMembers = items.filter((it) =>
    [it.metadata.name, it.metadata.namespace].some((text) =>
      /^(fleet-member-.*|east|west)$/.test(text ?? ""),
    ),
  );
  expect(ofMembers.length).toBeGreaterThan(1);
  return ofMembers.flatMap((it) => (it.metadata.managedFields ?? []).map((entry) => entry.manager ?? ""));
}

describe("our hub's controllers together with KubeFleet's hub agent", () => {
  it("carry exports of Fairlead members and legacy members to the load balancer of a Fairlead member", async () => {
    await deploy(east.client, { addresses: ["10.1.0.1"] });
    await exportBy("fleet", east.client);
    west.exports.set("work/hello", ["10.2.0.1"]);
    west.changed();
    await east.client.create(MULTI_CLUSTER_SERVICES, {
      metadata: { namespace: "work", name: "lb" },
      spec: { serviceImport: { name: "hello" } },
    });
    await behindEast(["10.1.0.1", "10.2.0.1"]);
    const service = await hub.client.get(FLEET_SERVICE_IMPORTS, hello);
    expect(service.status?.clusters).toEqual([{ cluster: "east" }, { cluster: "west" }]);
  });

  it("carry them to a legacy member when that is the next importer", async () => {
    west.wanted.add("work/hello");
    west.changed();
    await east.client.delete(MULTI_CLUSTER_SERVICES, objectKey("work", "lb"));
    await untilWest(["10.1.0.1", "10.2.0.1"]);
  });

  it("write nothing that KubeFleet manages, so that neither reverts what the other wrote", async () => {
    // For each member: a finalizer, a namespace, a role, its binding and the InternalMemberCluster.
    expect(kubefleet.writes).toBe(10);
    await east.client.mergePatch(ENDPOINT_SLICES, objectKey("work", "hello-abcde"), {
      endpoints: sliceOf({ addresses: ["10.1.0.2"] }).endpoints,
    });
    await untilWest(["10.1.0.2", "10.2.0.1"]);
    expect(kubefleet.writes).toBe(10);
    for (const kind of [NAMESPACES, ROLES, ROLE_BINDINGS, MEMBER_CLUSTERS, INTERNAL_MEMBER_CLUSTERS])
      expect(await managersOf(kind, hub.client)).not.toContain("fairlead-hub");
    const internalMember = await hub.client.get(
      INTERNAL_MEMBER_CLUSTERS,
      objectKey("fleet-member-east", "east"),
    );
    expect(internalMember.spec).toEqual({ state: "Join", heartbeatPeriodSeconds: 1 });
    expect((await hub.client.list(NAMESPACES)).items.map((it) => it.metadata.name)).not.toContain(
      "fleet-view-default",
    );
  });

  it("remove the imports of a member that left and did not withdraw in time", async () => {
    await westAgent.stop();
    await hub.client.delete(MEMBER_CLUSTERS, objectKey(undefined, "west"));
    await eventually(hub.client, MEMBER_CLUSTERS, (all) => all.every((it) => it.metadata.name !== "west"));
    expect((await hub.client.list(ENDPOINT_SLICE_IMPORTS, WEST)).items).toEqual([]);
    await eventuallyOne(hub.client, FLEET_SERVICE_IMPORTS, hello, (it) => it.status?.clusters?.length === 1);
  });

  it("are elected, and work without every permission that the original charts do not grant", async () => {
    for (const [access, { config }] of [
      [ORIGINAL_HUB_NET, hub],
      [ORIGINAL_MEMBER_NET, east],
      [ORIGINAL_MCS, east],
    ] as const) {
      await using client = connectProgram(configAs(access, config), testDeps("leader"));
      const options = { namespace: "fleet-system", name: access.name, identity: "me" };
      const parts = { client, options, deps: testDeps("leader") };
      await runAsLeader(parts, AbortSignal.timeout(20_000), () => Promise.resolve());
    }
    const refused = (cluster: TestCluster): string[] =>
      [...new Set(cluster.asked.refused().map((it) => `${it.verb} ${it.resource}`))].toSorted();
    expect(refused(hub)).toEqual([
      "create namespaces",
      "watch addressblocks",
      "watch clustermeshprofiles",
      "watch importedservices",
      "watch namespacereports",
      "watch namespaces",
      "watch virtualips",
    ]);
    expect(refused(east)).toEqual([
      "get namespaces",
      "watch namespaces",
      "watch serviceexports",
      "watch serviceimports",
    ]);
  });
});
