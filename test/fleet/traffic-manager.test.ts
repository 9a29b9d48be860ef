import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { ISOLATION_ANNOTATION, VIEW_NAMESPACE } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import {
  TRAFFIC_ROUTES,
  type TrafficRoute,
} from "@fairlead/fleet/api/fairlead.dev/v1alpha1/traffic-route.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { FLEET_SERVICE_EXPORTS } from "@fairlead/fleet/api/networking.fleet.azure.com/v1beta1/types.ts";
import {
  TRAFFIC_MANAGER_BACKENDS,
  TRAFFIC_MANAGER_PROFILES,
  type TrafficManagerBackend,
  type TrafficManagerProfile,
} from "@fairlead/fleet/api/networking.fleet.azure.com/v1beta1/traffic-manager.ts";
import { createClusterSetProvider } from "@fairlead/fleet/hub/traffic-manager/providers/clusterset.ts";
import { createTrafficSync, type TrafficSync } from "@fairlead/fleet/dns/traffic-sync.ts";
import { CLASS, TYPE } from "@fairlead/dns/wire/types.ts";
import { formatAddress } from "@fairlead/base/netaddr/address.ts";
import { deploy, ensureNamespace, startFleet, type TestFleet, testDeps } from "../support/fleet.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";

/** The whole way: Services of members, the hub, and DNS on the hub and in a member. */

const ZONE = "trafficmanager.clusterset.local";
const published = fileURLToPath(
  new URL(
    "../../../shared/peers/Azure+fleet-networking/examples/getting-started/artifacts/atm.yaml",
    import.meta.url,
  ),
);
const addresses: Readonly<Record<string, string>> = { a: "192.0.2.1", b: "192.0.2.2" };
/** Hosts that answer no check. */
const down = new Set<string>();

let fleet: TestFleet;
const hub = () => fleet.client("hub");
const WEB = objectKey("work", "web");
const APP = objectKey("work", "app");

beforeAll(async () => {
  fleet = await startFleet({
    members: ["a", "b"],
    trafficManager: (client, deps) => ({
      provider: createClusterSetProvider(client, { zone: ZONE }, deps),
      ttlSeconds: 60,
      check: (host) => Promise.resolve(!down.has(host)),
    }),
  });
  for (const [name, ip] of Object.entries(addresses)) {
    const client = fleet.client(name);
    await deploy(client, { name: "app", addresses: ["10.1.0.1"], service: { type: "LoadBalancer" } });
    await client.mergePatch(
      SERVICES,
      APP,
      { status: { loadBalancer: { ingress: [{ ip }] } } },
      { subresource: "status" },
    );
    const annotations = { "networking.fleet.azure.com/weight": name === "a" ? "300" : "100" };
    await client.create(FLEET_SERVICE_EXPORTS, { metadata: { namespace: "work", name: "app", annotations } });
  }
  await ensureNamespace(hub(), "work");
});
afterAll(() => fleet[Symbol.asyncDispose]());

const isTrue = (
  type: string,
  it: { status?: { conditions?: { type: string; status: string }[] } },
): boolean => it.status?.conditions?.some((one) => one.type === type && one.status === "True") === true;
const weights = (it: TrafficManagerBackend): Record<string, number | undefined> =>
  Object.fromEntries(
    (it.status?.endpoints ?? []).map((one) => [one.from?.cluster ?? "", one.weight] as const),
  );
const targets = (it: TrafficRoute): string =>
  (it.spec.targets ?? [])
    .map((one) => `${one.addresses?.join()}${one.degraded === true ? "!" : ""}`)
    .toSorted()
    .join(" ");

/** The answers of a DNS server that reads from an API server, over many queries. */
async function drawn(sync: TrafficSync): Promise<Map<string, number>> {
  await sync.start(AbortSignal.timeout(20_000));
  const counts = new Map<string, number>();
  for (let round = 0; round < 4000; round++) {
    const { answers } = sync.zone.ask({ name: `work-web.${ZONE}.`, type: TYPE.A, class: CLASS.IN });
    for (const { data } of answers)
      if (data.type === "A") {
        const address = formatAddress(data.address);
        counts.set(address, (counts.get(address) ?? 0) + 1 / 4000);
      }
  }
  return counts;
}

describe("the traffic manager of a fleet", () => {
  it("puts one name in front of the load balancers of all clusters, by their weights", async () => {
    const old = { apiVersion: "networking.fleet.azure.com/v1alpha1" };
    await hub().create(resource(old.apiVersion, "TrafficManagerProfile", "trafficmanagerprofiles"), {
      metadata: { namespace: "work", name: "web" },
      spec: { resourceGroup: "any" },
    } as KubeObject);
    await hub().create(resource(old.apiVersion, "TrafficManagerBackend", "trafficmanagerbackends"), {
      metadata: { namespace: "work", name: "app" },
      spec: { profile: { name: "web" }, backend: { name: "app" }, weight: 100 },
    } as KubeObject);
    const profile = await eventuallyOne(hub(), TRAFFIC_MANAGER_PROFILES, WEB, (it) =>
      isTrue("Programmed", it),
    );
    expect(profile.status?.dnsName).toBe(`work-web.${ZONE}`);
    const backend = await eventuallyOne(
      hub(),
      TRAFFIC_MANAGER_BACKENDS,
      APP,
      (it) => isTrue("Accepted", it) && it.status?.endpoints?.length === 2,
    );
    expect(weights(backend)).toEqual({ a: 75, b: 25 });
  });

  it.each([
    ["the hub", "hub", VIEW_NAMESPACE],
    ["a member, from a copy of its own,", "b", "fleet-system"],
  ])("is answered by the DNS of %s by weight", async (_, cluster, namespace) => {
    const key = objectKey(namespace, "work-web");
    await eventuallyOne(
      fleet.client(cluster),
      TRAFFIC_ROUTES,
      key,
      (it) => targets(it) === "192.0.2.1 192.0.2.2",
    );
    const options = { origin: `${ZONE}.`, negativeTtl: 5 };
    await using sync = createTrafficSync(fleet.client(cluster), options, testDeps("dns"));
    const shares = await drawn(sync);
    expect(shares.get("192.0.2.1")).toBeGreaterThan(0.7);
    expect(shares.get("192.0.2.2")).toBeGreaterThan(0.2);
  });

  it("follows a load balancer that moves, and recreates deleted objects, down to the members", async () => {
    const status = { loadBalancer: { ingress: [{ ip: "192.0.2.22" }] } };
    await fleet.client("b").mergePatch(SERVICES, APP, { status }, { subresource: "status" });
    const copy = objectKey("fleet-system", "work-web");
    await eventuallyOne(
      fleet.client("a"),
      TRAFFIC_ROUTES,
      copy,
      (it) => targets(it) === "192.0.2.1 192.0.2.22",
    );
    await fleet.client("a").delete(TRAFFIC_ROUTES, copy);
    await hub().delete(TRAFFIC_ROUTES, objectKey(VIEW_NAMESPACE, "work-web"));
    await eventuallyOne(
      hub(),
      TRAFFIC_ROUTES,
      objectKey(VIEW_NAMESPACE, "work-web"),
      (it) => targets(it) !== "",
    );
    await eventuallyOne(
      fleet.client("a"),
      TRAFFIC_ROUTES,
      copy,
      (it) => targets(it) === "192.0.2.1 192.0.2.22",
    );
  });

  it("keeps a member's copies in place while the hub is down", async () => {
    await fleet.hubProgram.stop();
    await using sync = createTrafficSync(
      fleet.client("b"),
      { origin: `${ZONE}.`, negativeTtl: 5 },
      testDeps("dns"),
    );
    expect([...(await drawn(sync)).keys()].toSorted()).toEqual(["192.0.2.1", "192.0.2.22"]);
    fleet.hubProgram.start();
  });

  it("hides its routes from a member without access to the view", async () => {
    const isolate = (how: string | null) =>
      hub().mergePatch(MEMBER_CLUSTERS, objectKey(undefined, "b"), {
        metadata: { annotations: { [ISOLATION_ANNOTATION]: how } },
      });
    await isolate("strict");
    await eventually(fleet.client("b"), TRAFFIC_ROUTES, (all) => all.length === 0);
    await isolate(null);
    await eventually(fleet.client("b"), TRAFFIC_ROUTES, (all) => all.length === 1);
  });

  it("removes the name with the profile, everywhere", async () => {
    await hub().delete(TRAFFIC_MANAGER_PROFILES, WEB);
    for (const name of ["a", "b"])
      await eventually(fleet.client(name), TRAFFIC_ROUTES, (all) => all.length === 0);
    await eventually(hub(), TRAFFIC_ROUTES, (all) => all.length === 0);
    const backend = await hub().get(TRAFFIC_MANAGER_BACKENDS, APP);
    expect(isTrue("Accepted", backend)).toBe(false);
    await hub().delete(TRAFFIC_MANAGER_BACKENDS, APP);
    await eventually(hub(), TRAFFIC_MANAGER_BACKENDS, (all) => all.length === 0);
  });

  it.skipIf(!existsSync(published))(
    "takes the published example unchanged (skipped where it is not at hand)",
    async () => {
      const objects = parseAllDocuments(readFileSync(published, "utf8")).map((it) => it.toJS() as KubeObject);
      for (const object of objects) {
        const kind = object.kind ?? "";
        const of = resource(object.apiVersion ?? "", kind, `${kind.toLowerCase()}s`);
        expect(await hub().create(of, object)).toMatchObject(object);
      }
      await eventuallyOne(hub(), TRAFFIC_MANAGER_PROFILES, objectKey("work", "myatm"), (it) =>
        isTrue("Programmed", it),
      );
      await eventuallyOne(hub(), TRAFFIC_MANAGER_BACKENDS, APP, (it) => isTrue("Accepted", it));
    },
  );
});

describe("the kinds of the traffic manager", () => {
  const profile = (spec: object, name = "checked"): KubeObject =>
    ({ metadata: { namespace: "work", name }, spec: { resourceGroup: "any", ...spec } }) as KubeObject;
  const create = (object: KubeObject) =>
    hub().create(TRAFFIC_MANAGER_PROFILES, object as TrafficManagerProfile, { dryRun: true });

  it.each([
    [{ intervalInSeconds: 10, timeoutInSeconds: 10 }, "between 5 and 9 when intervalInSeconds is 10"],
    [{ intervalInSeconds: 20 }, "intervalInSeconds"],
    [{ timeoutInSeconds: 4 }, "timeoutInSeconds"],
    [{ toleratedNumberOfFailures: 10 }, "toleratedNumberOfFailures"],
    [
      { customHeaders: Array.from({ length: 9 }, (_, at) => ({ name: `n${at}`, value: "v" })) },
      "customHeaders",
    ],
    [{ protocol: "UDP" }, "protocol"],
  ])("refuse a monitor of %j", async (monitorConfig, why) => {
    await expect(create(profile({ monitorConfig }))).rejects.toThrow(why);
  });

  it("refuse names of 64 characters, and changes of what is fixed", async () => {
    await expect(create(profile({}, "n".repeat(64)))).rejects.toThrow("metadata.name max length is 63");
    await expect(create(profile({}, "n".repeat(63)))).resolves.toBeDefined();
    await hub().create(TRAFFIC_MANAGER_PROFILES, profile({}) as TrafficManagerProfile);
    const key = objectKey("work", "checked");
    await expect(
      hub().mergePatch(TRAFFIC_MANAGER_PROFILES, key, { spec: { resourceGroup: "other" } }),
    ).rejects.toThrow("resourceGroup is immutable");
    await hub().delete(TRAFFIC_MANAGER_PROFILES, key);
  });
});
