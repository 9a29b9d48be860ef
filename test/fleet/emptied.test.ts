import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ENDPOINT_SLICES } from "@fairlead/kube/api/discovery/v1/types.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import {
  MCS_SERVICE_IMPORTS,
  MCS_SERVICE_NAME_LABEL,
} from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import {
  addressesOf,
  deploy,
  ensureNamespace,
  exportBy,
  startFleet,
  type TestFleet,
} from "../support/fleet.ts";
import { eventually, eventuallyOne } from "../support/waiting.ts";

/** API servers answer null for the endpoints of a slice that has none, and for its ports. */

let fleet: TestFleet;
/** The EndpointSlices that programs applied, one entry for each request. */
const applied: string[] = [];

function counting(client: KubeClient): KubeClient {
  return new Proxy(client, {
    get(target, property) {
      const value: unknown = Reflect.get(target, property, target);
      if (typeof value !== "function") return value;
      return (...given: unknown[]): unknown => {
        const [of, object] = given as Parameters<KubeClient["apply"]>;
        if (property === "apply" && of.kind === "EndpointSlice") applied.push(object.metadata.name);
        return Reflect.apply(value, target, given);
      };
    },
  });
}

beforeAll(async () => {
  fleet = await startFleet({ members: ["a", "b"], leaseSeconds: 60, wrap: counting });
  await ensureNamespace(fleet.client("b"), "work");
});
afterAll(() => fleet[Symbol.asyncDispose]());

/** Resolves once the importer has these addresses of the service, and no other. */
const importedAre = (name: string, ...addresses: readonly string[]): Promise<unknown> =>
  eventually(fleet.client("b"), ENDPOINT_SLICES, (slices) => {
    const own = slices.filter((it) => it.metadata.labels?.[MCS_SERVICE_NAME_LABEL] === name);
    return addressesOf(own).join() === addresses.join();
  });
const setEndpoints = (name: string, ...addresses: readonly string[]): Promise<unknown> =>
  fleet.client("a").mergePatch(ENDPOINT_SLICES, objectKey("work", `${name}-abcde`), {
    endpoints: addresses.map((it) => ({ addresses: [it] })),
  });

describe("a slice without endpoints", () => {
  it.each(["fleet", "mcs"] as const)("is withdrawn from the importer, and fills again: %s", async (api) => {
    await deploy(fleet.client("a"), { name: api, addresses: ["10.1.0.1", "10.1.0.2"] });
    await exportBy(api, fleet.client("a"), { name: api });
    await importedAre(api, "10.1.0.1", "10.1.0.2");
    await setEndpoints(api);
    await importedAre(api);
    await setEndpoints(api, "10.1.0.3");
    await importedAre(api, "10.1.0.3");
  });

  it("does not keep a service from being exported before its pods exist", async () => {
    await deploy(fleet.client("a"), { name: "early", addresses: [] });
    const path = "/apis/discovery.k8s.io/v1/namespaces/work/endpointslices/early-abcde";
    expect(await fleet.client("a").request("GET", path)).toMatchObject({ endpoints: null });
    await exportBy("mcs", fleet.client("a"), { name: "early" });
    await eventuallyOne(
      fleet.client("b"),
      MCS_SERVICE_IMPORTS,
      objectKey("work", "early"),
      (it) => it.status?.clusters?.length === 1,
    );
    await setEndpoints("early", "10.1.1.1");
    await importedAre("early", "10.1.1.1");
  });

  it("is written once for each change, as one whose endpoints have no conditions (B2)", async () => {
    await deploy(fleet.client("a"), { name: "once", addresses: ["10.1.3.1"] });
    await exportBy("mcs", fleet.client("a"), { name: "once" });
    await importedAre("once", "10.1.3.1");
    await setEndpoints("once", "10.1.3.2");
    await importedAre("once", "10.1.3.2");
    const before = applied.filter((it) => it.includes("once")).length;
    const changes = [["10.1.3.3"], [], ["10.1.3.4"], ["10.1.3.5"]];
    for (const addresses of changes) {
      await setEndpoints("once", ...addresses);
      await importedAre("once", ...addresses);
    }
    expect(applied.filter((it) => it.includes("once")).length - before).toBe(
      // The exporter imports its own service, too.
      changes.length * fleet.members.size,
    );
  });

  it("does not need ports: a headless Service without any is imported, emptied and filled", async () => {
    const headless = { name: "headless", headless: true, ports: [] };
    await deploy(fleet.client("a"), { ...headless, addresses: ["10.1.2.1"] });
    await exportBy("mcs", fleet.client("a"), { name: "headless" });
    await importedAre("headless", "10.1.2.1");
    await setEndpoints("headless");
    await importedAre("headless");
    await setEndpoints("headless", "10.1.2.2");
    await importedAre("headless", "10.1.2.2");
  });
});
