import { HEARTBEAT_SECONDS } from "#api/cluster.kubernetes-fleet.io/defaults.ts";
import {
  type AgentStatus,
  MEMBER_AGENT_TYPE,
  INTERNAL_MEMBER_CLUSTERS,
  type InternalMemberCluster,
} from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import {
  CROSS_CLUSTER_POLICY,
  NODE_AGENTS_CONDITION,
  POLICY_AT_BOOT,
  SAME_NODE_POLICY,
} from "#api/fairlead.dev/node-agents.ts";
import { keyOf, type ObjectKey, objectKey } from "@fairlead/kube/api/meta/key.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import { removeCondition, setCondition, timestamp } from "@fairlead/kube/objects/conditions.ts";
import type { RuntimeDeps } from "@fairlead/base/deps.ts";
import { createController } from "@fairlead/kube/controller/controller.ts";
import { isDeleting } from "@fairlead/kube/objects/finalizers.ts";
import { watching, watchingChanges } from "@fairlead/kube/controller/source.ts";
import type { Condition, KubeObject } from "@fairlead/kube/api/meta/types.ts";
import type { Controller, Informer, ReconcileResult, Source } from "@fairlead/kube/types.ts";
import { describePlaced } from "#placement/work/placed.ts";
import { policyAtBoot } from "#domain/policy-at-boot.ts";
import { crossClusterPolicy, policyEngineOf, sameNodePolicy } from "#domain/policy-engine.ts";
import { importedSliceKeys } from "../endpoints/sources.ts";
import { isServed } from "../imports/adoption.ts";
import { agentsOf, EXPORTS_AGENT, runs } from "../roles.ts";
import { nodeAgentsOf, watchingNodeAgents } from "../running-agents.ts";
import { isLegacyHub, placedOnLeave, type Session } from "../session.ts";
import type { MeshInformers } from "../fleet-addresses.ts";
import { WORK_FINALIZER } from "#api/placement.kubernetes-fleet.io/names.ts";
import { areMarkedInactive } from "./inactive.ts";
import { builtInProperties } from "./built-in-properties.ts";
import { exportFacts, type Fact, settlesInMs, watchingReported } from "./export-facts.ts";
import { planFacts } from "./facts.ts";
import { isFormerMemberAgent, joinedAsMemberAgent, MemberAgent, type MemberReport } from "./member-agent.ts";
import { planRanges } from "./ranges.ts";
import { reportStay } from "./stay.ts";

/** Share by which a period is stretched or cut by chance, so that members do not report together. */
const JITTER = 0.05;

/** Reports to the hub that the agents are there, and, when the cluster is to leave, that they are done. */
export function createHeartbeat(session: Session): Controller {
  const { mailbox, cluster, deps } = session;
  const key = objectKey(mailboxOf(cluster), cluster);
  const memberAgent = createMemberAgent(session);
  const whenLeaving = (): ObjectKey[] =>
    mailbox.internalMembers.store.get(key)?.spec.state === "Leave" ? [key] : [];
  const controller = createController(
    {
      name: "internalmembercluster",
      reconcile: (_key, signal) => reconcile(session, memberAgent, signal),
      sources: [
        watching(mailbox.internalMembers),
        ...leftovers(session, whenLeaving),
        ...(runs(session.part, "member-net") ? watchingReported(session, key) : []),
        ...policies(session, key),
      ],
    },
    deps,
  );
  if (session.nodeAgents !== undefined) session.nodeAgents.onReport = () => controller.enqueue(key);
  session.placing.onChange = () => controller.enqueue(key);
  return controller;
}

function createMemberAgent(session: Session): MemberAgent | undefined {
  const { local, here, works, ranges, address, deps } = session;
  if (works === undefined || ranges === undefined) return undefined;
  const provider = builtInProperties({
    client: local,
    nodes: ranges.nodes,
    address,
    namespaces: session.collectsNamespaces ? here.namespaces : undefined,
    clock: deps.clock,
  });
  return new MemberAgent(local, provider, deps);
}

/** Until the next look at Works that were not listed yet. Unit: milliseconds. */
const UNKNOWN_WORKS_MS = 1000;

/** The agents that this program stands for, in the order in which the hub knows them. */
function agentsHere({ part, works }: Session): readonly string[] {
  return [...agentsOf(part), ...(works !== undefined ? [MEMBER_AGENT_TYPE] : [])];
}

/** What decides whether policies are enforced. */
function policies({ ranges, mesh }: Session, key: ObjectKey): Source[] {
  return [
    ...watchingNodeAgents({ ranges }, () => [key]),
    ...(mesh === undefined
      ? []
      : [
          watchingChanges(mesh.networks, ({ before, after }) =>
            before?.spec.mode === after?.spec.mode ? [] : [key],
          ),
        ]),
  ];
}

/** What has to be withdrawn before the cluster has left. */
function leftovers(
  { mailbox, here, fleet, mesh, nodeAgents, part, works }: Session,
  whenLeaving: () => ObjectKey[],
): Source[] {
  const sources: Source[] = [];
  if (runs(part, "member-net"))
    sources.push(
      watchingChanges(mailbox.exports, whenLeaving),
      watchingChanges(mailbox.imports, whenLeaving),
      watchingChanges(mailbox.sliceExports, whenLeaving),
      watchingChanges(fleet.reports, whenLeaving),
      watchingChanges(here.mcsImports, whenLeaving),
      watchingChanges(here.slices, whenLeaving),
      watchingChanges(here.fleetExports, whenLeaving),
      watchingChanges(here.mcsExports, whenLeaving),
      ...meshOf(mesh).map((it) => watchingChanges(it, whenLeaving)),
    );
  if (nodeAgents !== undefined) sources.push(watchingChanges(nodeAgents.daemonSets, whenLeaving));
  // A hub may serve no Works, which the heartbeat does not wait for.
  if (works !== undefined)
    sources.push({ ...watchingChanges(works, whenLeaving), informer: mailbox.internalMembers });
  if (runs(part, "mcs"))
    sources.push(
      watchingChanges(here.services, whenLeaving),
      watchingChanges(here.multiClusterServices, whenLeaving),
    );
  return sources;
}

function meshOf(mesh: MeshInformers | undefined): Informer<KubeObject>[] {
  return Object.values(mesh ?? {}) as Informer<KubeObject>[];
}

async function reconcile(
  session: Session,
  memberAgent: MemberAgent | undefined,
  signal: AbortSignal,
): Promise<ReconcileResult | void> {
  const { mailbox, cluster, deps } = session;
  const key = objectKey(mailboxOf(cluster), cluster);
  const internalMember = mailbox.internalMembers.store.get(key);
  if (internalMember === undefined) return;
  const isLeaving = internalMember.spec.state === "Leave";
  // While something is left, the hub has to wait; a change of what is left brings us here again.
  const areKnown = areWorksKnown(session);
  if (isLeaving && !(areKnown && isWithdrawn(session))) {
    await reportStay(session, internalMember, signal);
    return areKnown ? {} : { requeueAfterMs: UNKNOWN_WORKS_MS };
  }
  const periodMs = (internalMember.spec.heartbeatPeriodSeconds ?? HEARTBEAT_SECONDS) * 1000;
  const next = planAgents(session, internalMember, isLeaving);
  if (next === undefined) {
    const dueInMs = seenAtMs(session, internalMember) + periodMs - deps.clock.now();
    return isLeaving ? undefined : { requeueAfterMs: Math.min(Math.max(1, dueInMs), settlesInMs(session)) };
  }
  const [ranges, { agentStatus, ...own }] = isLeaving
    ? [{}, { agentStatus: next }]
    : await Promise.all([
        rangesOf(session, internalMember, signal),
        ownReport(memberAgent, { before: internalMember, agentStatus: next, deps }, signal),
      ]);
  await session.hub.mergePatch(
    INTERNAL_MEMBER_CLUSTERS,
    key,
    // Other agents report in the same list, which is replaced as a whole: it has to be the one that we saw.
    {
      metadata: { resourceVersion: internalMember.metadata.resourceVersion },
      status: { ...own, agentStatus, properties: { ...ranges.properties, ...own.properties } },
    },
    { subresource: "status", signal },
  );
  if (isLeaving) {
    deps.log.info("withdrew everything from the hub: the cluster has left");
    return;
  }
  const nextMs = periodMs * (1 + JITTER * (2 * deps.rng.random() - 1));
  return { requeueAfterMs: Math.min(nextMs, settlesInMs(session)) };
}

/** What the agent that applies Works knows, if it runs here: its health, and facts that placements select by. */
async function ownReport(
  memberAgent: MemberAgent | undefined,
  at: {
    readonly before: InternalMemberCluster;
    readonly agentStatus: AgentStatus[];
    readonly deps: RuntimeDeps;
  },
  signal: AbortSignal,
): Promise<Partial<MemberReport> & { readonly agentStatus: AgentStatus[] }> {
  const { before, agentStatus, deps } = at;
  if (memberAgent === undefined) return { agentStatus };
  const [health, report] = await Promise.all([
    memberAgent.health(signal),
    memberAgent.report(before.status, signal),
  ]);
  const withHealth = agentStatus.map((it) =>
    it.type === MEMBER_AGENT_TYPE
      ? { ...it, conditions: setCondition(it.conditions, health, deps.clock) }
      : it,
  );
  return { ...report, agentStatus: withHealth };
}

/** The ranges that the cluster allocates addresses from, and facts about it. Legacy hubs do not use them. */
async function rangesOf(
  session: Session,
  internalMember: InternalMemberCluster,
  signal: AbortSignal,
): Promise<{ readonly properties?: object }> {
  const { ranges, deps } = session;
  if (ranges === undefined || isLegacyHub(session)) return {};
  const at = { now: timestamp(deps.clock.now()), signal };
  const before = internalMember.status?.properties;
  const [{ properties }, facts] = await Promise.all([
    planRanges(ranges, before, at),
    planFacts(session, before, at),
  ]);
  return { properties: { ...properties, ...facts } };
}

/**
 * Returns when the agents reported last, by this cluster's clock; 0 if unknown. A report with a time in the future was
 * written before the clock was set back: waiting for its time could take days.
 */
function seenAtMs({ part, deps }: Session, internalMember: InternalMemberCluster): number {
  const [first] = agentsOf(part);
  const agent = internalMember.status?.agentStatus?.find((it) => it.type === first);
  const atMs = Date.parse(agent?.lastReceivedHeartbeat ?? "");
  return Number.isNaN(atMs) || atMs > deps.clock.now() ? 0 : atMs;
}

/** Returns the new `status.agentStatus`, with entries of others unchanged. Undefined if it is up to date and not due. */
function planAgents(
  session: Session,
  internalMember: InternalMemberCluster,
  isLeaving: boolean,
): AgentStatus[] | undefined {
  const { deps } = session;
  const before = internalMember.status?.agentStatus ?? [];
  const agents = agentsHere(session);
  const now = deps.clock.now();
  const periodMs = (internalMember.spec.heartbeatPeriodSeconds ?? HEARTBEAT_SECONDS) * 1000 * (1 - JITTER);
  const joined = isLeaving
    ? { status: "False" as const, reason: "AgentLeft", message: "" }
    : { status: "True" as const, reason: "AgentJoined", message: "" };
  const isDue = !isLeaving && now - seenAtMs(session, internalMember) >= periodMs;
  let changed = false;
  const ours = agents.map((type): AgentStatus => {
    const agent = before.find((it) => it.type === type);
    const own =
      type === MEMBER_AGENT_TYPE
        ? joinedAsMemberAgent(
            isLeaving
              ? { state: "left", placed: reportOfLeave(session) }
              : { state: "joining", problem: session.placing.joining },
          )
        : { type: "Joined", ...joined };
    const known = setCondition(agent?.conditions, own, deps.clock);
    const conditions = type === EXPORTS_AGENT ? withFacts(session, known, isLeaving) : known;
    if (conditions !== agent?.conditions) changed = true;
    const received = agent?.lastReceivedHeartbeat ?? timestamp(now);
    return { type, conditions, lastReceivedHeartbeat: isDue ? timestamp(now) : received };
  });
  const others = before.filter((it) => !agents.includes(it.type) && !isFormerMemberAgent(it));
  if (!changed && !isDue && others.length + ours.length === before.length) return undefined;
  return [...others, ...ours];
}

function reportOfLeave(session: Session): string {
  return describePlaced(session.works?.store.list() ?? [], placedOnLeave(session));
}

/** What the agent of exports reports besides. A condition that is undefined is removed: there is nothing to say. */
function withFacts(session: Session, before: Condition[], isLeaving: boolean): Condition[] {
  const facts: readonly Fact[] = [
    ...exportFacts(session, isLeaving),
    ...(isLeaving ? withoutAgents() : agentConditions(session)),
    ...(isLeaving ? withoutPolicies() : policyConditions(session)),
  ];
  let conditions = before;
  for (const [type, condition] of facts)
    conditions =
      condition === undefined
        ? removeCondition(conditions, type)
        : setCondition(conditions, condition, session.deps.clock);
  return conditions;
}

function withoutAgents(): readonly Fact[] {
  return [[NODE_AGENTS_CONDITION, undefined]];
}

function agentConditions({ nodeAgents }: Session): readonly Fact[] {
  // Until they are known what was reported counts: update runs read it, and the agent may have just restarted.
  if (nodeAgents?.isKnown === false) return [];
  return [[NODE_AGENTS_CONDITION, nodeAgents?.condition]];
}

function withoutPolicies(): readonly Fact[] {
  return [CROSS_CLUSTER_POLICY, SAME_NODE_POLICY, POLICY_AT_BOOT].map((it) => [it, undefined]);
}

function policyConditions(session: Session): readonly Fact[] {
  const { mesh, ranges } = session;
  // Until they are known what was reported counts.
  if (mesh?.networks.hasSynced === false) return [];
  const [network] = mesh?.networks.store.list() ?? [];
  const member = {
    mode: network?.spec.mode,
    engine: policyEngineOf(ranges?.nodes.store.list() ?? [])?.name,
    agents: nodeAgentsOf(session),
  };
  return [
    [CROSS_CLUSTER_POLICY, crossClusterPolicy(member)],
    [SAME_NODE_POLICY, sameNodePolicy(member)],
    [POLICY_AT_BOOT, policyAtBoot(member, session.hasStartupTaint)],
  ];
}

/** Whether the Works are listed. What is kept needs no look at them, where a hub may serve no Works. */
function areWorksKnown(session: Session): boolean {
  const { works } = session;
  return works === undefined || works.hasSynced || placedOnLeave(session) === "Keep";
}

/** Whether nothing of this cluster is left on the hub, and nothing of the fleet in this cluster. */
function isWithdrawn(session: Session): boolean {
  const { part } = session;
  return (
    (!runs(part, "member-net") || isMailboxEmpty(session)) &&
    (!runs(part, "mcs") || !hasLoadBalancers(session)) &&
    meshOf(session.mesh).every((it) => it.store.size === 0) &&
    session.nodeAgents?.areInstalled !== true &&
    areMarkedInactive(session) &&
    ![...(session.works?.store.list() ?? [])].some(({ metadata }) =>
      metadata.finalizers?.includes(WORK_FINALIZER),
    )
  );
}

function isMailboxEmpty(session: Session): boolean {
  const { mailbox, here, fleet } = session;
  const isHubEmpty =
    mailbox.exports.store.size === 0 &&
    mailbox.imports.store.size === 0 &&
    mailbox.sliceExports.store.size === 0 &&
    fleet.reports.size === 0;
  if (!isHubEmpty) return false;
  const isImported = [...importedSliceKeys(session)].some(
    (name) => [...here.slices.store.byIndex("imported", name)].length > 0,
  );
  return !isImported && ![...here.mcsImports.store.list()].some(isServed);
}

function hasLoadBalancers({ here }: Session): boolean {
  return [...here.multiClusterServices.store.list()].some((it) =>
    [...here.services.store.byIndex("multiClusterService", keyOf(it))].some(
      (service) => !isDeleting(service),
    ),
  );
}
