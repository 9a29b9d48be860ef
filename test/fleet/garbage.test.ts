/** Invalid content in a mailbox and in objects of users: it is rejected with a message, and nothing else is disturbed. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { ENDPOINT_SLICES } from "@fairlead/kube/api/discovery/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import {
  MCS_SERVICE_EXPORTS,
  MCS_SERVICE_IMPORTS,
} from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import {
  ENDPOINT_SLICE_EXPORTS,
  INTERNAL_SERVICE_EXPORTS,
} from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { FLEET_SERVICE_EXPORTS } from "@fairlead/fleet/api/networking.fleet.azure.com/v1beta1/types.ts";
import { messageOf } from "@fairlead/base/errors.ts";
import { deploy, ensureNamespace, exportBy, sliceOf, startFleet, type TestFleet } from "../support/fleet.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";
import { type Sight, watchSight } from "../support/sight.ts";

let fleet: TestFleet;
let sight: Sight;
beforeAll(async () => {
  fleet = await startFleet({ members: ["a", "c"] });
  await ensureNamespace(fleet.client("c"), "work");
  await deploy(fleet.client("a"), { addresses: ["10.1.0.1"] });
  await exportBy("mcs", fleet.client("a"));
  sight = watchSight(fleet.client("c"));
  await sight.until((it) => it.imported === "10.1.0.1" && it.derived !== "");
});
afterAll(async () => {
  await sight[Symbol.asyncDispose]();
  await fleet[Symbol.asyncDispose]();
});

/** Present services stay, and changes arrive. */
async function expectUndisturbed(): Promise<void> {
  const change = (addresses: readonly string[]) =>
    fleet.client("a").mergePatch(ENDPOINT_SLICES, objectKey("work", "hello-abcde"), {
      endpoints: sliceOf({ addresses }).endpoints,
    });
  const before = sight.now;
  await change(["10.1.0.1", "10.1.0.2"]);
  await sight.until((it) => it.imported === "10.1.0.1 10.1.0.2");
  await change(["10.1.0.1"]);
  await sight.until((it) => it.imported === "10.1.0.1");
  expect(new Set(sight.since(before).map((it) => it.derived)).size).toBe(1);
}

const HUGE = "x".repeat(200_000);
const mailbox = "fleet-member-a";
const reference = (more: object = {}): object => ({
  clusterId: "a",
  apiVersion: "v1",
  kind: "Service",
  namespace: "work",
  name: "hello",
  namespacedName: "work/hello",
  uid: "u",
  resourceVersion: "1",
  generation: 1,
  ...more,
});
const slice = (more: object): object => ({
  addressType: "IPv4",
  endpoints: [{ addresses: ["10.1.0.66"] }],
  ports: [{ name: "http", protocol: "TCP", port: 8080 }],
  ownerServiceReference: { namespace: "work", name: "hello", namespacedName: "work/hello" },
  endpointSliceReference: { ...reference({ kind: "EndpointSlice", name: "hello-evil" }) },
  ...more,
});

describe("garbage in a mailbox", () => {
  it.each<[string, Resource, object]>([
    [
      "a service without a name",
      INTERNAL_SERVICE_EXPORTS,
      { spec: { ports: [], serviceReference: reference({ clusterId: "z" }) } },
    ],
    [
      "an invalid name",
      INTERNAL_SERVICE_EXPORTS,
      { spec: { ports: [], serviceReference: reference({ name: "../../etc" }) } },
    ],
    [
      "letters of other scripts",
      INTERNAL_SERVICE_EXPORTS,
      { spec: { ports: [], serviceReference: reference({ name: "héllo-世界" }) } },
    ],
    [
      "a number for a text",
      INTERNAL_SERVICE_EXPORTS,
      { spec: { ports: [], serviceReference: reference({ name: 7 }) } },
    ],
    [
      "ports that are text",
      INTERNAL_SERVICE_EXPORTS,
      { spec: { ports: "all", serviceReference: reference() } },
    ],
    [
      "invalid addresses",
      ENDPOINT_SLICE_EXPORTS,
      { spec: slice({ endpoints: [{ addresses: ["not-an-address"] }] }) },
    ],
    ["the loopback", ENDPOINT_SLICE_EXPORTS, { spec: slice({ endpoints: [{ addresses: ["127.0.0.1"] }] }) }],
    ["another family", ENDPOINT_SLICE_EXPORTS, { spec: slice({ endpoints: [{ addresses: ["fd00::1"] }] }) }],
    ["an invalid port", ENDPOINT_SLICE_EXPORTS, { spec: slice({ ports: [{ name: "http", port: 70_000 }] }) }],
    [
      "very long words",
      ENDPOINT_SLICE_EXPORTS,
      { spec: slice({ endpoints: [{ addresses: ["10.1.0.66"], hostname: HUGE }] }) },
    ],
    [
      "very many endpoints",
      ENDPOINT_SLICE_EXPORTS,
      { spec: slice({ endpoints: Array.from({ length: 5000 }, () => ({ addresses: ["10.1.0.66"] })) }) },
    ],
    [
      "large annotations on what says nothing",
      INTERNAL_SERVICE_EXPORTS,
      { metadata: { annotations: { big: HUGE } } },
    ],
  ])("is rejected, or reaches no importer: %s", async (_, of, body) => {
    const hub = fleet.client("hub");
    const object = {
      ...body,
      metadata: { ...(body as Partial<KubeObject>).metadata, namespace: mailbox, name: "garbage" },
    };
    let refusal: string | undefined;
    try {
      await hub.create(of, object);
    } catch (error) {
      refusal = messageOf(error);
    }
    if (refusal !== undefined) expect(refusal.length).toBeLessThan(5000);
    await expectUndisturbed();
    expect(sight.now.imported).not.toContain("10.1.0.66");
    await hub.delete(of, objectKey(mailbox, "garbage"));
    await expectUndisturbed();
  });
});

describe("odd objects of users", () => {
  const longest = "a".repeat(63);
  it("with names at their limits are exported as any other", async () => {
    const namespace = "n".repeat(63);
    await ensureNamespace(fleet.client("c"), namespace);
    await deploy(fleet.client("a"), { namespace, name: longest, addresses: ["10.1.0.20"] });
    await exportBy("mcs", fleet.client("a"), { namespace, name: longest });
    await eventuallyOne(
      fleet.client("c"),
      MCS_SERVICE_IMPORTS,
      objectKey(namespace, longest),
      (it) => (it.spec?.ips?.length ?? 0) > 0,
    );
    await fleet.client("a").delete(MCS_SERVICE_EXPORTS, objectKey(namespace, longest));
    await eventually(fleet.client("c"), MCS_SERVICE_IMPORTS, (all) => all.length === 1);
    await expectUndisturbed();
  });

  it.each<[string, Record<string, string>]>([
    ["200 kB of annotations", { big: HUGE }],
    [
      "annotations that are not numbers",
      { "networking.fleet.azure.com/weight": "viele", "fairlead.dev/priority": "-1" },
    ],
    [
      "annotations in other scripts",
      { "fairlead.dev/affinity": "локально", "fairlead.dev/export-to": "世界,,," },
    ],
    [
      "a very long list of clusters",
      { "fairlead.dev/export-to": Array.from({ length: 20_000 }, (_, at) => `c${at}`).join() },
    ],
  ])("with %s do not disturb others, and their conditions report the fault", async (_, annotations) => {
    const client = fleet.client("a");
    await deploy(client, { name: "odd", addresses: ["10.1.0.30"] });
    await client.mergePatch(SERVICES, objectKey("work", "odd"), { metadata: { annotations } });
    for (const api of ["mcs", "fleet"] as const) await exportBy(api, client, { name: "odd", annotations });
    const reported = await eventuallyOne(
      client,
      FLEET_SERVICE_EXPORTS,
      objectKey("work", "odd"),
      (it) => it.status?.conditions?.some((one) => one.type === "Valid") === true,
    );
    for (const { message } of reported.status?.conditions ?? []) expect(message.length).toBeLessThan(2000);
    await expectUndisturbed();
    await Promise.all([
      client.delete(MCS_SERVICE_EXPORTS, objectKey("work", "odd")),
      client.delete(FLEET_SERVICE_EXPORTS, objectKey("work", "odd")),
      client.delete(SERVICES, objectKey("work", "odd")),
      client.delete(ENDPOINT_SLICES, objectKey("work", "odd-abcde")),
    ]);
    await eventually(fleet.client("c"), MCS_SERVICE_IMPORTS, (all) => all.length === 1);
  });
});
