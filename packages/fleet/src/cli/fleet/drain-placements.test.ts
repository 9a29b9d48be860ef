import { beforeEach, expect, it } from "vitest";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { FleetError } from "@fairlead/base/errors.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { createMetrics } from "@fairlead/base/metrics.ts";
import { seededRng } from "@fairlead/base/rng.ts";
import { keyOf } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import type { WriteOptions } from "@fairlead/kube/types.ts";
import { MEMBER_CLUSTERS, type MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import type { PlacementEviction } from "#api/placement.kubernetes-fleet.io/v1beta1/overrides.ts";
import {
  CLUSTER_RESOURCE_BINDINGS,
  RESOURCE_BINDINGS,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { fakeBinding } from "#placement/scheduling/cluster.fake.ts";
import { cordonCluster } from "./cordon.ts";
import { drainPlacements, type PlacementDrain } from "./drain-placements.ts";
import { renderDrain } from "./render-drain.ts";

const { signal } = new AbortController();
const OTHER = { key: "zone", value: "1", effect: "NoSchedule" } as const;
const CORDON = { key: "cordon-key", value: "cordon-value", effect: "NoSchedule" };
let clock: FakeClock;
let hub: DecidingHub;
beforeEach(() => {
  clock = new FakeClock();
  hub = new DecidingHub(clock);
  hub.seed(MEMBER_CLUSTERS, {
    metadata: { name: "a" },
    spec: { identity: { kind: "User", name: "a" }, taints: [OTHER] },
  });
});
const taints = (): MemberCluster["spec"]["taints"] => hub.objects(MEMBER_CLUSTERS)[0]?.spec.taints;

function bind(placement: string, cluster: string, namespace?: string): void {
  const of = namespace === undefined ? CLUSTER_RESOURCE_BINDINGS : RESOURCE_BINDINGS;
  const labels = { "kubernetes-fleet.io/parent-CRP": placement };
  const { metadata, ...rest } = fakeBinding(cluster, {}, { labels });
  const name = `${placement}-${cluster}`;
  hub.seed(of, {
    ...rest,
    metadata: { ...metadata, name, ...(namespace === undefined ? {} : { namespace }) },
  });
}

type Verdict = "Executed" | "Refused" | "Invalid" | undefined;

/** Decides on each eviction when it is created, as the test says by the name of its placement. */
class DecidingHub extends FakeKubeClient {
  verdicts: Readonly<Record<string, Verdict>> = {};

  override async create<T extends KubeObject>(
    of: Resource<T>,
    object: T,
    options?: WriteOptions,
  ): Promise<T> {
    const created = await super.create(of, object, options);
    const { placementName } = (object as unknown as PlacementEviction).spec;
    const verdict = this.verdicts[placementName];
    if (verdict === undefined) return created;
    const condition = (type: string, isTrue: boolean) => ({
      type,
      status: isTrue ? "True" : "False",
      reason: verdict,
      message: `because ${verdict}`,
      lastTransitionTime: "2026-01-01T00:00:00Z",
    });
    const conditions =
      verdict === "Invalid"
        ? [condition("Valid", false)]
        : [condition("Valid", true), condition("Executed", verdict === "Executed")];
    await this.mergePatch(of, keyOf(object), { status: { conditions } }, { subresource: "status" });
    if (verdict === "Executed") await this.#unbind(`${placementName}-a`);
    return created;
  }

  async #unbind(name: string): Promise<void> {
    for (const kind of [CLUSTER_RESOURCE_BINDINGS, RESOURCE_BINDINGS]) {
      const bound = this.objects(kind).filter((it) => it.metadata.name === name);
      await Promise.all(bound.map((it) => this.delete(kind, keyOf(it))));
    }
  }
}

function drain(wait = true): ReturnType<typeof drainPlacements> {
  const deps = { clock, rng: seededRng(1), log: silentLogger, metrics: createMetrics() };
  return drainPlacements(hub, { name: "a", wait, timeoutMs: 10_000 }, deps, signal);
}

it("a cordon is the taint of KubeFleet's plugin, and leaves other taints alone in both directions", async () => {
  expect(await cordonCluster(hub, { name: "a", cordoned: true }, signal)).toMatchObject({ changed: true });
  expect(taints()).toEqual([OTHER, CORDON]);
  hub.writes.length = 0;
  expect(await cordonCluster(hub, { name: "a", cordoned: true }, signal)).toMatchObject({ changed: false });
  expect(hub.writes).toEqual([]);
  hub.failNext(new FleetError("API_CONFLICT", "changed"), (it) => it.verb === "patch");
  await cordonCluster(hub, { name: "a", cordoned: false }, signal);
  expect(taints()).toEqual([OTHER]);
  await expect(cordonCluster(hub, { name: "b", cordoned: true }, signal)).rejects.toThrow(
    'the fleet has no member named "b"',
  );
});

const outcomes = (all: readonly PlacementDrain[]): string[] =>
  all.map((it) => `${it.kind} ${it.placement} ${it.outcome}`);

it("each placement of the cluster gets an eviction of its scope, and the drain says what became of it", async () => {
  for (const it of ["web", "held", "fixed"]) bind(it, "a");
  bind("web", "b");
  bind("api", "a", "team");
  hub.verdicts = { web: "Executed", api: "Executed", held: "Refused", fixed: "Invalid" };
  const placements = await drain();
  expect(outcomes(placements)).toEqual([
    "ClusterResourcePlacement fixed Invalid",
    "ClusterResourcePlacement held Refused",
    "ResourcePlacement team/api Removed",
    "ClusterResourcePlacement web Removed",
  ]);
  expect(hub.objects(CLUSTER_RESOURCE_BINDINGS).map((it) => it.metadata.name)).toContain("web-b");
  const traffic = { cluster: "a", mode: "Soft", carriedOutBy: [], servedOnlyHere: [] } as const;
  expect(renderDrain({ ...traffic, cordoned: true, placements }, "text").split("\n")).toEqual([
    "a is drained",
    "a is cordoned; placements that were bound to it: 4",
    "  ClusterResourcePlacement fixed: cannot be evicted: because Invalid",
    "  ClusterResourcePlacement held: refused: because Refused",
    "  ResourcePlacement team/api: evicted: because Executed",
    "  ClusterResourcePlacement web: evicted: because Executed",
  ]);
  expect(renderDrain({ ...traffic, mode: "None", cordoned: false }, "text")).toBe(
    "a gets new requests again\na is uncordoned: placements may pick it",
  );
});

it("a drain that is run again asks again only for what was refused", async () => {
  for (const it of ["fixed", "held", "slow"]) bind(it, "a");
  hub.verdicts = { held: "Refused", fixed: "Invalid" };
  expect((await drain(false)).map((it) => it.outcome)).toEqual(["Requested", "Requested", "Requested"]);
  hub.verdicts = { held: "Executed", fixed: "Invalid" };
  hub.writes.length = 0;
  const again = drain();
  // The hub does not decide on the last one.
  for (let at = 0; at < 20; at++) await clock.advance(1000);
  expect(outcomes(await again)).toEqual([
    "ClusterResourcePlacement fixed Invalid",
    "ClusterResourcePlacement held Removed",
    "ClusterResourcePlacement slow Requested",
  ]);
  const held = "drain-a-";
  expect(
    hub.writes.filter((it) => it.key.startsWith(held) && it.verb !== "patch").map((it) => it.verb),
  ).toEqual(["delete", "create"]);
});
