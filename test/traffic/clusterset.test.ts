import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { TRAFFIC_ROUTE_CRD } from "@fairlead/fleet/api/fairlead.dev/crds.ts";
import { CUSTOM_RESOURCE_DEFINITIONS } from "@fairlead/kube/api/apiextensions/v1/types.ts";
import { VIEW_NAMESPACE } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import {
  TRAFFIC_ROUTES,
  type TrafficRoute,
} from "@fairlead/fleet/api/fairlead.dev/v1alpha1/traffic-route.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { systemClock } from "@fairlead/base/clock.ts";
import { exec } from "@fairlead/base/exec.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { seededRng } from "@fairlead/base/rng.ts";
import { createClusterSetProvider } from "@fairlead/fleet/hub/traffic-manager/providers/clusterset.ts";
import { exchange } from "@fairlead/dns/exchange.ts";
import type { DnsServer } from "@fairlead/dns/server.ts";
import { createTrafficSync } from "@fairlead/fleet/dns/traffic-sync.ts";
import { RecordTree } from "@fairlead/dns/tree.ts";
import { CLASS, RCODE, TYPE } from "@fairlead/dns/wire/types.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { formatAddress } from "@fairlead/base/netaddr/address.ts";
import { serve } from "../support/dns-harness.ts";
import { type ProviderWorld, describeProvider, target } from "./contract.ts";

const client = new FakeKubeClient();
const deps = { ...systemDeps(silentLogger), rng: seededRng(1) };
const never = new AbortController().signal;
const ORIGIN = "trafficmanager.clusterset.local.";
const provider = createClusterSetProvider(client, { zone: ORIGIN.slice(0, -1) }, deps);
const sync = createTrafficSync(client, { origin: ORIGIN, negativeTtl: 5 }, deps);
let server: DnsServer;

beforeAll(async () => {
  client.seed(CUSTOM_RESOURCE_DEFINITIONS, {
    ...TRAFFIC_ROUTE_CRD,
    status: { conditions: [{ type: "Established", status: "True" }] },
  } as never);
  await provider.start(never);
  await sync.start(never);
  server = await serve(new RecordTree(), { forwards: [sync.zone] });
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await sync[Symbol.asyncDispose]();
  await provider[Symbol.asyncDispose]();
});

async function ask(label: string, type: number = TYPE.A) {
  const [address] = server.addresses;
  if (address === undefined) throw new Error("the server has no address");
  const question = { name: `${label}.${ORIGIN}`, type, class: CLASS.IN };
  return exchange(question, { server: address, timeoutMs: 5000, clock: systemClock });
}

/** Waits until earlier writes are in the zone: changes of one kind arrive in order. */
async function shown(): Promise<void> {
  const marker: TrafficRoute = {
    metadata: { namespace: VIEW_NAMESPACE, name: "marker" },
    spec: { profile: "test/marker", ttl: 1, targets: [target(1)] },
  };
  await client.delete(TRAFFIC_ROUTES, objectKey(VIEW_NAMESPACE, "marker"));
  await expect.poll(async () => (await ask("marker")).rcode).toBe(RCODE.NXDOMAIN);
  await client.create(TRAFFIC_ROUTES, marker);
  await expect.poll(async () => (await ask("marker")).rcode).toBe(RCODE.NOERROR);
}

/** Draws so often that the random error is small: one drawn answer is one record. */
function draw(label: string): ReadonlyMap<string, number> | undefined {
  const counts = new Map<string, number>();
  const rounds = 20_000;
  for (let round = 0; round < rounds; round++) {
    const answer = sync.zone.ask({ name: `${label}.${ORIGIN}`, type: TYPE.A, class: CLASS.IN });
    if (answer.rcode === RCODE.NXDOMAIN) return undefined;
    for (const { data } of answer.answers)
      if (data.type === "A") {
        const address = formatAddress(data.address);
        counts.set(address, (counts.get(address) ?? 0) + 1 / rounds);
      }
  }
  return counts;
}

describe("the cluster set's own DNS as a provider", () => {
  const world: ProviderWorld = {
    provider,
    async shares(label) {
      await shown();
      return draw(label);
    },
    async occupy(label) {
      await client.create(TRAFFIC_ROUTES, {
        metadata: { namespace: VIEW_NAMESPACE, name: label },
        spec: { profile: "others/own", ttl: 60, targets: [target(99)] },
      });
    },
    async damage(label) {
      const key = objectKey(VIEW_NAMESPACE, label);
      await client.apply(
        TRAFFIC_ROUTES,
        { metadata: { namespace: VIEW_NAMESPACE, name: label }, spec: { ttl: 7 } },
        { fieldManager: "another-manager" },
      );
      const reported = Promise.withResolvers<void>();
      using _subscription = provider.subscribe((changed) => {
        if (changed === label) reported.resolve();
      });
      await client.delete(TRAFFIC_ROUTES, key);
      // The controller hears of it, and so asks again.
      await reported.promise;
    },
  };
  describeProvider(() => world);

  it("keeps targets that another manager added to one of its names", async () => {
    const name = { label: "work-shared", profile: objectKey("work", "shared"), ttlSeconds: 60 };
    await provider.program({ ...name, targets: [target(1)] }, never);
    await client.apply(
      TRAFFIC_ROUTES,
      {
        metadata: { namespace: VIEW_NAMESPACE, name: "work-shared" },
        spec: { targets: [target(77, { name: "mine" })] },
      },
      { fieldManager: "another-manager" },
    );
    await provider.program({ ...name, targets: [target(2)] }, never);
    const route = client.objects(TRAFFIC_ROUTES).find((it) => it.metadata.name === "work-shared");
    expect(route?.spec.targets?.map((it) => it.name).toSorted()).toEqual(["fleet-uid#hello#c2", "mine"]);
  });

  it("answers a load balancer's domain by an alias, and each family by its own targets", async () => {
    const name = { label: "work-mixed", profile: objectKey("work", "mixed"), ttlSeconds: 60 };
    const dual = target(1, { addresses: ["192.0.2.1", "2001:db8::1"] });
    await provider.program({ ...name, targets: [dual, target(2, { addresses: ["192.0.2.2"] })] }, never);
    await shown();
    const six = await ask("work-mixed", TYPE.AAAA);
    expect(six.answers.map((it) => it.data)).toEqual([
      { type: "AAAA", address: 0x2001_0db8_0000_0000_0000_0000_0000_0001n },
    ]);
    const { addresses: _none, ...named } = target(3, { hostname: "lb.example.net" });
    await provider.program({ ...name, targets: [named] }, never);
    await shown();
    expect((await ask("work-mixed")).answers[0]?.data).toEqual({ type: "CNAME", target: "lb.example.net." });
  });

  it("answers a missing name with the record of the negative TTL", async () => {
    const answer = await ask("absent");
    expect(answer.rcode).toBe(RCODE.NXDOMAIN);
    expect(answer.authorities[0]).toMatchObject({ name: ORIGIN, ttl: 5, data: { type: "SOA" } });
  });

  it("is understood by dig, over UDP and TCP", async () => {
    const name = { label: "work-dug", profile: objectKey("work", "dug"), ttlSeconds: 60 };
    await provider.program({ ...name, targets: [target(1)] }, never);
    await shown();
    const [address] = server.addresses;
    const common = ["@127.0.0.1", "-p", String(address?.port), `work-dug.${ORIGIN}`, "A"];
    for (const transport of ["+notcp", "+tcp"]) {
      const { stdout } = await exec("dig", [...common, transport, "+norecurse"]);
      expect(stdout).toContain("flags: qr aa");
      expect(stdout).toMatch(/^work-dug\.trafficmanager\.clusterset\.local\.\s+60\s+IN\s+A\s+192\.0\.2\.1$/m);
    }
  });

  it("ignores routes in other namespaces", async () => {
    await client.create(TRAFFIC_ROUTES, {
      metadata: { namespace: "work", name: "forged" },
      spec: { profile: "work/forged", ttl: 60, targets: [target(66)] },
    });
    await shown();
    expect((await ask("forged")).rcode).toBe(RCODE.NXDOMAIN);
  });
});
