import { expect, it } from "vitest";
import { INTERNAL_MEMBER_CLUSTERS } from "@fairlead/fleet/api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { EVENTS } from "@fairlead/kube/api/core/v1/types.ts";
import { ENDPOINT_SLICES, type EndpointSlice } from "@fairlead/kube/api/discovery/v1/types.ts";
import { keyOf } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { MULTI_CLUSTER_SERVICES } from "@fairlead/fleet/api/networking.fleet.azure.com/v1alpha1/types.ts";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { cloneJson } from "@fairlead/base/json.ts";
import type { Logger } from "@fairlead/base/log.ts";
import { createMetrics } from "@fairlead/base/metrics.ts";
import { seededRng } from "@fairlead/base/rng.ts";
import { startHub } from "@fairlead/fleet/hub/hub.ts";
import { exportedFacts } from "@fairlead/fleet/member/endpoints/export.ts";
import { startMember } from "@fairlead/fleet/member/member.ts";
import { createClusterSetSync } from "@fairlead/fleet/dns/sync.ts";
import { RecordTree } from "@fairlead/dns/tree.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { readObject } from "@fairlead/kube/client/read.ts";
import { createLabControllers } from "@fairlead/lab/controllers/compose.ts";
import {
  knownKinds,
  recordedOf,
  type Seed,
  type Variant,
  variantsOf,
  withoutField,
} from "./absent-fields.ts";
import { deploy, ensureNamespace, exportBy, startFleet } from "../support/fleet.ts";
import { eventually } from "../support/waiting.ts";

/**
 * What every program does with objects of which any one optional field is absent. The objects are those of a fleet at
 * work, and all that were recorded of others; the programs are whole, so that new kinds and controllers take part
 * without being named here. All variants exist at once, each among a copy of the others in a separate namespace.
 */

/** Each variant, in a separate namespace or under a separate name. */
function apart(variants: readonly Variant[]): Seed[] {
  return variants.map((variant, copy) => {
    const object = withoutField(variant);
    const { metadata } = object;
    metadata.uid = `uid-${copy}`;
    if (!variant.of.namespaced) metadata.name = `${metadata.name}-${copy}`;
    else if (metadata.namespace?.startsWith("fleet-member-") === true)
      metadata.name = `${metadata.name}-${copy}`;
    else metadata.namespace = `other${copy}`;
    return { of: variant.of, object };
  });
}

/** What a fleet with something of everything holds, by cluster. */
async function fleetAtWork(kinds: readonly Resource[]): Promise<Record<"hub" | "a", readonly Seed[]>> {
  await using fleet = await startFleet({ members: ["a", "b"], leaseSeconds: 60 });
  const [a, b] = [fleet.client("a"), fleet.client("b")];
  await deploy(a, { name: "web", addresses: ["10.1.0.1"] });
  await deploy(a, { name: "db", headless: true, addresses: ["10.1.0.2"] });
  await deploy(b, { name: "web", addresses: ["10.2.0.1"] });
  await ensureNamespace(b, "work");
  for (const client of [a, b])
    for (const api of ["fleet", "mcs"] as const) await exportBy(api, client, { name: "web" });
  await exportBy("mcs", a, { name: "db" });
  await a.create(MULTI_CLUSTER_SERVICES, {
    metadata: { namespace: "work", name: "web" },
    spec: { serviceImport: { name: "web" } },
  });
  await eventually(a, MULTI_CLUSTER_SERVICES, (found) =>
    found.some((it) => it.status?.conditions?.some((at) => at.status === "True") === true),
  );
  const of = async (name: string): Promise<Seed[]> => {
    const client = fleet.client(name);
    const lists = await Promise.all(
      kinds.map(async (kind) =>
        (await client.list(kind).catch(() => ({ items: [] }))).items.map((object) => ({ of: kind, object })),
      ),
    );
    return lists.flat();
  };
  return { hub: await of("hub"), a: await of("a") };
}

/** A fault in an object's form, as a JavaScript error reports it. */
const STUMBLED =
  /Cannot (read|convert|use|destructure)|is not (iterable|a function)|undefined is not|Invalid time/;

class Worlds {
  readonly clock = new FakeClock(Date.now());
  readonly faults: string[] = [];
  readonly deps: RuntimeDeps;

  constructor() {
    const note = (message: string, fields: object = {}): void => {
      const text = `${message} ${JSON.stringify(fields)}`;
      if (STUMBLED.test(text)) this.faults.push(text);
    };
    const log: Logger = { debug: note, info: note, warn: note, error: note, child: () => log };
    this.deps = { clock: this.clock, rng: seededRng(1), log, metrics: createMetrics() };
  }

  hold(seeds: readonly Seed[]): FakeKubeClient {
    const client = new FakeKubeClient(this.clock);
    for (const { of, object } of seeds) client.state.put(of, readObject(of, cloneJson(object)));
    return client;
  }

  /** Advances time until the program has started. */
  async running<T>(start: Promise<T>): Promise<T> {
    const isDone = (): Promise<boolean> => Promise.race([start.then(() => true), Promise.resolve(false)]);
    for (let step = 0; step < 200; step++) {
      await this.clock.advance(20);
      if (await isDone()) break;
    }
    return start;
  }
}

/** A copy of the scene for each variant in it, under separate names. */
function copies(scene: readonly Seed[], rename: (text: string, copy: number) => string): Seed[] {
  return variantsOf(scene).flatMap((variant, copy) =>
    scene.map(({ of, object }) => {
      const changed = object === variant.object ? withoutField(variant) : object;
      const text = rename(JSON.stringify(changed), copy).replaceAll(/"uid":"/g, `$&${copy}-`);
      return { of, object: readObject(of, JSON.parse(text) as KubeObject) };
    }),
  );
}

const ofService = (text: string, copy: number): string => text.replaceAll(/\bwork\b/g, `work${copy}`);
const ofMember = (text: string, copy: number): string =>
  text.replaceAll(/(?<="(?:fleet-(?:member|role|rolebinding)-)?)a(?=")/g, `a${copy}`);

/** API servers refuse a template that the selector does not select. */
const isRefused = ({ path }: Variant): boolean =>
  /^spec\.template\.metadata(\.labels|$)/.test(path.join("."));

it("every program handles an object without any of its optional fields", { timeout: 60_000 }, async () => {
  const kinds = await knownKinds();
  const seeds = await fleetAtWork(kinds);
  const variants = variantsOf(recordedOf(kinds)).filter((it) => !isRefused(it));
  const others = apart(variants);
  const isOfWork = ({ of, object }: Seed): boolean => of !== EVENTS && /\bwork\b/.test(keyOf(object));
  const isOfA = ({ object }: Seed): boolean =>
    /^(fleet-member-)?a$|^fleet-member-a\/.*\ba$/.test(keyOf(object));
  const onHub = copies(seeds.hub.filter(isOfWork), ofService);
  const members = copies(seeds.hub.filter(isOfA), ofMember);
  const inA = copies(seeds.a.filter(isOfWork), ofService);
  expect([onHub, members, inA, others].map((it) => it.length > 400)).toEqual([true, true, true, true]);

  const worlds = new Worlds();
  const { clock, deps } = worlds;
  const hub = worlds.hold([...seeds.hub, ...onHub, ...members, ...others]);
  // Not the hub's own objects: it repairs them before a member sees the fault.
  const mailbox = worlds.hold([...seeds.hub, ...onHub, ...others]);
  const cluster = worlds.hold([...seeds.a, ...inA, ...others]);
  const workloads = worlds.hold([...seeds.a, ...others]);
  const stop = new AbortController();
  await using stack = new AsyncDisposableStack();
  stack.defer(() => stop.abort());
  stack.use(await worlds.running(startHub(hub, {}, deps, stop.signal)));
  const member = {
    cluster: "a",
    local: cluster,
    hub: mailbox,
    deps,
    probe: () => Promise.resolve("connected" as const),
  };
  stack.use(await worlds.running(startMember(member, stop.signal)));
  const zone = { origin: "clusterset.local.", ttl: 5 };
  const sync = stack.use(createClusterSetSync({ client: cluster, tree: new RecordTree(), zone }, deps));
  await worlds.running(sync.start(stop.signal));
  const options = { loadBalancerPrefixes: [], nodeLeaseSeconds: 40, rootCa: "ca" };
  const lab = stack.use(createLabControllers(workloads, options, deps));
  await worlds.running(lab.start(stop.signal));
  await clock.advance(100);
  // InternalMemberClusters are one object.
  const internalMember = seeds.hub.filter(
    ({ of, object }) => of === INTERNAL_MEMBER_CLUSTERS && object.metadata.name === "a",
  );
  for (const variant of variantsOf(internalMember)) {
    mailbox.state.put(variant.of, withoutField(variant));
    await clock.advance(5);
  }
  expect([...new Set(worlds.faults)]).toEqual([]);
});

it("every recorded EndpointSlice can be exported without any of its optional fields", () => {
  const slices = recordedOf([ENDPOINT_SLICES]);
  for (const it of variantsOf(slices))
    expect(() => exportedFacts(withoutField(it) as EndpointSlice)).not.toThrow();
});
