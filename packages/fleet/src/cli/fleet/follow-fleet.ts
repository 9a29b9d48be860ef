import { INTERNAL_MEMBER_CLUSTERS, MEMBER_CLUSTERS } from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import { CLUSTER_MESH_PROFILES, GATEWAYS } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import { IMPORTED_SERVICES, NAMESPACE_REPORTS } from "#api/fairlead.dev/v1alpha1/types.ts";
import {
  ENDPOINT_SLICE_EXPORTS,
  FLEET_SERVICE_IMPORTS,
  INTERNAL_SERVICE_EXPORTS,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import { abortable } from "@fairlead/base/abortable.ts";
import { delay } from "@fairlead/base/clock.ts";
import { defined } from "@fairlead/base/defined.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { hasCode } from "@fairlead/base/errors.ts";
import { LEASES, type Lease } from "@fairlead/kube/api/coordination/v1/types.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { createInformer } from "@fairlead/kube/informer/informer.ts";
import type { KubeClient } from "@fairlead/kube/types.ts";
import { HUB_LEASE, type HubProgram, isHeld, RENEWAL_MS } from "./hub-program.ts";
import type { ClusterPath } from "./paths.ts";
import type { FleetSnapshot, FleetStatus } from "./status.ts";

/** Changes of one cause come together: they are shown as one. Unit: milliseconds. */
const COLLECT_MS = 500;

/**
 * Calls back with the fleet each time that something in it changes, until the signal says so.
 *
 * @param program - The state of the program of the hub at the beginning.
 * @param checkHub - Fails if the API server of the hub does not answer; called when the Lease of the hub is not renewed.
 */
export async function followFleet(
  hub: KubeClient,
  { program: first, checkHub }: { readonly program: HubProgram; readonly checkHub: () => Promise<void> },
  show: (snapshot: FleetSnapshot, program: HubProgram) => void,
  { deps, signal }: { readonly deps: RuntimeDeps; readonly signal: AbortSignal },
): Promise<void> {
  await using stack = new AsyncDisposableStack();
  let changed = Promise.withResolvers<void>();
  const watch = <T extends KubeObject>(of: Resource<T>) => {
    const informer = stack.use(createInformer(hub, of, {}, deps));
    stack.use(informer.subscribe(() => changed.resolve()));
    informer.start(signal);
    return informer;
  };
  /** For kinds that older hubs do not have. */
  const watchIfServed = async <T extends KubeObject>(of: Resource<T>) =>
    (await isServed(hub, of, signal)) ? watch(of) : undefined;
  const informers = {
    members: watch(MEMBER_CLUSTERS),
    leases: watch(LEASES),
    exports: watch(INTERNAL_SERVICE_EXPORTS),
    sliceExports: watch(ENDPOINT_SLICE_EXPORTS),
    serviceImports: watch(FLEET_SERVICE_IMPORTS),
    importedServices: watch(IMPORTED_SERVICES),
    reports: watch(NAMESPACE_REPORTS),
    internalMembers: watch(INTERNAL_MEMBER_CLUSTERS),
    profiles: await watchIfServed(CLUSTER_MESH_PROFILES),
    gateways: await watchIfServed(GATEWAYS),
  };
  for (const it of Object.values(informers)) await it?.synced(signal);
  const sight = new HubSight(first, deps.clock.monotonic());
  for (;;) {
    changed = Promise.withResolvers();
    if (sight.look(informers.leases.store.get(HUB_LEASE), deps.clock.monotonic())) await checkHub();
    show(
      {
        members: [...informers.members.store.list()],
        leases: [...informers.leases.store.list()],
        exports: [...informers.exports.store.list()],
        sliceExports: [...informers.sliceExports.store.list()],
        serviceImports: [...informers.serviceImports.store.list()],
        importedServices: [...informers.importedServices.store.list()],
        reports: [...informers.reports.store.list()],
        internalMembers: [...informers.internalMembers.store.list()],
        profiles: [...(informers.profiles?.store.list() ?? [])],
        gateways: [...(informers.gateways?.store.list() ?? [])],
      },
      sight.program,
    );
    using _silence = deps.clock.after(RENEWAL_MS, () => changed.resolve());
    await abortable(changed.promise, signal);
    await delay(deps.clock, COLLECT_MS, signal);
  }
}

async function isServed<T extends KubeObject>(
  hub: KubeClient,
  of: Resource<T>,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    await hub.list(of, { signal });
    return true;
  } catch (error) {
    if (!hasCode(error, "API_NOT_FOUND")) throw error;
    return false;
  }
}

/** The program of the hub, by renewals of its Lease that are observed: clocks may differ. */
class HubSight {
  program: HubProgram;
  #seenMs: number;

  /** @param nowMs - Unit: milliseconds, monotonic. */
  constructor(program: HubProgram, nowMs: number) {
    this.program = program;
    this.#seenMs = nowMs;
  }

  /** Takes the Lease as it is; returns whether its renewal is overdue. */
  look(lease: Lease | undefined, nowMs: number): boolean {
    const { holderIdentity, renewTime } = lease?.spec ?? {};
    const holder = holderIdentity === "" ? undefined : holderIdentity;
    const isRenewed = lease !== undefined && isHeld(lease) && renewTime !== this.program.renewed;
    if (isRenewed) {
      this.program = { state: "Running", ...defined({ holder, renewed: renewTime }) };
      this.#seenMs = nowMs;
    }
    if (isRenewed || nowMs - this.#seenMs < RENEWAL_MS) return false;
    this.#seenMs = nowMs;
    this.program = { ...this.program, state: lease === undefined ? "Unknown" : "Dead" };
    return true;
  }
}

/** Text that differs where people see more than time passing. */
export function changeKey(seen: FleetStatus | readonly ClusterPath[]): string {
  return JSON.stringify(seen, (key, value: unknown) => (OF_TIME.has(key) ? undefined : value));
}

/** Fields that differ with each report. */
const OF_TIME: ReadonlySet<string> = new Set([
  "lastSync",
  "renewed",
  "lastHandshake",
  "sentBytes",
  "receivedBytes",
  "reportedAt",
]);
