import { MEMBER_LEASE_SECONDS } from "#api/cluster.kubernetes-fleet.io/defaults.ts";
import { HUB_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { HUB_CORE_CRDS, HUB_NET_CRDS } from "#api/crds.ts";
import { awaitCrds, listCrds, type PresentCrds } from "@fairlead/kube/definitions/crds.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { createEventRecorder, type EventRecorder } from "@fairlead/kube/events/events.ts";
import type { Controller, KubeClient } from "@fairlead/kube/types.ts";
import { createEndpoints } from "./endpoints/controller.ts";
import { createFleetGauges } from "./fleet-gauges.ts";
import { createIdentities } from "./identities/controller.ts";
import { createIdentity } from "./identity/reconcile.ts";
import { createHubInformers, type HubInformers, informersOfUpdates, neededInformers } from "./informers.ts";
import { createForcedCleanup } from "./membership/forced-cleanup.ts";
import { LeaseTracker } from "./membership/leases.ts";
import { createMesh } from "./mesh/reconcile.ts";
import { createMembership, type MembershipOptions } from "./membership/reconcile.ts";
import type { CompileRule } from "#updates/clusters/judge.ts";
import { installPolicies } from "#authz/policies/install.ts";
import type { SelectingOptions } from "./placement/selecting.ts";
import { startPlacement } from "./placement/placement.ts";
import { createServices } from "./services/controller.ts";
import { createRunNamespaces } from "./services/run-namespaces.ts";
import { startUpdates } from "./updates/clusters/start.ts";
import type { TrafficManagerOptions } from "./traffic-manager/controller.ts";
import { startTrafficManager } from "./traffic-manager/start.ts";

export interface Hub extends AsyncDisposable {
  readonly informers: HubInformers;
  readonly controllers: readonly Controller[];
}

export interface HubOptions extends Partial<MembershipOptions> {
  /**
   * Whether a namespace `fleet-member-NAME` makes a member, with or without a MemberCluster. Default: false.
   */
  readonly areMembersByNamespace?: boolean;
  /**
   * True if KubeFleet's hub agent manages the mailboxes, permissions and InternalMemberClusters of members: it reverts what
   * others write there. Default: this program manages them.
   */
  readonly isBesideOthers?: boolean;
  /** Whether the admission policies were installed before it started. Default: it installs them, if permitted. */
  readonly hasPolicies?: boolean;
  /** Places resources on members, where KubeFleet's hub agent does not. Default: false. */
  readonly placement?: boolean;
  /** What placements select. */
  readonly selecting?: SelectingOptions;
  /** Whether ConfigMaps with KubeFleet's annotation are envelopes. Default: false. */
  readonly configMapEnvelopes?: boolean;
  /** Evaluates rules of health checks of update runs. Default: they cannot be evaluated. */
  readonly compileRule?: CompileRule;
  /** Undefined: profiles and backends are left to others. */
  readonly trafficManager?: ((client: KubeClient, deps: RuntimeDeps) => TrafficManagerOptions) | undefined;
}

export const HUB_DEFAULTS: MembershipOptions = {
  leaseSeconds: MEMBER_LEASE_SECONDS,
  // KubeFleet waits 15 min for a member that leaves.
  forceDeleteSeconds: 900,
  servers: [],
};

const REMEDY =
  'run "fairlead join" with rights to install them, or apply the manifests of docs/reference/crds';

/** Waits for the hub's kinds, and runs its controllers until disposed. For the leader alone. */
export async function startHub(
  client: KubeClient,
  options: HubOptions,
  deps: RuntimeDeps,
  signal: AbortSignal,
): Promise<Hub> {
  const { areMembersByNamespace = false, isBesideOthers = false, placement = false } = options;
  const { hasPolicies = isBesideOthers || areMembersByNamespace } = options;
  const crds = isBesideOthers ? HUB_NET_CRDS : HUB_CORE_CRDS;
  // What places resources may read all definitions.
  const present = placement && !isBesideOthers ? await listCrds(client, signal) : undefined;
  await awaitCrds(client, { crds, fieldManager: HUB_MANAGER, remedy: REMEDY, present }, deps, signal);
  // The policies read the owner of a mailbox from its labels, which only the creator of mailboxes sets.
  if (!hasPolicies) await installPolicies(client, deps.log, signal);
  await using stack = new AsyncDisposableStack();
  const informers = createHubInformers(client, { areMembersByNamespace, isBesideOthers }, deps);
  const needed = neededInformers(informers, { isBesideOthers });
  for (const informer of needed) {
    stack.use(informer);
    informer.start(signal);
  }
  await Promise.all(needed.map((it) => it.synced(signal)));
  const events = createEventRecorder(client, HUB_MANAGER, deps);
  const leases = new LeaseTracker();
  stack.use(client.onReachable(() => leases.forgive(deps.clock.monotonic())));
  stack.use(createFleetGauges(informers, leases, deps));
  const parts = { client, informers, events, deps };
  const controllers = createControllers(parts, leases, options);
  for (const controller of controllers) {
    stack.use(controller);
    await controller.start(signal);
  }
  stack.use(startOnDemand(parts, options, present, signal));
  const held = stack.move();
  return { informers, controllers, [Symbol.asyncDispose]: () => held.disposeAsync() };
}

interface Parts {
  readonly client: KubeClient;
  readonly informers: HubInformers;
  readonly events: EventRecorder;
  readonly deps: RuntimeDeps;
}

/** Starts the parts that begin with the first object that they are for. */
function startOnDemand(
  parts: Parts,
  options: HubOptions,
  present: PresentCrds | undefined,
  signal: AbortSignal,
): AsyncDisposable {
  const { trafficManager, compileRule, selecting, configMapEnvelopes } = options;
  const stack = new AsyncDisposableStack();
  if (trafficManager !== undefined) stack.use(startTrafficManager(parts, trafficManager, signal));
  if (options.isBesideOthers === true) return stack;
  for (const it of informersOfUpdates(parts.informers)) stack.use(it);
  stack.use(startUpdates({ ...parts, compile: compileRule }, signal));
  if (options.placement === true)
    stack.use(
      startPlacement({ ...parts, hub: parts.informers, selecting, configMapEnvelopes }, present, signal),
    );
  return stack;
}

function createControllers(
  parts: Parts,
  leases: LeaseTracker,
  { isBesideOthers = false, ...given }: HubOptions,
): readonly Controller[] {
  const options: MembershipOptions = { ...HUB_DEFAULTS, ...given };
  return [
    ...(isBesideOthers
      ? [createForcedCleanup({ ...parts, options })]
      : [
          createMembership({ ...parts, leases, options }),
          createIdentity(parts),
          createMesh({ ...parts, servers: options.servers }),
          createIdentities(parts),
        ]),
    createServices(parts),
    createRunNamespaces(parts),
    createEndpoints(parts),
  ];
}
