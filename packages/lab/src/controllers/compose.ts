import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { createEventRecorder } from "@fairlead/kube/events/events.ts";
import type { Controller, KubeClient } from "@fairlead/kube/types.ts";
import type { Prefix } from "@fairlead/base/netaddr/prefix.ts";
import { daemonSetController } from "./daemonset/reconcile.ts";
import { deploymentController } from "./deployment/reconcile.ts";
import { disruptionController } from "./disruption/reconcile.ts";
import { endpointSliceController } from "./endpointslice/reconcile.ts";
import { jobController } from "./job/reconcile.ts";
import { endpointSliceMirroringController } from "./endpointslice-mirroring/reconcile.ts";
import { createLabInformers } from "./informers.ts";
import { loadBalancerController } from "./load-balancer/reconcile.ts";
import { namespaceDefaultsController } from "./namespace-defaults/reconcile.ts";
import { nodeLifecycleController } from "./node-lifecycle/reconcile.ts";
import { podGcController } from "./pod-gc/reconcile.ts";
import { replicaSetController } from "./replicaset/reconcile.ts";
import { resourceQuotaController } from "./resource-quota/reconcile.ts";
import { schedulerController } from "./scheduler/reconcile.ts";
import { statefulSetController } from "./statefulset/reconcile.ts";
import { storageProtectionControllers } from "./storage-protection/reconcile.ts";

export interface LabControllersOptions {
  /** Of which load balancers get their addresses; one per family at most. */
  readonly loadBalancerPrefixes: readonly Prefix[];
  /** How long a node may be silent. Unit: seconds. */
  readonly nodeLeaseSeconds: number;
  /** What pods check the API server's certificate against, PEM. */
  readonly rootCa: string;
}

export interface LabControllers extends AsyncDisposable {
  /** Resolves once every controller has seen the state and works. */
  start(signal: AbortSignal): Promise<void>;
  readonly controllers: readonly Controller[];
}

/** The part of a cluster that workloads need: what kube-controller-manager, kube-scheduler and a cloud would do. */
export function createLabControllers(
  client: KubeClient,
  options: LabControllersOptions,
  deps: RuntimeDeps,
): LabControllers {
  const informers = createLabInformers(client, deps);
  const recorder = (component: string) => createEventRecorder(client, component, deps);
  const of = (component: string) => ({ client, informers, events: recorder(component) });
  const { loadBalancerPrefixes: prefixes, nodeLeaseSeconds, rootCa } = options;
  const controllers = [
    namespaceDefaultsController({ client, informers, rootCa }, deps),
    nodeLifecycleController({ ...of("node-controller"), nodeLeaseSeconds }, deps),
    schedulerController(of("default-scheduler"), deps),
    deploymentController(of("deployment-controller"), deps),
    replicaSetController(of("replicaset-controller"), deps),
    statefulSetController(of("statefulset-controller"), deps),
    daemonSetController(of("daemonset-controller"), deps),
    jobController(of("job-controller"), deps),
    disruptionController(of("controllermanager"), deps),
    endpointSliceController(client, informers, deps),
    endpointSliceMirroringController(client, informers, deps),
    loadBalancerController({ ...of("service-controller"), prefixes }, deps),
    resourceQuotaController(client, informers, deps),
    podGcController(client, informers, deps),
    ...storageProtectionControllers(client, informers, deps),
  ];
  return {
    controllers,
    async start(signal) {
      await Promise.all(controllers.map((controller) => controller.start(signal)));
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(controllers.map((controller) => controller[Symbol.asyncDispose]()));
      const disposables: readonly AsyncDisposable[] = Object.values({ ...informers });
      await Promise.all(disposables.map((informer) => informer[Symbol.asyncDispose]()));
    },
  };
}
