import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  type DrainedCluster,
  INTERNAL_MEMBER_CLUSTERS,
} from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { NAMESPACES, SERVICES } from "@fairlead/kube/api/core/v1/types.ts";
import { ENDPOINT_SLICES } from "@fairlead/kube/api/discovery/v1/types.ts";
import { IMPORTED_SERVICES, type ImportedService } from "#api/fairlead.dev/v1alpha1/types.ts";
import { type ObjectKey, objectKey, splitKey } from "@fairlead/kube/api/meta/key.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { MCS_SERVICE_EXPORTS } from "#api/multicluster.x-k8s.io/v1beta1/types.ts";
import {
  ENDPOINT_SLICE_IMPORTS,
  FLEET_SERVICE_IMPORTS,
  INTERNAL_SERVICE_IMPORTS,
  MULTI_CLUSTER_SERVICES,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { sameJson } from "@fairlead/base/json.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { noMetrics } from "@fairlead/base/metrics.none.ts";
import { systemRng } from "@fairlead/base/rng.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { isImported } from "../informers.ts";
import { startMember } from "../member.ts";

/**
 * A member has a cache. After any sequence of changes, it converges to the state that a freshly started member computes,
 * which then has nothing to write.
 */

const OWN = "c";
const MAILBOX = `fleet-member-${OWN}`;
const [NAMESPACE, NAME] = ["work", "hello"];
const PORTS = [{ name: "http", port: 8080, protocol: "TCP" as const }];
const SERVICE = objectKey(NAMESPACE, NAME);
/** Longer than what is gone lingers, and than endpoints need to answer until they count again. Unit: milliseconds. */
const LONG_MS = 5000;

const FLEET = ["a", "b", OWN] as const;
type Cluster = (typeof FLEET)[number];
const SLICES = [1, 2] as const;
type Ready = "ready" | "serving" | "none" | "absent";

/** Everything that decides who serves, besides what probes find. */
interface State extends Readonly<Record<Cluster, readonly [Ready, Ready]>> {
  readonly spec: Pick<ImportedService["spec"], "affinity" | "clusters" | "type"> | undefined;
  readonly isExported: boolean;
  readonly accepted: readonly string[];
  readonly drained: readonly DrainedCluster[];
  readonly suspects: readonly string[];
  readonly silent: readonly string[];
  /** Annotations of the Service. */
  readonly service: Readonly<Record<string, string>>;
  readonly isGlobalNamespace: boolean;
  /** `service.cilium.io/weight` of the first slice of each cluster. */
  readonly sliceWeights: Readonly<Record<Cluster, number | undefined>>;
}

const anyReady = fc.constantFrom<Ready>("ready", "ready", "serving", "none", "absent");
const anyClusters = fc.subarray([...FLEET]);
const anyImported: fc.Arbitrary<State["spec"]> = fc.option(
  fc.record({
    type: fc.constantFrom("ClusterSetIP", "ClusterSetIP", "Headless"),
    affinity: fc.constantFrom("none", "local", "remote"),
    clusters: fc
      .tuple(
        ...FLEET.map((cluster) =>
          fc.record({
            cluster: fc.constant<string>(cluster),
            priority: fc.constantFrom(0, 0, 1, 2),
            weight: fc.constantFrom(1, 1, 1, 0),
            global: fc.boolean(),
            ports: fc
              .boolean()
              .map((has) => (has || cluster === OWN ? [{ name: "http", importedAs: "http" }] : [])),
          }),
        ),
      )
      .map((all) => [...all]),
  }),
  { nil: undefined, freq: 8 },
);
const GLOBAL = { "service.cilium.io/global": "true" };
const anyAnnotations: fc.Arbitrary<State["service"]> = fc.constantFrom<State["service"]>(
  { "service.cilium.io/global": "false" },
  GLOBAL,
  { ...GLOBAL, "service.cilium.io/affinity": "local" },
  { ...GLOBAL, "service.cilium.io/affinity": "remote", "service.cilium.io/shared": "false" },
  { ...GLOBAL, "service.cilium.io/global-sync-endpoint-slices": "false" },
);
const anySliceWeight = fc.constantFrom(undefined, undefined, 0, 3);
const anyState: fc.Arbitrary<State> = fc.record({
  service: anyAnnotations,
  isGlobalNamespace: fc.constantFrom(true, true, false),
  sliceWeights: fc.record({ a: anySliceWeight, b: anySliceWeight, c: anySliceWeight }),
  a: fc.tuple(anyReady, anyReady),
  b: fc.tuple(anyReady, anyReady),
  c: fc.tuple(anyReady, anyReady),
  spec: anyImported,
  isExported: fc.constantFrom(true, true, false),
  accepted: anyClusters,
  drained: fc.subarray([
    { cluster: "a", mode: "Soft" as const },
    { cluster: "b", mode: "Hard" as const },
    { cluster: OWN, mode: "Soft" as const },
  ]),
  suspects: fc.subarray(["a", "b"]),
  silent: fc.subarray(["a", "b"]),
});

/** One fact after the other changes, to what it is in some other state. */
const anySteps = fc
  .array(
    fc.tuple(
      fc.constantFrom<keyof State>(
        "a",
        "b",
        "c",
        "c",
        "spec",
        "isExported",
        "accepted",
        "drained",
        "suspects",
        "silent",
        "service",
        "isGlobalNamespace",
        "sliceWeights",
      ),
      anyState,
    ),
    {
      minLength: 1,
      maxLength: 4,
    },
  )
  .map((all) => all.map(([fact, state]): Partial<State> => ({ [fact]: state[fact] })));

class World {
  readonly clock = new FakeClock();
  readonly local = new FakeKubeClient(this.clock);
  readonly hub = new FakeKubeClient(this.clock);
  readonly #deps = { clock: this.clock, rng: systemRng, log: silentLogger, metrics: noMetrics };
  #silent: readonly string[] = [];

  constructor() {
    for (const name of [NAMESPACE, "fleet-system"]) this.local.seed(NAMESPACES, { metadata: { name } });
    this.local.seed(SERVICES, {
      metadata: { namespace: NAMESPACE, name: NAME },
      spec: {
        type: "ClusterIP",
        clusterIP: "10.0.0.1",
        clusterIPs: ["10.0.0.1"],
        ports: [{ ...PORTS[0], port: 80 }],
      },
    });
    const labels = {
      "networking.fleet.azure.com/multi-cluster-service-namespace": NAMESPACE,
      "networking.fleet.azure.com/multi-cluster-service-name": "lb",
    };
    this.local.seed(SERVICES, { metadata: { namespace: "fleet-system", name: "work-lb", labels } });
    this.local.seed(MULTI_CLUSTER_SERVICES, {
      metadata: {
        namespace: NAMESPACE,
        name: "lb",
        labels: { "networking.fleet.azure.com/derived-service": "work-lb" },
      },
      spec: { serviceImport: { name: NAME } },
    });
    this.local.seed(FLEET_SERVICE_IMPORTS, { metadata: { namespace: NAMESPACE, name: NAME } });
  }

  set(state: State): void {
    this.#silent = state.silent;
    for (const cluster of FLEET) for (const at of SLICES) this.#setSlice(cluster, at, state);
    const namespace = { "clustermesh.cilium.io/global": String(state.isGlobalNamespace) };
    this.#put(this.local, NAMESPACES, objectKey(undefined, NAMESPACE), {
      metadata: { annotations: namespace },
    });
    this.#put(this.local, SERVICES, SERVICE, { metadata: { annotations: state.service } });
    const { spec } = state;
    this.#put(
      this.hub,
      IMPORTED_SERVICES,
      objectKey(MAILBOX, "work-hello"),
      spec && {
        spec: {
          ...spec,
          // A weight comes from the annotation of a ServiceExport.
          clusters: spec.clusters.map((it) =>
            it.cluster === OWN && !state.isExported ? { ...it, weight: 1 } : it,
          ),
          service: { namespace: NAMESPACE, name: NAME },
          ports: PORTS.map((it) => ({ ...it, port: 80 })),
        },
      },
    );
    const weight = spec?.clusters.find((it) => it.cluster === OWN)?.weight ?? 1;
    this.#put(
      this.local,
      MCS_SERVICE_EXPORTS,
      SERVICE,
      state.isExported ? { metadata: { annotations: { "fairlead.dev/weight": `${weight}` } } } : undefined,
    );
    this.#put(this.hub, INTERNAL_MEMBER_CLUSTERS, objectKey(MAILBOX, OWN), {
      spec: {
        state: "Join",
        leaseDurationSeconds: 10,
        drained: state.drained,
        suspects: state.suspects.map((cluster) => ({ cluster, since: "2026-01-01T00:00:00Z" })),
      },
    });
    const asked = this.hub.objects(INTERNAL_SERVICE_IMPORTS)[0];
    const status = {
      type: "ClusterSetIP",
      ports: PORTS,
      clusters: state.accepted.map((cluster) => ({ cluster })),
    };
    if (asked !== undefined && !sameJson(asked.status, status))
      this.hub.state.update(INTERNAL_SERVICE_IMPORTS, { ...asked, status } as KubeObject, "status");
  }

  #setSlice(cluster: Cluster, at: number, state: State): void {
    const ready = state[cluster][at - 1] ?? "absent";
    const weight = at === 1 ? state.sliceWeights[cluster] : undefined;
    const addressType = "IPv4" as const;
    const conditions = {
      ready: ready === "ready",
      serving: ready !== "none",
      terminating: ready === "serving",
    };
    const name = `${cluster}-${at}`;
    const facts = {
      addressType,
      endpoints: [{ addresses: [`10.${FLEET.indexOf(cluster)}.0.${at}`], conditions }],
      ports: PORTS,
    };
    if (cluster === OWN) {
      const labels = { "kubernetes.io/service-name": NAME };
      this.#put(
        this.local,
        ENDPOINT_SLICES,
        objectKey(NAMESPACE, name),
        ready === "absent"
          ? undefined
          : {
              metadata: {
                labels,
                annotations: weight === undefined ? {} : { "service.cilium.io/weight": `${weight}` },
              },
              ...facts,
            },
      );
      return;
    }
    const service = { namespace: NAMESPACE, name: NAME, namespacedName: SERVICE };
    const reference = {
      clusterId: cluster,
      kind: "EndpointSlice",
      uid: name,
      resourceVersion: "1",
      generation: 1,
    };
    const endpointSliceReference = {
      ...reference,
      namespace: NAMESPACE,
      name,
      namespacedName: `${NAMESPACE}/${name}`,
    };
    this.#put(
      this.hub,
      ENDPOINT_SLICE_IMPORTS,
      objectKey(MAILBOX, name),
      ready === "absent"
        ? undefined
        : {
            spec: {
              ...facts,
              ...(weight === undefined ? {} : { weight }),
              endpointSliceReference,
              ownerServiceReference: service,
            },
          },
    );
  }

  /** Writes an object as another client does; undefined deletes it. */
  #put(client: FakeKubeClient, of: Resource, key: ObjectKey, wanted: object | undefined): void {
    const current = client.state.all(of).get(key);
    if (wanted === undefined) {
      if (current !== undefined) client.state.delete(of, key);
      return;
    }
    const { namespace, name } = splitKey(key);
    const { metadata = {}, ...rest } = wanted as { metadata?: object };
    if (current === undefined)
      client.seed(of, { metadata: { namespace, name, ...metadata }, ...rest } as KubeObject);
    else {
      const before = structuredClone(current);
      const after = { ...before, ...rest, metadata: { ...before.metadata, ...metadata } };
      if (!sameJson(after, before)) client.state.update(of, after, undefined);
    }
  }

  start() {
    const answers = (address: string): boolean =>
      !this.#silent.some((it) => address.startsWith(`10.${FLEET.indexOf(it as Cluster)}.`));
    return startMember(
      {
        cluster: OWN,
        local: this.local,
        hub: this.hub,
        deps: this.#deps,
        probe: (address) => Promise.resolve(answers(address) ? "connected" : "silent"),
        part: { roles: new Set(["member-net"]), isNetworking: true },
      },
      AbortSignal.timeout(30_000),
    );
  }

  imported(): string[] {
    return this.local
      .objects(ENDPOINT_SLICES)
      .filter(isImported)
      .map(({ metadata: { namespace, name, labels, annotations }, endpoints, ports }) =>
        JSON.stringify([namespace, name, labels, annotations, endpoints, ports]),
      )
      .toSorted();
  }
}

describe("what a member keeps in mind of a service", () => {
  it("is what one finds that begins now, whatever happened", async () => {
    let slices = 0;
    let global = 0;
    await fc.assert(
      fc.asyncProperty(anyState, anySteps, async (first, steps) => {
        const world = new World();
        let state = first;
        world.set(state);
        {
          await using _member = await world.start();
          await world.clock.advance(LONG_MS);
          for (const step of [{}, ...steps]) {
            state = { ...state, ...step };
            world.set(state);
            await world.clock.advance(LONG_MS);
          }
        }
        const before = world.imported();
        slices += before.length;
        global += before.filter((it) => it.includes("fairlead.dev/global-service")).length;
        world.local.writes.length = 0;
        await using _another = await world.start();
        await world.clock.advance(LONG_MS);
        expect(world.imported()).toEqual(before);
        expect(world.local.writes.filter((it) => it.resource.startsWith("endpointslices"))).toEqual([]);
      }),
      { numRuns: 150 },
    );
    expect(slices).toBeGreaterThan(150);
    expect(global).toBeGreaterThan(20);
    // Five seconds of computing: a busy machine takes many times as long.
  }, 120_000);
});
