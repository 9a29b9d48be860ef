/** Objects that users delete or strip by hand, one kind after another, and what the importer's proxy sees of it. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { INTERNAL_MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { LEASES } from "@fairlead/kube/api/coordination/v1/types.ts";
import { EVENTS, NAMESPACES, SECRETS, type Service, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { ENDPOINT_SLICES, MANAGED_BY_LABEL } from "@fairlead/kube/api/discovery/v1/types.ts";
import { HUB_SECRET, VIEW_NAMESPACE } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import { IMPORTED_SERVICES, NAMESPACE_REPORTS } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/types.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import {
  MCS_SERVICE_IMPORTS,
  MCS_SERVICE_NAME_LABEL,
} from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import {
  ENDPOINT_SLICE_EXPORTS,
  ENDPOINT_SLICE_IMPORTS,
  FLEET_SERVICE_IMPORTS,
  INTERNAL_SERVICE_EXPORTS,
  INTERNAL_SERVICE_IMPORTS,
  MULTI_CLUSTER_SERVICES,
} from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { ROLE_BINDINGS, ROLES } from "@fairlead/kube/api/rbac/v1/types.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import {
  deploy,
  ensureNamespace,
  exportBy,
  sliceOf,
  startFleet,
  testDeps,
  type TestFleet,
} from "../support/fleet.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";
import { type Sight, watchSight } from "../support/sight.ts";
import { sameJson } from "@fairlead/base/json.ts";

const HELLO = objectKey("work", "hello");
const HELLO_SLICE = objectKey("work", "hello-abcde");
const FULL = "10.1.0.1 10.2.0.1";
let fleet: TestFleet;

beforeAll(async () => {
  fleet = await startFleet({ members: ["a", "b", "c"], leaseSeconds: 5 });
  await ensureNamespace(fleet.client("c"), "work");
  await deploy(fleet.client("a"), { addresses: ["10.1.0.1"] });
  await deploy(fleet.client("b"), { addresses: ["10.2.0.1"] });
  for (const name of ["a", "b"]) {
    await exportBy("mcs", fleet.client(name));
    await exportBy("fleet", fleet.client(name));
  }
  await fleet.client("c").create(MULTI_CLUSTER_SERVICES, {
    metadata: { namespace: "work", name: "hello" },
    spec: { serviceImport: { name: "hello" } },
  });
});
afterAll(() => fleet[Symbol.asyncDispose]());

async function untilWhole(): Promise<Sight> {
  const sight = watchSight(fleet.client("c"));
  await sight.until((it) => it.imported === FULL && it.balanced === FULL && it.derived !== "");
  return sight;
}

/** A change in an exporter arrives: everything works again, not only the repaired object. */
async function expectWorking(sight: Sight): Promise<void> {
  const change = (addresses: readonly string[]) =>
    fleet
      .client("a")
      .mergePatch(ENDPOINT_SLICES, HELLO_SLICE, { endpoints: sliceOf({ addresses }).endpoints });
  await change(["10.1.0.1", "10.1.0.9"]);
  await sight.until((it) => it.imported === "10.1.0.1 10.1.0.9 10.2.0.1" && it.balanced === it.imported);
  await change(["10.1.0.1"]);
  await sight.until((it) => it.imported === FULL && it.balanced === FULL);
}

/** The content of an object, without fields that differ for every new one. */
function essence({ metadata, ...rest }: KubeObject & { readonly spec?: object }): string {
  const { name, namespace, labels = {}, annotations = {} } = metadata;
  const keys = [labels, annotations, rest.spec ?? {}].map((it) => Object.keys(it).toSorted());
  return JSON.stringify({ name, namespace, keys });
}

interface Deleted {
  readonly at: string;
  readonly of: Resource;
  readonly namespace?: string;
  readonly labelSelector?: string;
}

const listed = async ({ at, of, namespace, labelSelector }: Deleted): Promise<readonly KubeObject[]> =>
  (
    await fleet.client(at).list(of, {
      ...(namespace === undefined ? {} : { namespace }),
      ...(labelSelector === undefined ? {} : { labelSelector }),
    })
  ).items;

async function untilBack(what: Deleted, before: readonly KubeObject[]): Promise<void> {
  const wanted = before.map(essence).toSorted();
  const old = new Set(before.map((it) => it.metadata.uid));
  await eventually(
    fleet.client(what.at),
    what.of,
    (all) => {
      const mine = all.filter((it) => before.some((one) => keyOf(one) === keyOf(it)));
      return (
        mine.every((it) => !old.has(it.metadata.uid) && it.metadata.deletionTimestamp === undefined) &&
        mine.map(essence).toSorted().join() === wanted.join()
      );
    },
    what.namespace === undefined ? {} : { namespace: what.namespace },
  );
}

const mailbox = (name: string) => `fleet-member-${name}`;
const SLICES_OF_FLEET = `${MANAGED_BY_LABEL},${MCS_SERVICE_NAME_LABEL}=hello`;

const ON_THE_HUB: readonly [string, Deleted][] = [
  ["ImportedServices of the view", { at: "hub", of: IMPORTED_SERVICES, namespace: VIEW_NAMESPACE }],
  ["EndpointSliceImports of the view", { at: "hub", of: ENDPOINT_SLICE_IMPORTS, namespace: VIEW_NAMESPACE }],
  ["EndpointSliceExports", { at: "hub", of: ENDPOINT_SLICE_EXPORTS }],
  ["InternalServiceExports", { at: "hub", of: INTERNAL_SERVICE_EXPORTS }],
  ["InternalServiceImports", { at: "hub", of: INTERNAL_SERVICE_IMPORTS }],
  ["ServiceImports", { at: "hub", of: FLEET_SERVICE_IMPORTS }],
  ["NamespaceReports", { at: "hub", of: NAMESPACE_REPORTS }],
  ["InternalMemberClusters", { at: "hub", of: INTERNAL_MEMBER_CLUSTERS }],
  ["Leases", { at: "hub", of: LEASES, namespace: mailbox("c") }],
  ["Roles of a mailbox", { at: "hub", of: ROLES, namespace: mailbox("c") }],
  ["RoleBindings of a mailbox", { at: "hub", of: ROLE_BINDINGS, namespace: mailbox("c") }],
  ["Roles of the view", { at: "hub", of: ROLES, namespace: VIEW_NAMESPACE }],
  ["RoleBindings of the view", { at: "hub", of: ROLE_BINDINGS, namespace: VIEW_NAMESPACE }],
];

describe("an object deleted by hand on the hub", () => {
  it.each(ON_THE_HUB)(
    "is recreated at once, and no importer loses endpoints in between: %s",
    async (_, what) => {
      await using sight = await untilWhole();
      const before = await listed(what);
      expect(before).not.toEqual([]);
      const whole = sight.now;
      await Promise.all(before.map((it) => fleet.client("hub").delete(what.of, keyOf(it))));
      await untilBack(what, before);
      expect(sight.since(whole)).toEqual([whole]);
      await expectWorking(sight);
    },
  );

  it("is recreated with its content: the view", async () => {
    await using sight = await untilWhole();
    const whole = sight.now;
    const before = await fleet.client("hub").get(NAMESPACES, objectKey(undefined, VIEW_NAMESPACE));
    await fleet.client("hub").delete(NAMESPACES, keyOf(before));
    await eventuallyOne(
      fleet.client("hub"),
      NAMESPACES,
      keyOf(before),
      (it) => it.metadata.uid !== before.metadata.uid,
    );
    for (const name of ["a", "b", "c"])
      await eventually(fleet.client("hub"), ENDPOINT_SLICE_IMPORTS, (all) => all.length === 0, {
        namespace: mailbox(name),
      });
    expect(sight.since(whole)).toEqual([whole]);
    await expectWorking(sight);
  });
});

describe("an object deleted by hand in an importer", () => {
  it.each<[string, Deleted]>([
    ["ServiceImports", { at: "c", of: MCS_SERVICE_IMPORTS, namespace: "work" }],
    ["ServiceImports of the fleet", { at: "c", of: FLEET_SERVICE_IMPORTS, namespace: "work" }],
    ["derived Services", { at: "c", of: SERVICES, namespace: "work" }],
    ["Services behind MultiClusterServices", { at: "c", of: SERVICES, namespace: "fleet-system" }],
    ["imported slices", { at: "c", of: ENDPOINT_SLICES, namespace: "work", labelSelector: SLICES_OF_FLEET }],
    ["slices behind load balancers", { at: "c", of: ENDPOINT_SLICES, namespace: "fleet-system" }],
  ])("comes back at once: %s", async (_, what) => {
    await using sight = await untilWhole();
    const before = await listed(what);
    expect(before).not.toEqual([]);
    await Promise.all(before.map((it) => fleet.client("c").delete(what.of, keyOf(it))));
    await untilBack(what, before);
    await sight.until((it) => it.imported === FULL && it.balanced === FULL && it.derived !== "");
    await expectWorking(sight);
  });

  const derived = async (): Promise<Service | undefined> =>
    (await fleet.client("c").list(SERVICES, { namespace: "work" })).items[0];

  /** Deletes the derived Service, and waits until there is another. */
  async function loseDerived(sight: Sight): Promise<void> {
    const { derived: old } = sight.now;
    const [it] = await listed({ at: "c", of: SERVICES, namespace: "work" });
    await fleet.client("c").delete(SERVICES, keyOf(it!));
    await sight.until((seen) => seen.derived !== "" && seen.derived !== old);
  }

  it("gets its address again, which its import keeps: a derived Service", async () => {
    await using sight = await untilWhole();
    const addresses = (await derived())?.spec?.clusterIPs;
    const reported: (readonly string[] | undefined)[] = [];
    await using imports = createInformer(fleet.client("c"), MCS_SERVICE_IMPORTS, {}, testDeps("test"));
    imports.subscribe(({ after }) => void reported.push(after?.spec?.ips));
    imports.start(new AbortController().signal);
    for (let time = 0; time < 3; time += 1) {
      await loseDerived(sight);
      expect((await derived())?.spec?.clusterIPs).toEqual(addresses);
    }
    await expectWorking(sight);
    expect(new Set(reported.map(String))).toEqual(new Set([String(addresses)]));
  });

  it("has another address if another Service has claimed its own: a derived Service", async () => {
    await using sight = await untilWhole();
    const before = (await derived())!;
    const [taken = ""] = before.spec?.clusterIPs ?? [];
    const agent = fleet.agents.get("c")!;
    await agent.stop();
    await fleet.client("c").delete(SERVICES, keyOf(before));
    const thief = { namespace: "default", name: "thief" };
    await fleet.client("c").create(SERVICES, {
      metadata: thief,
      spec: { clusterIP: taken, ports: [{ port: 1 }] },
    });
    agent.start();
    await sight.until((it) => it.derived !== "" && !it.derived.includes(taken));
    await expectWorking(sight);
    const now = (await derived())?.spec?.clusterIPs ?? [];
    await eventuallyOne(
      fleet.client("c"),
      MCS_SERVICE_IMPORTS,
      HELLO,
      (it) => it.spec?.ips?.join() === now.join(),
    );
    await fleet.client("c").delete(SERVICES, objectKey(thief.namespace, thief.name));
  });

  it("interrupts no traffic if it is the Secret that names the hub, and the agent continues when that is back", async () => {
    await using sight = await untilWhole();
    const whole = sight.now;
    const key = objectKey("fleet-system", HUB_SECRET);
    const { data } = await fleet.client("c").get(SECRETS, key);
    await fleet.client("c").delete(SECRETS, key);
    await fleet
      .client("a")
      .mergePatch(ENDPOINT_SLICES, HELLO_SLICE, { metadata: { labels: { seen: "by-a" } } });
    await fleet.client("c").create(SECRETS, {
      metadata: { namespace: "fleet-system", name: HUB_SECRET },
      ...(data === undefined ? {} : { data }),
    });
    await expectWorking(sight);
    expect(sight.since(whole)[0]).toEqual(whole);
    expect(sight.since(whole).every((it) => it.imported.includes(FULL.slice(0, 8)))).toBe(true);
  });
});

describe("labels and annotations that are stripped by hand", () => {
  it.each<[string, Deleted]>([
    ["imported slices", { at: "c", of: ENDPOINT_SLICES, namespace: "work", labelSelector: SLICES_OF_FLEET }],
    ["derived Services", { at: "c", of: SERVICES, namespace: "work" }],
    ["Services behind MultiClusterServices", { at: "c", of: SERVICES, namespace: "fleet-system" }],
    ["slices behind load balancers", { at: "c", of: ENDPOINT_SLICES, namespace: "fleet-system" }],
    ["ServiceImports", { at: "c", of: MCS_SERVICE_IMPORTS, namespace: "work" }],
    ["mailboxes", { at: "hub", of: NAMESPACES, labelSelector: "fleet.azure.com/member-name" }],
    ["Leases", { at: "hub", of: LEASES, namespace: mailbox("c") }],
    ["Roles", { at: "hub", of: ROLES, namespace: mailbox("c") }],
    ["RoleBindings", { at: "hub", of: ROLE_BINDINGS, namespace: mailbox("c") }],
  ])("come back: those of %s", async (_, what) => {
    await using sight = await untilWhole();
    const before = await listed(what);
    const client = fleet.client(what.at);
    const strip = { metadata: { labels: null, annotations: null, finalizers: null, ownerReferences: null } };
    const wanted = before.map((it) => ({ key: keyOf(it), labels: Object.keys(it.metadata.labels ?? {}) }));
    await Promise.all(before.map((it) => client.mergePatch(what.of, keyOf(it), strip)));
    for (const { key, labels } of wanted)
      await eventuallyOne(client, what.of, key, (it) =>
        labels.every((label) => it.metadata.labels?.[label] !== undefined),
      );
    await expectWorking(sight);
    expect(await fleet.client("c").find(MCS_SERVICE_IMPORTS, HELLO)).toBeDefined();
  });
});

describe("an object that is edited by hand", () => {
  const DERIVED = { at: "c", of: SERVICES, namespace: "work" } as const;
  const BALANCER = { at: "c", of: SERVICES, namespace: "fleet-system" } as const;
  const PORTS = { ports: [{ name: "http", protocol: "TCP", port: 8888 }] };
  const ENDPOINTS = { endpoints: [{ addresses: ["10.9.9.9"] }] };
  const imported = {
    at: "c",
    of: ENDPOINT_SLICES,
    namespace: "work",
    labelSelector: SLICES_OF_FLEET,
  } as const;
  const balanced = { at: "c", of: ENDPOINT_SLICES, namespace: "fleet-system" } as const;
  const view = { at: "hub", namespace: VIEW_NAMESPACE } as const;

  it.each<[string, Deleted, object]>([
    ["the port of derived Services", DERIVED, { spec: PORTS }],
    [
      "more ports of derived Services",
      DERIVED,
      { spec: { ports: [...PORTS.ports, { name: "more", port: 81 }, { name: "most", port: 82 }] } },
    ],
    ["selectors of derived Services", DERIVED, { spec: { selector: { app: "other" } } }],
    ["external addresses of derived Services", DERIVED, { spec: { externalIPs: ["192.0.2.9"] } }],
    ["traffic policies of derived Services", DERIVED, { spec: { internalTrafficPolicy: "Local" } }],
    ["the affinity of derived Services", DERIVED, { spec: { sessionAffinity: "ClientIP" } }],
    [
      "the type of derived Services",
      DERIVED,
      { spec: { type: "ExternalName", externalName: "other.example", clusterIP: null, clusterIPs: null } },
    ],
    ["the port of Services behind MultiClusterServices", BALANCER, { spec: PORTS }],
    ["selectors of Services behind MultiClusterServices", BALANCER, { spec: { selector: { app: "other" } } }],
    ["the type of Services behind MultiClusterServices", BALANCER, { spec: { type: "ClusterIP" } }],
    ["endpoints of imported slices", imported, ENDPOINTS],
    ["ports of imported slices", imported, { ports: [{ name: "http", port: 8888 }] }],
    ["endpoints of slices behind load balancers", balanced, ENDPOINTS],
    [
      "addresses of ServiceImports",
      { at: "c", of: MCS_SERVICE_IMPORTS, namespace: "work" },
      { spec: { ips: ["192.0.2.9"] } },
    ],
    [
      "ports of ServiceImports",
      { at: "c", of: MCS_SERVICE_IMPORTS, namespace: "work" },
      { spec: { ports: [{ name: "http", protocol: "TCP", port: 8888 }] } },
    ],
    [
      "ImportedServices of the view",
      { ...view, of: IMPORTED_SERVICES },
      { spec: { ports: [{ name: "http", protocol: "TCP", port: 8888 }] } },
    ],
    ["EndpointSliceImports of the view", { ...view, of: ENDPOINT_SLICE_IMPORTS }, { spec: ENDPOINTS }],
    [
      "InternalMemberClusters",
      { at: "hub", of: INTERNAL_MEMBER_CLUSTERS, namespace: mailbox("c") },
      { spec: { state: "Leave" } },
    ],
    ["Roles of a mailbox", { at: "hub", of: ROLES, namespace: mailbox("c") }, { rules: [] }],
  ])("is put back, and an Event of it names the change: %s", async (_, what, edit) => {
    await using sight = await untilWhole();
    const client = fleet.client(what.at);
    const before = await listed(what);
    const [edited] = before;
    if (edited === undefined) throw new Error("nothing to edit");
    const uid = edited.metadata.uid;
    const told = async (): Promise<number> =>
      (await client.list(EVENTS, { namespace: edited.metadata.namespace ?? "" })).items
        .filter((it) => it.reason === "ChangeReverted" && it.involvedObject.uid === uid)
        .reduce((sum, it) => sum + (it.count ?? 1), 0);
    const heard = await told();
    const seen = await client.mergePatch(what.of, keyOf(edited), edit, { fieldManager: "kubectl-edit" });
    expect(content(seen)).not.toEqual(content(edited));
    await eventuallyOne(client, what.of, keyOf(edited), (it) => sameJson(content(it), content(edited)));
    await eventually(
      client,
      EVENTS,
      (all) =>
        all
          .filter((it) => it.reason === "ChangeReverted" && it.involvedObject.uid === uid)
          .reduce((sum, it) => sum + (it.count ?? 1), 0) > heard,
      { namespace: edited.metadata.namespace ?? "" },
    );
    await sight.until((it) => it.imported === FULL && it.balanced === FULL && it.derived !== "");
    await expectWorking(sight);
  });

  /** All that clients read of an object. */
  function content({ metadata, ...rest }: KubeObject): object {
    const { ownerReferences = [], labels = {} } = metadata;
    const { status: _status, ...all } = rest as { readonly status?: unknown };
    return { labels, ownerReferences, ...all };
  }
});
