import { HUB_CRDS } from "#api/crds/all.ts";
import { awaitCrds } from "#kube/crds.ts";
import type { RuntimeDeps } from "#kube/deps.ts";
import { createEventRecorder } from "#kube/events.ts";
import type { Controller, Informer, KubeClient } from "#kube/types.ts";
import type { KubeObject } from "#api/meta/types.ts";
import { createEndpoints } from "./endpoints/controller.ts";
import { createIdentity } from "./identity/reconcile.ts";
import { createHubInformers, HUB_MANAGER, type HubInformers } from "./informers.ts";
import { createMembership, type MembershipOptions } from "./membership/reconcile.ts";
import { installPolicies } from "./policies.ts";
import { createServices } from "./services/controller.ts";
import { createTrafficManager, type TrafficManagerOptions } from "./traffic-manager/controller.ts";

export interface Hub extends AsyncDisposable {
  readonly informers: HubInformers;
  readonly controllers: readonly Controller[];
}

export interface HubOptions extends Partial<MembershipOptions> {
  /**
   * Whether a namespace `fleet-member-NAME` makes a member, with or without a MemberCluster. Nobody says then whose the
   * mailboxes are: no policies are installed. Default: false.
   */
  readonly areMembersByNamespace?: boolean;
  /** Undefined: profiles and backends are left to others. */
  readonly trafficManager?: ((client: KubeClient, deps: RuntimeDeps) => TrafficManagerOptions) | undefined;
}

export const HUB_DEFAULTS: MembershipOptions = {
  // KubeFleet calls a member unhealthy after 60 s, and waits 15 min for one that leaves.
  leaseSeconds: 60,
  forceDeleteSeconds: 900,
};

const REMEDY =
  'run "fairlead join" with rights to install them, or apply the manifests of docs/reference/crds';

/** Waits for the hub's kinds, and runs its controllers until disposed. For the leader alone. */
export async function startHub(
  client: KubeClient,
  { trafficManager, areMembersByNamespace = false, ...options }: HubOptions,
  deps: RuntimeDeps,
  signal: AbortSignal,
): Promise<Hub> {
  await awaitCrds(client, { crds: HUB_CRDS, fieldManager: HUB_MANAGER, remedy: REMEDY }, deps, signal);
  if (!areMembersByNamespace) await installPolicies(client, deps.log, signal);
  await using stack = new AsyncDisposableStack();
  const informers = createHubInformers(client, areMembersByNamespace, deps);
  for (const informer of Object.values(informers) as Informer<KubeObject>[]) {
    stack.use(informer);
    informer.start(signal);
  }
  await Promise.all(Object.values(informers).map((it: Informer<KubeObject>) => it.synced(signal)));
  const events = createEventRecorder(client, HUB_MANAGER, deps);
  const parts = { client, informers, events, deps };
  const controllers = [
    createMembership({ ...parts, options: { ...HUB_DEFAULTS, ...options } }),
    createServices(parts),
    createEndpoints(parts),
    createIdentity(parts),
    ...(trafficManager === undefined ? [] : [createTrafficManager(parts, trafficManager(client, deps))]),
  ];
  for (const controller of controllers) {
    stack.use(controller);
    await controller.start(signal);
  }
  const held = stack.move();
  return { informers, controllers, [Symbol.asyncDispose]: () => held.disposeAsync() };
}
