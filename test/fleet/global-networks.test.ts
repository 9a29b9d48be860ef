/** Global Services next to exports by other APIs, in two networks of one fleet, and when a cluster dies. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { CLUSTER_MESH_PROFILES, MESH_NETWORKS } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/mesh.ts";
import { IMPORTED_SERVICES } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/types.ts";
import { MCS_SERVICE_IMPORTS } from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import {
  INTERNAL_SERVICE_EXPORTS,
  MULTI_CLUSTER_SERVICES,
} from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import {
  ENDPOINT_SLICES,
  type EndpointSlice,
  SERVICE_NAME_LABEL,
} from "@fairlead/kube/api/discovery/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { findCondition } from "@fairlead/kube/objects/conditions.ts";
import {
  addressesOf,
  deploy,
  ensureNamespace,
  exportBy,
  startFleet,
  type TestFleet,
} from "../support/fleet.ts";
import { createProfile, setProfile } from "../support/mesh.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";

/** By network. */
const NETWORKS = { p: ["a", "b"], q: ["c", "d"] } as const;
const CLUSTERS = ["a", "b", "c", "d"] as const;
type Cluster = (typeof CLUSTERS)[number];
const POD: Readonly<Record<Cluster, string>> = { a: "10.1.0.1", b: "10.2.0.1", c: "10.3.0.1", d: "10.4.0.1" };
const GLOBAL = { "service.cilium.io/global": "true" };

let fleet: TestFleet;
/** Clusters whose pods answer no probe. */
const dead = new Set<string>();

beforeAll(async () => {
  fleet = await startFleet({
    members: CLUSTERS,
    leaseSeconds: 2,
    probe: () => (address) =>
      Promise.resolve(CLUSTERS.some((it) => dead.has(it) && POD[it] === address) ? "silent" : "connected"),
  });
  for (const [profile, members] of Object.entries(NETWORKS)) {
    await createProfile(fleet.client("hub"), profile, { network: { mode: "flat" } });
    for (const member of members) await setProfile(fleet.client("hub"), member, profile);
    for (const member of members)
      await eventuallyOne(fleet.client(member), MESH_NETWORKS, objectKey("fleet-system", profile));
  }
}, 90_000);
afterAll(() => fleet[Symbol.asyncDispose]());

async function run(
  cluster: Cluster,
  namespace: string,
  annotations: Record<string, string> = GLOBAL,
): Promise<void> {
  const client = fleet.client(cluster);
  await deploy(client, { namespace, addresses: [POD[cluster]] });
  await client.mergePatch(SERVICES, objectKey(namespace, "hello"), { metadata: { annotations } });
}

function ofService(slices: readonly EndpointSlice[]): readonly EndpointSlice[] {
  return slices.filter((it) => it.metadata.labels?.[SERVICE_NAME_LABEL] === "hello");
}

async function untilUsed(
  namespace: string,
  expected: Partial<Record<Cluster, readonly Cluster[]>>,
): Promise<void> {
  for (const [cluster, used] of Object.entries(expected))
    await eventually(
      fleet.client(cluster),
      ENDPOINT_SLICES,
      (slices) => addressesOf(ofService(slices)).join() === used.map((it) => POD[it]).join(),
      { namespace },
    );
}

describe("two networks of a fleet", () => {
  it("see nothing of each other's global Services, also where they have the same name", async () => {
    for (const cluster of CLUSTERS) await run(cluster, "shop");
    await untilUsed("shop", { a: ["a", "b"], b: ["a", "b"], c: ["c", "d"], d: ["c", "d"] });
    for (const [profile, members] of Object.entries(NETWORKS)) {
      const { items } = await fleet
        .client("hub")
        .list(IMPORTED_SERVICES, { namespace: `fleet-view-${profile}` });
      expect(items.flatMap((it) => it.spec.clusters.map((one) => one.cluster)).toSorted()).toEqual(members);
    }
  }, 60_000);

  it("have their own default for namespaces, which a change of the profile puts into effect at once", async () => {
    for (const cluster of CLUSTERS) await run(cluster, "quiet");
    await untilUsed("quiet", { a: ["a", "b"], c: ["c", "d"] });
    const setDefault = (defaultGlobalNamespace: boolean | null) =>
      fleet
        .client("hub")
        .mergePatch(CLUSTER_MESH_PROFILES, objectKey(undefined, "q"), { spec: { defaultGlobalNamespace } });
    await setDefault(false);
    await untilUsed("quiet", { c: ["c"], d: ["d"], a: ["a", "b"], b: ["a", "b"] });
    const { status } = await eventuallyOne(
      fleet.client("c"),
      SERVICES,
      objectKey("quiet", "hello"),
      (it) => findCondition(it.status?.conditions, "fairlead.dev/GlobalService")?.status === "False",
    );
    expect(status?.conditions?.[0]?.reason).toBe("NamespaceNotGlobal");
    await setDefault(null);
    await untilUsed("quiet", { c: ["c", "d"], d: ["c", "d"] });
  }, 60_000);
});

describe("a global Service", () => {
  it("is imported through the other APIs as well, and counts once if it is exported several times", async () => {
    const namespace = "open";
    await run("a", namespace);
    await ensureNamespace(fleet.client("b"), namespace);
    const untilImported = () =>
      eventuallyOne(
        fleet.client("b"),
        MCS_SERVICE_IMPORTS,
        objectKey(namespace, "hello"),
        (it) => it.status?.clusters?.map((one) => one.cluster).join() === "a" && it.spec?.ips?.length === 1,
      );
    await untilImported();
    const untilDerived = () =>
      eventually(
        fleet.client("b"),
        ENDPOINT_SLICES,
        (slices) => addressesOf(slices).join() === POD.a && ofService(slices).length === 0,
        { namespace },
      );
    await untilDerived();
    // No Service of that name, and no slices of it, in a cluster without them.
    expect(await fleet.client("b").find(SERVICES, objectKey(namespace, "hello"))).toBeUndefined();
    await fleet.client("b").create(MULTI_CLUSTER_SERVICES, {
      metadata: { namespace, name: "hello" },
      spec: { serviceImport: { name: "hello" } },
    });
    await eventually(fleet.client("b"), ENDPOINT_SLICES, (slices) => addressesOf(slices).join() === POD.a, {
      namespace: "fleet-system",
    });
    for (const api of ["mcs", "fleet"] as const) await exportBy(api, fleet.client("a"), { namespace });
    const exported = await eventually(fleet.client("hub"), INTERNAL_SERVICE_EXPORTS, (all) =>
      all.some((it) => it.spec?.serviceReference.namespace === namespace && it.spec.doors?.length === 3),
    );
    expect(exported.filter((it) => it.spec?.serviceReference.namespace === namespace)).toHaveLength(1);
    await untilImported();
    await untilDerived();
  }, 60_000);

  it("does not use the endpoints of a cluster that only has a ServiceExport", async () => {
    const namespace = "half";
    await run("a", namespace);
    await run("b", namespace, {});
    await exportBy("mcs", fleet.client("b"), { namespace });
    await eventuallyOne(
      fleet.client("a"),
      MCS_SERVICE_IMPORTS,
      objectKey(namespace, "hello"),
      (it) => it.status?.clusters?.length === 2,
    );
    await untilUsed(namespace, { a: ["a"], b: ["b"] });
  }, 60_000);

  it("loses the endpoints of a cluster that is silent and does not answer, and has them again when it is back", async () => {
    const namespace = "mortal";
    for (const cluster of ["a", "b"] as const) await run(cluster, namespace);
    await untilUsed(namespace, { a: ["a", "b"], b: ["a", "b"] });
    const agent = fleet.agents.get("b");
    await agent?.stop();
    dead.add("b");
    await untilUsed(namespace, { a: ["a"] });
    dead.delete("b");
    agent?.start();
    await untilUsed(namespace, { a: ["a", "b"], b: ["a", "b"] });
  }, 60_000);
});
