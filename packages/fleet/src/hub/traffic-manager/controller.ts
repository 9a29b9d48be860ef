import { isDrainChanged } from "#domain/drain.ts";
import { keyOf, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { Prefix } from "@fairlead/base/netaddr/prefix.ts";
import type { EventRecorder } from "@fairlead/kube/events/events.ts";
import { both, watching } from "@fairlead/kube/controller/source.ts";
import type { Controller, KubeClient } from "@fairlead/kube/types.ts";
import { type HubInformers, serviceOfExport } from "../informers.ts";
import { createStatusGauges } from "./gauges.ts";
import { type Check, createCheck } from "./health/checks.ts";
import { HealthMonitor } from "./health/monitor.ts";
import { createTrafficInformers, profileOf, type TrafficInformers } from "./informers.ts";
import { labelOf } from "./profile.ts";
import type { TrafficProvider } from "./provider.ts";
import { reconcileProfile } from "./reconcile.ts";
import { StatusWriter } from "./status.ts";
import { permittedTargets } from "./targets.ts";

export interface TrafficManagerOptions {
  readonly provider: TrafficProvider;
  /** How long answers may be kept. Azure Traffic Manager's is 60. */
  readonly ttlSeconds: number;
  /** The private networks in which load balancers may be. Default: all. */
  readonly privateRanges?: readonly Prefix[] | undefined;
  /** Default: real connections. */
  readonly check?: Check;
}

/** Profiles and their backends. Keys are profiles, "namespace/name". */
export function createTrafficManager(
  parts: {
    readonly client: KubeClient;
    readonly informers: HubInformers;
    readonly events: EventRecorder;
    readonly deps: RuntimeDeps;
  },
  options: TrafficManagerOptions,
): Controller {
  const { client, informers, deps } = parts;
  const { provider, ttlSeconds } = options;
  const permits = permittedTargets(options.privateRanges);
  const traffic = createTrafficInformers(client, deps);
  const gauges = createStatusGauges(deps);
  const status = new StatusWriter(parts, gauges);
  const stack = new AsyncDisposableStack();
  stack.use(provider);
  const health = stack.use(
    new HealthMonitor(options.check ?? createCheck(permits), (profile) => controller.enqueue(profile), deps),
  );
  const ofService = (service: ObjectKey): ObjectKey[] =>
    [...traffic.backends.store.byIndex("service", service)].map(profileOf);
  const ofLabel = (label: string): ObjectKey[] =>
    [...traffic.profiles.store.byIndex("label", label)].map(keyOf);
  const controller = createController(
    {
      name: "hub-traffic-manager",
      reconcile: (key, signal) =>
        reconcileProfile(
          { client, informers, traffic, provider, health, status, ttlSeconds, permits, deps },
          key,
          signal,
        ),
      concurrency: 8,
      sources: [
        // Profiles that wait for the same name are enqueued, too.
        watching(traffic.profiles, ({ key, before, after }) => {
          if (after === undefined) gauges.forget("profile", key);
          return [key, ...ofLabel(labelOf((after ?? before) as NonNullable<typeof after>))];
        }),
        watching(traffic.backends, ({ key, before, after }) => {
          if (after === undefined) gauges.forget("backend", key);
          return [before, after].filter((it) => it !== undefined).map(profileOf);
        }),
        watching(informers.serviceImports, ({ key }) => ofService(key)),
        watching(informers.exports, (change) => both(serviceOfExport)(change).flatMap(ofService)),
        watching(informers.members, ({ before, after }) =>
          isDrainChanged(before, after) ? [...traffic.profiles.store.list()].map(keyOf) : [],
        ),
      ],
    },
    deps,
  );
  stack.use(provider.subscribe((label) => ofLabel(label).forEach((key) => controller.enqueue(key))));
  return {
    name: controller.name,
    async start(signal) {
      await provider.start(signal);
      await controller.start(signal);
    },
    enqueue: (key) => controller.enqueue(key),
    idle: (signal) => controller.idle(signal),
    async [Symbol.asyncDispose]() {
      await controller[Symbol.asyncDispose]();
      await stack.disposeAsync();
      await Promise.all(
        Object.values(traffic).map((it: TrafficInformers["profiles" | "backends"]) =>
          it[Symbol.asyncDispose](),
        ),
      );
    },
  };
}
