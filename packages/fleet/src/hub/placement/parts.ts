import { FleetError } from "@fairlead/base/errors.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { objectKey, type ObjectKey, splitKey } from "@fairlead/kube/api/meta/key.ts";
import { OwnWrites } from "@fairlead/kube/informer/own-writes.ts";
import type { Informer, KubeClient } from "@fairlead/kube/types.ts";
import type { MemberCluster } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import type { ResourceBinding } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import type { OverriddenCluster } from "#placement/overrides/variables.ts";
import { ContentsCache } from "./contents.ts";
import { OF_PLACEMENT, placementOf, type PlacementInformers, type ScopeInformers } from "./informers.ts";

/** What the controllers that carry placements out are given. */
export interface RolloutParts {
  readonly client: KubeClient;
  readonly informers: PlacementInformers;
  readonly members: Informer<MemberCluster>;
  /** One for all of them: a snapshot is read once. */
  readonly contents: ContentsCache;
  readonly bindingWrites: BindingWrites;
  /** Whether ConfigMaps may be envelopes. Default: false. */
  readonly configMapEnvelopes?: boolean | undefined;
  readonly deps: RuntimeDeps;
}

/** Bindings in their newest versions, by their scopes: the controllers see each other's writes at once. */
export type BindingWrites = ReadonlyMap<ScopeInformers, OwnWrites<ResourceBinding>>;

export function createRolloutParts(parts: Omit<RolloutParts, "bindingWrites" | "contents">): RolloutParts {
  const { client, informers, deps } = parts;
  const writesOf = ({ bindings: informer }: ScopeInformers): OwnWrites<ResourceBinding> =>
    new OwnWrites({ informer, index: OF_PLACEMENT, valueOf: placementOf, clock: deps.clock });
  const scopes = [informers.cluster, informers.namespaced];
  const bindingWrites = new Map(scopes.map((it) => [it, writesOf(it)]));
  return { ...parts, contents: new ContentsCache(client), bindingWrites };
}

/** Those of one scope. */
export function bindingsOf(
  { bindingWrites }: Pick<RolloutParts, "bindingWrites">,
  scope: ScopeInformers,
): OwnWrites<ResourceBinding> {
  const found = bindingWrites.get(scope);
  if (found === undefined) throw new FleetError("OPTION_INVALID", "the informers are of another hub");
  return found;
}

/** The kinds of the scope that a key belongs to: the key of a ResourcePlacement, and of what belongs to it, has a namespace. */
export function scopeOfKey(informers: PlacementInformers, key: ObjectKey): ScopeInformers {
  return splitKey(key).namespace === undefined ? informers.cluster : informers.namespaced;
}

/** A member without a MemberCluster has no labels. */
export function overriddenCluster(members: Informer<MemberCluster>, name: string): OverriddenCluster {
  return { name, labels: members.store.get(objectKey(undefined, name))?.metadata.labels ?? {} };
}
