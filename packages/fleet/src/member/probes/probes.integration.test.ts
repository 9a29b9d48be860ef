import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { describe, expect, it } from "vitest";
import type { EndpointSliceImport } from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { systemClock } from "@fairlead/base/clock.ts";
import { ProbeTally } from "./tally.ts";
import { planTargets, takeSample } from "./targets.ts";
import { tcpProbe } from "./tcp.ts";

describe("what probes of a suspect cluster found", () => {
  it("drops an endpoint at the first failure, and restores it after three answers in a row", () => {
    const tally = new ProbeTally();
    expect(tally.isAlive("x")).toBe(true);
    expect(tally.note("x", false)).toBe(true);
    expect(tally.isAlive("x")).toBe(false);
    const answers = [true, true, false, true, true, true].map((answered) => tally.note("x", answered));
    expect(answers).toEqual([false, false, false, false, false, true]);
    expect(tally.isAlive("x")).toBe(true);
  });

  it("leaves an endpoint alone that answers from the start", () => {
    const tally = new ProbeTally();
    expect(tally.note("x", true)).toBe(false);
    expect(tally.note("x", true)).toBe(false);
    expect(tally.note("x", false)).toBe(true);
  });

  it("forgets endpoints that are gone: a new one of the same address starts without blame", () => {
    const tally = new ProbeTally();
    tally.note("x", false);
    tally.keep(new Set(["y"]));
    expect(tally.isAlive("x")).toBe(true);
  });
});

describe("what is asked of a suspect cluster", () => {
  const slice = (
    addresses: string[],
    ports: { protocol?: "TCP" | "UDP"; port?: number }[],
  ): EndpointSliceImport =>
    ({
      metadata: { name: "s" },
      spec: { addressType: "IPv4", endpoints: addresses.map((it) => ({ addresses: [it] })), ports },
    }) as unknown as EndpointSliceImport;

  it("is every TCP port that any slice gives an address, once", () => {
    expect(
      planTargets([
        slice(["10.0.0.1", "10.0.0.2"], [{ port: 80 }, { protocol: "UDP", port: 53 }]),
        slice(["10.0.0.1"], [{ protocol: "TCP", port: 443 }, { port: 80 }, {}]),
        slice(["10.0.0.3"], [{ protocol: "UDP", port: 53 }]),
      ]),
    ).toEqual([
      { address: "10.0.0.1", ports: [80, 443] },
      { address: "10.0.0.2", ports: [80] },
      { address: "10.0.0.3", ports: [] },
    ]);
  });
});

describe("what is asked in a round of a cluster that is only doubted", () => {
  const targets = (count: number) =>
    Array.from({ length: count }, (_, at) => ({ address: `10.0.0.${at}`, ports: [80] }));

  it("is three endpoints, or a tenth of them, and the others in reserve", () => {
    const sizes = [0, 1, 3, 4, 31, 200].map((count) => takeSample(targets(count), 7).map((it) => it.length));
    expect(sizes).toEqual([
      [0, 0],
      [1, 0],
      [3, 0],
      [3, 1],
      [4, 27],
      [20, 180],
    ]);
  });

  it("is each endpoint in its turn", () => {
    const all = targets(10);
    const asked: string[] = [];
    for (let round = 0; round < 4; round++)
      asked.push(...takeSample(all, asked.length)[0].map((it) => it.address));
    expect(asked.slice(0, 10).toSorted()).toEqual(all.map((it) => it.address).toSorted());
    const [sample, rest] = takeSample(all, 8);
    expect(new Set([...sample, ...rest]).size).toBe(10);
  });
});

describe("a probe", () => {
  it("tells a port that takes connections from one that does not", async () => {
    const server = createServer();
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const probe = tcpProbe(systemClock);
    const signal = AbortSignal.timeout(5000);
    expect(await probe("127.0.0.1", port, signal)).toBe("connected");
    await new Promise((resolve) => void server.close(resolve));
    expect(await probe("127.0.0.1", port, signal)).toBe("refused");
    expect(await probe("127.0.0.1", port, AbortSignal.abort())).toBe("silent");
  });
});
