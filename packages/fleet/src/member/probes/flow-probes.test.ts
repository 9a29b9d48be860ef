import { describe, expect, it } from "vitest";
import { delay } from "@fairlead/base/clock.ts";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import type { EndpointSliceImport } from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { FlowProbes } from "./flow-probes.ts";
import { FlowTally } from "./flow-tally.ts";
import { type FlowTarget, planFlowTargets } from "./flow-targets.ts";
import { Lookups } from "./lookups.ts";

const SINCE = "2026-11-23T12:00:00Z";
const target = (address: string, service = "work/hello"): FlowTarget => ({
  service,
  address,
  port: 80,
  http: undefined,
});

/** Probes at which addresses in `bad` do not answer, and those in `slow` never do. */
function probing(targets: readonly FlowTarget[]) {
  const clock = new FakeClock();
  const asked: string[] = [];
  const bad = new Set<string>();
  let open = 0;
  let mostOpen = 0;
  const slow = new Set<string>();
  const probes = new FlowProbes({
    cluster: "own",
    clock,
    targets: () => targets,
    probe: async ({ address }, signal) => {
      asked.push(address);
      open += 1;
      mostOpen = Math.max(mostOpen, open);
      if (slow.has(address))
        await new Promise((resolve) => {
          signal.addEventListener("abort", resolve);
        });
      open -= 1;
      return bad.has(address) ? "no connection" : undefined;
    },
  });
  return { clock, probes, asked, bad, slow, mostOpen: () => mostOpen };
}

describe("probes of other members' services", () => {
  it("ask four targets of a cluster in a second, each in its turn, and report what failed", async () => {
    const { clock, probes, asked, bad } = probing([target("10.1.0.1"), target("10.1.0.2")]);
    bad.add("10.1.0.2");
    probes.want([{ cluster: "a", since: SINCE }]);
    await clock.advance(10_000);
    expect(asked.length).toBeGreaterThanOrEqual(40);
    expect(asked.length).toBeLessThanOrEqual(41);
    const half = Math.floor(asked.length / 2);
    expect(probes.report()).toEqual([
      {
        cluster: "a",
        since: SINCE,
        targets: 2,
        tried: asked.length,
        failed: expect.toSatisfy((it: number) => it === half || it === half + 1) as number,
        failedServices: expect.any(Number) as number,
        message: "work/hello 10.1.0.2 port 80: no connection",
      },
    ]);
    await probes[Symbol.asyncDispose]();
  });

  it("are twenty in a second for all clusters together", async () => {
    const { clock, probes, asked } = probing([target("10.1.0.1")]);
    probes.want(Array.from({ length: 50 }, (_, at) => ({ cluster: `m${at}`, since: SINCE })));
    await clock.advance(10_000);
    expect(asked.length).toBeGreaterThan(150);
    expect(asked.length).toBeLessThanOrEqual(250);
    await probes[Symbol.asyncDispose]();
  });

  it("do not wait for those that do not answer, and leave few open", async () => {
    const { clock, probes, slow, asked, mostOpen } = probing([target("10.1.0.1"), target("10.1.0.2")]);
    slow.add("10.1.0.1");
    probes.want([{ cluster: "a", since: SINCE }]);
    await clock.advance(4000);
    expect(asked.filter((it) => it === "10.1.0.2").length).toBeGreaterThanOrEqual(7);
    await clock.advance(60_000);
    expect(mostOpen()).toBe(16);
    await probes[Symbol.asyncDispose]();
  });

  it("name a service of many that does not answer", async () => {
    const targets = Array.from({ length: 30 }, (_, at) => target(`10.1.0.${at}`, `work/s${at}`));
    const { clock, probes, bad } = probing(targets);
    bad.add("10.1.0.7");
    probes.want([{ cluster: "a", since: SINCE }]);
    await clock.advance(60_000);
    expect(probes.report()[0]).toMatchObject({ failedServices: 1 });
    await probes[Symbol.asyncDispose]();
  });

  it("begin again for another request, and end with the last one", async () => {
    const { clock, probes, asked } = probing([target("10.1.0.1")]);
    probes.want([{ cluster: "a", since: SINCE }]);
    await clock.advance(10_000);
    const later = "2026-11-23T13:00:00Z";
    probes.want([{ cluster: "a", since: later }]);
    await clock.advance(1000);
    expect(probes.report()).toMatchObject([{ since: later, tried: 5 }]);
    probes.want([]);
    const { length } = asked;
    await clock.advance(10_000);
    expect([asked.length, probes.report()]).toEqual([length, []]);
    await probes[Symbol.asyncDispose]();
  });
});

describe("a count of probes", () => {
  it("is about the last minute, or, where that has few, about five", () => {
    const often = new FlowTally();
    const rarely = new FlowTally();
    for (let ms = 0; ms < 600_000; ms += 250) {
      often.note(ms < 500_000 ? "bad" : undefined, ms);
      if (ms % 10_000 === 0) rarely.note(ms < 500_000 ? "bad" : undefined, ms);
    }
    expect(often.at(600_000)).toEqual({ tried: 240, failed: 0 });
    expect(rarely.at(600_000)).toEqual({ tried: 30, failed: 20, message: "bad" });
  });
});

describe("targets of probes", () => {
  const slice = (more: Partial<EndpointSliceImport["spec"]>): EndpointSliceImport => ({
    metadata: { name: "s" },
    spec: {
      addressType: "IPv4",
      endpoints: [{ addresses: ["10.1.0.1"] }],
      ports: [{ name: "web", port: 8080 }],
      endpointSliceReference: {} as EndpointSliceImport["spec"]["endpointSliceReference"],
      ownerServiceReference: {
        namespace: "work",
        name: "hello",
      } as EndpointSliceImport["spec"]["ownerServiceReference"],
      ...more,
    },
  });
  const plan = (spec: Partial<EndpointSliceImport["spec"]>, paths?: Parameters<typeof planFlowTargets>[1]) =>
    planFlowTargets([slice(spec)], paths).map((it) => `${it.address} ${it.port} ${it.http?.path ?? "tcp"}`);

  it("are TCP ports of endpoints that clients use", () => {
    expect(
      plan({
        endpoints: [
          { addresses: ["10.1.0.1"] },
          { addresses: ["10.1.0.2"], conditions: { ready: false } },
          { addresses: ["10.1.0.3"], conditions: { ready: true, terminating: true } },
        ],
        ports: [{ port: 80 }, { port: 53, protocol: "UDP" }, {}],
      }),
    ).toEqual(["10.1.0.1 80 tcp"]);
  });
  it("are asked by HTTP where the port or the health check says so", () => {
    expect(plan({ ports: [{ name: "web", port: 80, appProtocol: "http" }] })).toEqual(["10.1.0.1 80 /"]);
    const paths = [{ service: "work/hello", port: "web", path: "/healthz" }];
    expect(plan({}, paths)).toEqual(["10.1.0.1 8080 /healthz"]);
    expect(plan({ ports: [{ name: "other", port: 81 }] }, paths)).toEqual(["10.1.0.1 81 tcp"]);
    expect(planFlowTargets([slice({})], paths)[0]?.http?.host).toBe("hello.work.svc.clusterset.local");
  });
  it("are a thousand at most, however many endpoints a cluster exports", () => {
    const endpoints = Array.from({ length: 5000 }, (_, at) => ({
      addresses: [`10.1.${at >> 8}.${at & 255}`],
    }));
    expect(plan({ endpoints })).toHaveLength(1000);
  });
});

describe("lookups", () => {
  it.each([
    ["never answers, say what the servers behind it do", 0, 0],
    ["answers no more, say so", 10, 500],
  ])("of a Service whose address %s", async (_what, answers, failed) => {
    const clock = new FakeClock();
    let left = answers;
    const lookups = new Lookups({
      servers: () => ["10.96.0.10", "10.0.0.2"],
      names: () => ["a"],
      lookup: (server) => Promise.resolve(server === "10.0.0.2" || left-- > 0 ? undefined : "none"),
      clock,
    });
    lookups.want(true);
    for (let at = 0; at < 800; at += 1) await clock.advance(500);
    const { failedLookupsPerMille = Infinity } = lookups.measurements;
    expect(Math.abs(failedLookupsPerMille - failed)).toBeLessThan(10);
    await lookups[Symbol.asyncDispose]();
  });

  it("are as many while an address does not answer: there is something to compare with after half a minute", async () => {
    const clock = new FakeClock();
    const lookups = new Lookups({
      servers: () => ["10.96.0.10", "10.0.0.2"],
      names: () => ["a"],
      lookup: async (server) => {
        if (server === "10.0.0.2") return undefined;
        await delay(clock, 1000, new AbortController().signal);
        return "none";
      },
      clock,
    });
    lookups.want(true);
    for (let at = 0; at < 40; at += 1) await clock.advance(500);
    expect(lookups.measurements).toEqual({ lookups: 41, failedLookupsPerMille: 0 });
    lookups.want(false);
    await clock.advance(1000);
    await lookups[Symbol.asyncDispose]();
  });

  it("ask each server for each name while they are wanted, and say nothing before they are twenty", async () => {
    const clock = new FakeClock();
    const asked = new Set<string>();
    const lookups = new Lookups({
      servers: () => ["10.0.0.10", "10.0.0.11"],
      names: () => ["one", "two"],
      lookup: (server, name) => {
        asked.add(`${server} ${name}`);
        return Promise.resolve(name === "two" ? "timeout" : undefined);
      },
      clock,
    });
    lookups.want(true);
    await clock.advance(4000);
    expect(lookups.measurements).toEqual({ lookups: 18 });
    await clock.advance(1000);
    expect(asked.size).toBe(4);
    const { lookups: tried = 0, failedLookupsPerMille = 0 } = lookups.measurements;
    expect([tried, Math.abs(failedLookupsPerMille - 500) < 100]).toEqual([22, true]);
    lookups.want(false);
    await clock.advance(5000);
    lookups.want(true);
    expect(lookups.measurements).toEqual({ lookups: 0 });
    await lookups[Symbol.asyncDispose]();
  });
  it("are not reported where the cluster's DNS is not known", () => {
    const lookups = new Lookups({
      servers: () => [],
      names: () => ["one"],
      lookup: () => Promise.resolve(undefined),
      clock: new FakeClock(),
    });
    expect(lookups.measurements).toEqual({});
  });
});
