import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { type ObjectKey, splitKey } from "@fairlead/kube/api/meta/key.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import type { SnapshotPace } from "#placement/snapshots/pace.ts";
import type { ContentsCache } from "../contents.ts";
import type { PlacementInformers, ScopeInformers } from "../informers.ts";
import type { OwnPace } from "../pace.ts";
import type { Outcomes } from "./outcomes.ts";
import type { Resources } from "./resources.ts";

export interface SnapshotParts {
  readonly client: KubeClient;
  readonly informers: PlacementInformers;
  readonly contents: ContentsCache;
  readonly resources: Resources;
  readonly outcomes: Outcomes;
  readonly pace: SnapshotPace;
  /** Of looks at what is selected. */
  readonly evaluations: OwnPace;
  /** By placement the latest snapshot whose contents are known to differ from what was selected since, or were made here. */
  readonly compared: Map<ObjectKey, string>;
  readonly deps: RuntimeDeps;
}

/** Of both scopes: the key of a ResourcePlacement has a namespace. */
export function scopeOf(informers: PlacementInformers, key: ObjectKey): ScopeInformers {
  return splitKey(key).namespace === undefined ? informers.cluster : informers.namespaced;
}
