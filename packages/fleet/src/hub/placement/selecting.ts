import {
  CUSTOM_RESOURCE_DEFINITIONS,
  type CustomResourceDefinition,
} from "@fairlead/kube/api/apiextensions/v1/types.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { Controller, KubeClient } from "@fairlead/kube/types.ts";
import { placementRules, type RuleOptions } from "#placement/selection/rules.ts";
import { DEFAULT_PACE, type SnapshotPace } from "#placement/snapshots/pace.ts";
import type { PlacementInformers } from "./informers.ts";
import { createSnapshots } from "./resources/controller.ts";
import { type Discover, discoverBy } from "./resources/discovery.ts";
import { Outcomes } from "./resources/outcomes.ts";
import { Resources } from "./resources/resources.ts";
import { createPlacementStatus } from "./status/controller.ts";

export interface SelectingOptions extends RuleOptions, Partial<SnapshotPace> {
  /** Default: asks the API server. */
  readonly discover?: Discover;
}
export interface SelectingParts {
  readonly client: KubeClient;
  readonly informers: PlacementInformers;
  readonly deps: RuntimeDeps;
}
export interface Selecting extends AsyncDisposable {
  readonly controllers: readonly Controller[];
  readonly resources: Resources;
}

/** What placements select, their snapshots, and their status. */
export function createSelecting(
  { client, informers, deps }: SelectingParts,
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
  return {
    controllers: [
      createPlacementStatus({ client, informers, outcomes, deps }),
      createSnapshots({ client, informers, resources, outcomes, pace, deps }),
      resources.createDiscovery(),
    ],
    resources,
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
