import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { systemDeps } from "@fairlead/base/deps.ts";
import { NODES, SERVICES, type Service } from "@fairlead/kube/api/core/v1/types.ts";
import { ENDPOINT_SLICES, type Endpoint, type EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { FlowTable } from "../service-proxy/flows.ts";
import { flowText } from "../service-proxy/stale-flows.ts";
import { SERVICE_INDEX, serviceOf, WithdrawnFlows } from "./withdrawn-flows.ts";

const SHOP: Service = {
  metadata: { namespace: "work", name: "shop" },
  spec: {
    type: "NodePort",
    clusterIPs: ["10.96.0.7", "fd00:96::7"],
    ports: [{ name: "http", port: 80, nodePort: 30080, protocol: "TCP" }],
  },
};

function slice(name: string, endpoints: readonly Endpoint[], addressType = "IPv4"): EndpointSlice {
  const labels = { "kubernetes.io/service-name": "shop" };
  return {
    metadata: { namespace: "work", name, labels },
    addressType: addressType as EndpointSlice["addressType"],
    ports: [{ name: "http", port: 8080, protocol: "TCP" }],
    endpoints: [...endpoints],
  };
}
const ready = (...addresses: readonly string[]): Endpoint[] =>
  addresses.map((it) => ({ addresses: [it], conditions: { ready: true } }));

describe("the flows to withdrawn endpoints", () => {
  let clock: FakeClock;
  let client: FakeKubeClient;
  let stack: AsyncDisposableStack;
  /** What was to be ended, when, with what the table's turn found not to be in use. */
  let ended: { atMs: number; flows: readonly string[] }[];
  let startMs = 0;

  beforeEach(async () => {
    clock = new FakeClock();
    client = new FakeKubeClient(clock);
    stack = new AsyncDisposableStack();
    ended = [];
    client.seed(SERVICES, SHOP);
    const addresses = [{ type: "InternalIP" as const, address: "192.0.2.1" }];
    client.seed(NODES, { metadata: { name: "n1" }, status: { addresses } });
    client.seed(ENDPOINT_SLICES, slice("a", ready("10.1.0.1", "10.1.0.2")));
    client.seed(ENDPOINT_SLICES, slice("b", ready("10.2.0.1")));
    client.seed(ENDPOINT_SLICES, slice("c", ready("fd00:1::1"), "IPv6"));
    const flows: FlowTable = {
      end: ({ gone }, choices) => {
        const { isUsed } = choices();
        const left = gone.filter((it) => !isUsed(it)).map(flowText);
        if (left.length > 0) ended.push({ atMs: clock.monotonic() - startMs, flows: left.toSorted() });
        return Promise.resolve();
      },
      idle: () => Promise.resolve(),
      [Symbol.dispose]: () => {},
    };
    const deps = { ...systemDeps(silentLogger), clock };
    const stop = new AbortController();
    stack.defer(() => stop.abort());
    const informers = {
      services: stack.use(createInformer(client, SERVICES, {}, deps)),
      slices: stack.use(
        createInformer(client, ENDPOINT_SLICES, { indexes: { [SERVICE_INDEX]: serviceOf } }, deps),
      ),
      nodes: stack.use(createInformer(client, NODES, {}, deps)),
    };
    for (const it of Object.values(informers)) it.start(stop.signal);
    await clock.advance(0);
    const withdrawn = stack.use(new WithdrawnFlows({ ...informers, deps, flows }));
    await withdrawn.start();
    startMs = clock.monotonic();
  });
  afterEach(() => stack.disposeAsync());

  async function set(name: string, endpoints: readonly Endpoint[] | null): Promise<void> {
    await client.mergePatch(ENDPOINT_SLICES, objectKey("work", name), { endpoints });
    await clock.advance(0);
  }

  const LOST = ["10.96.0.7 . tcp . 80 10.1.0.2 8080", "192.0.2.1 . tcp . 30080 10.1.0.2 8080"];

  it("are ended by each address of the Service, and again while the cluster's proxy may send more, for 30 s", async () => {
    await set("a", ready("10.1.0.1"));
    await clock.advance(120_000);
    expect(ended).toEqual([0, 1000, 3000, 10_000, 30_000].map((atMs) => ({ atMs, flows: LOST })));
    expect(clock.pending).toBe(0);
  });

  it.each([
    ["not ready", { ready: false }],
    ["not ready and not serving", { ready: false, serving: false, terminating: true }],
  ])("are ended where the endpoint is %s", async (_, conditions) => {
    await set("a", [...ready("10.1.0.1"), { addresses: ["10.1.0.2"], conditions }]);
    expect(ended).toEqual([{ atMs: 0, flows: LOST }]);
  });

  it("are ended where Go writes the list of endpoints as null, and for IPv6", async () => {
    await set("c", null);
    expect(ended).toEqual([{ atMs: 0, flows: ["fd00:96::7 . tcp . 80 fd00:1::1 8080"] }]);
  });

  it("are left alone where an endpoint still serves until it ends, or moves to another slice", async () => {
    const conditions = { ready: false, serving: true, terminating: true };
    await set("a", [...ready("10.1.0.1"), { addresses: ["10.1.0.2"], conditions }]);
    await set("b", ready("10.2.0.1", "10.1.0.2"));
    await set("a", ready("10.1.0.1"));
    await clock.advance(120_000);
    expect(ended).toEqual([]);
  });

  it("are left alone when the endpoint is back", async () => {
    await set("a", ready("10.1.0.1"));
    await set("b", ready("10.2.0.1", "10.1.0.2"));
    await clock.advance(120_000);
    expect(ended).toEqual([{ atMs: 0, flows: LOST }]);
  });
});
