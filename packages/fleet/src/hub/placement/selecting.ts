import {
  CUSTOM_RESOURCE_DEFINITIONS,
  type CustomResourceDefinition,
} from "@fairlead/kube/api/apiextensions/v1/types.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { Controller, KubeClient } from "@fairlead/kube/types.ts";
import type { Placement } from "#api/placement.kubernetes-fleet.io/v1beta1/placement.ts";
import { placementRules, type RuleOptions } from "#placement/selection/rules.ts";
import { DEFAULT_PACE, type SnapshotPace } from "#placement/snapshots/pace.ts";
import type { ContentsCache } from "./contents.ts";
import { OwnPace } from "./pace.ts";
import type { PlacementInformers } from "./informers.ts";
import { createSnapshots } from "./resources/controller.ts";
import { type Discover, discoverBy } from "#placement/selection/discovery.ts";
import { Outcomes } from "./resources/outcomes.ts";
import { Resources } from "./resources/resources.ts";
import { snapshotNow } from "./resources/snapshot.ts";
import { createPlacementStatus } from "./status/controller.ts";

/** 10,000 objects take 25 ms, whichever of them changed. */
const EVALUATION_PACE = { perItemMs: 0.05, few: 200, maxMs: 2000 };

export interface SelectingOptions extends RuleOptions, Partial<SnapshotPace> {
  /** Default: asks the API server. */
  readonly discover?: Discover;
}
export interface SelectingParts {
  readonly client: KubeClient;
  readonly informers: PlacementInformers;
  readonly contents: ContentsCache;
  readonly deps: RuntimeDeps;
}
export interface Selecting extends AsyncDisposable {
  readonly controllers: readonly Controller[];
  readonly resources: Resources;
  /** See `snapshotNow` of `resources/snapshot.ts`. */
  readonly snapshotNow: (
    key: ObjectKey,
    placement: Placement,
    signal: AbortSignal,
  ) => ReturnType<typeof snapshotNow>;
}

/** What placements select, their snapshots, and their status. */
export function createSelecting(
  { client, informers, contents, deps }: SelectingParts,
  options: SelectingOptions = {},
): Selecting {
  const definitions = createInformer(client, CUSTOM_RESOURCE_DEFINITIONS, { trim: withoutSchemas }, deps);
  const rules = placementRules(options);
  const resources = new Resources({
    client,
    rules,
    deps,
    definitions,
    discover: options.discover ?? discoverBy(client),
  });
  const outcomes = new Outcomes();
  const pace = {
    minIntervalMs: options.minIntervalMs ?? DEFAULT_PACE.minIntervalMs,
    collectMs: options.collectMs ?? DEFAULT_PACE.collectMs,
  };
  const evaluations = new OwnPace(deps.clock, EVALUATION_PACE);
  const parts = {
    client,
    informers,
    contents,
    resources,
    outcomes,
    pace,
    evaluations,
    compared: new Map(),
    deps,
  };
  return {
    controllers: [
      createPlacementStatus({ client, informers, contents, outcomes, deps }),
      createSnapshots(parts),
      resources.createDiscovery(),
    ],
    resources,
    snapshotNow: (key, placement, signal) => snapshotNow(parts, key, placement, signal),
    async [Symbol.asyncDispose]() {
      await resources[Symbol.asyncDispose]();
      await definitions[Symbol.asyncDispose]();
    },
  };
}

/** Schemas are most of a definition, and nothing here reads them. */
function withoutSchemas(it: CustomResourceDefinition): CustomResourceDefinition {
  const versions = it.spec.versions.map(({ name, served, storage }) => ({
    name,
    served,
    storage,
    schema: { openAPIV3Schema: {} },
  }));
  return { ...it, spec: { ...it.spec, versions } };
}
