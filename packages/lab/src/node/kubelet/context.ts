import type { ConfigMap, Pod, Secret, Service } from "@fairlead/kube/api/core/v1/types.ts";
import type { ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import type { EventRecorder } from "@fairlead/kube/events/events.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import type { Machine } from "#images/catalogue.ts";
import type { ContainerRuntime } from "../container/runtime.ts";
import type { PodAddresses } from "../network/pod-addresses.ts";
import type { ClusterDns } from "../pod/resolver.ts";
import type { Attempt } from "../probe/attempt.ts";
import type { ObjectCache } from "./object-cache.ts";
import type { ContainerStops } from "./stops.ts";

/** What the pods of one node share. */
export interface NodeContext {
  readonly client: KubeClient;
  readonly deps: RuntimeDeps;
  readonly runtime: ContainerRuntime;
  readonly addresses: PodAddresses;
  readonly stops: ContainerStops;
  readonly configMaps: ObjectCache<ConfigMap>;
  readonly secrets: ObjectCache<Secret>;
  readonly events: EventRecorder;
  readonly machine: Machine;
  readonly dns: ClusterDns;
  /** One per family. */
  readonly nodeIPs: readonly string[];
  readonly capacity: Readonly<Record<string, string>>;
  /** Services that a pod finds in its environment variables. */
  readonly servicesFor: (pod: Pod) => Iterable<Service>;
  readonly attempt: Attempt;
  /** Makes a pass for a pod due. */
  readonly enqueue: (key: ObjectKey) => void;
}

/** An event about a pod, as `kubectl describe` shows it. */
export interface PodEvent {
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly message: string;
}
