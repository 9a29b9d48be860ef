import { NAMESPACES } from "#api/core/v1/types.ts";
import { keyOf, type ObjectKey } from "#api/meta/key.ts";
import type { KubeObject } from "#api/meta/types.ts";
import { FLEET_SYSTEM_NAMESPACE } from "#api/networking.fleet.azure.com/names.ts";
import { hasCode } from "#base/errors.ts";
import type { RuntimeDeps } from "#kube/deps.ts";
import { createEventRecorder } from "#kube/events.ts";
import type { Controller, Informer, KubeClient } from "#kube/types.ts";
import { createEndpointExport, sliceKeys } from "./endpoints/export.ts";
import { createEndpointImport } from "./endpoints/import.ts";
import { createOwnEndpoints } from "./endpoints/without-hub.ts";
import { createExports, exportKeys } from "./exports/reconcile.ts";
import { createFleetImport, fleetImportKeys } from "./imports/fleet-import.ts";
import { createMcsImport } from "./imports/mcs-import.ts";
import { createMultiClusterServices } from "./imports/multi-cluster-service.ts";
import { createNamespaceReport } from "./imports/namespace-report.ts";
import { createLocalInformers, createMailboxInformers, MEMBER_MANAGER } from "./informers.ts";
import { createHeartbeat } from "./membership/heartbeat.ts";
import { keepLease } from "./membership/lease.ts";
import { Probes } from "./probes/probes.ts";
import { type Probe, tcpProbe } from "./probes/tcp.ts";
import type { Session } from "./session.ts";

export interface MemberOptions {
  /** The member's name, which is its cluster id. */
  readonly cluster: string;
  readonly local: KubeClient;
  readonly hub: KubeClient;
  readonly deps: RuntimeDeps;
  /** Default: a TCP connection. */
  readonly probe?: Probe;
}

export interface Member extends AsyncDisposable {
  readonly session: Session;
  readonly controllers: readonly Controller[];
}

/** Runs a member's controllers until disposed. Its kinds have to be installed. For the leader alone. */
export async function startMember(options: MemberOptions, signal: AbortSignal): Promise<Member> {
  const { cluster, local, hub, deps } = options;
  await using stack = new AsyncDisposableStack();
  const stop = new AbortController();
  stack.defer(() => stop.abort());
  const running = AbortSignal.any([signal, stop.signal]);
  await ensureNamespace(local, running);
  const session: Session = {
    cluster,
    local,
    hub,
    here: createLocalInformers(local, cluster, deps),
    mailbox: createMailboxInformers(hub, cluster, deps),
    events: createEventRecorder(local, MEMBER_MANAGER, deps),
    deps,
  };
  const here = Object.values(session.here) as Informer<KubeObject>[];
  const mailbox = Object.values(session.mailbox) as Informer<KubeObject>[];
  for (const informer of [...here, ...mailbox]) {
    stack.use(informer);
    informer.start(running);
  }
  await Promise.all(here.map((it) => it.synced(running)));
  await untilHeardOf(session, mailbox, running);
  const probes = stack.use(new Probes(session, options.probe ?? tcpProbe(deps.clock)));
  const controllers = createControllers(session, probes);
  await probes.start(running);
  for (const controller of Object.values(controllers)) {
    stack.use(controller);
    await controller.start(running);
  }
  const lease = keepLease(session, () => makeAllDue(session, controllers), running);
  stack.defer(async () => {
    stop.abort();
    await lease;
  });
  const held = stack.move();
  return {
    session,
    controllers: Object.values(controllers),
    [Symbol.asyncDispose]: () => held.disposeAsync(),
  };
}

/** Until the hub told what is in the mailbox: it may be away for long, and pods do not wait for it. */
async function untilHeardOf(
  session: Session,
  mailbox: readonly Informer<KubeObject>[],
  signal: AbortSignal,
): Promise<void> {
  await using meanwhile = createOwnEndpoints(session);
  await meanwhile.start(signal);
  await Promise.all(mailbox.map((it) => it.synced(signal)));
}

function createControllers(session: Session, probes: Probes) {
  return {
    heartbeat: createHeartbeat(session),
    namespaces: createNamespaceReport(session),
    exports: createExports(session),
    endpointExport: createEndpointExport(session),
    fleetImport: createFleetImport(session),
    multiClusterServices: createMultiClusterServices(session),
    mcsImport: createMcsImport(session),
    endpointImport: createEndpointImport(session, probes),
  };
}

/** What failed while the hub was away waits long by now: everything that goes to the hub is looked at again. */
function makeAllDue(session: Session, controllers: ReturnType<typeof createControllers>): void {
  const due = (controller: Controller, keys: readonly ObjectKey[]): void => {
    for (const key of keys) controller.enqueue(key);
  };
  due(controllers.exports, exportKeys(session));
  due(controllers.endpointExport, sliceKeys(session));
  due(controllers.fleetImport, fleetImportKeys(session));
  for (const orders of session.mailbox.orders.store.list()) {
    due(controllers.heartbeat, [keyOf(orders)]);
    due(controllers.namespaces, [keyOf(orders)]);
  }
}

async function ensureNamespace(local: KubeClient, signal: AbortSignal): Promise<void> {
  try {
    await local.create(NAMESPACES, { metadata: { name: FLEET_SYSTEM_NAMESPACE } }, { signal });
  } catch (error) {
    if (!hasCode(error, "API_ALREADY_EXISTS")) throw error;
  }
}
