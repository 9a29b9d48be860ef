import { systemClock } from "@fairlead/base/clock.ts";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemDeps } from "@fairlead/base/deps.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { createLogger } from "@fairlead/base/log.ts";
import {
  INTERNAL_MEMBER_CLUSTERS,
  MEMBER_CLUSTERS,
} from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { IMPORTED_SERVICES, NAMESPACE_REPORTS } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/types.ts";
import {
  ADDRESS_BLOCKS,
  CLUSTER_MESH_PROFILES,
  type ClusterMeshProfile,
  GATEWAYS,
  MESH_NETWORKS,
  RELEASED_AT_ANNOTATION,
  VIRTUAL_IPS,
} from "@fairlead/fleet/api/fairlead.dev/v1alpha1/mesh.ts";
import { MCS_SERVICE_IMPORTS } from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import { ENDPOINT_SLICE_IMPORTS } from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { applyPlan, createProfile, type Goal, planFor } from "@fairlead/fleet/cli/mesh/apply.ts";
import { checkMesh } from "@fairlead/fleet/cli/mesh/checks.ts";
import { readMesh } from "@fairlead/fleet/cli/mesh/read.ts";
import { renderPlan } from "@fairlead/fleet/cli/mesh/render.ts";
import { summarizeMesh } from "@fairlead/fleet/cli/mesh/status.ts";
import {
  KUBERNETES_PROPERTY,
  MEMBER_SUPPORT_PROPERTY,
  OTHER_MESH_PROPERTY,
} from "@fairlead/fleet/domain/cluster-facts.ts";
import { keyOfObject } from "@fairlead/fleet/domain/mesh-objects.ts";
import { DAEMON_SETS } from "@fairlead/kube/api/apps/v1/types.ts";
import { NAMESPACES, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { ENDPOINT_SLICES } from "@fairlead/kube/api/discovery/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { ROLE_BINDINGS, ROLES } from "@fairlead/kube/api/rbac/v1/types.ts";
import { findCondition } from "@fairlead/kube/objects/conditions.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { deploy, ensureNamespace, exportBy, startFleet, type TestFleet } from "../support/fleet.ts";
import { addNode, setProfile } from "../support/mesh.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";

/** Profiles that are applied by hand, through the functions of `fairlead mesh`. */

const MEMBERS = ["a", "b", "c", "d"];
const PROFILE = objectKey(undefined, "prod");
const signal = new AbortController().signal;
const deps = { ...systemDeps(createLogger("test", "silent")), progress: () => {} };

let fleet: TestFleet;
const hub = () => fleet.client("hub");

beforeAll(async () => {
  fleet = await startFleet({ members: MEMBERS });
  for (const [at, name] of MEMBERS.entries()) {
    const client = fleet.client(name);
    await ensureNamespace(client, "work");
    // Pods of d have addresses of c's.
    const podCIDR = `10.${Math.min(at, 2) + 1}.0.0/16`;
    await addNode(client, "n1", { address: `192.168.${at}.1`, podCIDR });
    await deploy(client, { name: `of-${name}`, addresses: [`10.${at + 1}.0.5`] });
    await exportBy("mcs", client, { name: `of-${name}` });
    // A global Service.
    await deploy(client, { name: "cart", addresses: [`10.${at + 1}.0.6`] });
    const annotations = { "service.cilium.io/global": "true" };
    await client.mergePatch(SERVICES, objectKey("work", "cart"), { metadata: { annotations } });
  }
  await allSee(MEMBERS);
}, 120_000);
afterAll(() => fleet[Symbol.asyncDispose]());

/** Until each of the members has the services of all of them, and no other ones. */
async function allSee(names: readonly string[]): Promise<void> {
  const wanted = ["cart", ...names.map((it) => `of-${it}`)].toSorted();
  for (const name of names) {
    await eventually(fleet.client(name), MCS_SERVICE_IMPORTS, (all) =>
      sameJson(all.map((it) => it.metadata.name).toSorted(), wanted),
    );
    await eventually(
      fleet.client(name),
      ENDPOINT_SLICES,
      (all) => all.filter((it) => it.metadata.name.endsWith("-global")).length === names.length - 1,
    );
  }
}

const ON_HUB: readonly Resource[] = [
  ADDRESS_BLOCKS,
  CLUSTER_MESH_PROFILES,
  GATEWAYS,
  IMPORTED_SERVICES,
  INTERNAL_MEMBER_CLUSTERS,
  ENDPOINT_SLICE_IMPORTS,
  MESH_NETWORKS,
  NAMESPACES,
  NAMESPACE_REPORTS,
  ROLE_BINDINGS,
  ROLES,
];
const ON_MEMBERS: readonly Resource[] = [
  ADDRESS_BLOCKS,
  DAEMON_SETS,
  ENDPOINT_SLICES,
  GATEWAYS,
  MCS_SERVICE_IMPORTS,
  MESH_NETWORKS,
  SERVICES,
];

/** Everything that is there, without what servers add, and of each status the clusters that it lists. */
async function everything(): Promise<ReadonlyMap<string, unknown>> {
  const objects = new Map<string, unknown>();
  const read = async (cluster: string, client: KubeClient, kinds: readonly Resource[]): Promise<void> => {
    for (const of of kinds)
      for (const it of (await client.list(of)).items) {
        const { metadata, status, ...rest } = it as KubeObject & { status?: { clusters?: unknown } };
        const { namespace = "", name } = metadata;
        const key = { cluster, isOnHub: cluster === "hub", kind: of.kind, namespace, name };
        objects.set(keyOfObject(key), { ...rest, clusters: status?.clusters ?? [] });
      }
  };
  await read("hub", hub(), ON_HUB);
  for (const name of MEMBERS) await read(name, fleet.client(name), ON_MEMBERS);
  return objects;
}

async function plan(goal: Goal = "selected") {
  const snapshot = await readMesh(hub(), signal);
  const profile = await hub().get(CLUSTER_MESH_PROFILES, PROFILE);
  return { snapshot, profile, plan: planFor(snapshot, profile, goal) };
}

async function apply(goal: Goal = "selected"): Promise<ClusterMeshProfile> {
  const { profile, plan: planned } = await plan(goal);
  const options = { wait: true, timeoutMs: 30_000 };
  return await applyPlan(hub(), { plan: planned, profile, options }, deps, signal);
}

/** Applies what is planned, and expects that it changes what it announced and nothing else. */
async function applyAsAnnounced(
  goal: Goal,
  sees: readonly (readonly string[])[],
): Promise<ClusterMeshProfile> {
  const announced = (await plan(goal)).plan.changes.map((it) => `${it.action} ${keyOfObject(it)}`);
  const before = await everything();
  const done = await apply(goal);
  for (const names of sees) await allSee(names);
  const changes = async (): Promise<string[]> => {
    const after = await everything();
    return [...new Set([...before.keys(), ...after.keys()])].flatMap((key) => {
      if (!before.has(key)) return [`create ${key}`];
      if (!after.has(key)) return [`delete ${key}`];
      return sameJson(before.get(key), after.get(key)) ? [] : [`update ${key}`];
    });
  };
  await expect.poll(changes, { timeout: 10_000 }).toEqual(expect.arrayContaining(announced));
  await expect
    .poll(async () => (await changes()).toSorted(), { timeout: 10_000 })
    .toEqual(announced.toSorted());
  return done;
}

describe("a continuous profile", () => {
  it("keeps its members when it becomes manual, by the command alone", async () => {
    const name = "auto";
    const key = objectKey(undefined, name);
    const spec = { memberSelector: { byLabel: "mesh=auto" }, apply: "Continuous" as const };
    await createProfile(hub(), { name, spec }, signal);
    for (const it of ["a", "b"]) await setProfile(hub(), it, name);
    const isConnected = ({ status }: ClusterMeshProfile) =>
      status?.state === "Connected" && status.memberStates?.length === 2;
    await eventuallyOne(hub(), CLUSTER_MESH_PROFILES, key, isConnected);
    const byHand = hub().mergePatch(CLUSTER_MESH_PROFILES, key, { spec: { apply: "Manual" } });
    await expect(byHand).rejects.toThrow("a profile that becomes Manual needs applied");
    const before = await everything();
    const { profile } = await createProfile(hub(), { name, spec: { apply: "Manual" } }, signal);
    expect(profile.spec.applied).toMatchObject({ members: ["a", "b"], memberSelector: "mesh=auto" });
    const { generation = 0 } = profile.metadata;
    await eventuallyOne(hub(), CLUSTER_MESH_PROFILES, key, ({ status }) => {
      const drift = findCondition(status?.conditions, "Drift");
      return drift?.status === "False" && (drift.observedGeneration ?? 0) >= generation;
    });
    const after = await everything();
    const changed = [...after].filter(([it, object]) => !sameJson(object, before.get(it)));
    expect(changed.map(([it]) => it)).toEqual([" ClusterMeshProfile /auto"]);
    await createProfile(hub(), { name, spec: { apply: "Continuous" } }, signal);
    for (const it of ["a", "b"]) await setProfile(hub(), it, null);
    await hub().delete(CLUSTER_MESH_PROFILES, key);
    await allSee(MEMBERS);
    await eventually(hub(), NAMESPACES, (all) => !all.some((it) => it.metadata.name === "fleet-view-auto"));
  }, 60_000);
});

describe("a parallel profile", () => {
  const KINDS: readonly Resource[] = [ADDRESS_BLOCKS, GATEWAYS, MESH_NETWORKS, VIRTUAL_IPS];
  /** As a plan names them: nodes decide about some names. */
  const nameOf = ({ kind, metadata: { name } }: KubeObject): string =>
    kind === GATEWAYS.kind ? name.replace(/-\d$/, "-*") : name.replace(/^node\..*/, "node.*");

  async function addresses(): Promise<ReadonlyMap<string, string>> {
    const found = new Map<string, string>();
    for (const cluster of ["hub", ...MEMBERS])
      for (const of of cluster === "hub" ? KINDS : KINDS.slice(0, 3))
        for (const it of (await fleet.client(cluster).list(of)).items) {
          const { namespace = "", annotations } = it.metadata;
          const object = { ...it, kind: of.kind };
          const at = { cluster, isOnHub: cluster === "hub", kind: of.kind, namespace, name: nameOf(object) };
          found.set(keyOfObject(at), annotations?.[RELEASED_AT_ANNOTATION] === undefined ? "used" : "kept");
        }
    return found;
  }

  it("shows the blocks, gateways and virtual addresses that come, and those that are kept when members leave", async () => {
    const name = "wide";
    const key = objectKey(undefined, name);
    const spec = { memberSelector: { byLabel: "mesh=wide" }, network: { mode: "parallel" as const } };
    await createProfile(hub(), { name, spec }, signal);
    for (const it of ["a", "b"]) await setProfile(hub(), it, name);
    const kinds = new Set(KINDS.map((it) => it.kind));
    const step = async (goal: Goal): Promise<void> => {
      const snapshot = await readMesh(hub(), signal);
      const profile = await hub().get(CLUSTER_MESH_PROFILES, key);
      const planned = planFor(snapshot, profile, goal);
      const announced = planned.changes
        .filter((it) => kinds.has(it.kind))
        .map((it) => `${it.action} ${keyOfObject(it)}`);
      const before = await addresses();
      const options = { wait: false, timeoutMs: 1000 };
      await applyPlan(hub(), { plan: planned, profile, options }, deps, signal);
      const changes = async (): Promise<string[]> => {
        const after = await addresses();
        const changed = [...new Set([...before.keys(), ...after.keys()])].flatMap((it) => {
          if (!before.has(it)) return [`create ${it}`];
          if (!after.has(it)) return [`delete ${it}`];
          return before.get(it) === after.get(it) ? [] : [`update ${it}`];
        });
        return changed.toSorted();
      };
      await expect.poll(changes, { timeout: 20_000 }).toEqual(announced.toSorted());
    };
    await step("selected");
    await step("none");
    await hub().delete(CLUSTER_MESH_PROFILES, key);
    for (const it of ["a", "b"]) await setProfile(hub(), it, null);
    await allSee(MEMBERS);
  }, 90_000);
});

describe("a profile that is applied by hand", () => {
  it("changes nothing on any cluster when it is created, and when labels select members", async () => {
    const before = await everything();
    const spec = { memberSelector: { byLabel: "mesh=prod" } };
    expect((await createProfile(hub(), { name: "prod", spec }, signal)).isNew).toBe(true);
    for (const name of ["a", "b"]) await setProfile(hub(), name, "prod");
    const profile = await eventuallyOne(
      hub(),
      CLUSTER_MESH_PROFILES,
      PROFILE,
      (it) => findCondition(it.status?.conditions, "Drift")?.message.includes("add a, b") === true,
    );
    expect(profile.status).toMatchObject({ state: "NotConnected", members: 0 });
    const after = new Map(await everything());
    after.delete(" ClusterMeshProfile /prod");
    expect([...after]).toEqual([...before]);
  });

  it("shows each object that will change, and changes exactly these", async () => {
    const { plan: planned, snapshot } = await plan();
    const rows = planned.rows.map(({ action, member, state }) => `${action} ${member} ${state}`);
    expect(rows).toEqual(["Add a NotConnected", "Add b NotConnected"]);
    const text = renderPlan(planned, snapshot.members, "text");
    expect(text).toContain("ACTION   CLUSTERRESOURCEID");
    expect(text).toContain(`Plan ${planned.target.operation}: ${planned.changes.length} objects change.`);
    const done = await applyAsAnnounced("selected", [
      ["a", "b"],
      ["c", "d"],
    ]);
    expect(done.status).toMatchObject({
      state: "Connected",
      lastAppliedMemberSelector: "mesh=prod",
      lastOperationId: planned.target.operation,
      memberStates: [
        { name: "a", state: "Connected" },
        { name: "b", state: "Connected" },
      ],
    });
    const status = summarizeMesh(done, await readMesh(hub(), signal), { version: "0.1.0", nowMs: 0 });
    expect(status.globalServices).toEqual(["work/cart", "work/of-a", "work/of-b"]);
    expect((await plan()).plan.changes).toEqual([]);
  });

  it("keeps its members when labels and settings change, until it is applied again, and goes back as announced", async () => {
    await setProfile(hub(), "a", null);
    await setProfile(hub(), "c", "prod");
    await hub().mergePatch(CLUSTER_MESH_PROFILES, PROFILE, {
      spec: { policyDefaultLocalCluster: false, policyCIDRMatchMode: ["nodes"] },
    });
    await eventuallyOne(hub(), CLUSTER_MESH_PROFILES, PROFILE, (it) => {
      const drift = findCondition(it.status?.conditions, "Drift");
      return drift?.message === '"fairlead mesh apply" would add c, remove a, change settings';
    });
    await allSee(["a", "b"]);
    const { plan: planned } = await plan();
    expect(planned.settings).toEqual(["policyDefaultLocalCluster", "policyCIDRMatchMode"]);
    await applyAsAnnounced("selected", [
      ["b", "c"],
      ["a", "d"],
    ]);
    const network = await fleet.client("b").get(MESH_NETWORKS, objectKey("fleet-system", "prod"));
    expect(network.spec).toMatchObject({ policyDefaultLocalCluster: false, policyCIDRMatchMode: ["nodes"] });
    await applyAsAnnounced("before", [
      ["a", "b"],
      ["c", "d"],
    ]);
  });

  it("cannot take a member of another profile, and names the one that has it", async () => {
    await createProfile(hub(), { name: "other", spec: { memberSelector: { byLabel: "mesh=prod" } } }, signal);
    const snapshot = await readMesh(hub(), signal);
    const other = await hub().get(CLUSTER_MESH_PROFILES, objectKey(undefined, "other"));
    const refused = planFor(snapshot, other, "selected");
    expect(refused.rows.map((it) => `${it.action} ${it.member}`)).toEqual(["Error b", "Add c"]);
    expect(refused.problems[0]).toContain("b: it belongs to profile prod");
    expect(renderPlan(refused, snapshot.members, "text")).toContain("The plan cannot be applied");
    await hub().delete(CLUSTER_MESH_PROFILES, objectKey(undefined, "other"));
  });

  it("is checked with what its members report of themselves", async () => {
    const { status } = await eventuallyOne(
      hub(),
      MEMBER_CLUSTERS,
      objectKey(undefined, "a"),
      (it) => it.status?.properties?.[KUBERNETES_PROPERTY] !== undefined,
    );
    expect(status?.properties?.[KUBERNETES_PROPERTY]?.value).toMatch(/^v1\./);
    expect(status?.properties?.[OTHER_MESH_PROPERTY]).toBeUndefined();
    expect(status?.properties?.[MEMBER_SUPPORT_PROPERTY]?.value).toMatch(/ for Kubernetes 1\.\d+-1\.\d+$/);
  });

  it("is checked before anything changes: pods with equal addresses cannot be in a flat network", async () => {
    const { snapshot, profile, plan: planned } = await plan();
    const target = { ...planned.target, members: ["c", "d"] };
    const found = checkMesh(profile, target, snapshot, { version: "0.1.0", nowMs: systemClock.now() }).filter(
      (it) => it.status === "failed",
    );
    expect(found.map((it) => it.check)).toEqual(["cidrs"]);
    expect(found[0]?.message).toContain("pod addresses of c (10.3.0.0/16)");
    const parallel = { ...target, network: { mode: "parallel" as const } };
    expect(
      checkMesh(profile, parallel, snapshot, { version: "0.1.0", nowMs: systemClock.now() }).filter(
        (it) => it.status === "failed",
      ),
    ).toEqual([]);
  });

  it("is not applied from a plan that is older than the profile", async () => {
    const { profile, plan: planned } = await plan();
    await hub().mergePatch(CLUSTER_MESH_PROFILES, PROFILE, { spec: { defaultGlobalNamespace: false } });
    const options = { wait: false, timeoutMs: 1000 };
    const late = applyPlan(hub(), { plan: planned, profile, options }, deps, signal);
    await expect(late).rejects.toSatisfy((error) => hasCode(error, "API_CONFLICT"));
  });

  it("cannot be deleted while it has members, and is when they are disconnected", async () => {
    const refused = hub().delete(CLUSTER_MESH_PROFILES, PROFILE);
    await expect(refused).rejects.toThrow("profile prod has 2 members");
    await applyAsAnnounced("none", [MEMBERS]);
    await hub().delete(CLUSTER_MESH_PROFILES, PROFILE);
    await eventually(hub(), NAMESPACES, (all) => !all.some((it) => it.metadata.name === "fleet-view-prod"));
  });
});
