import { MEMBER_MANAGER } from "#api/fairlead.dev/field-managers.ts";
import { LOAD_BALANCER_ANNOTATION_PREFIXES } from "#api/fairlead.dev/multi-cluster-service.ts";
import { keyOf, type ObjectKey } from "@fairlead/kube/api/meta/key.ts";
import type { KubeObject } from "@fairlead/kube/api/meta/types.ts";
import { FLEET_SYSTEM_NAMESPACE, mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { createEventRecorder } from "@fairlead/kube/events/events.ts";
import { ensureNamespace } from "@fairlead/kube/objects/namespaces.ts";
import type { Controller, Informer, KubeClient } from "@fairlead/kube/types.ts";
import { createEndpointExport, sliceKeys } from "./endpoints/export.ts";
import { createDrainReport, Drains } from "./endpoints/drains.ts";
import { createEndpointImport } from "./endpoints/import.ts";
import { createEndpointsWithoutHub } from "./endpoints/without-hub.ts";
import { createExports, exportKeys } from "./exports/reconcile.ts";
import { createFleetImport, fleetImportKeys } from "./imports/fleet-import.ts";
import { createMcsImport } from "./imports/mcs-import.ts";
import { createMultiClusterServices } from "./imports/multi-cluster-service.ts";
import { createNamespaceReport } from "./imports/namespace-report.ts";
import { credentialExpiry } from "./agent/renewal.ts";
import { createMeshInformers } from "./fleet-addresses.ts";
import { FleetState } from "./fleet-state.ts";
import { createIdentities, identityKeys } from "./identities/identities.ts";
import { createLocalInformers, createMailboxInformers } from "./informers.ts";
import type { ClusterAddress } from "./membership/built-in-properties.ts";
import { createHeartbeat } from "./membership/heartbeat.ts";
import { type HubListener, keepLease } from "./membership/lease.ts";
import { createRanges } from "./membership/ranges.ts";
import { createMesh, meshKeys } from "./mesh/mesh.ts";
import { NodeAgents } from "./node-agents/node-agents.ts";
import { flowProbe } from "./probes/flow-probe.ts";
import { dnsLookup } from "./probes/lookups.ts";
import { Probes } from "./probes/probes.ts";
import { type Probe, tcpProbe } from "./probes/tcp.ts";
import { type MemberPart, neededInformers, runs, WHOLE_MEMBER } from "./roles.ts";
import { type ImportCreator, isLegacyHub, type Session } from "./session.ts";
import { Stopwatch } from "./stopwatch.ts";
import type { Asking } from "./upgrades/client-sight.ts";
import { createUpgrades, upgradeKey } from "./upgrades/upgrades.ts";
import { createTrafficRoutes } from "./traffic-routes/copy.ts";
import type { CompileHealth } from "#placement/work/health.ts";
import { createWorkInformer } from "./work/applier.ts";
import { PlacingProblems } from "./work/problems.ts";
import { createWorks } from "./work/works.ts";

export interface MemberOptions {
  /** The member's name, which is its cluster id. */
  readonly cluster: string;
  readonly local: KubeClient;
  readonly hub: KubeClient;
  readonly deps: RuntimeDeps;
  /** Default: a TCP connection. */
  readonly probe?: Probe;
  /** Default: everything. */
  readonly part?: MemberPart;
  /** Beginnings of the annotations that a MultiClusterService passes on to its load balancer. Default: known clouds'. */
  readonly passOn?: readonly string[];
  /** The creator of ServiceImports. Default: "automatic". */
  readonly imports?: ImportCreator;
  /** Repository of the images of `fairlead node`, without a tag. Default: this member installs none. */
  readonly nodeImage?: string;
  /** Whether all that reach a node's addresses may read the metrics of its `fairlead node`. Default: false. */
  readonly exposeNodeMetrics?: boolean;
  /** Whether it applies what is placed on it. Default: false. */
  readonly placement?: boolean;
  /** Compiles the health rules of placements. Default: they are not evaluated. */
  readonly compileHealth?: CompileHealth;
  /** Whether it reports the namespaces of the cluster, by which ResourcePlacements pick clusters. Default: false. */
  readonly collectNamespaces?: boolean;
  /** Whether new pods wait for the agents of their nodes, as `StartupTaints` brings about. Default: false. */
  readonly startupTaint?: boolean;
  /** Image, without a tag, of the upgrades by Plans of the system-upgrade-controller. Default: Rancher's, by the version. */
  readonly upgradeImage?: string;
  /** How others reach the API server of this cluster. Default: not reported. */
  readonly address?: ClusterAddress;
  /**
   * Called when the hub was restored from a backup: what was read of it may not be there any more, so that the caller starts another member
   * in the place of this one. Default: watches find out by themselves within minutes.
   */
  readonly onRestored?: () => void;
}

export interface Member extends AsyncDisposable {
  readonly session: Session;
  readonly controllers: readonly Controller[];
}

const NO_INTERNAL_MEMBER =
  "the hub has no InternalMemberCluster for this member any more, and reported no deletion: exports and imports stay as they are until it is back";

/** Runs a member's controllers until disposed. Its kinds have to be installed. For the leader alone. */
export async function startMember(options: MemberOptions, signal: AbortSignal): Promise<Member> {
  const { cluster, local, hub, deps, part = WHOLE_MEMBER } = options;
  const { passOn = LOAD_BALANCER_ANNOTATION_PREFIXES, imports = "automatic" } = options;
  await using stack = new AsyncDisposableStack();
  const stop = new AbortController();
  stack.defer(() => stop.abort());
  const running = AbortSignal.any([signal, stop.signal]);
  if (part.isNetworking) await ensureNamespace(local, FLEET_SYSTEM_NAMESPACE, running);
  const hubDeps = deps.health === undefined ? deps : { ...deps, health: deps.health.part("hub") };
  const place = { cluster, isFleetOnly: part.isFleetOnly ?? false };
  const placing = new PlacingProblems();
  let hadInternalMember = false;
  const onInternalMemberDeleted = (): void => void (hadInternalMember = false);
  const ofMailbox = createMailboxInformers(hub, { ...place, onInternalMemberDeleted }, hubDeps);
  const ofCluster = createLocalInformers(local, place, deps);
  stack.use(
    ofMailbox.internalMembers.subscribe(({ after }) => {
      if (after !== undefined) hadInternalMember = true;
      else if (hadInternalMember) deps.log.warn(NO_INTERNAL_MEMBER, { cluster });
    }),
  );
  // There from the beginning, also where nothing expires.
  credentialExpiry(deps.metrics);
  const session: Session = {
    cluster,
    part,
    local,
    hub,
    here: ofCluster,
    mailbox: ofMailbox,
    ...createAddressing(options, part),
    fleet: stack.use(
      new FleetState({
        hub,
        cluster,
        mailbox: ofMailbox,
        namespaces: ofCluster.namespaces,
        deps: hubDeps,
      }),
    ),
    hadInternalMember: () => hadInternalMember,
    events: createEventRecorder(local, MEMBER_MANAGER, deps),
    works: placedWorks(options, hubDeps, placing),
    placing,
    compileHealth: options.compileHealth,
    collectsNamespaces: options.collectNamespaces === true,
    hasStartupTaint: options.startupTaint === true,
    upgradeImage: options.upgradeImage,
    address: options.address,
    stopwatch: new Stopwatch({ cluster, hub, clock: deps.clock, metrics: deps.metrics }),
    passOn,
    imports,
    deps,
  };
  const { here, mailbox } = neededInformers(part, session);
  for (const informer of [...here, ...mailbox, ...addressInformers(session)]) {
    stack.use(informer);
    informer.start(running);
  }
  await Promise.all([...here, ...nodesOf(session)].map((it) => it.synced(running)));
  const probe = options.probe ?? tcpProbe(deps.clock);
  const probes = stack.use(new Probes(session, probe));
  await untilKnown(session, mailbox, probes, running);
  const wasSilent = probes.isHubSilent;
  const work = createWork(session, probes, { flow: flowProbe(probe, deps.clock), lookup: dnsLookup() });
  if (runs(part, "member-net")) await startProbes(session, probes, running);
  for (const { controller } of work) {
    stack.use(controller);
    await controller.start(running);
  }
  // The lease stands for the endpoints of this cluster: who does not export them does not vouch for them.
  if (runs(part, "member-net")) {
    const received = { ...listenerOf(work, probes, options), wasSilent };
    const lease = keepLease({ ...session, probes }, received, running);
    stack.defer(async () => {
      stop.abort();
      await lease;
    });
  }
  const held = stack.move();
  return {
    session,
    controllers: work.map((it) => it.controller),
    [Symbol.asyncDispose]: () => held.disposeAsync(),
  };
}

function placedWorks(
  { cluster, hub, placement }: MemberOptions,
  deps: RuntimeDeps,
  placing: PlacingProblems,
): Session["works"] {
  return placement === true ? createWorkInformer(hub, mailboxOf(cluster), deps, placing) : undefined;
}

/** All, or none. */
function createAddressing(
  { local, deps, nodeImage, exposeNodeMetrics = false }: MemberOptions,
  part: MemberPart,
): Pick<Session, "ranges" | "mesh" | "nodeAgents"> {
  const ranges = createRanges(local, part, deps);
  if (ranges === undefined) return { ranges, mesh: undefined, nodeAgents: undefined };
  const install = { repository: nodeImage ?? "", exposesMetrics: exposeNodeMetrics };
  const nodeAgents = nodeImage === undefined ? undefined : new NodeAgents(local, install, deps);
  return { ranges, mesh: createMeshInformers(local, deps), nodeAgents };
}

/** Where they may not be read they count as read. */
function nodesOf({ ranges }: Pick<Session, "ranges">): Informer<KubeObject>[] {
  return ranges === undefined ? [] : [ranges.nodes];
}

function addressInformers({ ranges, mesh, nodeAgents }: Session): Informer<KubeObject>[] {
  const nodes = nodesOf({ ranges });
  const agents = nodeAgents === undefined ? [] : [nodeAgents.daemonSets as Informer<KubeObject>];
  return [...nodes, ...agents, ...(Object.values(mesh ?? {}) as Informer<KubeObject>[])];
}

/** How long reading the hub may take before endpoints of other clusters are probed: one that is there is read in less. Unit: milliseconds. */
const READ_MS = 5000;

/** Until the contents of the mailbox are known: it may be away for long, and neither pods nor clusters wait for it. */
async function untilKnown(
  session: Session,
  mailbox: readonly Informer<KubeObject>[],
  probes: Probes,
  signal: AbortSignal,
): Promise<void> {
  const synced = (): Promise<unknown> => Promise.all(mailbox.map((it) => it.synced(signal)));
  if (!runs(session.part, "member-net")) {
    await synced();
    return;
  }
  const { controller, remembered } = createEndpointsWithoutHub(session, probes);
  await using running = controller;
  await running.start(signal);
  using _late = session.deps.clock.after(READ_MS, () => probes.doubtRemembered(remembered.endpoints, signal));
  await synced();
  await session.fleet.start(signal);
}

interface Work {
  readonly controller: Controller;
  /** What goes to the hub: while it was away it failed and waits long by now. */
  readonly hubKeys?: () => readonly ObjectKey[];
  /** Called when the hub no longer answers, and when it answers again. */
  readonly onSilence?: (isSilent: boolean) => void;
}

function createWork(session: Session, probes: Probes, asking: Asking): readonly Work[] {
  const membership = (): ObjectKey[] => [...session.mailbox.internalMembers.store.list()].map(keyOf);
  const work: Work[] = [{ controller: createHeartbeat(session), hubKeys: membership }];
  const drains = new Drains(session);
  if (runs(session.part, "member-net"))
    work.push(
      { controller: createNamespaceReport(session), hubKeys: membership },
      { controller: createExports(session), hubKeys: () => exportKeys(session) },
      { controller: createEndpointExport(session), hubKeys: () => sliceKeys(session) },
      { controller: createFleetImport(session), hubKeys: () => fleetImportKeys(session) },
      { controller: createMcsImport(session) },
      { controller: createEndpointImport(session, probes, drains) },
      { controller: createDrainReport(session, drains), hubKeys: membership },
      // For the cluster-set DNS, which fleet-networking's installation does not have.
      ...(session.part.isFleetOnly === true ? [] : [{ controller: createTrafficRoutes(session) }]),
    );
  const { mesh, ranges } = session;
  if (mesh !== undefined && ranges !== undefined)
    work.push(
      { controller: createMesh({ session, mesh, ranges }), hubKeys: meshKeys },
      { ...createIdentities({ session, mesh }), hubKeys: identityKeys },
      { controller: createUpgrades(session, ranges, asking), hubKeys: () => [upgradeKey(session)] },
    );
  if (runs(session.part, "mcs")) work.push({ controller: createMultiClusterServices(session) });
  work.push(...createWorks(session).map((controller) => ({ controller })));
  // Last: it does not start before the agent is permitted to read DaemonSets.
  if (mesh !== undefined && session.nodeAgents !== undefined)
    work.push({ controller: session.nodeAgents.controller(session, mesh) });
  return work;
}

async function startProbes(session: Session, probes: Probes, signal: AbortSignal): Promise<void> {
  await probes.start(signal);
  // A legacy hub takes no leases, which would end doubt.
  if (probes.isHubSilent && isLegacyHub(session)) probes.trust(0);
}

/** What a member does when the hub is silent, and when it is back. */
function listenerOf(
  work: readonly Work[],
  probes: Probes,
  { onRestored }: Pick<MemberOptions, "onRestored">,
): HubListener {
  return {
    onBack: () => makeAllDue(work),
    onSilent: () => {
      probes.doubt();
      for (const it of work) it.onSilence?.(true);
    },
    onAnswer: (leaseMs) => {
      probes.trust(leaseMs);
      for (const it of work) it.onSilence?.(false);
    },
    onRestored: () => onRestored?.(),
  };
}

function makeAllDue(work: readonly Work[]): void {
  for (const { controller, hubKeys } of work) for (const key of hubKeys?.() ?? []) controller.enqueue(key);
}
