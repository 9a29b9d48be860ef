import { untilAborted } from "@fairlead/base/abortable.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { EventRecorder } from "@fairlead/kube/events/events.ts";
import { untilFirstObject } from "@fairlead/kube/informer/first-object.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { TRAFFIC_ROUTES } from "#api/fairlead.dev/v1alpha1/traffic-route.ts";
import {
  TRAFFIC_MANAGER_BACKENDS,
  TRAFFIC_MANAGER_PROFILES,
} from "#api/networking.fleet.azure.com/v1beta1/traffic-manager.ts";
import type { HubInformers } from "../informers.ts";
import { keepRunning } from "../keep-running.ts";
import { createTrafficManager, type TrafficManagerOptions } from "./controller.ts";
import { createStatusGauges } from "./gauges.ts";
import { createCheckCounter } from "./health/monitor.ts";

/** Routes may be left of profiles that are gone. */
const USED_BY = { awaited: [TRAFFIC_MANAGER_PROFILES, TRAFFIC_MANAGER_BACKENDS], left: [TRAFFIC_ROUTES] };

/** The traffic manager, from the first profile or backend on. */
export function startTrafficManager(
  parts: {
    readonly client: KubeClient;
    readonly informers: HubInformers;
    readonly events: EventRecorder;
    readonly deps: RuntimeDeps;
  },
  optionsOf: (client: KubeClient, deps: RuntimeDeps) => TrafficManagerOptions,
  signal: AbortSignal,
): AsyncDisposable {
  const { client, deps } = parts;
  // Its metrics are there from the start.
  createStatusGauges(deps);
  createCheckCounter(deps);
  const run = async (running: AbortSignal): Promise<void> => {
    await untilFirstObject(client, USED_BY, deps, running);
    await using controller = createTrafficManager(parts, optionsOf(client, deps));
    await controller.start(running);
    await untilAborted(running);
  };
  return keepRunning("the traffic manager", run, deps, signal);
}
