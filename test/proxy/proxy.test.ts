import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { type EndpointSlice, ENDPOINT_SLICES } from "@fairlead/kube/api/discovery/v1/types.ts";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { seededRng } from "@fairlead/base/rng.ts";
import { PROXY_TABLE } from "@fairlead/fleet/dataplane/service-proxy/names.ts";
import { createServiceProxy, type ServiceProxy } from "@fairlead/fleet/dataplane/service-proxy/proxy.ts";
import {
  type Choices,
  flowText,
  type ServiceFlow,
} from "@fairlead/fleet/dataplane/service-proxy/stale-flows.ts";
import { createFakeNft, type FakeNft } from "@fairlead/os/nft/fake.ts";
import {
  makeNode,
  makeService,
  makeSlice,
  manualInformer,
  nodeInformer,
  ready,
} from "../support/service-objects.ts";

const signal = AbortSignal.timeout(25_000);

class World {
  readonly services = manualInformer(SERVICES);
  readonly slices = manualInformer(ENDPOINT_SLICES);
  readonly ended: ServiceFlow[] = [];
  choices: (() => Choices) | undefined;
  readonly clock = new FakeClock();
  readonly nft: FakeNft;

  constructor(nft: FakeNft = createFakeNft()) {
    this.nft = nft;
  }

  proxy(): ServiceProxy {
    return createServiceProxy({
      services: this.services,
      endpointSlices: this.slices,
      nodeName: "here",
      nodes: nodeInformer(makeNode("here", { addresses: ["192.0.2.33"] })),
      health: { set() {}, async [Symbol.asyncDispose]() {} },
      clusterCidrs: ["10.244.0.0/16", "10.244.3.0/24", "fd00::/64"],
      nft: this.nft,
      flows: {
        end: async ({ gone }, choices) => {
          this.ended.push(...gone);
          this.choices = choices;
        },
        idle: () => Promise.resolve(),
        [Symbol.dispose]() {},
      },
      clock: this.clock,
      rng: seededRng(1),
      log: silentLogger,
    });
  }

  /** What the kernel holds, as text. */
  async elements(): Promise<readonly string[]> {
    const table = await this.nft.read(PROXY_TABLE, signal);
    return [...(table?.sets ?? [])]
      .flatMap(([name, set]) => [...set.elements].map(([key, value]) => `${name} { ${key} : ${value} }`))
      .toSorted((a, b) => (a < b ? -1 : 1));
  }

  /** Lets a wait for a retry pass. */
  async settle(proxy: ServiceProxy): Promise<void> {
    const idle = proxy.idle(signal);
    await this.clock.advance(10_000);
    await idle;
  }
}

const web = makeService("web", { clusterIPs: ["10.96.0.1"], ports: [{ port: 80 }] });
const dns = makeService("dns", { clusterIPs: ["10.96.0.2"], ports: [{ port: 53, protocol: "UDP" }] });
const dnsSlice = (...addresses: string[]): EndpointSlice =>
  makeSlice("dns-1", "dns", {
    endpoints: addresses.map((it) => ready(it)),
    ports: [{ name: "", protocol: "UDP", port: 53 }],
  });

describe("the service proxy", () => {
  it("holds in the kernel what a new proxy would put there, after any changes and any failures", async () => {
    const service = fc
      .record({
        name: fc.constantFrom("a", "b", "c"),
        ip: fc.constantFrom("10.96.0.1", "10.96.0.2"),
        balancer: fc.constantFrom([], ["192.0.2.1"]),
        sessionAffinity: fc.constantFrom("None", "ClientIP"),
        externalTrafficPolicy: fc.constantFrom("Local", "Cluster"),
        protocol: fc.constantFrom("TCP", "UDP"),
      })
      .map(({ name, ip, balancer, protocol, ...spec }) =>
        makeService(name, { clusterIPs: [ip], ports: [{ port: 80, protocol }], ...spec }, balancer),
      );
    const slice = fc
      .record({
        name: fc.constantFrom("s1", "s2", "s3"),
        of: fc.constantFrom("a", "b", "c"),
        hosts: fc.uniqueArray(fc.integer({ min: 1, max: 5 }), { maxLength: 4 }),
        local: fc.boolean(),
      })
      .map(({ name, of, hosts, local }) =>
        makeSlice(name, of, {
          endpoints: hosts.map((it) => ready(`10.244.0.${it}`, { nodeName: local ? "here" : "there" })),
          ports: [
            { name: "", port: 8080 },
            { name: "", port: 8080, protocol: "UDP" },
          ],
        }),
      );
    const step = fc.oneof(
      service.map((object) => (world: World) => world.services.set(object)),
      slice.map((object) => (world: World) => world.slices.set(object)),
      service.map((object) => (world: World) => world.services.delete(object)),
      slice.map((object) => (world: World) => world.slices.delete(object)),
      fc.constant((world: World) => world.nft.failNext(new FleetError("NFT_EXISTS", "made up"))),
      fc.constant((world: World) => world.nft.tamper(PROXY_TABLE, () => undefined)),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(step, { maxLength: 4 }), { maxLength: 8 }), async (rounds) => {
        const world = new World();
        await using proxy = world.proxy();
        await proxy.start(signal);
        for (const round of rounds) {
          for (const run of round) run(world);
          await world.settle(proxy);
        }
        // A change also repairs elements that were tampered with.
        world.services.set(dns);
        world.slices.set(dnsSlice("10.244.9.9"));
        await world.settle(proxy);

        const fresh = new World();
        for (const it of world.services.store.list()) fresh.services.set(it);
        for (const it of world.slices.store.list()) fresh.slices.set(it);
        await using second = fresh.proxy();
        await second.start(signal);
        expect(await world.elements()).toEqual(await fresh.elements());
      }),
      { numRuns: 60 },
    );
  });

  it("changes nothing when it is started again", async () => {
    const world = new World();
    world.services.set(web);
    world.slices.set(makeSlice("web-1", "web", { endpoints: [ready("10.244.0.1")] }));
    const first = world.proxy();
    await first.start(signal);
    await first[Symbol.asyncDispose]();
    const before = world.nft.transactions.length;
    await using second = world.proxy();
    await second.start(signal);
    expect(world.nft.transactions.length).toBe(before);
  });

  it("touches the elements of the changed Service only, in one transaction", async () => {
    const world = new World();
    for (let at = 1; at <= 50; at++) {
      const name = `s${at}`;
      world.services.set(makeService(name, { clusterIPs: [`10.96.1.${at}`], ports: [{ port: 80 }] }));
      world.slices.set(makeSlice(`${name}-1`, name, { endpoints: [ready(`10.244.1.${at}`)] }));
    }
    await using proxy = world.proxy();
    await proxy.start(signal);
    const before = world.nft.transactions.length;
    world.slices.set(makeSlice("s7-1", "s7", { endpoints: [ready("10.244.2.7")] }));
    await proxy.idle(signal);
    expect(world.nft.transactions.slice(before)).toEqual([
      [
        expect.objectContaining({ verb: "delete-elements", keys: ["0 . 10.96.1.7 . tcp . 80"] }),
        expect.objectContaining({
          verb: "add-elements",
          elements: [["0 . 10.96.1.7 . tcp . 80", "10.244.2.7 . 8080"]],
        }),
      ],
    ]);
  });

  it("writes nothing for a change that makes no difference to packets", async () => {
    const world = new World();
    world.services.set(web);
    await using proxy = world.proxy();
    await proxy.start(signal);
    const before = world.nft.transactions.length;
    world.services.set({ ...web, metadata: { ...web.metadata, labels: { a: "b" } } });
    await proxy.idle(signal);
    expect(world.nft.transactions.length).toBe(before);
  });

  it("ends the flows of an endpoint that a port lost, and those of UDP from before it had any", async () => {
    const world = new World();
    await using proxy = world.proxy();
    await proxy.start(signal);
    const taken = (): readonly string[] => world.ended.splice(0).map(flowText);
    world.services.set(dns);
    world.slices.set(dnsSlice("10.244.0.1", "10.244.0.2"));
    world.services.set(web);
    world.slices.set(makeSlice("web-1", "web", { endpoints: [ready("10.244.0.1")] }));
    await proxy.idle(signal);
    expect(taken()).toEqual(["10.96.0.2 . udp . 53 10.96.0.2 53"]);
    world.slices.set(dnsSlice("10.244.0.2", "10.244.0.3"));
    world.slices.set(makeSlice("web-1", "web", { endpoints: [ready("10.244.0.7")] }));
    await proxy.idle(signal);
    const [tcp = "", ...udp] = taken().toSorted();
    expect(tcp).toMatch(/ \. tcp \. \d+ 10\.244\.0\.1 \d+$/);
    expect(udp).toEqual(["10.96.0.2 . udp . 53 10.244.0.1 53"]);
    world.services.delete(dns);
    await proxy.idle(signal);
    expect(taken().map((it) => it.split(" ").at(-2))).toEqual(["10.244.0.2", "10.244.0.3"]);
  });

  it("counts an endpoint that was removed and added again as used", async () => {
    const world = new World();
    await using proxy = world.proxy();
    await proxy.start(signal);
    world.services.set(web);
    const serve = async (...addresses: readonly string[]): Promise<void> => {
      world.slices.set(makeSlice("web-1", "web", { endpoints: addresses.map((it) => ready(it)) }));
      await proxy.idle(signal);
    };
    await serve("10.244.0.1", "10.244.0.2");
    await serve("10.244.0.2");
    const gone = world.ended.find((it) => it.endpoint.address === "10.244.0.1");
    expect(gone).toBeDefined();
    const asked = (): unknown => gone && [world.choices?.().isService(gone), world.choices?.().isUsed(gone)];
    expect(asked()).toEqual([true, false]);
    await serve("10.244.0.1", "10.244.0.2");
    expect(asked()).toEqual([true, true]);
  });

  it("gathers changes that come at once into one transaction", async () => {
    const world = new World();
    await using proxy = world.proxy();
    await proxy.start(signal);
    const before = world.nft.transactions.length;
    world.services.set(web);
    world.slices.set(makeSlice("web-1", "web", { endpoints: [ready("10.244.0.1")] }));
    world.services.set(dns);
    await proxy.idle(signal);
    expect(world.nft.transactions.length).toBe(before + 1);
  });
});
