import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  INTERNAL_MEMBER_CLUSTERS,
  MEMBER_CLUSTERS,
} from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { NAMESPACES, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { HUB_CRDS, MEMBER_CRDS } from "@fairlead/fleet/api/crds.ts";
import { ENDPOINT_SLICES, SERVICE_NAME_LABEL } from "@fairlead/kube/api/discovery/v1/types.ts";
import { HUB_ACCESS, MEMBER_ACCESS } from "@fairlead/fleet/authz/programs.ts";
import { VIEW_NAMESPACE } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import { NAMESPACE_REPORTS } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Condition } from "@fairlead/kube/api/meta/types.ts";
import { MCS_SERVICE_EXPORTS } from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import {
  ENDPOINT_SLICE_EXPORTS,
  ENDPOINT_SLICE_IMPORTS,
  type EndpointSliceExport,
  INTERNAL_SERVICE_EXPORTS,
  INTERNAL_SERVICE_IMPORTS,
  MULTI_CLUSTER_SERVICES,
} from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { FLEET_SERVICE_EXPORTS } from "@fairlead/fleet/api/networking.fleet.azure.com/v1beta1/types.ts";
import { startHub } from "@fairlead/fleet/hub/hub.ts";
import { startMember } from "@fairlead/fleet/member/member.ts";
import { installCrds } from "@fairlead/kube/definitions/crds.ts";
import { configAs } from "../support/access.ts";
import {
  aborted,
  addressesOf,
  connectProgram,
  deploy,
  ensureNamespace,
  exportBy,
  Restartable,
  startCluster,
  type TestCluster,
  testDeps,
} from "../support/fleet.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";
import { enroll, runOriginalHub } from "./original-hub.ts";
import { PUBLISHED_CRDS } from "./published.ts";

/** Our member, "east", in a fleet with a legacy hub. */

const HELD = "networking.fleet.azure.com/endpointsliceimport-cleanup";
const AGENT = { name: "agent-of-east", cluster: [], system: [] };
const hello = objectKey("work", "hello");
const imported = objectKey("fleet-system", "west-slice-x1y2z");

let stack: AsyncDisposableStack;
let hub: TestCluster;
let east: TestCluster;
let agent: Restartable;
let original: Restartable;

beforeAll(async () => {
  stack = new AsyncDisposableStack();
  hub = stack.use(await startCluster("hub", [HUB_ACCESS, AGENT]));
  east = stack.use(await startCluster("east", [MEMBER_ACCESS]));
  const by = { fieldManager: "test" };
  const signal = AbortSignal.timeout(20_000);
  await installCrds(hub.client, { crds: PUBLISHED_CRDS, ...by }, testDeps("test"), signal);
  await installCrds(east.client, { crds: MEMBER_CRDS, ...by }, testDeps("test"), signal);
  await enroll(hub.client, "east", `test:${AGENT.name}`);
  await hub.client.create(NAMESPACES, { metadata: { name: "work" } });
  original = stack.use(new Restartable((stopping) => runOriginalHub(hub.client, stopping)));
  original.start();
  agent = stack.use(
    new Restartable(async (stopping) => {
      const deps = testDeps("east");
      await using local = connectProgram(configAs(MEMBER_ACCESS, east.config), deps);
      await using toHub = connectProgram(configAs(AGENT, hub.config), deps);
      await using _member = await startMember(
        { cluster: "east", local, hub: toHub, deps, probe: () => Promise.resolve("connected") },
        stopping,
      );
      await aborted(stopping);
    }),
  );
  agent.start();
});
afterAll(() => stack.disposeAsync());

const reported = (conditions: readonly Condition[] | undefined, type: string): string => {
  const found = conditions?.find((one) => one.type === type);
  return found === undefined ? "" : `${found.status} ${found.reason}`;
};

/** What another member of that fleet sends. */
function sliceOfWest(addresses: readonly string[]): EndpointSliceExport {
  const reference = { namespace: "work", name: "hello", namespacedName: "work/hello" };
  return {
    metadata: { namespace: "fleet-member-west", name: "west-slice-x1y2z" },
    spec: {
      addressType: "IPv4",
      endpoints: addresses.map((it) => ({ addresses: [it] })),
      ports: [{ name: "http", protocol: "TCP", port: 8080 }],
      ownerServiceReference: reference,
      endpointSliceReference: {
        ...reference,
        name: "slice",
        namespacedName: "work/slice",
        clusterId: "west",
        kind: "EndpointSlice",
        uid: "u",
        resourceVersion: "1",
        generation: 1,
        exportedSince: "2026-01-01T00:00:00Z",
      },
    },
  };
}

describe("a Fairlead member at a legacy hub", () => {
  it("joins without a lease and without Fairlead's kinds", async () => {
    await eventuallyOne(
      hub.client,
      INTERNAL_MEMBER_CLUSTERS,
      objectKey("fleet-member-east", "east"),
      (it) =>
        it.status?.agentStatus?.length === 2 &&
        it.status.agentStatus.every((one) => reported(one.conditions, "Joined") === "True AgentJoined"),
    );
    expect(hub.asked.refused()).toEqual([]);
    expect(hub.asked.all().filter((it) => it.group === "fairlead.dev" || it.resource === "leases")).toEqual(
      [],
    );
  });

  it("exports in the published form: ready addresses of IPv4 alone, once the hub found no conflict", async () => {
    await deploy(east.client, { addresses: ["10.1.0.1", "10.1.0.2"] });
    await east.client.mergePatch(ENDPOINT_SLICES, objectKey("work", "hello-abcde"), {
      endpoints: [
        { addresses: ["10.1.0.1"], conditions: { ready: true }, nodeName: "n", zone: "z" },
        { addresses: ["10.1.0.2"], conditions: { ready: false } },
      ],
    });
    await exportBy("fleet", east.client, { annotations: { "fairlead.dev/affinity": "none" } });
    await exportBy("mcs", east.client);
    const [sent] = await eventually(hub.client, ENDPOINT_SLICE_EXPORTS, (all) => all.length === 1);
    expect(sent?.spec.endpoints).toEqual([{ addresses: ["10.1.0.1"] }]);
    const exported = await eventuallyOne(
      hub.client,
      INTERNAL_SERVICE_EXPORTS,
      objectKey("fleet-member-east", "work-hello"),
    );
    expect(Object.keys(exported.spec ?? {}).toSorted()).toEqual([
      "ports",
      "serviceReference",
      "type",
      "weight",
    ]);
    await eventuallyOne(
      east.client,
      FLEET_SERVICE_EXPORTS,
      hello,
      (it) =>
        reported(it.status?.conditions, "Valid") === "True ServiceIsValid" &&
        reported(it.status?.conditions, "Conflict") === "False NoConflictFound",
    );
    await eventuallyOne(
      east.client,
      MCS_SERVICE_EXPORTS,
      hello,
      (it) => reported(it.status?.conditions, "Ready") === "True Exported",
    );
  });

  it("imports what it claimed, and puts its finalizer on the copy before it does", async () => {
    await ensureNamespace(hub.client, "fleet-member-west");
    await hub.client.create(ENDPOINT_SLICE_EXPORTS, sliceOfWest(["10.2.0.1"]));
    await hub.client.create(INTERNAL_SERVICE_EXPORTS, {
      metadata: { namespace: "fleet-member-west", name: "work-hello" },
      spec: {
        ports: [{ name: "http", protocol: "TCP", port: 80, targetPort: 8080 }],
        serviceReference: {
          ...sliceOfWest([]).spec.endpointSliceReference,
          kind: "Service",
          name: "hello",
          namespacedName: "work/hello",
        },
      },
    });
    await east.client.create(MULTI_CLUSTER_SERVICES, {
      metadata: { namespace: "work", name: "lb" },
      spec: { serviceImport: { name: "hello" } },
    });
    await eventuallyOne(
      east.client,
      MULTI_CLUSTER_SERVICES,
      objectKey("work", "lb"),
      (it) => reported(it.status?.conditions, "Valid") === "True FoundServiceImport",
    );
    const slice = await eventuallyOne(east.client, ENDPOINT_SLICES, imported);
    expect(addressesOf([slice])).toEqual(["10.2.0.1"]);
    const derived = await east.client.get(
      SERVICES,
      objectKey("fleet-system", slice.metadata.labels?.[SERVICE_NAME_LABEL] ?? ""),
    );
    expect(derived.spec?.type).toBe("LoadBalancer");
    const copy = await hub.client.get(
      ENDPOINT_SLICE_IMPORTS,
      objectKey("fleet-member-east", "west-slice-x1y2z"),
    );
    expect(copy.metadata.finalizers).toEqual([HELD]);
    const all = await eventually(east.client, ENDPOINT_SLICES, (slices) => slices.length === 2, {
      namespace: "fleet-system",
    });
    // Its own are read where they are, not as the hub sends them back.
    expect(addressesOf(all)).toEqual(["10.1.0.1", "10.1.0.2", "10.2.0.1"]);
  });

  it("follows a change, and makes the hub delay a withdrawal until the slice is deleted", async () => {
    const key = objectKey("fleet-member-west", "west-slice-x1y2z");
    await hub.client.mergePatch(ENDPOINT_SLICE_EXPORTS, key, { spec: sliceOfWest(["10.2.0.2"]).spec });
    await eventuallyOne(east.client, ENDPOINT_SLICES, imported, (it) => addressesOf([it])[0] === "10.2.0.2");
    await agent.stop();
    await hub.client.delete(ENDPOINT_SLICE_EXPORTS, key);
    await eventuallyOne(
      hub.client,
      ENDPOINT_SLICE_IMPORTS,
      objectKey("fleet-member-east", "west-slice-x1y2z"),
      (it) => it.metadata.deletionTimestamp !== undefined,
    );
    expect(await east.client.find(ENDPOINT_SLICES, imported)).toBeDefined();
    agent.start();
    await eventually(
      hub.client,
      ENDPOINT_SLICE_IMPORTS,
      (all) => !all.some((it) => it.metadata.name.startsWith("west")),
    );
    expect(await east.client.find(ENDPOINT_SLICES, imported)).toBeUndefined();
  });

  it("withdraws its endpoints while the hub reports a conflict of its ports, and sends them again afterwards", async () => {
    const ports = (port: number) => ({
      spec: { ports: [{ name: "http", protocol: "TCP", port, targetPort: 8080 }] },
    });
    await east.client.mergePatch(SERVICES, hello, ports(81));
    await eventuallyOne(
      east.client,
      FLEET_SERVICE_EXPORTS,
      hello,
      (it) => reported(it.status?.conditions, "Conflict") === "True ConflictFound",
    );
    await eventually(hub.client, ENDPOINT_SLICE_EXPORTS, (all) => all.length === 0);
    await east.client.mergePatch(SERVICES, hello, ports(80));
    await eventually(hub.client, ENDPOINT_SLICE_EXPORTS, (all) => all.length === 1);
  });

  it("sends nothing that the hub would misunderstand: headless Services, exports to some members only, or drained clusters", async () => {
    const cases = [
      { name: "headless", headless: true, annotations: {} },
      { name: "narrow", headless: false, annotations: { "fairlead.dev/export-to": "west" } },
      { name: "drained", headless: false, annotations: { "fairlead.dev/weight": "0" } },
    ];
    for (const { name, headless, annotations } of cases) {
      await deploy(east.client, { name, headless, addresses: ["10.1.0.9"] });
      await exportBy("mcs", east.client, { name, annotations });
      await eventuallyOne(
        east.client,
        MCS_SERVICE_EXPORTS,
        objectKey("work", name),
        (it) => reported(it.status?.conditions, "Ready") === "False Failed",
      );
    }
    const { items } = await hub.client.list(INTERNAL_SERVICE_EXPORTS, { namespace: "fleet-member-east" });
    expect(items.map((it) => it.metadata.name)).toEqual(["work-hello"]);
  });

  it("withdraws everything when it leaves, and reports it", async () => {
    const internalMember = objectKey("fleet-member-east", "east");
    await hub.client.mergePatch(INTERNAL_MEMBER_CLUSTERS, internalMember, { spec: { state: "Leave" } });
    await eventuallyOne(
      hub.client,
      INTERNAL_MEMBER_CLUSTERS,
      internalMember,
      (it) =>
        it.status?.agentStatus?.every((one) => reported(one.conditions, "Joined") === "False AgentLeft") ===
        true,
    );
    const inMailbox = { namespace: "fleet-member-east" };
    for (const kind of [INTERNAL_SERVICE_EXPORTS, INTERNAL_SERVICE_IMPORTS, ENDPOINT_SLICE_EXPORTS])
      expect((await hub.client.list(kind as typeof INTERNAL_SERVICE_EXPORTS, inMailbox)).items).toEqual([]);
    expect(hub.asked.refused()).toEqual([]);
    expect(hub.asked.all().filter((it) => it.group === "fairlead.dev" || it.resource === "leases")).toEqual(
      [],
    );
  });
});

describe("a fleet whose legacy hub is replaced by Fairlead", () => {
  it("keeps working: the member moves to the view, and no endpoint is withdrawn during the change", async () => {
    const internalMember = objectKey("fleet-member-east", "east");
    await hub.client.mergePatch(INTERNAL_MEMBER_CLUSTERS, internalMember, { spec: { state: "Join" } });
    await hub.client.create(ENDPOINT_SLICE_EXPORTS, sliceOfWest(["10.2.0.3"]));
    await eventuallyOne(east.client, ENDPOINT_SLICES, imported);
    await using withdrawals = watchWithdrawals();
    await original.stop();
    const signal = AbortSignal.timeout(20_000);
    await installCrds(hub.client, { crds: HUB_CRDS, fieldManager: "test" }, testDeps("test"), signal);
    // Its watches show the new fields when they are opened again, as after every update of a definition.
    await agent.stop();
    agent.start();
    for (const name of ["east", "west"])
      await hub.client.create(MEMBER_CLUSTERS, {
        metadata: { name },
        spec: { identity: { kind: "User", name: `test:${AGENT.name}` } },
      });
    await using ours = new Restartable(async (stopping) => {
      await using client = connectProgram(configAs(HUB_ACCESS, hub.config), testDeps("hub"));
      await using _hub = await startHub(client, {}, testDeps("hub"), stopping);
      await aborted(stopping);
    });
    ours.start();
    await eventuallyOne(
      hub.client,
      NAMESPACE_REPORTS,
      objectKey("fleet-member-east", "east"),
      (it) => it.spec.view === VIEW_NAMESPACE,
    );
    // It also has what the legacy hub could not express, except exports to some members only.
    const services = (all: readonly EndpointSliceExport[]): string =>
      all
        .map((it) => it.spec.ownerServiceReference.name)
        .toSorted()
        .join();
    await eventually(
      hub.client,
      ENDPOINT_SLICE_IMPORTS,
      (all) => services(all) === "drained,headless,hello,hello",
      { namespace: VIEW_NAMESPACE },
    );
    await eventually(hub.client, ENDPOINT_SLICE_IMPORTS, (all) => all.length === 0, {
      namespace: "fleet-member-east",
    });
    const key = objectKey("fleet-member-west", "west-slice-x1y2z");
    await hub.client.mergePatch(ENDPOINT_SLICE_EXPORTS, key, { spec: sliceOfWest(["10.2.0.4"]).spec });
    await eventuallyOne(east.client, ENDPOINT_SLICES, imported, (it) => addressesOf([it])[0] === "10.2.0.4");
    expect(withdrawals.names()).toEqual([]);
  }, 40_000);
});

/** Names of the imported slices that vanished, until disposed. */
function watchWithdrawals(): { readonly names: () => readonly string[] } & AsyncDisposable {
  const stop = new AbortController();
  const names: string[] = [];
  const options = { namespace: "fleet-system", allowWatchBookmarks: true, sendInitialEvents: true };
  const done = (async () => {
    for await (const event of east.client.watch(ENDPOINT_SLICES, options, stop.signal))
      if (event.type === "DELETED") names.push(event.object.metadata.name);
  })().catch(() => {});
  return {
    names: () => names,
    async [Symbol.asyncDispose]() {
      stop.abort();
      await done;
    },
  };
}
