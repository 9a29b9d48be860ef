import { defined } from "@fairlead/base/defined.ts";
import { HEARTBEAT_SECONDS } from "#api/cluster.kubernetes-fleet.io/defaults.ts";
import type { NewCondition } from "@fairlead/kube/objects/conditions.ts";
import {
  type AgentStatus,
  type DrainedCluster,
  FLEET_RESOURCE_LABEL,
  type InternalMemberCluster,
  MEMBER_AGENT_TYPE,
  MEMBER_NAME_LABEL,
  type MemberCluster,
  NETWORKING_AGENTS,
  type SuspectCluster,
} from "#api/cluster.kubernetes-fleet.io/v1beta1/types.ts";
import type { ResourceQuota } from "@fairlead/kube/api/core/v1/quota.ts";
import { EVENTS, type Namespace } from "@fairlead/kube/api/core/v1/types.ts";
import { rulesOf } from "#authz/access.ts";
import { MAILBOX, RENEW_TOKEN } from "#authz/mailbox.ts";
import {
  ADDRESSES_BOUNDED,
  GRANTED_CIDRS_ANNOTATION,
  MEMBER_ACCOUNT,
  MEMBER_GROUP_ANNOTATION,
  MEMBER_USER_ANNOTATION,
} from "#api/fairlead.dev/names.ts";
import { IDENTITY_DEMANDS, IDENTITY_SLICES } from "#api/fairlead.dev/v1alpha1/identities.ts";
import { GATEWAYS } from "#api/fairlead.dev/v1alpha1/mesh.ts";
import type { Condition, OwnerReference } from "@fairlead/kube/api/meta/types.ts";
import type { Resource } from "@fairlead/kube/api/meta/resource.ts";
import { mailboxOf } from "#api/networking.fleet.azure.com/names.ts";
import {
  ENDPOINT_SLICE_EXPORTS,
  INTERNAL_SERVICE_EXPORTS,
  INTERNAL_SERVICE_IMPORTS,
} from "#api/networking.fleet.azure.com/v1alpha1/types.ts";
import type { Role, RoleBinding, Subject } from "@fairlead/kube/api/rbac/v1/types.ts";
import type { Applied } from "@fairlead/kube/types.ts";
import { describeLost, type Witnesses } from "#domain/lost-clusters.ts";
import type { Liveness } from "./leases.ts";

/** What a member gets on the hub: a mailbox, permissions in it and nowhere else, and its InternalMemberCluster. */

export function labelsOf(member: MemberCluster): Record<string, string> {
  return { [FLEET_RESOURCE_LABEL]: "true", [MEMBER_NAME_LABEL]: member.metadata.name };
}

export function planNamespace(member: MemberCluster): Applied<Namespace> {
  const owner: OwnerReference = {
    apiVersion: "cluster.kubernetes-fleet.io/v1beta1",
    kind: "MemberCluster",
    name: member.metadata.name,
    uid: member.metadata.uid ?? "",
    controller: true,
  };
  return {
    metadata: {
      name: mailboxOf(member.metadata.name),
      labels: labelsOf(member),
      annotations: ownerOf(member.spec.identity),
      ownerReferences: [owner],
    },
  };
}

/** By which the policies of the hub's API server know the owner of a mailbox. */
function ownerOf(identity: MemberCluster["spec"]["identity"]): Record<string, string> {
  const { kind, name, namespace = "" } = identity;
  if (kind === "Group") return { [MEMBER_GROUP_ANNOTATION]: name };
  const user = kind === "User" ? name : `system:serviceaccount:${namespace}:${name}`;
  return { [MEMBER_USER_ANNOTATION]: user };
}

export function planRole(member: MemberCluster): Applied<Role> {
  const { identity } = member.spec;
  const mailbox = mailboxOf(member.metadata.name);
  const { kind, name, namespace } = identity;
  const isOwnAccount = kind === "ServiceAccount" && name === MEMBER_ACCOUNT && namespace === mailbox;
  return {
    metadata: { name: `fleet-role-${member.metadata.name}`, namespace: mailbox, labels: labelsOf(member) },
    rules: rulesOf([...MAILBOX, ...(isOwnAccount ? RENEW_TOKEN : [])]),
  };
}

export function planRoleBinding(member: MemberCluster): Applied<RoleBinding> {
  const name = member.metadata.name;
  return {
    metadata: {
      name: `fleet-rolebinding-${name}`,
      namespace: mailboxOf(name),
      labels: labelsOf(member),
    },
    subjects: [subjectOf(member)],
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: `fleet-role-${name}` },
  };
}

/** How many objects of each kind a member may have in its mailbox: far more than clusters have been seen to have. */
const QUOTA: readonly (readonly [Pick<Resource, "group" | "plural">, number])[] = [
  [INTERNAL_SERVICE_EXPORTS, 5000],
  [INTERNAL_SERVICE_IMPORTS, 5000],
  [ENDPOINT_SLICE_EXPORTS, 20_000],
  [GATEWAYS, 16],
  [IDENTITY_SLICES, 20_000],
  [IDENTITY_DEMANDS, 1],
  [EVENTS, 5000],
];

/** Of the mailbox. It is made once, and people may change it; by its name, what refuses a member says what refused it. */
const MAILBOX_QUOTA = "fairlead-mailbox";

/** Source of the names: Kubernetes, "Quota on object count". */
export function planQuota(member: MemberCluster): ResourceQuota {
  const hard = QUOTA.map(([{ group, plural }, count]) => [
    `count/${plural}${group === "" ? "" : `.${group}`}`,
    String(count),
  ]);
  return {
    metadata: {
      name: MAILBOX_QUOTA,
      namespace: mailboxOf(member.metadata.name),
      labels: labelsOf(member),
    },
    spec: { hard: Object.fromEntries(hard) as Record<string, string> },
  };
}

export function subjectOf({ spec: { identity } }: MemberCluster): Subject {
  return identity.kind === "ServiceAccount"
    ? { kind: identity.kind, name: identity.name, namespace: identity.namespace ?? "" }
    : { kind: identity.kind, name: identity.name, apiGroup: "rbac.authorization.k8s.io" };
}

export interface WantedMembership {
  readonly state: "Join" | "Leave";
  /** Unit: seconds. */
  readonly leaseSeconds: number;
  /** All suspects of the fleet, sorted. Those for a member leave it out. */
  readonly suspects: readonly SuspectCluster[];
  /** All drained members, sorted. Those for a member include it. */
  readonly drained: readonly DrainedCluster[];
  /** The namespace to read in addition to the mailbox. Undefined if the member reads no other. */
  readonly view: string | undefined;
  /** The profile of the member. Undefined if it belongs to none. */
  readonly network: InternalMemberCluster["spec"]["network"];
}

export function planInternalMember(
  member: MemberCluster,
  wanted: WantedMembership,
): Applied<InternalMemberCluster> {
  const name = member.metadata.name;
  const suspects = wanted.suspects.filter((it) => it.cluster !== name);
  const { placed } = member.spec.deleteOptions ?? {};
  return {
    metadata: { name, namespace: mailboxOf(name) },
    spec: {
      state: wanted.state,
      ...(wanted.state === "Leave" && placed !== undefined ? { placed } : {}),
      heartbeatPeriodSeconds: member.spec.heartbeatPeriodSeconds ?? HEARTBEAT_SECONDS,
      leaseDurationSeconds: wanted.leaseSeconds,
      ...(suspects.length === 0 ? {} : { suspects }),
      ...(wanted.drained.length === 0 ? {} : { drained: [...wanted.drained] }),
      ...(wanted.view === undefined ? {} : { view: wanted.view }),
      ...(wanted.network === undefined ? {} : { network: wanted.network }),
    },
  };
}

export interface LastSeen {
  readonly agents: readonly AgentStatus[];
  readonly liveness: Liveness;
  readonly leaseSeconds: number;
  /** Of a suspect. */
  readonly witnesses?: Witnesses;
}

const NO_WITNESSES: Witnesses = { answered: [], unanswered: [] };

/** The conditions of a MemberCluster. */
export function planConditions(member: MemberCluster, received: LastSeen): NewCondition[] {
  const observedGeneration = member.metadata.generation;
  const conditions: NewCondition[] = [
    {
      type: "ReadyToJoin",
      status: "True",
      reason: "MemberClusterReadyToJoin",
      message: `namespace ${mailboxOf(member.metadata.name)} is ready`,
    },
    joined(received.agents),
    healthy(received),
    bounded(member),
  ];
  return observedGeneration === undefined
    ? conditions
    : conditions.map((it) => ({ ...it, observedGeneration }));
}

/** Of a member whose mailbox the API server refuses. */
export function notReadyToJoin({ metadata: { generation } }: MemberCluster, why: string): NewCondition {
  return {
    type: "ReadyToJoin",
    status: "False",
    reason: "MemberClusterNotReadyToJoin",
    message: `what the member needs on the hub cannot be made: ${why}`.slice(0, 32_768),
    ...defined({ observedGeneration: generation }),
  };
}

/** Whether the hub knows which addresses the member's endpoints may have. */
function bounded({ metadata: { name, annotations } }: MemberCluster): NewCondition {
  const granted = annotations?.[GRANTED_CIDRS_ANNOTATION];
  if (granted !== undefined)
    return {
      type: ADDRESSES_BOUNDED,
      status: "True",
      reason: "NetworksGranted",
      message: `endpoints may be in ${granted}`.slice(0, 32_768),
    };
  return {
    type: ADDRESSES_BOUNDED,
    status: "False",
    reason: "NoNetworksGranted",
    message: `endpoints may have any address; to allow only the networks of its pods and nodes, run kubectl annotate membercluster ${name} ${GRANTED_CIDRS_ANNOTATION}=NETWORKS`,
  };
}

/**
 * The agents that a member is expected to have: the two of networking, and the one that applies Works if it reports. That
 * one alone is KubeFleet's, in a fleet without networking.
 */
function expectedAgents(agents: readonly AgentStatus[]): readonly string[] {
  const reported = new Set(agents.map((it) => it.type));
  const networking = NETWORKING_AGENTS.some((it) => reported.has(it)) || !reported.has(MEMBER_AGENT_TYPE);
  return [
    ...(networking ? NETWORKING_AGENTS : []),
    ...(reported.has(MEMBER_AGENT_TYPE) ? [MEMBER_AGENT_TYPE] : []),
  ];
}

/** Joined when every expected agent says so, left when every one says that. */
export function joined(agents: readonly AgentStatus[]): NewCondition {
  const expected = expectedAgents(agents);
  const known = expected.map((type) => joinedOf(agents.find((it) => it.type === type)));
  const said = known.map((it) => it?.status ?? "Unknown");
  if (said.every((it) => it === "True"))
    return { type: "Joined", status: "True", reason: "MemberClusterJoined", message: "all agents joined" };
  if (said.every((it) => it === "False"))
    return { type: "Joined", status: "False", reason: "MemberClusterLeft", message: "all agents left" };
  const missing = expected.filter((_, at) => said[at] !== "True");
  // Only who failed to join or to leave says that it is neither in nor out.
  const failed = known.find((it) => it?.status === "Unknown" && it.message !== "")?.message;
  return {
    type: "Joined",
    status: "Unknown",
    reason: "MemberClusterJoinStateUnknown",
    message:
      `waiting for ${missing.join(" and ")}: ${failed ?? 'is "fairlead member" running in the cluster?'}`.slice(
        0,
        32_768,
      ),
  };
}

function healthy({ liveness, leaseSeconds, witnesses = NO_WITNESSES }: LastSeen): NewCondition {
  switch (liveness) {
    case "alive":
      return {
        type: "Healthy",
        status: "True",
        reason: "HeartbeatReceived",
        message: "the lease is renewed",
      };
    case "suspect":
      return {
        type: "Healthy",
        status: "False",
        reason: "HeartbeatLost",
        message: describeLost(leaseSeconds, witnesses),
      };
    case "unknown":
      return {
        type: "Healthy",
        status: "Unknown",
        reason: "HeartbeatUnknown",
        message: "no lease was seen yet",
      };
    default:
      return liveness satisfies never;
  }
}

/** Whether the agents have nothing left to do: they said so, or none was ever there. One that failed to leave has not left. */
export function haveAgentsLeft(agents: readonly AgentStatus[]): boolean {
  return agents.every((agent) => (joinedOf(agent)?.status ?? "False") === "False");
}

/** Whether an agent says that it is neither in the fleet nor out of it. */
export function hasFailed(agents: readonly AgentStatus[] = []): boolean {
  return agents.some((agent) => joinedOf(agent)?.status === "Unknown");
}

function joinedOf(agent: AgentStatus | undefined): Condition | undefined {
  return agent?.conditions?.find((it) => it.type === "Joined");
}

/** Conditions of a MemberCluster that the hub decides on by itself: a member's word does not replace them. */
const OWN_CONDITIONS: ReadonlySet<string> = new Set(["ReadyToJoin", "Joined", "Healthy"]);
/** Most conditions that are taken over from a member. */
const MAX_REPORTED = 32;

function isReported({ type }: Pick<Condition, "type">): boolean {
  return !OWN_CONDITIONS.has(type) && !type.startsWith("fairlead.dev/");
}

/** The conditions of a MemberCluster, with those that the member reports in the place of its earlier ones. */
export function withReportedConditions(
  conditions: readonly Condition[],
  reported: readonly Condition[] = [],
): Condition[] {
  const taken = reported.filter(isReported).slice(0, MAX_REPORTED);
  return [...conditions.filter((it) => !isReported(it)), ...taken];
}
