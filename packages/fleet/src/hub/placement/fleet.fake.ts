import { FakeClock } from "@fairlead/base/clock.fake.ts";
import { silentLogger } from "@fairlead/base/log.ts";
import { createMetrics } from "@fairlead/base/metrics.ts";
import { seededRng } from "@fairlead/base/rng.ts";
import { keyOf, objectKey } from "@fairlead/kube/api/meta/key.ts";
import type { Condition, KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { FakeKubeClient } from "@fairlead/kube/client/client.fake.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { Controller } from "@fairlead/kube/types.ts";
import { type MemberCluster, MEMBER_CLUSTERS } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import {
  LATEST_SNAPSHOT_LABEL,
  NUMBER_OF_RESOURCE_SNAPSHOTS_ANNOTATION,
  PARENT_PLACEMENT_LABEL,
  RESOURCE_HASH_ANNOTATION,
  RESOURCE_INDEX_LABEL,
  SUBINDEX_ANNOTATION,
} from "#api/placement.kubernetes-fleet.io/names.ts";
import type {
  Placement,
  PlacementSpec,
  ResourceBinding,
  ResourceBindingSpec,
} from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { type ManifestCondition, type Work, WORKS } from "#api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { createPlacementInformers } from "./informers.ts";
import { createRolloutParts, type RolloutParts } from "./parts.ts";
import {
  CLUSTER_SCOPE,
  NAMESPACED_SCOPE,
  type PlacementScope,
} from "#api/placement.kubernetes-fleet.io/scopes.ts";

type Create = (parts: RolloutParts) => Controller | readonly Controller[];

/** A hub with some controllers of placements, and members that answer as the test says. */
export class FakeFleet {
  readonly clock = new FakeClock();
  readonly client = new FakeKubeClient(this.clock);
  readonly scope: PlacementScope;
  readonly #namespace: { readonly namespace?: string };
  #controllers: Controller[] = [];
  #stop = new AbortController();
  #disposables: AsyncDisposable[] = [];

  constructor(namespace?: string) {
    this.scope = namespace === undefined ? CLUSTER_SCOPE : NAMESPACED_SCOPE;
    this.#namespace = namespace === undefined ? {} : { namespace };
  }

  async start(...create: readonly Create[]): Promise<void> {
    this.#stop = new AbortController();
    const deps = { clock: this.clock, rng: seededRng(1), log: silentLogger, metrics: createMetrics() };
    const { client } = this;
    const informers = createPlacementInformers(client, deps);
    const members = createInformer<MemberCluster>(client, MEMBER_CLUSTERS, {}, deps);
    const parts = createRolloutParts({ client, informers, members, deps });
    this.#controllers = create.flatMap((it) => it(parts));
    for (const controller of this.#controllers) await controller.start(this.#stop.signal);
    this.#disposables = [members, ...this.#controllers];
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await Promise.all(this.#disposables.map((it) => it[Symbol.asyncDispose]()));
  }

  /** Until no controller has anything to do; what fails is tried again in time. */
  async settle(ms = 0): Promise<void> {
    await this.clock.advance(ms);
    for (let round = 0; round < 5; round++) {
      await this.clock.advance(0);
      for (const it of this.#controllers) await it.idle(AbortSignal.timeout(5000));
    }
  }

  placement(spec: Partial<PlacementSpec> = {}, name = "app"): Placement {
    const placement = { metadata: { ...this.#namespace, name }, spec: { resourceSelectors: [], ...spec } };
    this.client.seed(this.scope.placements, placement);
    return placement;
  }

  members(...names: readonly string[]): void {
    for (const name of names)
      this.client.seed(MEMBER_CLUSTERS, {
        metadata: { name, labels: { cluster: name } },
        spec: { identity: { kind: "User", name } },
      });
  }

  /** As the placement controller makes them; each list is one part. */
  async snapshot(index: number, ...parts: readonly (readonly KubeObject[])[]): Promise<void> {
    const of = this.scope.resourceSnapshots;
    for (const { metadata } of this.client.objects(of))
      await this.client.mergePatch(of, objectKey(metadata.namespace, metadata.name), {
        metadata: { labels: { [LATEST_SNAPSHOT_LABEL]: "false" } },
      });
    for (const at of parts.keys()) await this.snapshotPart(index, at, parts);
  }

  /** One part of a snapshot, 0 being the first. */
  async snapshotPart(index: number, at: number, parts: readonly (readonly KubeObject[])[]): Promise<void> {
    await this.client.create(this.scope.resourceSnapshots, {
      metadata: {
        ...this.#namespace,
        name: at === 0 ? `app-${index}-snapshot` : `app-${index}-${at - 1}`,
        labels: {
          [PARENT_PLACEMENT_LABEL]: "app",
          [RESOURCE_INDEX_LABEL]: String(index),
          ...(at === 0 ? { [LATEST_SNAPSHOT_LABEL]: "true" } : {}),
        },
        annotations:
          at === 0
            ? {
                [NUMBER_OF_RESOURCE_SNAPSHOTS_ANNOTATION]: String(parts.length),
                [RESOURCE_HASH_ANNOTATION]: JSON.stringify(parts),
              }
            : { [SUBINDEX_ANNOTATION]: String(at - 1) },
      },
      spec: { selectedResources: [...(parts[at] ?? [])] },
    });
  }

  /** As the scheduler makes them. */
  bind(cluster: string, spec: Partial<ResourceBindingSpec> = {}): void {
    this.client.seed(this.scope.bindings, {
      metadata: {
        ...this.#namespace,
        name: `app-${cluster}-00000000`,
        labels: { [PARENT_PLACEMENT_LABEL]: "app" },
        finalizers: ["kubernetes-fleet.io/scheduler-crb-cleanup"],
      },
      spec: {
        state: "Scheduled",
        resourceSnapshotName: "",
        schedulingPolicySnapshotName: "app-0",
        targetCluster: cluster,
        clusterDecision: { clusterName: cluster, selected: true, reason: "picked" },
        ...spec,
      },
    });
  }

  binding(cluster: string): ResourceBinding {
    const found = this.client.objects(this.scope.bindings).find((it) => it.spec.targetCluster === cluster);
    if (found === undefined) throw new Error(`no binding for ${cluster}`);
    return found;
  }

  bindings(): ResourceBinding[] {
    return this.client.objects(this.scope.bindings);
  }

  /** "Type=Status Reason" of each condition. */
  conditions(cluster: string): string[] {
    return (this.binding(cluster).status?.conditions ?? []).map(
      (it) => `${it.type}=${it.status} ${it.reason}`,
    );
  }

  works(cluster: string): Work[] {
    return this.client.objects(WORKS).filter((it) => it.metadata.namespace === `fleet-member-${cluster}`);
  }

  /** The member's agent answers for all its Works. */
  async answer(
    cluster: string,
    conditions: Readonly<Record<string, readonly [Condition["status"], string]>> = {
      Applied: ["True", "AllManifestsApplied"],
      Available: ["True", "AllManifestsAvailable"],
    },
    manifestConditions: readonly ManifestCondition[] = [],
  ): Promise<void> {
    for (const work of this.works(cluster))
      await this.client.mergePatch(
        WORKS,
        keyOf(work),
        {
          status: {
            conditions: Object.entries(conditions).map(([type, [status, reason]]) => ({
              type,
              status,
              reason,
              message: "",
              observedGeneration: work.metadata.generation,
              lastTransitionTime: new Date(this.clock.now()).toISOString(),
            })),
            manifestConditions,
          },
        },
        { subresource: "status" },
      );
  }
}

export function configMap(name: string, data: Readonly<Record<string, string>> = {}): KubeObject {
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { namespace: "shop", name }, data } as KubeObject;
}
export const SHOP: KubeObject = { apiVersion: "v1", kind: "Namespace", metadata: { name: "shop" } };
