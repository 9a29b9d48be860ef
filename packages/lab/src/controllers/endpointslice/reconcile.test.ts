import { beforeEach, describe, expect, it } from "vitest";
import { NODES, type Pod, PODS, type Service, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { ENDPOINT_SLICES, SERVICE_NAME_LABEL } from "@fairlead/kube/api/discovery/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { noMetrics } from "@fairlead/base/metrics.none.ts";
import { seededRng } from "@fairlead/base/rng.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { createLabInformers } from "../informers.ts";
import { endpointSliceController } from "./reconcile.ts";

const podKey = objectKey("work", "p1");
let clock: FakeClock;
let client: FakeKubeClient;

function service(name: string, selector: Record<string, string>): Service {
  return {
    metadata: { name, namespace: "work" },
    spec: { selector, ports: [{ port: 80 }], ipFamilies: ["IPv4"] },
  };
}
function pod(name: string, ip: string, labels: Record<string, string>): Pod {
  const status = {
    phase: "Running",
    podIPs: [{ ip }],
    conditions: [{ type: "Ready", status: "True" }],
  } as const;
  return {
    metadata: { name, namespace: "work", labels },
    spec: { nodeName: "n1", containers: [] },
    status: { ...status, podIPs: [...status.podIPs], conditions: [...status.conditions] },
  };
}
/** Service to the addresses and zones that its slices show. */
const shown = (): Record<string, string[]> =>
  Object.fromEntries(
    client
      .objects(ENDPOINT_SLICES)
      .map((it) => [
        it.metadata.labels?.[SERVICE_NAME_LABEL] ?? "",
        it.endpoints.map((endpoint) => `${endpoint.addresses[0]} ${endpoint.zone ?? "-"}`),
      ]),
  );
const written = () =>
  client.writes
    .splice(0)
    .filter((it) => it.resource === "endpointslices")
    .map((it) => it.verb);

beforeEach(async () => {
  clock = new FakeClock();
  client = new FakeKubeClient(clock);
  const zone = { "topology.kubernetes.io/zone": "z1" };
  client.seed(NODES, { metadata: { name: "n1", labels: zone } });
  client.seed(SERVICES, service("a", { app: "a" }), service("b", { tier: "back", app: "b" }));
  client.seed(PODS, pod("p1", "10.0.0.1", { app: "a" }), pod("p2", "10.0.0.2", { app: "b", tier: "back" }));
  const deps = { clock, rng: seededRng(1), log: silentLogger, metrics: noMetrics };
  const controller = endpointSliceController(client, createLabInformers(client, deps), deps);
  const starting = controller.start(new AbortController().signal);
  await clock.advance(0);
  await starting;
  await clock.advance(0);
});

describe("EndpointSlices", () => {
  it("follow the labels of pods from one Service to another", async () => {
    expect(shown()).toEqual({ a: ["10.0.0.1 z1"], b: ["10.0.0.2 z1"] });
    written();
    await client.mergePatch(PODS, podKey, { metadata: { labels: { app: "b", tier: "back" } } });
    await clock.advance(0);
    expect(shown()).toEqual({ a: [], b: ["10.0.0.2 z1", "10.0.0.1 z1"] });
    expect(written()).toEqual(["update", "update"]);
  });

  it("follow the zone of a node", async () => {
    await client.mergePatch(NODES, objectKey(undefined, "n1"), {
      metadata: { labels: { "topology.kubernetes.io/zone": "z2" } },
    });
    await clock.advance(0);
    expect(shown()).toEqual({ a: ["10.0.0.1 z2"], b: ["10.0.0.2 z2"] });
  });

  it("are not written when a pod changes in a way that no endpoint shows", async () => {
    written();
    await client.mergePatch(PODS, podKey, { metadata: { annotations: { note: "new" } } });
    const containerStatuses = [{ name: "c", ready: true, restartCount: 1, image: "", imageID: "" }];
    await client.mergePatch(PODS, podKey, { status: { containerStatuses } }, { subresource: "status" });
    await clock.advance(1000);
    expect(written()).toEqual([]);
  });

  it("are restored when another client changes or removes them", async () => {
    const slice = client
      .objects(ENDPOINT_SLICES)
      .find((it) => it.metadata.labels?.[SERVICE_NAME_LABEL] === "a");
    const key = objectKey("work", slice?.metadata.name ?? "");
    await client.mergePatch(ENDPOINT_SLICES, key, { endpoints: [] });
    await clock.advance(0);
    expect(shown()).toMatchObject({ a: ["10.0.0.1 z1"] });
    await client.delete(ENDPOINT_SLICES, key);
    await clock.advance(0);
    expect(shown()).toMatchObject({ a: ["10.0.0.1 z1"] });
  });

  it("are not made twice while the cache lags behind", async () => {
    client.deafTo.add("endpointslices");
    client.seed(SERVICES, service("c", { app: "a" }));
    await clock.advance(0);
    await client.mergePatch(
      PODS,
      podKey,
      { status: { podIPs: [{ ip: "10.0.0.9" }] } },
      { subresource: "status" },
    );
    await clock.advance(100);
    const slices = client
      .objects(ENDPOINT_SLICES)
      .filter((it) => it.metadata.labels?.[SERVICE_NAME_LABEL] === "c");
    expect(slices).toHaveLength(1);
  });

  it("of a Service that has lost its selector stay as they are: someone else may write them now", async () => {
    await client.mergePatch(SERVICES, objectKey("work", "a"), { spec: { selector: null } });
    await clock.advance(0);
    expect(shown()).toMatchObject({ a: ["10.0.0.1 z1"] });
  });

  it("go with their Service", async () => {
    await client.delete(SERVICES, objectKey("work", "a"));
    await clock.advance(0);
    expect(Object.keys(shown())).toEqual(["b"]);
  });
});
