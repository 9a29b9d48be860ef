import { describe, expect, it } from "vitest";
import type { EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Applied } from "@fairlead/kube/types.ts";
import type { Session } from "../session.ts";
import { putReplacements } from "./replacement.ts";

const READY = [{ addresses: ["10.0.0.1"] }];
const UNREADY = [{ addresses: ["10.0.0.1"], conditions: { ready: false } }];

const BALANCERS = new Map([
  [
    "fleet-system/work-lb",
    {
      metadata: {
        name: "work-lb",
        labels: {
          "networking.fleet.azure.com/multi-cluster-service-namespace": "work",
          "networking.fleet.azure.com/multi-cluster-service-name": "lb",
        },
      },
    },
  ],
]);

function slice(name: string, more: Partial<EndpointSlice> = {}): EndpointSlice {
  return {
    metadata: { namespace: "work", name, labels: { "multicluster.kubernetes.io/service-name": "hello" } },
    addressType: "IPv4",
    endpoints: READY,
    ports: [{ name: "http", port: 80 }],
    ...more,
  };
}

/** Withdraws "old" from a cluster that has `present`, when the sources of the service become `planned`. */
async function written(
  present: readonly EndpointSlice[],
  planned: readonly EndpointSlice[],
  wanted: readonly EndpointSlice[] = [],
  service?: ObjectKey,
): Promise<string[]> {
  const names: string[] = [];
  const session = {
    cluster: "c",
    local: { apply: (_: unknown, it: EndpointSlice) => (names.push(it.metadata.name), Promise.resolve(it)) },
    here: {
      slices: {
        store: {
          get: (key: string) =>
            present.find((it) => objectKey(it.metadata.namespace, it.metadata.name) === key),
          byIndex: (index: string, key: string) =>
            index === "imported" ? present.filter((it) => it.metadata.name === key) : [],
        },
      },
      services: { store: { get: (key: string) => BALANCERS.get(key) } },
      multiClusterServices: {
        store: {
          get: () => ({
            metadata: { namespace: "work", name: "lb" },
            spec: { serviceImport: { name: "hello" } },
          }),
        },
      },
    },
  } as unknown as Session;
  const withdrawal = {
    key: objectKey(undefined, "old"),
    service: service ?? undefined,
    wanted: wanted as readonly Applied<EndpointSlice>[],
    coming: (of: ObjectKey) => (of === objectKey("work", "hello") ? planned : []),
  };
  await putReplacements(session, withdrawal, AbortSignal.timeout(5000));
  return names;
}

describe("ready endpoints that are withdrawn", () => {
  const old = slice("old");

  it("are replaced first, by one slice of those that come", async () => {
    expect(await written([old], [slice("new"), slice("newer")])).toEqual(["new"]);
  });

  it("go at once where the others are there", async () => {
    expect(await written([old, slice("new")], [slice("new"), slice("newer")])).toEqual([]);
  });

  it("are replaced where the others are there but not ready yet", async () => {
    expect(await written([old, slice("new", { endpoints: UNREADY })], [slice("new")])).toEqual(["new"]);
  });

  it("go at once where nothing comes, or nothing that is ready, or of the family", async () => {
    expect(await written([old], [])).toEqual([]);
    expect(await written([old], [slice("new", { endpoints: UNREADY })])).toEqual([]);
    expect(await written([old], [slice("new", { addressType: "IPv6" })])).toEqual([]);
  });

  it("need no replacement while they stay, or were not ready", async () => {
    expect(await written([old], [slice("new")], [old])).toEqual([]);
    expect(await written([slice("old", { endpoints: UNREADY })], [slice("new")])).toEqual([]);
  });

  it("of a load balancer are replaced although their source is deleted: the import of the load balancer names the service", async () => {
    const balanced = (name: string, balancer = "work-lb") => {
      const labels = { "kubernetes.io/service-name": balancer };
      return slice(name, { metadata: { namespace: "fleet-system", name, labels } });
    };
    expect(await written([balanced("old")], [balanced("new")])).toEqual(["new"]);
    expect(await written([balanced("old", "gone")], [balanced("new", "gone")])).toEqual([]);
    const hello = objectKey("work", "hello");
    expect(await written([balanced("old", "gone")], [balanced("new", "gone")], [], hello)).toEqual(["new"]);
  });

  it("are replaced where a part of their ports goes", async () => {
    expect(await written([old], [slice("new")], [slice("old", { ports: [] })])).toEqual(["new"]);
  });
});
