import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { ENDPOINT_SLICES } from "@fairlead/kube/api/discovery/v1/types.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import {
  MCS_SERVICE_EXPORTS,
  MCS_SERVICE_IMPORTS,
  MCS_SERVICE_NAME_LABEL,
} from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import { FLEET_SLICE_MANAGER } from "@fairlead/fleet/api/networking.fleet.azure.com/names.ts";
import {
  FLEET_SERVICE_IMPORTS,
  type FleetServiceImport,
  INTERNAL_SERVICE_IMPORTS,
  MULTI_CLUSTER_SERVICES,
} from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { FLEET_SERVICE_EXPORTS } from "@fairlead/fleet/api/networking.fleet.azure.com/v1beta1/types.ts";
import { MANAGED_BY_LABEL } from "@fairlead/kube/api/discovery/v1/types.ts";
import { leaveFleet } from "@fairlead/fleet/cli/fleet/leave.ts";
import {
  addressesOf,
  deploy,
  ensureNamespace,
  exportBy,
  PATIENCE_MS,
  startFleet,
  testDeps,
  type TestFleet,
} from "../support/fleet.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";

const hello = objectKey("work", "hello");
let fleet: TestFleet;
/** The hub's ServiceImport, once it lists the exporters. */
const hubsImport = (): Promise<FleetServiceImport> =>
  eventuallyOne(
    fleet.client("hub"),
    FLEET_SERVICE_IMPORTS,
    hello,
    (it) => it.status?.clusters?.length === 1 && it.metadata.deletionTimestamp === undefined,
  );
const isValid = (name: string): Promise<unknown> =>
  eventuallyOne(fleet.client(name), MULTI_CLUSTER_SERVICES, hello, (it) =>
    (it.status?.conditions ?? []).some((at) => at.type === "Valid" && at.status === "True"),
  );
const importHello = (name: string): Promise<unknown> =>
  fleet.client(name).create(MULTI_CLUSTER_SERVICES, {
    metadata: { namespace: "work", name: "hello" },
    spec: { serviceImport: { name: "hello" } },
  });
const whoAsks = async (): Promise<(string | undefined)[]> =>
  (await fleet.client("hub").list(INTERNAL_SERVICE_IMPORTS)).items.map((it) => it.metadata.namespace);

beforeAll(async () => {
  fleet = await startFleet({ members: ["a", "b", "both"], inHub: "both", leaseSeconds: 60 });
  for (const name of ["b", "both"]) await ensureNamespace(fleet.client(name), "work");
  await deploy(fleet.client("a"), { addresses: ["10.1.0.1"] });
});
afterAll(() => fleet[Symbol.asyncDispose]());

describe.each(["fleet", "mcs"] as const)("a hub whose cluster is a member, too: api %s", (api) => {
  it("leaves the load balancer to the member that requests one", async () => {
    await exportBy(api, fleet.client("a"));
    await hubsImport();
    await importHello("b");
    await isValid("b");
    expect(await whoAsks()).toEqual(["fleet-member-b"]);
    // It has its own view of the service through the other API.
    await eventuallyOne(fleet.client("both"), MCS_SERVICE_IMPORTS, hello);
    await fleet.client("b").delete(MULTI_CLUSTER_SERVICES, hello);
    await eventually(fleet.client("hub"), INTERNAL_SERVICE_IMPORTS, (all) => all.length === 0);
  });

  it("has its own load balancer, and the hub keeps its ServiceImport", async () => {
    const before = await hubsImport();
    await importHello("both");
    await isValid("both");
    expect(await whoAsks()).toEqual(["fleet-member-both"]);
    const slices = await eventually(fleet.client("both"), ENDPOINT_SLICES, (all) =>
      all.some((it) => it.metadata.labels?.[MANAGED_BY_LABEL] === FLEET_SLICE_MANAGER),
    );
    const own = slices.filter((it) => it.metadata.labels?.[MANAGED_BY_LABEL] === FLEET_SLICE_MANAGER);
    expect(addressesOf(own)).toEqual(["10.1.0.1"]);
    const claimed = await hubsImport();
    expect(claimed.metadata.ownerReferences).toBeUndefined();
    expect(claimed.status).toEqual(before.status);
    await fleet.client("both").delete(MULTI_CLUSTER_SERVICES, hello);
    await eventually(fleet.client("hub"), INTERNAL_SERVICE_IMPORTS, (all) => all.length === 0);
    await eventually(fleet.client("both"), SERVICES, (all) =>
      all.every((it) => it.metadata.namespace !== "fleet-system"),
    );
    const after = await hubsImport();
    expect(after.metadata.uid).toBe(before.metadata.uid);
    expect(after.status).toEqual(before.status);
    const of = api === "fleet" ? FLEET_SERVICE_EXPORTS : MCS_SERVICE_EXPORTS;
    await fleet.client("a").delete(of, hello);
    await eventually(fleet.client("hub"), FLEET_SERVICE_IMPORTS, (all) => all.length === 0);
  });
});

it("a MultiClusterService of the hub's own cluster waits for an export, and deletes no object of the hub when the cluster leaves", async () => {
  await importHello("both");
  await eventuallyOne(fleet.client("both"), MULTI_CLUSTER_SERVICES, hello, (it) =>
    (it.status?.conditions ?? []).some((at) => at.status === "Unknown"),
  );
  await exportBy("fleet", fleet.client("a"));
  await isValid("both");
  const before = await hubsImport();
  await leaveFleet(
    {
      name: "both",
      hub: fleet.hub.config,
      member: fleet.hub.config,
      timeoutMs: PATIENCE_MS,
    },
    testDeps("leave"),
    AbortSignal.timeout(PATIENCE_MS),
  );
  const after = await hubsImport();
  expect(after.metadata.uid).toBe(before.metadata.uid);
  expect(after.status).toEqual(before.status);
  const imported = await fleet.client("both").list(ENDPOINT_SLICES);
  expect(imported.items.filter((it) => it.metadata.labels?.[MCS_SERVICE_NAME_LABEL] !== undefined)).toEqual(
    [],
  );
  expect((await fleet.client("hub").list(FLEET_SERVICE_IMPORTS)).items.map(keyOf)).toEqual([hello]);
});
