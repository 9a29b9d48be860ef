import type { CountedObject } from "@fairlead/kube/quota/types.ts";
import { describe, expect, it } from "vitest";
import { chargeOf, planQuota, resourceId, resourcesOf } from "./plan.ts";

type List = Readonly<Record<string, string>>;

const NOW = Date.parse("2026-01-01T00:00:00Z");

function quota(hard: List, status: object = {}, spec: object = {}): CountedObject {
  const metadata = { namespace: "work", name: "q" };
  return { apiVersion: "v1", kind: "ResourceQuota", metadata, spec: { hard, ...spec }, status };
}
function object(kind: string, spec: object = {}, more: object = {}): CountedObject {
  return { apiVersion: "v1", kind, metadata: { namespace: "work", name: "a", ...more }, spec };
}
const asking = (requests: List, limits: List = {}): object => ({
  containers: [{ name: "c", resources: { requests, limits } }],
});
const ending = (at: string): CountedObject =>
  object("Pod", asking({}), { deletionTimestamp: at, deletionGracePeriodSeconds: 30 });
const plan = (of: CountedObject, objects: Readonly<Record<string, readonly CountedObject[]>>) =>
  planQuota({ quota: of, objects: new Map(Object.entries(objects)), nowMs: NOW });

describe("the plan for a quota", () => {
  it("has the limits and the usage, in the user's notation", () => {
    const pods = [
      object("Pod", asking({ cpu: "250m", memory: "64Mi" })),
      object("Pod", asking({ cpu: "1" })),
    ];
    const hard = { pods: "5", "requests.cpu": "2", memory: "1Gi", "limits.cpu": "9" };
    expect(plan(quota(hard), { pods }).status).toEqual({
      hard,
      used: { pods: "2", "requests.cpu": "1250m", memory: "64Mi", "limits.cpu": "0" },
    });
  });

  it("is undefined if the status already has it", () => {
    const status = { hard: { configmaps: "5" }, used: { configmaps: "1" } };
    expect(plan(quota({ configmaps: "5" }, status), { configmaps: [object("ConfigMap")] }).status).toBe(
      undefined,
    );
    expect(plan(quota({}), {}).status).toBe(undefined);
  });

  it("keeps usage that it cannot count, and drops usage that is no longer limited", () => {
    const status = { hard: { "count/a.b": "1", pods: "1" }, used: { "count/a.b": "1", pods: "1" } };
    expect(plan(quota({ "count/a.b": "2" }, status), {}).status).toEqual({
      hard: { "count/a.b": "2" },
      used: { "count/a.b": "1" },
    });
    expect(plan(quota({ "count/a.b": "2" }), {}).status).toEqual({ hard: { "count/a.b": "2" }, used: {} });
  });

  it("looks again when a pod that will not go counts no longer", () => {
    const pods = [ending("2026-01-01T00:00:10Z"), ending("2025-12-31T23:59:00Z")];
    const { status, checkInMs } = plan(quota({ pods: "5", "count/pods": "5" }), { pods });
    expect(status?.used).toEqual({ pods: "1", "count/pods": "2" });
    expect(checkInMs).toBe(40_001);
  });

  it("counts the objects of its scope alone", () => {
    const of = quota({ pods: "5" }, {}, { scopes: ["BestEffort"] });
    expect(
      plan(of, { pods: [object("Pod", asking({})), object("Pod", asking({ cpu: "1" }))] }).status,
    ).toEqual({ hard: { pods: "5" }, used: { pods: "1" } });
    // Only pods have that scope.
    const maps = quota({ configmaps: "5" }, {}, { scopes: ["BestEffort"] });
    expect(plan(maps, { configmaps: [object("ConfigMap")] }).status?.used).toEqual({ configmaps: "0" });
  });
});

describe("a charge", () => {
  it("is of the names that the quota has", () => {
    const of = quota({ services: "1", "services.nodeports": "1" });
    const service = object("Service", { type: "LoadBalancer", ports: [{ port: 80 }, { port: 81 }] });
    const resource = { group: "", plural: "services" };
    const charge = chargeOf(of, resource, { object: service, nowMs: NOW });
    expect([...charge].map(([name, { nanos }]) => [name, nanos / 10n ** 9n])).toEqual([
      ["services", 1n],
      ["services.nodeports", 2n],
    ]);
    expect(chargeOf(of, resource, { object: undefined, nowMs: NOW }).size).toBe(0);
  });
});

it("names the resources whose objects must be counted", () => {
  const of = quota({
    "requests.memory": "1",
    "limits.cpu": "1",
    "count/pods": "1",
    "requests.hugepages-2Mi": "1",
    "requests.example.com/gpu": "1",
    "gold.storageclass.storage.k8s.io/requests.storage": "1",
    "services.nodeports": "1",
    secrets: "1",
    "count/widgets.example.io": "1",
    "count/events": "1",
    "example.com/unknown": "1",
  });
  expect(resourcesOf(of).map(resourceId)).toEqual([
    "pods",
    "persistentvolumeclaims",
    "services",
    "secrets",
    "widgets.example.io",
  ]);
});
