import { HUB_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { CLUSTER_PROFILE_CRD } from "#api/multicluster.x-k8s.io/cluster-profiles.ts";
import { PUBLISHED_PLACEMENT_CRDS } from "#api/placement.kubernetes-fleet.io/crds.ts";
import { SCOPES } from "#api/placement.kubernetes-fleet.io/scopes.ts";
import {
  CLUSTER_RESOURCE_OVERRIDES,
  RESOURCE_OVERRIDES,
} from "#api/placement.kubernetes-fleet.io/v1beta1/overrides.ts";
import { WORKS } from "#api/placement.kubernetes-fleet.io/v1beta1/work.ts";
import { untilAborted } from "@fairlead/base/abortable.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { awaitCrds, type PresentCrds } from "@fairlead/kube/definitions/crds.ts";
import type { EventRecorder } from "@fairlead/kube/events/events.ts";
import { untilFirstObject } from "@fairlead/kube/informer/first-object.ts";
import type { Controller, Informer, KubeClient } from "@fairlead/kube/types.ts";
import type { HubInformers } from "../informers.ts";
import { keepRunning } from "../keep-running.ts";
import { createClusterProfiles } from "../membership/cluster-profiles.ts";
import { createPlacementInformers, type PlacementInformers } from "./informers.ts";
import { createEvictions } from "./evictions/controller.ts";
import { createPlacementMetrics } from "./metrics.ts";
import { createOverrides } from "./overrides/controller.ts";
import { createRolloutParts } from "./parts.ts";
import { createReportBack } from "./report-back/controller.ts";
import { createRollout } from "./rollout/controller.ts";
import { createSchedulers } from "./scheduler/controller.ts";
import { createSelecting, type SelectingOptions } from "./selecting.ts";
import { createStagedRuns } from "./staged-runs/controller.ts";
import { recordPlacementEvents } from "./events.ts";
import { createWorks } from "./works/controller.ts";

/** What every controller of placements is given. */
export interface PlacementParts {
  readonly client: KubeClient;
  /** Of members and namespaces, among others: synced before. */
  readonly hub: HubInformers;
  readonly informers: PlacementInformers;
  readonly events: EventRecorder;
  /** Undefined: all defaults. */
  readonly selecting: SelectingOptions | undefined;
  /** Whether ConfigMaps may be envelopes. */
  readonly configMapEnvelopes: boolean | undefined;
  readonly deps: RuntimeDeps;
}

/** In no order: each goes by what it finds. */
function createControllers(parts: PlacementParts, stack: AsyncDisposableStack): readonly Controller[] {
  const { client, hub, informers, configMapEnvelopes, deps } = parts;
  const rollout = createRolloutParts({
    client,
    informers,
    members: hub.members,
    configMapEnvelopes,
    deps,
  });
  const scopes = [informers.cluster, informers.namespaced];
  const scheduling = { ...rollout, namespaces: hub.namespaces, events: parts.events };
  const { controllers, resources, snapshotNow } = stack.use(createSelecting(rollout, parts.selecting));
  return [
    ...controllers,
    ...stack.use(createSchedulers(scheduling)).controllers,
    createRollout(rollout),
    createWorks(rollout),
    createOverrides(rollout),
    createEvictions(rollout),
    createReportBack({ ...rollout, kinds: () => resources.kinds }),
    ...scopes.map((of) => createStagedRuns({ ...rollout, of, snapshotNow })),
  ];
}

/** The kinds that users make objects of, and those that what they made may have left: all others follow from them. */
const USED_BY = {
  awaited: [
    ...SCOPES.flatMap(({ placements, runs, evictions }): Resource[] => [placements, runs, evictions]),
    CLUSTER_RESOURCE_OVERRIDES,
    RESOURCE_OVERRIDES,
  ],
  left: [...SCOPES.map(({ bindings }): Resource => bindings), WORKS],
};

const REMEDY =
  'run "fairlead crds install --role hub" with rights to install them, or start the hub with --no-placement';

/**
 * Runs the controllers of placements until disposed. Nothing else of the hub waits for them: a hub without their kinds or
 * permissions connects services all the same.
 *
 * @param definitions - As the server has them now. Undefined: they are read.
 */
export function startPlacement(
  parts: Omit<PlacementParts, "informers">,
  definitions: PresentCrds | undefined,
  signal: AbortSignal,
): AsyncDisposable {
  let present = definitions;
  const once = (running: AbortSignal): Promise<void> => {
    const read = present;
    // What was read before the first attempt is old at the next one.
    present = undefined;
    return run(parts, read, running);
  };
  return keepRunning("the controllers of placements", once, parts.deps, signal);
}

async function run(
  parts: Omit<PlacementParts, "informers">,
  present: PresentCrds | undefined,
  signal: AbortSignal,
): Promise<void> {
  const { client, deps } = parts;
  const crds = [...PUBLISHED_PLACEMENT_CRDS, CLUSTER_PROFILE_CRD];
  await awaitCrds(client, { crds, fieldManager: HUB_MANAGER, remedy: REMEDY, present }, deps, signal);
  await using stack = new AsyncDisposableStack();
  const profiles = stack.use(createClusterProfiles({ client, members: parts.hub.members, deps }));
  await profiles.start(signal);
  await untilFirstObject(client, USED_BY, deps, signal);
  const informers = createPlacementInformers(client, deps);
  const all = allOf(informers);
  for (const informer of all) {
    stack.use(informer);
    informer.start(signal);
  }
  await Promise.all(all.map((it) => it.synced(signal)));
  stack.use(recordPlacementEvents(informers, parts.events));
  stack.use(createPlacementMetrics(informers, parts.hub.members, deps));
  for (const controller of createControllers({ ...parts, informers }, stack)) {
    stack.use(controller);
    await controller.start(signal);
  }
  await untilAborted(signal);
}

function allOf({ cluster, namespaced, ...others }: PlacementInformers): readonly Informer<KubeObject>[] {
  const scoped = [cluster, namespaced].flatMap(({ scope: _scope, ...informers }) => Object.values(informers));
  return [...scoped, ...Object.values(others)] as readonly Informer<KubeObject>[];
}
