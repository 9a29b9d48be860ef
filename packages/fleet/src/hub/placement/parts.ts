import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { objectKey, type ObjectKey, splitKey } from "@fairlead/kube/api/meta/key.ts";
import type { Informer, KubeClient } from "@fairlead/kube/types.ts";
import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import type { OverriddenCluster } from "#placement/overrides/variables.ts";
import type { ContentsCache } from "./contents.ts";
import type { PlacementInformers, ScopeInformers } from "./informers.ts";

/** What the controllers that carry placements out are given. */
export interface RolloutParts {
  readonly client: KubeClient;
  readonly informers: PlacementInformers;
  readonly members: Informer<MemberCluster>;
  /** One for all of them: a snapshot is read once. */
  readonly contents: ContentsCache;
  readonly deps: RuntimeDeps;
}

/** The kinds of the scope that a key belongs to: the key of a ResourcePlacement, and of what belongs to it, has a namespace. */
export function scopeOfKey(informers: PlacementInformers, key: ObjectKey): ScopeInformers {
  return splitKey(key).namespace === undefined ? informers.cluster : informers.namespaced;
}

/** A member without a MemberCluster has no labels. */
export function overriddenCluster(members: Informer<MemberCluster>, name: string): OverriddenCluster {
  return { name, labels: members.store.get(objectKey(undefined, name))?.metadata.labels ?? {} };
}
