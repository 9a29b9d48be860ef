import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { INTERNAL_MEMBER_CLUSTERS } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { NAMESPACES } from "@fairlead/kube/api/core/v1/types.ts";
import { SERVICE_NAMESPACE_LABEL, SOURCE_CLUSTER_LABEL, VIEW_NAMESPACE } from "#api/fairlead.dev/names.ts";
import { objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import {
  ENDPOINT_SLICE_IMPORTS,
  type EndpointSliceImport,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { noMetrics } from "@fairlead/base/metrics.none.ts";
import { seededRng } from "@fairlead/base/rng.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { Change, Informer, WatchEvent, WatchOptions } from "@fairlead/kube/types.ts";
import { FleetState } from "./fleet-state.ts";
import { createMailboxInformers } from "./informers.ts";

const MAILBOX = "fleet-member-a";

const INTERNAL_MEMBER = {
  metadata: { namespace: MAILBOX, name: "a" },
  spec: {
    state: "Join" as const,
    heartbeatPeriodSeconds: 60,
    leaseDurationSeconds: 10,
    view: VIEW_NAMESPACE,
  },
};

/** Delivers each change to each watch after its own delay, in any order between watches. */
class LateClient extends FakeKubeClient {
  readonly #scheduler: fc.Scheduler;
  constructor(clock: FakeClock, scheduler: fc.Scheduler) {
    super(clock);
    this.#scheduler = scheduler;
  }
  override async *watch<T extends KubeObject>(
    of: Resource<T>,
    options: WatchOptions,
    signal: AbortSignal,
  ): AsyncGenerator<WatchEvent<T>> {
    for await (const event of super.watch(of, options, signal)) {
      await this.#scheduler.schedule(Promise.resolve(), of.plural);
      yield event;
    }
  }
}

function depsOf(clock: FakeClock): RuntimeDeps {
  return { clock, rng: seededRng(1), log: silentLogger, metrics: noMetrics };
}

function sliceOf(name: string, namespace: string, cluster: string): EndpointSliceImport {
  const reference = { namespace, name: "hello", namespacedName: `${namespace}/hello` };
  return {
    metadata: {
      namespace: VIEW_NAMESPACE,
      name,
      labels: { [SERVICE_NAMESPACE_LABEL]: namespace, [SOURCE_CLUSTER_LABEL]: cluster },
    },
    spec: {
      addressType: "IPv4",
      endpoints: [],
      endpointSliceReference: {
        ...reference,
        clusterId: cluster,
        kind: "EndpointSlice",
        resourceVersion: "1",
        generation: 1,
        uid: "u",
      },
      ownerServiceReference: reference,
    },
  };
}

/**
 * Records what readers see. It must not go backwards: no object becomes older, or comes back after its deletion; and no
 * existing object is reported as deleted, unless its namespace was.
 */
class Reader {
  readonly seen = new Map<string, EndpointSliceImport>();
  readonly problems: string[] = [];
  readonly #world: World;
  readonly #newest = new Map<string, number>();
  readonly #reported = new Set<string>();
  constructor(world: World) {
    this.#world = world;
  }
  readonly onChange = ({ key, before, after }: Change<EndpointSliceImport>): void => {
    const problem = this.#problemOf(key, before, after);
    if (problem !== undefined) this.problems.push(`${key}: ${problem}`);
    const [was, is] = [before, after].map((it) => it?.metadata.uid ?? "");
    if (after === undefined && this.#world.gone.has(was ?? "")) this.#reported.add(was ?? "");
    if (after === undefined) this.seen.delete(key);
    else this.seen.set(key, after);
    if (is !== "") this.#newest.set(is ?? "", Number(after?.metadata.resourceVersion));
  };
  #problemOf(key: string, before: KubeObject | undefined, after: EndpointSliceImport | undefined) {
    if (versionOf(before) !== versionOf(this.seen.get(key))) return "changes from what it was not";
    if (after !== undefined) {
      const { uid = "", resourceVersion } = after.metadata;
      if (this.#reported.has(uid)) return "comes back";
      return Number(resourceVersion) < (this.#newest.get(uid) ?? 0) ? "goes back in time" : undefined;
    }
    return this.#mayGo(this.seen.get(key)) ? undefined : "is withdrawn";
  }
  #mayGo(it: EndpointSliceImport | undefined): boolean {
    const { gone, removed } = this.#world;
    if (it === undefined) return true;
    return gone.has(it.metadata.uid ?? "") || removed.has(it.spec.ownerServiceReference.namespace);
  }
}

interface World {
  readonly hub: FakeKubeClient;
  readonly local: FakeKubeClient;
  /** Uids of slices that were deleted, and namespaces of the cluster that were, at some time. */
  readonly gone: Set<string>;
  readonly removed: Set<string>;
}

const NAMES = ["n1", "n2", "n3"] as const;
type OfCluster = { readonly act: "add" | "remove"; readonly namespace: string };
type OfHub = { readonly act: "write" | "delete"; readonly namespace: string; readonly cluster: string };
const namespace = fc.constantFrom(...NAMES);
const steps = fc.array(
  fc.oneof(
    fc.record({ act: fc.constantFrom("add" as const, "remove" as const), namespace }),
    fc.record({
      act: fc.constantFrom("write" as const, "delete" as const),
      namespace,
      cluster: fc.constantFrom("a", "b"),
    }),
    { weight: 5, arbitrary: fc.record({ act: fc.constant("pass" as const) }) },
  ),
  { minLength: 20, maxLength: 80 },
);

/** Longer than what is gone counts on. Unit: milliseconds. */
const LINGERS_MS = 2000;

/** Waits until everything has converged. Watches may lag more than the linger period. */
async function rest(scheduler: fc.Scheduler, clock: FakeClock): Promise<void> {
  for (let idle = 0; idle < 3; idle += 1) {
    await clock.advance(LINGERS_MS);
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
    if (scheduler.count() === 0) continue;
    await scheduler.waitIdle();
    idle = 0;
  }
}

async function once(scheduler: fc.Scheduler): Promise<void> {
  if (scheduler.count() > 0) await scheduler.waitNext(1);
  await new Promise((resolve) => {
    setImmediate(resolve);
  });
}

describe("the state of the fleet", () => {
  it("contains the hub's objects for the cluster's namespaces, and loses none while these namespaces change", async () => {
    await fc.assert(
      fc.asyncProperty(fc.scheduler(), steps, async (scheduler, list) => {
        const clock = new FakeClock();
        const deps = depsOf(clock);
        const hub = new LateClient(clock, scheduler);
        const local = new FakeKubeClient(clock);
        const world: World = { hub, local, gone: new Set(), removed: new Set() };
        local.seed(NAMESPACES, { metadata: { name: "default" } }, { metadata: { name: "n1" } });
        hub.seed(INTERNAL_MEMBER_CLUSTERS, INTERNAL_MEMBER);
        for (const name of NAMES)
          hub.seed(ENDPOINT_SLICE_IMPORTS, sliceOf(`b-${name}`, name, "b"), sliceOf(`a-${name}`, name, "a"));
        const stop = new AbortController();
        const mailbox = createMailboxInformers(hub, { cluster: "a", isFleetOnly: false }, deps);
        for (const it of Object.values(mailbox) as Informer<KubeObject>[]) it.start(stop.signal);
        const namespaces = createInformer(local, NAMESPACES, {}, deps);
        namespaces.start(stop.signal);
        await using fleet = new FleetState({ hub, cluster: "a", mailbox, namespaces, deps });
        const reader = new Reader(world);
        fleet.sliceImports.subscribe(reader.onChange);
        const started = fleet.start(stop.signal);
        await rest(scheduler, clock);
        await started;
        expect(fleet.view).toBe(VIEW_NAMESPACE);
        for (const step of list)
          if (step.act === "pass") await once(scheduler);
          else if ("cluster" in step) changeHub(step, world);
          else changeCluster(step, world);
        await rest(scheduler, clock);
        expect(reader.problems).toEqual([]);
        const present = new Set(local.objects(NAMESPACES).map((it) => it.metadata.name));
        const wanted = hub
          .objects(ENDPOINT_SLICE_IMPORTS)
          .filter(({ spec }) => present.has(spec.ownerServiceReference.namespace))
          .filter(({ spec }) => spec.endpointSliceReference.clusterId !== "a");
        const read = [...fleet.sliceImports.list()].filter(({ spec }) =>
          present.has(spec.ownerServiceReference.namespace),
        );
        expect(read.map(versionOf).toSorted()).toEqual(wanted.map(versionOf).toSorted());
        expect([...fleet.sliceImports.list()].map(versionOf).toSorted()).toEqual(
          [...reader.seen.values()].map(versionOf).toSorted(),
        );
        stop.abort();
      }),
      { numRuns: 200 },
    );
  });

  it("tells nothing again that came and went while the reading that takes over was late", async () => {
    const clock = new FakeClock();
    const deps = depsOf(clock);
    const hub = new HeldClient(clock);
    const local = new FakeKubeClient(clock);
    const world: World = { hub, local, gone: new Set(), removed: new Set() };
    local.seed(NAMESPACES, { metadata: { name: "default" } }, { metadata: { name: "n1" } });
    hub.seed(INTERNAL_MEMBER_CLUSTERS, INTERNAL_MEMBER);
    const stop = new AbortController();
    const mailbox = createMailboxInformers(hub, { cluster: "a", isFleetOnly: false }, deps);
    for (const it of Object.values(mailbox) as Informer<KubeObject>[]) it.start(stop.signal);
    const namespaces = createInformer(local, NAMESPACES, {}, deps);
    namespaces.start(stop.signal);
    await using fleet = new FleetState({ hub, cluster: "a", mailbox, namespaces, deps });
    const reader = new Reader(world);
    fleet.sliceImports.subscribe(reader.onChange);
    const started = fleet.start(stop.signal);
    await clock.advance(LINGERS_MS);
    await started;
    hub.isLate = true;
    hub.seed(ENDPOINT_SLICE_IMPORTS, sliceOf("b-n1", "n1", "b"));
    local.seed(NAMESPACES, { metadata: { name: "n2" } });
    await clock.advance(LINGERS_MS);
    // The state that the other reading begins with is on its way.
    changeHub({ act: "write", namespace: "n1", cluster: "c" }, world);
    await clock.advance(0);
    changeHub({ act: "delete", namespace: "n1", cluster: "c" }, world);
    await clock.advance(LINGERS_MS);
    expect(world.gone.size).toBe(1);
    // The slice, and that this is all.
    for (const count of [2, 1, 10]) {
      hub.letThrough(count);
      await clock.advance(LINGERS_MS);
    }
    expect(reader.problems).toEqual([]);
    hub.seed(ENDPOINT_SLICE_IMPORTS, sliceOf("b-n2", "n2", "b"));
    await clock.advance(LINGERS_MS);
    expect([...fleet.sliceImports.list()].map((it) => it.metadata.name).toSorted()).toEqual(["b-n1", "b-n2"]);
    stop.abort();
  });
});

/** Watches that begin while `isLate` is set receive one event for each that the test releases. */
class HeldClient extends FakeKubeClient {
  isLate = false;
  readonly #held: (() => void)[] = [];
  #allowed = 0;
  letThrough(count: number): void {
    this.#allowed += count;
    while (this.#allowed > 0 && this.#held.length > 0) {
      this.#allowed -= 1;
      this.#held.shift()?.();
    }
  }
  override async *watch<T extends KubeObject>(
    of: Resource<T>,
    options: WatchOptions,
    signal: AbortSignal,
  ): AsyncGenerator<WatchEvent<T>> {
    const isLate = this.isLate && of.plural === ENDPOINT_SLICE_IMPORTS.plural;
    for await (const event of super.watch(of, options, signal)) {
      if (isLate && this.#allowed === 0) await new Promise<void>((resolve) => void this.#held.push(resolve));
      else if (isLate) this.#allowed -= 1;
      yield event;
    }
  }
}

function versionOf(it: KubeObject | undefined): string {
  return it === undefined ? "" : `${it.metadata.name} ${it.metadata.resourceVersion ?? ""}`;
}

function changeCluster({ act, namespace: name }: OfCluster, { local, removed }: World): void {
  const key = objectKey(undefined, name);
  const has = local.state.all(NAMESPACES).has(key);
  if (act === "add" && !has) local.seed(NAMESPACES, { metadata: { name } });
  if (act === "add" || !has) return;
  removed.add(name);
  local.state.delete(NAMESPACES, key);
}

function changeHub({ act, namespace: of, cluster }: OfHub, { hub, gone }: World): void {
  const name = `${cluster}-${of}`;
  const key = objectKey(VIEW_NAMESPACE, name);
  const present = hub.state.all(ENDPOINT_SLICE_IMPORTS).get(key) as EndpointSliceImport | undefined;
  if (present === undefined) {
    if (act === "write") hub.seed(ENDPOINT_SLICE_IMPORTS, sliceOf(name, of, cluster));
  } else if (act === "delete") {
    gone.add(present.metadata.uid ?? "");
    hub.state.delete(ENDPOINT_SLICE_IMPORTS, key);
  } else {
    const endpoints = [...present.spec.endpoints, { addresses: ["10.0.0.1"] }];
    const next: EndpointSliceImport = { ...present, spec: { ...present.spec, endpoints } };
    hub.state.update(ENDPOINT_SLICE_IMPORTS, next, undefined);
  }
}
