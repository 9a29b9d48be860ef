import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { ENDPOINT_SLICES } from "@fairlead/kube/api/discovery/v1/types.ts";
import { HUB_ACCESS } from "@fairlead/fleet/authz/programs.ts";
import { VIEW_NAMESPACE } from "@fairlead/fleet/api/fairlead.dev/names.ts";
import { IMPORTED_SERVICES, NAMESPACE_REPORTS } from "@fairlead/fleet/api/fairlead.dev/v1alpha1/types.ts";
import { HUB_CRDS } from "@fairlead/fleet/api/crds.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import {
  MCS_SERVICE_IMPORTS,
  MCS_SERVICE_NAME_LABEL,
} from "@fairlead/fleet/api/multicluster.x-k8s.io/v1beta1/types.ts";
import {
  ENDPOINT_SLICE_EXPORTS,
  ENDPOINT_SLICE_IMPORTS,
  type EndpointSliceExport,
  FLEET_SERVICE_IMPORTS,
  INTERNAL_SERVICE_EXPORTS,
} from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { createMetrics } from "@fairlead/base/metrics.ts";
import { startHub } from "@fairlead/fleet/hub/hub.ts";
import { installCrds } from "@fairlead/kube/definitions/crds.ts";
import { configAs } from "../support/access.ts";
import {
  aborted,
  connectProgram,
  deploy,
  ensureNamespace,
  exportBy,
  Restartable,
  sliceOf,
  startCluster,
  startFleet,
  testDeps,
  type TestFleet,
} from "../support/fleet.ts";
import { eventually } from "../support/waiting.ts";

/** What grows with clusters and slices, and what must not. */

function reference(cluster: string, name: string) {
  return {
    clusterId: cluster,
    kind: "Service",
    namespace: "work",
    name,
    namespacedName: `work/${name}`,
    uid: `${cluster}-${name}`,
    resourceVersion: "1",
    generation: 1,
    exportedSince: "2026-01-01T00:00:00Z",
  };
}

function sliceFrom(cluster: string, at: number): EndpointSliceExport {
  return {
    metadata: { namespace: `fleet-member-${cluster}`, name: `${cluster}-slice-${at}` },
    spec: {
      addressType: "IPv4",
      endpoints: [{ addresses: [`10.20.${at >> 8}.${at & 255}`] }],
      ports: [{ name: "http", protocol: "TCP", port: 8080 }],
      endpointSliceReference: { ...reference(cluster, `slice-${at}`), kind: "EndpointSlice" },
      ownerServiceReference: { namespace: "work", name: "hello", namespacedName: "work/hello" },
    },
  };
}

describe("clusters that export one service", () => {
  const CLUSTERS = 24;
  it("B5: each cost the hub the same number of reconciles, for any number of exporters", async () => {
    await using hub = await startCluster("hub", [HUB_ACCESS]);
    const signal = AbortSignal.timeout(30_000);
    await installCrds(hub.client, { crds: HUB_CRDS, fieldManager: "test" }, testDeps("test"), signal);
    const metrics = createMetrics();
    await using program = new Restartable(async (stopping) => {
      await using client = connectProgram(configAs(HUB_ACCESS, hub.config), testDeps("hub"));
      await using _hub = await startHub(client, {}, { ...testDeps("hub"), metrics }, stopping);
      await aborted(stopping);
    });
    program.start();
    const names = Array.from({ length: CLUSTERS }, (_, at) => `m${at}`);
    for (const name of names)
      await hub.client.create(MEMBER_CLUSTERS, {
        metadata: { name },
        spec: { identity: { kind: "User", name } },
      });
    await eventually(
      hub.client,
      NAMESPACES,
      (all) => all.filter((it) => it.metadata.name.startsWith("fleet-member-")).length === CLUSTERS,
    );
    // One of them reads the view, which holds nothing otherwise.
    await hub.client.create(NAMESPACE_REPORTS, {
      metadata: { namespace: "fleet-member-m0", name: "m0" },
      spec: { namespaces: [], view: VIEW_NAMESPACE },
    });
    const passes = async (): Promise<number> => {
      const text = await metrics.render();
      const counts = text.matchAll(/^controller_runtime_reconcile_total\{(.*)\} (\d+)/gm);
      return [...counts]
        .filter(([, labels]) => labels?.includes("endpointsliceexport"))
        .reduce((sum, [, , count]) => sum + Number(count), 0);
    };
    const costs: number[] = [];
    for (const [at, name] of names.entries()) {
      const before = await passes();
      await hub.client.create(ENDPOINT_SLICE_EXPORTS, sliceFrom(name, at));
      await hub.client.create(INTERNAL_SERVICE_EXPORTS, {
        metadata: { namespace: `fleet-member-${name}`, name: "work-hello" },
        spec: {
          ports: [{ name: "http", protocol: "TCP", port: 80, targetPort: 8080 }],
          serviceReference: reference(name, "hello"),
        },
      });
      await eventually(
        hub.client,
        FLEET_SERVICE_IMPORTS,
        (all) => all[0]?.status?.clusters?.length === at + 1,
      );
      await eventually(hub.client, ENDPOINT_SLICE_IMPORTS, (all) => all.length === at + 1, {
        namespace: VIEW_NAMESPACE,
      });
      costs.push((await passes()) - before);
    }
    const late = costs.slice(CLUSTERS / 2);
    expect(late.reduce((sum, it) => sum + it, 0) / late.length).toBeLessThan(CLUSTERS / 2);
  }, 60_000);
});

describe("a fleet with 500 slices", () => {
  const SLICES = 500;
  let fleet: TestFleet;
  beforeAll(async () => {
    fleet = await startFleet({ members: ["a", "b"] });
    await ensureNamespace(fleet.client("b"), "work");
    await deploy(fleet.client("a"), { addresses: ["10.1.0.1"] });
    for (let at = 1; at < SLICES; at += 1)
      await fleet
        .client("a")
        .create(ENDPOINT_SLICES, sliceOf({ addresses: [`10.1.${at >> 8}.${at & 255}`], suffix: `s${at}` }));
    await exportBy("mcs", fleet.client("a"));
    await eventually(fleet.client("b"), ENDPOINT_SLICES, (all) => all.length === SLICES, {
      timeoutMs: 60_000,
    });
  }, 120_000);
  afterAll(() => fleet[Symbol.asyncDispose]());

  it("writes nothing when hub, exporter and importer restart, and follows the next change", async () => {
    const kinds = [
      INTERNAL_SERVICE_EXPORTS,
      ENDPOINT_SLICE_EXPORTS,
      ENDPOINT_SLICE_IMPORTS,
      IMPORTED_SERVICES,
    ] as readonly Resource[];
    const versions = async (name: string, of: readonly Resource[]): Promise<Set<string>> => {
      const lists = await Promise.all(of.map((it) => fleet.client(name).list(it)));
      return new Set(
        lists.flatMap(({ items }) => items.map((it) => `${it.metadata.uid} ${it.metadata.resourceVersion}`)),
      );
    };
    const local = [ENDPOINT_SLICES, MCS_SERVICE_IMPORTS] as readonly Resource[];
    const before = [await versions("hub", kinds), await versions("b", local)];
    for (const program of [fleet.hubProgram, ...fleet.agents.values()]) {
      await program.stop();
      program.start();
    }
    // A change after the restart arrives after everything that the restart caused.
    await fleet.client("a").create(ENDPOINT_SLICES, sliceOf({ addresses: ["10.1.9.9"], suffix: "zzz" }));
    await eventually(
      fleet.client("b"),
      ENDPOINT_SLICES,
      (all) =>
        all.filter((it) => it.metadata.labels?.[MCS_SERVICE_NAME_LABEL] === "hello").length === SLICES + 1,
    );
    const after = [await versions("hub", kinds), await versions("b", local)];
    expect(after.map((it, at) => it.difference(before[at] ?? new Set()).size)).toEqual([2, 1]);
    expect(before.map((it, at) => it.difference(after[at] ?? new Set()).size)).toEqual([0, 0]);
  }, 60_000);
});
